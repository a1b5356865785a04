//! Identifies the program that computed a result.

use std::{
    env,
    fs::File,
    hash::{DefaultHasher, Hasher},
    io::{self, Read},
};

/// A hash of the running executable. Results of another program may differ, even if its version is
/// the same. The hash need not be the same in all releases of the standard library: another release
/// gives another executable.
///
/// # Errors
/// If the executable cannot be read.
pub(super) fn hash() -> io::Result<String> {
    // The link of Linux leads to the running file, also after a new build has replaced it.
    let file = File::open("/proc/self/exe").or_else(|_| File::open(env::current_exe()?))?;
    hash_of(file)
}

fn hash_of(mut from: impl Read) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    let mut part = vec![0; 1 << 16];
    loop {
        match from.read(&mut part)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            length => hasher.write(&part[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash__is_of_all_bytes() {
        let mut bytes = vec![7; 200_000];
        let all = hash_of(&bytes[..]).unwrap();
        assert_eq!(all, hash_of(&bytes[..]).unwrap());
        bytes[199_999] = 8;
        assert_ne!(all, hash_of(&bytes[..]).unwrap());
        assert_eq!(hash().unwrap(), hash().unwrap());
    }
}
