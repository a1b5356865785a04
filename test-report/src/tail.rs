//! Reads a growing text file line by line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

pub struct Tail<'a> {
    path: &'a Path,
    offset: u64,
    /// A line without its end.
    rest: Vec<u8>,
}

impl Tail<'_> {
    pub fn new(path: &Path) -> Tail<'_> {
        Tail { path, offset: 0, rest: Vec::new() }
    }

    /// The lines that were completed since the last call.
    pub fn read(&mut self, mut each: impl FnMut(&str)) {
        let Ok(mut file) = File::open(self.path) else { return };
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        // Lines read before an error count.
        let before = self.rest.len();
        drop(file.read_to_end(&mut self.rest));
        self.offset += (self.rest.len() - before) as u64;
        while let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=at).collect();
            each(String::from_utf8_lossy(&line).trim_end());
        }
    }

    /// Like [`Tail::read`], for a file that doesn't grow any more: its last line may lack its end.
    pub fn finish(mut self, mut each: impl FnMut(&str)) {
        self.read(&mut each);
        if !self.rest.is_empty() {
            each(String::from_utf8_lossy(&self.rest).trim_end());
        }
    }
}
