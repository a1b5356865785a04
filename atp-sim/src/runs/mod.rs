//! Runs points on all cores and keeps their results: in memory, because some figures show different
//! quantities of the same runs, and in a file, because a long series of runs may be interrupted.
//!
//! A result is reused only for the same point, seed included, and the same program.

mod file;
mod program;

use crate::{
    experiment::{Point, Summary},
    parallel,
};
use file::RunFile;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

/// The reason why results could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep results in {path}")]
pub struct RunsError {
    /// The path of the file or folder.
    path: PathBuf,
    /// The error of the operating system.
    source: io::Error,
}

/// The results of points that have run.
#[derive(Debug, Default)]
pub struct Runs {
    /// By [`key`].
    known: BTreeMap<String, Summary>,
    file: Option<RunFile>,
}

impl Runs {
    /// Keeps results in `folder`, and starts with those that earlier processes of the same program
    /// left there. With `is_fresh` it removes these.
    ///
    /// # Errors
    /// If the folder or its file cannot be made, read or written.
    pub fn open(folder: &Path, is_fresh: bool) -> Result<Self, RunsError> {
        let (file, known) = RunFile::open(folder, is_fresh)?;
        Ok(Self { known, file: Some(file) })
    }

    /// The number of different points that have no result yet.
    pub fn missing<'a>(&self, points: impl Iterator<Item = &'a Point>) -> usize {
        self.unknown(points).len()
    }

    /// Runs the points that have no result yet, on all cores.
    ///
    /// # Errors
    /// If a result cannot be written to the file. The other points have run.
    pub fn run<'a>(&mut self, points: impl Iterator<Item = &'a Point>) -> Result<(), RunsError> {
        let unknown = self.unknown(points);
        let file = self.file.as_ref();
        let results = parallel::map(&unknown, |(key, point), report_progress| {
            let summary = point.run_with_progress(report_progress).summary();
            file.map_or(Ok(()), |file| file.append(key, summary)).map(|()| summary)
        });
        for ((key, _), summary) in unknown.into_iter().zip(results) {
            self.known.insert(key, summary?);
        }
        Ok(())
    }

    /// The result of a point; `None` if it has not run.
    pub fn summary(&self, point: &Point) -> Option<&Summary> {
        self.known.get(&key(point))
    }

    /// The points without a result, each once, in their order.
    fn unknown<'a>(&self, points: impl Iterator<Item = &'a Point>) -> Vec<(String, &'a Point)> {
        let mut seen = BTreeSet::new();
        points
            .map(|point| (key(point), point))
            .filter(|(key, _)| !self.known.contains_key(key) && seen.insert(key.clone()))
            .collect()
    }
}

/// All that determines the result of a point: its scheme and its fields.
fn key(point: &Point) -> String {
    // The debug format of a scheme lacks its name.
    format!("{} {point:?}", point.scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::US, experiment::LoadBalancing, net::topology::Star};
    use std::fs;

    fn points(seeds: u64) -> Vec<Point> {
        let network_spec = crate::experiment::NetworkSpec::Star(Star { hosts: 3 });
        let point = |seed| Point { network_spec, duration_ps: 20 * US, seed, ..Point::default() };
        (1..=seeds).map(point).collect()
    }

    fn text(folder: &Path) -> (PathBuf, String) {
        let mut files = fs::read_dir(folder).unwrap();
        let path = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    }

    #[test]
    fn run__continues_after_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let all = points(5);
        let mut uninterrupted = Runs::default();
        uninterrupted.run(all.iter()).unwrap();
        Runs::open(folder.path(), false).unwrap().run(all[..3].iter()).unwrap();
        // The process was killed while it wrote the third line.
        let (path, whole) = text(folder.path());
        assert_eq!(whole.lines().count(), 3);
        fs::write(&path, &whole[..whole.len() - 40]).unwrap();
        let mut runs = Runs::open(folder.path(), false).unwrap();
        assert_eq!(runs.missing(all.iter()), 3);
        runs.run(all.iter()).unwrap();
        let reopened = Runs::open(folder.path(), false).unwrap();
        assert_eq!(reopened.missing(all.iter()), 0);
        for point in &all {
            assert_eq!(runs.summary(point), uninterrupted.summary(point));
            assert_eq!(reopened.summary(point), uninterrupted.summary(point));
        }
        // Two whole lines, a part of the third, and three more.
        assert_eq!(text(folder.path()).1.lines().count(), 6);
        let fresh = Runs::open(folder.path(), true).unwrap();
        assert_eq!(fresh.missing(all.iter()), 5);
        assert_eq!(text(folder.path()).1, "");
    }

    /// A line is reused only for exactly the same point and program.
    #[test]
    fn run__reuses_nothing_of_another_point_or_program() {
        let folder = tempfile::tempdir().unwrap();
        let all = points(1);
        Runs::open(folder.path(), false).unwrap().run(all.iter()).unwrap();
        let is_missing = |point: Point| {
            Runs::open(folder.path(), false).unwrap().missing(std::iter::once(&point)) == 1
        };
        let point = || all[0].clone();
        assert!(!is_missing(point()));
        assert!(is_missing(Point { seed: 2, ..point() }));
        assert!(is_missing(Point { load_balancing: LoadBalancing::Spray, ..point() }));
        assert!(is_missing(Point { scheme: "udp".parse().unwrap(), ..point() }));
        let (path, _) = text(folder.path());
        fs::rename(&path, path.with_file_name("0123456789abcdef.jsonl")).unwrap();
        assert!(is_missing(point()));
    }

    #[test]
    fn run__a_point_that_occurs_twice_runs_once() {
        let folder = tempfile::tempdir().unwrap();
        let (all, mut runs) = (points(1), Runs::open(folder.path(), false).unwrap());
        assert_eq!(runs.missing(all.iter().chain(&all)), 1);
        runs.run(all.iter().chain(&all)).unwrap();
        assert_eq!(text(folder.path()).1.lines().count(), 1);
    }

    #[test]
    fn open__names_a_folder_that_cannot_be_made() {
        let error = Runs::open(Path::new("/dev/null/runs"), false).unwrap_err();
        assert!(error.to_string().contains("/dev/null/runs"), "{error}");
    }
}
