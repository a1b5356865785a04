//! `cargo xtask run|bench|soak|faults-table`: installs and builds what the command needs, at the
//! same time, and becomes the program `atp-bench`, which does the work.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};

use crate::build;
use crate::jar;
use crate::setup::{self, FLINK_JARS, KAFKA_JARS, Machine, Need};
use crate::wheel;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Options of the command; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// The needs of a command beside the program `atp-bench`.
#[derive(Debug, Default, PartialEq)]
struct Needs {
    installed: Vec<Need>,
    programs: Programs,
    /// A Python with PyTorch and the wheels.
    torch: bool,
    /// `atp-run` and its library.
    atp_run: bool,
    kafka: Kafka,
}

/// Whether a command needs the bridge to Kafka and its load generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kafka {
    #[default]
    No,
    Bridge,
    /// With a cluster of Flink behind the bridge.
    BridgeAndFlink,
}

/// Whether a command needs the eBPF programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Programs {
    #[default]
    No,
    /// If the programs can't be built, the command uses another datapath.
    IfPossible,
    Yes,
}

impl Args {
    /// Becomes `atp-bench` with this command. Returns only if something fails.
    pub fn start(&self, command: &str) -> Result<()> {
        let needs = match command {
            _ if asks_for_help(&self.options) => Needs::default(),
            "run" => needs_of_run(&self.options, Machine::this().is_root()),
            "bench" => needs_of_bench(&self.options),
            "soak" if self.options.contains(&"--strangers".into()) => {
                Needs { atp_run: true, ..needs_of_training(&self.options) }
            }
            "soak" => needs_of_bench(&["daemon".into()]),
            _ => Needs::default(),
        };
        // First: a refusal shouldn't come after minutes of building.
        let lock = needs.torch.then(|| wheel::lock(&setup::paths().torch_bench)).transpose()?;
        let (program, object) = needs.prepare()?;
        if needs.atp_run {
            build::atp_run()?;
        }
        if needs.kafka != Kafka::No {
            build::kafka()?;
        }
        let flink = (needs.kafka == Kafka::BridgeAndFlink).then(jar::flink_class_path);
        let flink = flink.transpose()?;
        let torch = lock.map(wheel::torch_environment).transpose()?;
        let paths = setup::paths();
        let mut start = Command::new(&program);
        start.arg(command).args(&self.options);
        start.env("ATP_USER", program.with_file_name("atp-user"));
        match object {
            Ok(object) => start.env(build::OBJECT_VARIABLE, object),
            Err(reason) => start.env_remove(build::OBJECT_VARIABLE).env("ATP_NO_EBPF", reason),
        };
        start.env("ATP_FLIGHTS", &paths.flights_csv).env("ATP_TARGET", &paths.target);
        start.env("ATP_PYTHON", setup::python().get_program());
        start.envs(setup::java_home().map(|home| ("ATP_JAVA", home.join("bin/java"))));
        if needs.kafka != Kafka::No {
            let [bridge, load] = ["atp-kafka", "examples/kafka-load"];
            start.env("ATP_KAFKA", program.with_file_name(bridge));
            start.env("ATP_KAFKA_LOAD", program.with_file_name(load));
            start.env("ATP_KAFKA_JARS", KAFKA_JARS.path());
            start.envs(setup::java_home().map(|home| ("JAVA_HOME", home)));
        }
        start.envs(flink.map(|class_path| ("ATP_FLINK_CLASS_PATH", class_path)));
        if let Some(python) = torch {
            start.env("ATP_TORCH_PYTHON", python);
        }
        // The user's own daemon must not take part.
        start.env_remove("ATP_SOCKET");
        atp_output::close_again_on_exec();
        Err(start.exec()).with_context(|| format!("can't start {}", program.display()))
    }
}

impl Needs {
    /// The program, and the eBPF programs or the reason why there are none.
    fn prepare(&self) -> Result<(PathBuf, Result<PathBuf, String>)> {
        ensure!(
            !(self.torch || self.kafka != Kafka::No) || Machine::this().is_root(),
            "this makes network namespaces and loads eBPF programs: run it as root"
        );
        let programs = match self.programs {
            Programs::No => Err("not needed".to_owned()),
            Programs::IfPossible => setup::obtainable(setup::BUILD),
            Programs::Yes => Ok(setup::obtainable(setup::BUILD).map_err(anyhow::Error::msg)?),
        };
        match self.kafka {
            Kafka::No => {}
            Kafka::Bridge => setup::announce(&self.installed),
            Kafka::BridgeAndFlink => {
                let flink: Need = &FLINK_JARS;
                setup::announce(&[self.installed.as_slice(), &[flink]].concat());
            }
        }
        if build::is_first() {
            atp_output::note!(
                "first run: building ATP and installing the tools of this command. This takes \
                 about six minutes on two idle cores."
            );
        }
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                // The longest first: packages, then the linker, which compiles for a minute.
                let object = match programs {
                    Ok(()) => Ok(build::ebpf_object()?),
                    Err(reason) => Err(reason),
                };
                setup::ensure(&self.installed).map(|()| object)
            });
            let program = build::bench();
            let object = other.join().map_err(|_| anyhow!("installing panicked"))?;
            Ok((program?, object?))
        })
    }
}

fn needs_of_run(options: &[OsString], is_root: bool) -> Needs {
    if value_of(options, "--iface").is_some() {
        return Needs { programs: Programs::Yes, ..Needs::default() };
    }
    match value_of(options, "--engine") {
        Some("kafka") => return needs_of_kafka(Kafka::Bridge),
        Some("flink") => return needs_of_kafka(Kafka::BridgeAndFlink),
        Some(_) => return needs_of_training(options),
        None => {}
    }
    let mut installed: Vec<Need> = vec![&setup::IPROUTE2];
    if value_of(options, "--input").is_none() {
        installed.push(&setup::Dataset);
    }
    let schemes = value_of(options, "--schemes");
    let runs_atp = schemes.is_none_or(|schemes| schemes.contains("atp"));
    // Only root can load the programs.
    let programs = if runs_atp && is_root { Programs::IfPossible } else { Programs::No };
    Needs { installed, programs, ..Needs::default() }
}

fn needs_of_bench(options: &[OsString]) -> Needs {
    let name = options.iter().find_map(|word| word.to_str().filter(|word| !word.starts_with('-')));
    let (installed, programs_option): (&[Need], &str) = match name {
        Some("datapath") => (&[&setup::IPROUTE2], "--object"),
        Some("library") => (&[&setup::IPROUTE2, &setup::ETHTOOL, &setup::IPERF3], "--daemon"),
        Some("answers") if value_of(options, "--frame").is_some() => {
            return needs_of_bench(&["python".into()]);
        }
        Some("answers") if value_of(options, "--network").is_none() => return Needs::default(),
        Some("answers" | "daemon" | "laws" | "random-loss" | "reality") => {
            (&[&setup::IPROUTE2, &setup::ETHTOOL], "--daemon")
        }
        Some("training") => return needs_of_training(options),
        Some("kafka") if value_of(options, "--engine") == Some("flink") => {
            return needs_of_kafka(Kafka::BridgeAndFlink);
        }
        Some("kafka") => return needs_of_kafka(Kafka::Bridge),
        Some("python") => return Needs { installed: vec![&setup::MATURIN], ..Needs::default() },
        Some("jvm") => return Needs { installed: vec![&setup::Jdk], ..Needs::default() },
        Some("ns3") => return Needs { installed: vec![&setup::NS3], ..Needs::default() },
        _ => return Needs::default(),
    };
    Needs {
        installed: installed.to_vec(),
        programs: unless_given(options, programs_option),
        ..Needs::default()
    }
}

fn needs_of_training(options: &[OsString]) -> Needs {
    let installed: Vec<Need> =
        vec![&setup::IPROUTE2, &setup::ETHTOOL, &setup::Torch, &setup::MATURIN];
    let programs = unless_given(options, "--daemon");
    Needs { installed, programs, torch: true, ..Needs::default() }
}

fn needs_of_kafka(kafka: Kafka) -> Needs {
    let installed: Vec<Need> = vec![&setup::IPROUTE2, &KAFKA_JARS, &setup::LIBRDKAFKA];
    Needs { installed, programs: Programs::IfPossible, kafka, ..Needs::default() }
}

fn unless_given(options: &[OsString], option: &str) -> Programs {
    if value_of(options, option).is_some() { Programs::No } else { Programs::Yes }
}

fn asks_for_help(options: &[OsString]) -> bool {
    let own = options.iter().take_while(|word| *word != "--");
    own.into_iter().any(|word| word == "--help" || word == "-h")
}

/// The value of `--option VALUE` or `--option=VALUE`.
fn value_of<'a>(options: &'a [OsString], option: &str) -> Option<&'a str> {
    let own = options.iter().take_while(|word| *word != "--");
    let mut words = own.map(|word| word.to_str().unwrap_or_default());
    let is_value = |rest: &&str| rest.is_empty() || rest.starts_with('=');
    let rest = words.by_ref().find_map(|word| word.strip_prefix(option).filter(is_value))?;
    rest.strip_prefix('=').or_else(|| words.next()).or(Some(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn value_of__finds_both_spellings() {
        let options = words("--seed 2 --input=a.csv -- --json x");
        for (option, value) in
            [("--seed", Some("2")), ("--input", Some("a.csv")), ("--in", None), ("--json", None)]
        {
            assert_eq!(value_of(&options, option), value, "{option}");
        }
        assert_eq!(value_of(&words("--input"), "--input"), Some(""));
    }

    #[test]
    fn needs_of_run__only_what_the_job_uses() {
        let (no, yes) = (Programs::No, Programs::Yes);
        let both: &[Need] = &[&setup::IPROUTE2, &setup::Dataset];
        for (options, is_root, installed, programs) in [
            ("", true, both, Programs::IfPossible),
            ("", false, both, no),
            ("--input a.csv --schemes tcp-early-send,udp", true, &both[..1], no),
            ("--iface eth0", true, &[], yes),
        ] {
            let expected = Needs { installed: installed.to_vec(), programs, ..Needs::default() };
            assert_eq!(needs_of_run(&words(options), is_root), expected, "{options}");
        }
    }

    #[test]
    fn needs_of_bench__by_name() {
        assert_eq!(needs_of_bench(&words("--help")), Needs::default());
        assert_eq!(needs_of_bench(&words("datapath")).programs, Programs::Yes);
        assert_eq!(needs_of_bench(&words("datapath --object x.o")).programs, Programs::No);
        assert!(needs_of_bench(&words("library")).installed.contains(&(&setup::IPERF3 as Need)));
        assert_eq!(needs_of_bench(&words("ns3")).installed, [&setup::NS3 as Need]);
        assert_eq!(needs_of_bench(&words("answers --frame")).installed, [&setup::MATURIN as Need]);
    }

    #[test]
    fn needs_of_training__also_for_the_demonstration() {
        let bench = needs_of_bench(&words("training --ranks 2"));
        assert_eq!(bench, needs_of_run(&words("--engine torch"), true));
        assert!(bench.torch && bench.installed.contains(&(&setup::Torch as Need)));
        assert_eq!(bench.programs, Programs::Yes);
        assert_eq!(needs_of_bench(&words("training --daemon x")).programs, Programs::No);
    }

    #[test]
    fn needs_of_kafka__also_for_the_demonstration() {
        let bench = needs_of_bench(&words("kafka --loads 1.5"));
        assert_eq!(bench, needs_of_run(&words("--engine kafka"), true));
        assert!(bench.kafka == Kafka::Bridge && bench.installed.contains(&(&KAFKA_JARS as Need)));
        assert!(bench.installed.contains(&(&setup::LIBRDKAFKA as Need)));
        assert_eq!((bench.programs, bench.torch), (Programs::IfPossible, false));
        let flink = needs_of_bench(&words("kafka --engine=flink"));
        assert_eq!(flink, needs_of_run(&words("--engine flink"), true));
        assert_eq!(flink, Needs { kafka: Kafka::BridgeAndFlink, ..bench });
    }

    #[test]
    fn asks_for_help__not_after_the_daemon_s_options_begin() {
        assert!(asks_for_help(&words("library --help")));
        assert!(!asks_for_help(&words("--iface eth0 -- --help")));
    }
}
