//! Skips the tests that this machine cannot run. A skipped test prints the reason and counts as
//! ignored. The test runner fails if the machine could have run it.

use crate::took::timed;
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sched::{CloneFlags, unshare};
use std::process::ExitCode;
use testbed::{cgroup2_mount, ebpf_object, privilege::is_root};

/// A requirement that not every machine meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Effective uid 0 in the initial user namespace.
    Root,
    /// `ATP_EBPF_OBJECT` names an object.
    EbpfObject,
    /// A cgroup v2 hierarchy is mounted.
    Cgroup2,
}

impl Need {
    /// The missing requirement, as the test runner parses it; `None` if it is met.
    fn missing(self) -> Option<&'static str> {
        let (met, reason) = match self {
            Self::Root => (is_root(), "root"),
            Self::EbpfObject => (ebpf_object().is_some(), "ebpf_object: set ATP_EBPF_OBJECT"),
            Self::Cgroup2 => (cgroup2_mount().is_some(), "cgroup2"),
        };
        (!met).then_some(reason)
    }
}

/// Tests with their requirements.
pub struct Suite {
    trials: Vec<Trial>,
    arguments: Arguments,
}

impl Suite {
    /// Creates an empty suite for these arguments.
    pub fn new(arguments: &Arguments) -> Self {
        Self { trials: Vec::new(), arguments: arguments.clone() }
    }

    /// Adds a test. It runs in a network namespace of its own if it needs root: the programs send
    /// clones to its loopback interface.
    pub fn add(&mut self, name: &str, needs: &[Need], test: fn() -> anyhow::Result<()>) {
        let missing = needs.iter().find_map(|need| need.missing());
        let (named, is_root) = (name.to_owned(), needs.contains(&Need::Root));
        let runner = move || {
            if is_root {
                // Of this thread only. The next test on it leaves this namespace.
                unshare(CloneFlags::CLONE_NEWNET)?;
            }
            timed(&named, test).map_err(|error| Failed::from(format!("{error:#}")))
        };
        let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
        if let Some(missing) = missing
            && !self.arguments.list
            && !self.arguments.is_filtered_out(&trial)
        {
            println!("skipped: {name}: needs {missing}");
        }
        self.trials.push(trial);
    }

    /// Runs the added tests.
    pub fn run(self, arguments: &Arguments) -> ExitCode {
        libtest_mimic::run(arguments, self.trials).exit_code()
    }
}
