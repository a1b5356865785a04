//! The native methods of `Job.java`.

use crate::{
    call::call,
    failure::{Failure, Outcome},
    lent::{self, Lent},
    memory, options,
    record::Record,
    reports,
    sender::{JOBS, Sender},
};
use approxlib::{Error, Job};
use jni::{
    Env, EnvUnowned, jni_mangle,
    objects::{JByteArray, JByteBuffer, JClass, JIntArray, JLongArray, JObjectArray, JString},
    refs::Reference,
    sys::{jboolean, jdouble, jint, jlong},
};
use std::{ops::Range, slice, time::Duration};

/// The most messages of one call.
const MESSAGES_MAX: usize = 1024;

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_connect<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    peer: JString<'local>,
    options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let options = texts(env, &options)?;
        Sender::open(options::job(&options)?, &text(env, &peer)?)
    })
}

/// The id, the peer's address, the datapath and the pacing.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_facts<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let facts = JOBS.find(job)?.with(|job| {
            let mut record = Record::default();
            record.u32(job.id()).address(job.peer()).text(job.datapath()).text(job.pacing());
            Ok(record.into_bytes())
        })?;
        Ok(env.byte_array_from_slice(&facts)?)
    })
}

/// Throws if a message of `len` bytes is too long for the job. A batch is checked before its first
/// message is sent.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_check_length<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong, len: jint) {
    call(env, |_| {
        let bytes_max = JOBS.find(job)?.message_bytes_max as usize;
        let bytes = usize::try_from(len).unwrap_or(0);
        if bytes > bytes_max { Err(Error::TooLarge { bytes, bytes_max }.into()) } else { Ok(()) }
    });
}

/// Sends the `count` messages from number `from` on, for which there is room: `lengths` are their
/// lengths, or all have `message_bytes`. Their bytes lie one behind the other from `offset` on.
/// Returns the first one's id above the number of messages taken.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_try_send<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
    group: jint,
    buffer: JByteBuffer<'local>,
    offset: jint,
    lengths: JIntArray<'local>,
    message_bytes: jint,
    from: jint,
    count: jint,
) -> jlong {
    call(env, |env| {
        let group = options::id_of_group(group)?;
        let count = usize::try_from(count).unwrap_or(0).min(MESSAGES_MAX);
        let mut lens = vec![message_bytes; count];
        if !lengths.is_null() {
            let fewer = |_| Failure::argument("there are fewer lengths than messages");
            lengths.get_region(env, from, &mut lens).map_err(fewer)?;
        }
        let negative = |len: i32| Failure::argument(format!("a message can't have {len} bytes"));
        let mut ends = Vec::with_capacity(count);
        let mut end = 0;
        for len in lens {
            let begin = end;
            end += usize::try_from(len).map_err(|_| negative(len))?;
            ends.push(begin..end);
        }
        let (start, len) = memory::part(env, &buffer, offset, end)?;
        // SAFETY: the part lies in the buffer. Java's method says that nobody changes the messages
        // meanwhile.
        let bytes = unsafe { slice::from_raw_parts(start, len) };
        let messages: Vec<&[u8]> = ends.into_iter().map(|range| &bytes[range]).collect();
        let taken = JOBS.find(job)?.with(|job| {
            let before = job.progress().messages;
            job.try_send_all(group, &messages).or_else(|error| {
                // The first ones may be taken. The next call fails as this one, and tells nobody
                // their ids.
                let taken = (job.progress().messages - before) as u32;
                if taken > 0 { Ok(0..taken) } else { Err(error) }
            })
        })?;
        Ok(first_and_count(&taken))
    })
}

fn first_and_count(ids: &Range<u32>) -> jlong {
    // Ids have 24 bits.
    jlong::from(ids.start) << 32 | ids.len() as jlong
}

/// Sends a message without a copy, and returns its id; -1 if there is no room. Once the job needs
/// it no more, `job_take_released` has `number`, unless the job hasn't taken it.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_try_send_owned<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
    group: jint,
    buffer: JByteBuffer<'local>,
    offset: jint,
    len: jint,
    number: jlong,
) -> jlong {
    call(env, |env| {
        let group = options::id_of_group(group)?;
        let part = memory::part(env, &buffer, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        let (sender, buffer) = (JOBS.find(job)?, env.new_global_ref(&buffer)?);
        let take = |lent: Lent| sender.with(|job| job.try_send_owned(group, lent, drop));
        // SAFETY: the part lies in the buffer. Java's method says that nobody changes it.
        let id = unsafe { lent::give(number, buffer, part, take) }?;
        Ok(id.map_or(-1, jlong::from))
    })
}

/// Waits for messages that jobs need no more, and returns their numbers.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn take_released<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    timeout_ms: jint,
) -> JLongArray<'local> {
    call(env, |env| {
        let timeout = Duration::from_millis(timeout_ms.clamp(0, 1_000) as u64);
        let released = lent::take_released(timeout);
        let array = env.new_long_array(released.len()).and_then(|array| {
            array.set_region(env, 0, &released)?;
            Ok(array)
        });
        match &array {
            Ok(_) => lent::forget(&released),
            Err(_) => lent::put_back(&released),
        }
        Ok(array?)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_wait<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong, timeout_ms: jint) {
    call(env, |_| JOBS.find(job)?.wait_for_change(timeout_ms));
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_forget_waits<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong) {
    call(env, |_| {
        JOBS.find(job)?.with(|job| {
            job.forget_waits();
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_set_msr<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
    group: jint,
    msr: jdouble,
) {
    call(env, |_| {
        let group = options::id_of_group(group)?;
        JOBS.find(job)?.with(|job| job.set_msr(group, msr))
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_set_messages<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
    group: jint,
    messages: jint,
) {
    call(env, |_| {
        let group = options::id_of_group(group)?;
        let messages = u32::try_from(messages).map_err(|_| {
            Failure::argument(format!("the number of messages can't be {messages}: give 0 or more"))
        })?;
        JOBS.find(job)?.with(|job| {
            job.set_messages(group, messages);
            Ok(())
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_progress<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let progress = JOBS.find(job)?.handle.progress();
        Ok(env.byte_array_from_slice(&reports::progress(&progress))?)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_try_begin_end_window<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
) -> jboolean {
    call(env, |_| JOBS.find(job)?.with(Job::try_begin_end_window))
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_awaits_window<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
) -> jboolean {
    call(env, |_| JOBS.find(job)?.with(|job| Ok(job.awaits_window())))
}

/// The report of the oldest window that has ended, or with `last` of the one that was ended last.
/// Null before.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_try_window<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
    last: jboolean,
) -> JByteArray<'local> {
    call(env, |env| {
        let attempt = if last { Job::try_last_window } else { Job::try_window };
        let report = JOBS.find(job)?.with(attempt)?;
        optional(env, report.map(|report| reports::window_report(&report)))
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_begin_finish<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong) {
    call(env, |_| {
        JOBS.find(job)?.handle.begin_finish();
        Ok(())
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_begin_cancel<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong) {
    call(env, |_| {
        JOBS.find(job)?.handle.begin_cancel();
        Ok(())
    });
}

/// The report of a job that has ended; null before.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_try_outcome<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    job: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let attempt = |job: &mut Job| -> Result<_, Error> { job.try_outcome() };
        let report = JOBS.find(job)?.end_if(attempt)?;
        optional(env, report.map(|report| reports::report(&report)))
    })
}

/// Ends the job at once, if it has not ended. Does nothing for a job that was closed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn job_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, job: jlong) {
    call(env, |_| {
        if let Some(job) = JOBS.remove(job) {
            job.abandon();
        }
        Ok(())
    });
}

/// An array, or null.
pub fn optional<'local>(
    env: &mut Env<'local>,
    bytes: Option<Vec<u8>>,
) -> Outcome<JByteArray<'local>> {
    match bytes {
        Some(bytes) => Ok(env.byte_array_from_slice(&bytes)?),
        None => Ok(JByteArray::null()),
    }
}

/// A text of Java. Halves of characters, which Java's texts may have, are replaced.
pub fn text(env: &Env<'_>, text: &JString<'_>) -> Outcome<String> {
    Ok(text.try_to_string(env)?)
}

pub fn texts<'local>(
    env: &mut Env<'local>,
    texts: &JObjectArray<'local, JString<'local>>,
) -> Outcome<Vec<String>> {
    let len = texts.len(env)?;
    // A frame for each: a JVM has room for few references of one call.
    let one = |index| {
        env.with_local_frame(4, |env| {
            let element = texts.get_element(env, index)?;
            text(env, &element)
        })
    };
    (0..len).map(one).collect()
}
