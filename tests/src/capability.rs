//! What a test needs of the machine. One that can't run says so and counts as ignored; the test
//! runner fails if the machine could have run it.

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use testbed::{cgroup2_mount, ebpf_object, privilege::is_root};

/// Something that not every machine has.
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
    /// What is missing, in the words that the test runner knows; `None` if nothing is.
    fn missing(self) -> Option<&'static str> {
        let (there, words) = match self {
            Self::Root => (is_root(), "root"),
            Self::EbpfObject => (ebpf_object().is_some(), "ebpf_object: set ATP_EBPF_OBJECT"),
            Self::Cgroup2 => (cgroup2_mount().is_some(), "cgroup2"),
        };
        (!there).then_some(words)
    }
}

/// Tests with what they need.
pub struct Suite {
    trials: Vec<Trial>,
    arguments: Arguments,
}

impl Suite {
    /// An empty suite for these arguments.
    pub fn new(arguments: &Arguments) -> Self {
        Self { trials: Vec::new(), arguments: arguments.clone() }
    }

    /// Adds a test.
    pub fn add(&mut self, name: &str, needs: &[Need], test: fn() -> anyhow::Result<()>) {
        let missing = needs.iter().find_map(|need| need.missing());
        let runner = move || test().map_err(|error| Failed::from(format!("{error:#}")));
        let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
        if let Some(missing) = missing
            && !self.arguments.list
            && !self.arguments.is_filtered_out(&trial)
        {
            println!("skipped: {name}: needs {missing}");
        }
        self.trials.push(trial);
    }

    /// Runs what was added.
    pub fn run(self, arguments: &Arguments) -> ExitCode {
        libtest_mimic::run(arguments, self.trials).exit_code()
    }
}
