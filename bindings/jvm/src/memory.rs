//! Memory of Java's direct buffers.

use crate::failure::{Failure, Outcome};
use jni::{Env, objects::JByteBuffer};

/// The number of bytes of a direct buffer.
pub fn capacity(env: &Env<'_>, buffer: &JByteBuffer<'_>) -> Outcome<usize> {
    if buffer.is_null() {
        return Err(Failure::argument("a buffer is null: give a direct ByteBuffer"));
    }
    env.get_direct_buffer_capacity(buffer).map_err(|_| heap())
}

fn heap() -> Failure {
    Failure::argument("a heap buffer has no address: use ByteBuffer.allocateDirect")
}

/// The address and the length of a part of a direct buffer. The JVM keeps the buffer as long as
/// the native method runs, which has it as an argument.
pub fn part(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: i32,
    len: usize,
) -> Outcome<(*mut u8, usize)> {
    let capacity = capacity(env, buffer)?;
    let start = env.get_direct_buffer_address(buffer).map_err(|_| heap())?;
    let offset = usize::try_from(offset).ok().filter(|at| *at <= capacity);
    let Some(offset) = offset.filter(|at| len <= capacity - at) else {
        let text = format!("{len} bytes exceed the buffer, which has {capacity}");
        return Err(Failure::argument(text));
    };
    // SAFETY: the offset lies in the buffer.
    Ok((unsafe { start.add(offset) }, len))
}
