//! Reads and writes the packed corpora: one archive per target, `fuzz/corpus/TARGET.tar.gz`.

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder, read::GzDecoder};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// Inputs by name. The order is the same in every run, so a failure is reached at the same point.
pub type Inputs = BTreeMap<String, Vec<u8>>;

/// The folder of the archives, and of the unpacked corpora while a fuzzer runs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// The archive of a target.
pub fn archive(target: &str) -> PathBuf {
    folder().join(format!("{target}.tar.gz"))
}

/// Reads all inputs of a target's archive into memory. An empty archive is an error: a replay
/// of nothing would succeed.
pub fn read(target: &str) -> Result<Inputs> {
    let path = archive(target);
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let inputs = read_entries(GzDecoder::new(file))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if inputs.is_empty() {
        bail!("{} has no inputs: restore it from git", path.display());
    }
    Ok(inputs)
}

/// Unpacks a target's archive into `fuzz/corpus/TARGET`, where cargo-fuzz looks for inputs.
/// Returns the number of inputs. Refuses if the folder has files that the archive lacks: they may
/// be findings, and the next [`pack`] would add them.
pub fn unpack(target: &str) -> Result<usize> {
    let inputs = read(target)?;
    write_files(&folder().join(target), &inputs)?;
    Ok(inputs.len())
}

/// Packs the files of `fuzz/corpus/TARGET` into the target's archive. The same inputs give the
/// same bytes with the locked version of flate2: names are sorted, and times and owners are zero.
/// Returns the number of inputs.
pub fn pack(target: &str) -> Result<usize> {
    let from = folder().join(target);
    let mut inputs = Inputs::new();
    let entries = fs::read_dir(&from)
        .with_context(|| format!("cannot list {}: unpack {target} first", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} is not UTF-8: rename it", path.display()))?;
        let data = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        inputs.insert(name.to_owned(), data);
    }
    if inputs.is_empty() {
        bail!("{} has no inputs: unpack {target} first", from.display());
    }
    let path = archive(target);
    write_entries(&path, &inputs).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(inputs.len())
}

fn read_entries(reader: impl Read) -> Result<Inputs> {
    let mut inputs = Inputs::new();
    for entry in tar::Archive::new(reader).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        // A name with a folder in it could be written outside of the corpus.
        let name = path.to_str().filter(|name| path.file_name() == Some(name.as_ref()));
        let name = name.with_context(|| format!("entry {} is not a plain name", path.display()))?;
        let mut data = Vec::new();
        entry.read_to_end(&mut data)?;
        inputs.insert(name.to_owned(), data);
    }
    Ok(inputs)
}

/// Writes the inputs as files of the folder `into`.
fn write_files(into: &Path, inputs: &Inputs) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let entries = fs::read_dir(into).with_context(|| format!("cannot list {}", into.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| inputs.contains_key(name)) {
            bail!("{} is not in the archive: pack it, move it or delete it", path.display());
        }
    }
    for (name, data) in inputs {
        let path = into.join(name);
        fs::write(&path, data).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_entries(path: &Path, inputs: &Inputs) -> Result<()> {
    let file = File::create(path)?;
    let packed = GzBuilder::new().mtime(0).write(file, Compression::best());
    let mut archive = tar::Builder::new(packed);
    for (name, data) in inputs {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, name, data.as_slice())?;
    }
    archive.into_inner()?.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_files__refuses_over_files_that_the_archive_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("target");
        let inputs = Inputs::from([("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])]);
        write_files(&into, &inputs).unwrap();
        fs::write(into.join("b"), [3]).unwrap();
        // The same names again: nothing is stale afterwards.
        write_files(&into, &inputs).unwrap();
        assert_eq!(fs::read(into.join("b")).unwrap(), [2]);
        fs::write(into.join("finding"), [4]).unwrap();
        let error = write_files(&into, &inputs).unwrap_err().to_string();
        assert!(error.contains("finding is not in the archive"), "{error}");
        assert_eq!(fs::read(into.join("finding")).unwrap(), [4]);
    }

    #[test]
    fn write_entries__gives_the_same_bytes_for_the_same_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs::from([("a".to_owned(), vec![1; 100]), ("b".to_owned(), vec![2])]);
        let [first, second] = ["first", "second"].map(|name| {
            let path = folder.path().join(name);
            write_entries(&path, &inputs).unwrap();
            fs::read(path).unwrap()
        });
        assert_eq!(first, second);
        assert_eq!(read_entries(GzDecoder::new(&first[..])).unwrap(), inputs);
    }
}
