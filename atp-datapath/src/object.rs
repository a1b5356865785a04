//! The eBPF object, embedded by `cargo xtask build` or read from a file.

use super::DatapathError;
use std::path::Path;

/// A compiled eBPF object.
pub struct Object(Bytes);

enum Bytes {
    Embedded(&'static [u8]),
    /// The bytes, as `u64` for the alignment that the loader needs, and their number.
    Read(Vec<u64>, usize),
}

impl Object {
    /// The object that is embedded in this binary.
    pub fn embedded() -> Result<Self, DatapathError> {
        let embedded: Option<&'static [u8]> = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
        embedded.map(|bytes| Self(Bytes::Embedded(bytes))).ok_or(DatapathError::NoObject)
    }

    /// An object from a file.
    pub fn from_file(path: &Path) -> Result<Self, DatapathError> {
        let bytes = std::fs::read(path)
            .map_err(|source| DatapathError::ObjectFile { path: path.to_owned(), source })?;
        let mut words = vec![0u64; bytes.len().div_ceil(size_of::<u64>())];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        Ok(Self(Bytes::Read(words, bytes.len())))
    }

    /// The object's bytes, aligned to eight.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Embedded(bytes) => bytes,
            Bytes::Read(words, len) => &bytemuck::cast_slice(words)[..*len],
        }
    }
}
