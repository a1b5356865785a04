//! Structures that begin with their size, so that programs and libraries of different versions
//! understand each other.

use crate::status::{Failure, Outcome, atp_status::ATP_ERROR_SIZE};

/// No version has a larger structure. A size above is a mistake.
const BYTES_MAX: usize = 4_096;
/// Versions add fields in pieces of this size, so a field is there as a whole or not at all.
const PIECE_BYTES: usize = 8;

/// A structure that begins with `struct_size`.
///
/// # Safety
/// The type is `repr(C)`, its first field is `struct_size: usize`, and any bytes are a value of it.
pub unsafe trait SizeFirst: Copy {
    const NAME: &'static str;
    /// The least size: up to here, all versions have all fields.
    const BYTES_MIN: usize = PIECE_BYTES;

    /// The value of fields that the caller's version doesn't have.
    fn initial() -> Self;
}

fn size_at<T: SizeFirst>(at: *const T) -> Outcome<usize> {
    if at.is_null() {
        return Err(Failure::null(T::NAME));
    }
    // SAFETY: the caller's pointer is to a structure, which begins with its size.
    let bytes = unsafe { at.cast::<usize>().read_unaligned() };
    if !(T::BYTES_MIN..=BYTES_MAX).contains(&bytes) {
        let (name, least) = (T::NAME, T::BYTES_MIN);
        return Err(Failure::new(
            ATP_ERROR_SIZE,
            format!(
                "struct_size of {name} is {bytes}, not {least} to {BYTES_MAX}: initialize the \
                 structure before its use"
            ),
        ));
    }
    Ok(bytes)
}

/// Reads a structure that the caller has filled in.
///
/// # Safety
/// `from` is null, or points to as many readable bytes as it says.
pub unsafe fn read<T: SizeFirst>(from: *const T) -> Outcome<T> {
    let bytes = size_at(from)?;
    let known = bytes.min(size_of::<T>()) / PIECE_BYTES * PIECE_BYTES;
    let mut value = T::initial();
    // SAFETY: the caller's structure has `bytes` bytes, and any bytes are a `T`.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast(), known);
        for at in size_of::<T>()..bytes {
            if from.cast::<u8>().add(at).read() != 0 {
                return Err(Failure::new(
                    ATP_ERROR_SIZE,
                    format!(
                        "{} of {bytes} bytes sets a field behind the {} bytes that this version \
                         knows: leave it 0, or use a newer libatp",
                        T::NAME,
                        size_of::<T>()
                    ),
                ));
            }
        }
    }
    Ok(value)
}

/// A structure of the caller that the call fills in. It was checked before the call does anything.
pub struct Out<T> {
    to: *mut T,
    bytes: usize,
}

impl<T: SizeFirst> Out<T> {
    /// # Safety
    /// `to` is null, or points to as many writable bytes as it says until the end of the call.
    pub unsafe fn new(to: *mut T) -> Outcome<Self> {
        Ok(Self { to, bytes: size_at(to)? })
    }

    /// As [`Out::new`], but the caller need not want the structure.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub unsafe fn optional(to: *mut T) -> Outcome<Option<Self>> {
        // SAFETY: the caller promises the same.
        (!to.is_null()).then(|| unsafe { Self::new(to) }).transpose()
    }

    /// Writes the fields that the caller's version has, and zeroes those that this version lacks.
    pub fn write(&self, value: &T) {
        let (to, size) = (self.to.cast::<u8>(), size_of::<usize>());
        let known = self.bytes.min(size_of::<T>()) / PIECE_BYTES * PIECE_BYTES;
        // SAFETY: `new`'s caller has promised `bytes` writable bytes. `struct_size` stays.
        unsafe {
            let from = std::ptr::from_ref(value).cast::<u8>();
            std::ptr::copy_nonoverlapping(from.add(size), to.add(size), known - size);
            std::ptr::write_bytes(to.add(known), 0, self.bytes - known);
        }
    }
}

/// Zeroes a structure of `bytes` bytes and writes its initial value.
///
/// # Safety
/// `to` is null, or points to `bytes` writable bytes.
pub unsafe fn init<T: SizeFirst>(to: *mut T, bytes: usize) -> Outcome {
    if to.is_null() {
        return Err(Failure::null(T::NAME));
    }
    size_at(std::ptr::from_ref(&bytes).cast::<T>())?;
    // SAFETY: the caller promises the bytes.
    unsafe { to.cast::<usize>().write_unaligned(bytes) };
    Out { to, bytes }.write(&T::initial());
    Ok(())
}

/// Writes a plain value, if the caller wants it.
///
/// # Safety
/// `to` is null or writable.
pub unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller promises it.
        unsafe { to.write_unaligned(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Two {
        struct_size: usize,
        a: u64,
        b: u64,
    }

    // SAFETY: repr(C), integers only.
    unsafe impl SizeFirst for Two {
        const NAME: &'static str = "two";

        fn initial() -> Self {
            Self { struct_size: size_of::<Self>(), a: 1, b: 2 }
        }
    }

    fn read_words(words: &[u64]) -> Outcome<Two> {
        // SAFETY: the tests give as many words as the first one says, or an invalid size.
        unsafe { read(words.as_ptr().cast::<Two>()) }
    }

    #[test]
    fn read__takes_older_and_newer_structures() {
        for (words, a, b) in [
            (&[8][..], 1, 2),
            (&[16, 7], 7, 2),
            (&[23, 7, 7], 7, 2),
            (&[24, 7, 8], 7, 8),
            (&[32, 7, 8, 0], 7, 8),
        ] {
            let two = read_words(words).unwrap();
            assert_eq!((two.a, two.b), (a, b), "{words:?}");
        }
    }

    #[test]
    fn read__refuses_what_it_does_not_know() {
        for words in [&[0][..], &[7], &[4_097], &[u64::MAX], &[32, 1, 2, 1]] {
            assert_eq!(read_words(words).unwrap_err().status, ATP_ERROR_SIZE, "{words:?}");
        }
    }

    #[test]
    fn write__fills_the_callers_structure_only() {
        for (bytes, expected) in
            [(8, [8, 9, 9, 9]), (16, [16, 1, 9, 9]), (24, [24, 1, 2, 9]), (32, [32, 1, 2, 0])]
        {
            let mut words: [u64; 4] = [bytes, 9, 9, 9];
            // SAFETY: the words are there.
            unsafe { Out::new(words.as_mut_ptr().cast::<Two>()) }.unwrap().write(&Two::initial());
            assert_eq!(words, expected);
        }
    }
}
