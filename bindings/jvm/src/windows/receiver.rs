//! The native methods of `WindowReceiver.java`.

use super::{
    events,
    inbox::{self, INBOXES, Windows},
};
use crate::{
    call::call,
    failure::Failure,
    job::{optional, text, texts},
    options,
    record::Record,
};
use jni::{
    EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass, JObjectArray, JString},
    sys::{jint, jlong},
};

#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_bind<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    local: JString<'local>,
    receiver_options: JObjectArray<'local, JString<'local>>,
    counted: JByteArray<'local>,
    memory_bytes_max: jlong,
) -> jlong {
    call(env, |env| {
        let builder = options::receiver(&texts(env, &receiver_options)?)?;
        let counted = inbox::counted(&env.convert_byte_array(&counted)?)?;
        let bytes_max = u64::try_from(memory_bytes_max).map_err(|_| {
            Failure::argument(format!("memoryBytesMax must be 0 or more, not {memory_bytes_max}"))
        })?;
        Windows::open(builder, &text(env, &local)?, counted, bytes_max)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_address<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let mut record = Record::default();
        record.address(INBOXES.find(receiver)?.address);
        Ok(env.byte_array_from_slice(&record.into_bytes())?)
    })
}

/// The next arrival. Waits for one; null if none came.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_next<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    timeout_ms: jint,
) -> JByteArray<'local> {
    call(env, |env| {
        let windows = INBOXES.find(receiver)?;
        let mut next = windows.next()?;
        if timeout_ms > 0 && next.is_none() {
            windows.wait(timeout_ms);
            next = windows.next()?;
        }
        optional(env, next)
    })
}

/// Confirms a window, and returns the offsets that are counted then.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_confirm<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    window: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let counted = INBOXES.find(receiver)?.confirm(window)?;
        Ok(env.byte_array_from_slice(&counted)?)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_reject<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
    window: jlong,
) {
    call(env, |_| INBOXES.find(receiver)?.reject(window));
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_counted<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let counted = INBOXES.find(receiver)?.counted()?;
        Ok(env.byte_array_from_slice(&counted)?)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_stats<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    receiver: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let stats = INBOXES.find(receiver)?.stats()?;
        Ok(env.byte_array_from_slice(&events::stats(&stats))?)
    })
}

/// Closes the receiver. Does nothing for one that was closed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn windows_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, receiver: jlong) {
    call(env, |_| {
        if let Some(windows) = INBOXES.remove(receiver) {
            windows.close();
        }
        Ok(())
    });
}
