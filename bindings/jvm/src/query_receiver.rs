//! The native methods of `QueryReceiver.java`.

use crate::{
    call::call,
    job::{optional, text, texts},
    options, query_options,
    record::Record,
    session::{Receiving, SESSIONS, Turn},
};
use jni::{
    EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass, JObjectArray, JString},
    sys::{jint, jlong},
};

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_bind<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: JString<'local>,
    query_options: JObjectArray<'local, JString<'local>>,
    local: JString<'local>,
    receiver_options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let asked = query_options::parsed(&text(env, &query)?, &texts(env, &query_options)?)?;
        let options = texts(env, &receiver_options)?;
        // No stranger can take the place of a sender then.
        let has = |name| options::pairs(&options).any(|(given, _)| given == name);
        let is_named = has("jobs") && has("peers");
        Receiving::open(asked, options::receiver(&options)?, is_named, &text(env, &local)?)
    })
}

/// The address.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_address<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let mut record = Record::default();
        record.address(SESSIONS.find(receiver)?.address);
        Ok(env.byte_array_from_slice(&record.into_bytes())?)
    })
}

/// Takes the events that are there. Null if there is none at present, an empty array if there may
/// be more, and the answers at the end.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_run<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let answers = match SESSIONS.find(receiver)?.run()? {
            Turn::Answers(answers) => Some(answers),
            Turn::Took => Some(Vec::new()),
            Turn::Nothing => None,
        };
        optional(env, answers)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_wait<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    timeout_ms: jint,
) {
    call(env, |_| {
        SESSIONS.find(receiver)?.wait(timeout_ms);
        Ok(())
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_cut_short<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) {
    call(env, |_| SESSIONS.find(receiver)?.cut_short());
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_progress<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let progress = SESSIONS.find(receiver)?.progress()?;
        Ok(env.byte_array_from_slice(&progress)?)
    })
}

/// Closes the receiver. Does nothing for one that was closed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_receiver_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, receiver: jlong) {
    call(env, |_| {
        if let Some(asked) = SESSIONS.remove(receiver) {
            asked.close();
        }
        Ok(())
    });
}
