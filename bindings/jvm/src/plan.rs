//! The native methods of `Query.java` for the plan of an accepted error.

use crate::{
    answers,
    call::call,
    failure::Failure,
    job::optional,
    query::{Asked, of_stratum, with},
};
use approx_answers::Planner;
use jni::{
    EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass},
    sys::{jdouble, jint, jlong},
};

/// Tells the plan that a source starts, with the sampling rate that its terms name.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_source_started<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
    msr: jdouble,
) {
    call(env, |_| {
        let stratum = of_stratum(stratum)?;
        if !(0.0..=1.0).contains(&msr) {
            let text = format!("a sampling rate of {msr} can't be: give a number from 0 to 1");
            return Err(Failure::argument(text));
        }
        with(query, |asked| {
            let first = asked.planner()?.source_started(stratum, msr);
            asked.actions.extend(first);
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_source_known<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
) {
    change(env, query, stratum, Planner::source_known);
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_source_ending<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
) {
    change(env, query, stratum, Planner::source_ending);
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_source_ended<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
) {
    change(env, query, stratum, Planner::source_ended);
}

fn change(env: EnvUnowned<'_>, query: jlong, stratum: jint, change: fn(&mut Planner, u32)) {
    call(env, |_| {
        let stratum = of_stratum(stratum)?;
        with(query, |asked| {
            change(asked.planner()?, stratum);
            Ok(())
        })
    });
}

/// The plan's next step; null if there is none at present.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_next_action<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let action = with(query, Asked::next_action)?;
        optional(env, action.map(answers::action))
    })
}

/// The end of the plan; null before.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_report<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let report = with(query, |asked| Ok(asked.planner()?.report().map(answers::report)))?;
        optional(env, report)
    })
}
