//! The native methods of `WindowSender.java`.

use super::{
    options::{self, position_text},
    stream_sender::{SENDERS, WindowSender},
};
use crate::{
    call::call,
    failure::{Failure, Outcome},
    job::{text, texts},
    options as common,
    record::Record,
};
use approx_windows::{RecordRef, SenderState, StreamSender};
use jni::{
    Env, EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass, JObjectArray, JString},
    refs::Reference,
    sys::{jboolean, jint, jlong},
};

/// The states that Java waits for, as its `WindowSender` numbers them.
const HAS_ROOM: i32 = 0;
const IS_CONFIRMED: i32 = 1;
const HAS_FINISHED: i32 = 2;

#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_open<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    peer: JString<'local>,
    sender_options: JObjectArray<'local, JString<'local>>,
    job_options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let job = common::job(&texts(env, &job_options)?)?;
        let own = texts(env, &sender_options)?;
        WindowSender::open(options::sender(text(env, &peer)?, &own, job)?)
    })
}

/// Takes a record. Headers are names, and values that may be null.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_push<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    sender: jlong,
    offset: jlong,
    has_time: jboolean,
    time_ms: jlong,
    key: JByteArray<'local>,
    value: JByteArray<'local>,
    names: JObjectArray<'local, JString<'local>>,
    values: JObjectArray<'local, JByteArray<'local>>,
    group: JString<'local>,
) {
    call(env, |env| {
        let (key, value) = (bytes(env, &key)?, bytes(env, &value)?);
        let (names, values) = (texts(env, &names)?, all_bytes(env, &values)?);
        let headers = names.iter().zip(&values);
        let record = RecordRef {
            offset: offset as u64,
            timestamp_ms: has_time.then_some(time_ms),
            key: key.as_deref(),
            value: value.as_deref(),
            headers: headers.map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
        };
        let group = if group.is_null() { None } else { Some(text(env, &group)?) };
        let push = |sender: &mut StreamSender| Ok(sender.push(&record, group.as_deref())?);
        SENDERS.find(sender)?.with(push)
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_advance<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    sender: jlong,
    watermark_ms: jlong,
) {
    call(env, |_| {
        SENDERS.find(sender)?.with(|sender| {
            sender.advance(watermark_ms);
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_close_windows<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    sender: jlong,
) {
    call(env, |_| {
        SENDERS.find(sender)?.with(|sender| {
            sender.close_windows();
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_finish<'local>(env: EnvUnowned<'local>, _: JClass<'local>, sender: jlong) {
    call(env, |_| {
        SENDERS.find(sender)?.with(|sender| {
            sender.finish();
            Ok(())
        })
    });
}

/// Waits for a state, and returns whether it has come.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_wait<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    sender: jlong,
    state: jint,
    timeout_ms: jint,
) -> jboolean {
    call(env, |_| {
        let is_done = match state {
            HAS_ROOM => SenderState::has_room,
            IS_CONFIRMED => |state: &SenderState| state.unconfirmed == 0,
            HAS_FINISHED => |state: &SenderState| state.has_finished,
            _ => return Err(Failure::argument("the jar and its library differ")),
        };
        SENDERS.find(sender)?.wait(timeout_ms, is_done)
    })
}

/// Windows that are closed and not confirmed, those that are confirmed, and the position.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_state<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    sender: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let state = SENDERS.find(sender)?.state(|state| {
            let mut record = Record::default();
            record.u64(state.unconfirmed as u64).u64(state.confirmed);
            let position = state.position.as_ref();
            record.option(position.map(position_text).as_deref(), Record::text);
            record.option(position, |record, position| record.u64(position.offset));
            record.into_bytes()
        });
        Ok(env.byte_array_from_slice(&state)?)
    })
}

/// Closes the sender. Does nothing for one that was closed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn window_sender_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, sender: jlong) {
    call(env, |_| {
        if let Some(sender) = SENDERS.remove(sender) {
            sender.close();
        }
        Ok(())
    });
}

fn bytes(env: &Env<'_>, bytes: &JByteArray<'_>) -> Outcome<Option<Vec<u8>>> {
    if bytes.is_null() { Ok(None) } else { Ok(Some(env.convert_byte_array(bytes)?)) }
}

fn all_bytes<'local>(
    env: &mut Env<'local>,
    all: &JObjectArray<'local, JByteArray<'local>>,
) -> Outcome<Vec<Option<Vec<u8>>>> {
    let len = all.len(env)?;
    // A frame for each: a JVM has room for few references of one call.
    let one = |index| {
        env.with_local_frame(4, |env| {
            let element = all.get_element(env, index)?;
            bytes(env, &element)
        })
    };
    (0..len).map(one).collect()
}
