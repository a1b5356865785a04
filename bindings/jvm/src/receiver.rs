//! The native methods of `Receiver.java`.

use crate::{
    call::call,
    inbox::{Inbox, RECEIVERS, Taken},
    job::{optional, text, texts},
    memory, options,
    record::Record,
    reports,
};
use approxlib::RateRequest;
use jni::{
    EnvUnowned, jni_mangle,
    objects::{JByteArray, JByteBuffer, JClass, JObjectArray, JString},
    sys::{jdouble, jint, jlong},
};
use std::slice;

#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_bind<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    local: JString<'local>,
    options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let options = texts(env, &options)?;
        Inbox::open(options::receiver(&options)?, &text(env, &local)?)
    })
}

/// The address and the datapath.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_facts<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let facts = RECEIVERS.find(receiver)?.with(|receiver| {
            let mut record = Record::default();
            record.address(receiver.local_addr()?).text(receiver.datapath());
            Ok(record.into_bytes())
        })?;
        Ok(env.byte_array_from_slice(&facts)?)
    })
}

/// Writes up to `events_max` events into the buffer from `offset` on, and returns how many bytes
/// they took. Waits for the first one; 0 if none came. A negative number: the first event needs so
/// many bytes.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_recv<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    buffer: JByteBuffer<'local>,
    offset: jint,
    events_max: jint,
    timeout_ms: jint,
) -> jint {
    call(env, |env| {
        let inbox = RECEIVERS.find(receiver)?;
        let capacity = memory::capacity(env, &buffer)?;
        let room = capacity.saturating_sub(usize::try_from(offset).unwrap_or(0));
        let (start, len) = memory::part(env, &buffer, offset, room)?;
        // SAFETY: the part lies in the buffer, which Java's `Batch` gives to one call at a time.
        let room = unsafe { slice::from_raw_parts_mut(start, len) };
        let events_max = usize::try_from(events_max).unwrap_or(0);
        let mut taken = inbox.take(room, events_max)?;
        if timeout_ms > 0 && matches!(taken, Taken::Bytes(0)) {
            inbox.wait(timeout_ms);
            taken = inbox.take(room, events_max)?;
        }
        // Buffers have at most 2^31 - 1 bytes, and messages 2^30.
        Ok(match taken {
            Taken::Bytes(bytes) => bytes as jint,
            Taken::NoRoom(bytes) => -(bytes as jint),
        })
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_request_msr<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    run: jlong,
    group: jint,
    msr: jdouble,
) {
    call(env, |_| {
        let group = options::id_of_group(group)?;
        let request = RateRequest { run: run as u64, group, msr };
        RECEIVERS.find(receiver)?.with(|receiver| receiver.request_msr(&request))
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_request_end<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    run: jlong,
) {
    call(env, |_| {
        RECEIVERS.find(receiver)?.with(|receiver| {
            receiver.request_end(run as u64);
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_ask_progress<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> jlong {
    call(env, |_| RECEIVERS.find(receiver)?.with(|receiver| Ok(receiver.ask_progress() as jlong)))
}

/// The answer to a question; null while there is none.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_try_progress<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    asked: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let sources = RECEIVERS.find(receiver)?;
        let sources = sources.with(|receiver| Ok(receiver.try_progress(asked as u64)))?;
        optional(env, sources.map(|sources| reports::sources(&sources)))
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_stats<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let stats = RECEIVERS.find(receiver)?.with(|receiver| Ok(receiver.stats()))?;
        Ok(env.byte_array_from_slice(&reports::stats(&stats))?)
    })
}

/// Closes the receiver. Does nothing for one that was closed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn receiver_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, receiver: jlong) {
    call(env, |_| {
        if let Some(receiver) = RECEIVERS.remove(receiver) {
            receiver.close();
        }
        Ok(())
    });
}
