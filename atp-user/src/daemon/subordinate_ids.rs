//! The ranges of ids that `/etc/subuid` gives to users: for their containers, for example.

use nix::unistd::User;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The shortest time between two looks at whether the file has changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The ranges of a file. It is read again once it has changed.
pub struct SubordinateIds {
    path: PathBuf,
    looked: Instant,
    version: Option<Version>,
    /// Written by the thread that reads the file, because looking up a name can take long.
    ranges: Arc<Mutex<Vec<Range>>>,
}

/// Tells the versions of a file apart.
type Version = (u64, i64, i64, u64);

/// A range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first id.
    pub first: u32,
    count: u32,
    /// The user who has it, if an account has the name in the file.
    pub uid: Option<u32>,
}

impl SubordinateIds {
    /// The ranges of this host. Reads them at once.
    pub fn of_this_host() -> Self {
        Self::of(Path::new("/etc/subuid"))
    }

    fn of(path: &Path) -> Self {
        let ids = Self {
            path: path.into(),
            looked: Instant::now(),
            version: version(path).ok(),
            ranges: Arc::default(),
        };
        read(&ids.path, &ids.ranges);
        ids
    }

    /// The range of a subordinate id; `None` if it is none, or several users have it: then the file
    /// doesn't tell whose it is.
    pub fn range_of(&mut self, uid: u32) -> Option<Range> {
        self.look();
        // A file that gives root's id away doesn't make root a subordinate.
        let ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let holds =
            |range: &&Range| uid.checked_sub(range.first).is_some_and(|at| at < range.count);
        let mut holding = ranges.iter().filter(holds);
        let range = holding.next().copied().filter(|_| uid != 0)?;
        holding.all(|other| other.uid == range.uid).then_some(range)
    }

    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let version = version(&self.path).ok();
        if version != self.version {
            self.version = version;
            let (path, ranges) = (self.path.clone(), self.ranges.clone());
            tokio::task::spawn_blocking(move || read(&path, &ranges));
        }
    }
}

fn version(path: &Path) -> io::Result<Version> {
    let file = fs::metadata(path)?;
    Ok((file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
}

fn read(path: &Path, ranges: &Mutex<Vec<Range>>) {
    // Without the file, no user has a range.
    let text = fs::read_to_string(path).unwrap_or_default();
    let found = parse(&text, |name| Some(User::from_name(name).ok()??.uid.as_raw()));
    *ranges.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// The ranges of a file whose lines are `user:first:count`. Others are skipped, as programs that
/// give such ids to containers skip them.
fn parse(text: &str, uid_of: impl Fn(&str) -> Option<u32>) -> Vec<Range> {
    let line = |line: &str| {
        let mut words = line.trim().split(':');
        let (user, first) = (words.next()?, words.next()?.parse().ok()?);
        let count = words.next()?.parse().ok()?;
        Some(Range { first, count, uid: user.parse().ok().or_else(|| uid_of(user)) })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__names_numbers_and_ranges_of_nobody() {
        let text = "ann:100000:65536\n1001:200000:9\nroot:300000:9\nlxd:400000:9\nbad\nann:x:9\n";
        let ranges = parse(text, |name| match name {
            "ann" => Some(1000),
            "root" => Some(0),
            _ => None,
        });
        let range = |first, count, uid| Range { first, count, uid };
        assert_eq!(
            ranges,
            [
                range(100_000, 65_536, Some(1000)),
                range(200_000, 9, Some(1001)),
                range(300_000, 9, Some(0)),
                range(400_000, 9, None),
            ]
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn range_of__follows_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("subuid");
        let mut ids = SubordinateIds::of(&path);
        assert_eq!(ids.range_of(100_000), None);
        let lines = "1000:100000:65536\n0:0:10\n1000:165000:1000\n1001:165990:20\n";
        fs::write(&path, lines).unwrap();
        let found = tokio::time::timeout(Duration::from_secs(60), async {
            while ids.range_of(165_500).is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        found.await.expect("the file was not read again");
        // Two ranges of one user may overlap, but not those of two.
        let found = [99_999, 100_000, 165_535, 165_989, 165_990, 0].map(|uid| ids.range_of(uid));
        assert_eq!(
            found.map(|range| range.and_then(|range| range.uid)),
            [None, Some(1000), Some(1000), Some(1000), None, None]
        );
    }
}
