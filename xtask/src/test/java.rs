//! The tests in Java: of the library, with the samples of its guide, and of Flink's connector, with
//! the jars as users have them. A program runs a module's tests in one JVM, and prints outcomes as
//! Rust's tests do.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Choice, FILTER_VARIABLE, Rung, compile, logs};
use crate::jar::{self, Module};
use crate::setup::{self, FLINK_JARS, Jdk, Need};
use test_report::{Failure, Reader, Skip, Tally, watch};

const LIMIT: Duration = Duration::from_secs(20 * 60);
/// One of the tests of the library, which run it as well.
const PROGRAM: &str = "org.netapprox.atp.testing.RunTests";
/// Names a tag. The tests that have it are left out.
const WITHOUT_TAG_VARIABLE: &str = "ATP_TEST_WITHOUT_TAG";
/// The tag of tests that run with `--engine` only.
const ENGINE_TAG: &str = "engine";
/// Checks assertions and the calls of JNI. A crash leaves no memory image in the source tree. Most
/// code runs briefly, such as Kotlin's compiler: optimizing it takes longer than it saves.
const OPTIONS: [&str; 4] =
    ["-ea", "-Xcheck:jni", "-XX:-CreateCoredumpOnCrash", "-XX:TieredStopAtLevel=1"];
/// Lines that a JVM prints about a wrong call of JNI, before it goes on.
const JNI_WARNINGS: [&str; 2] = ["WARNING in native method", "WARNING: JNI local refs"];

/// The tests of a module.
pub struct Suite {
    /// Begins the names of logs.
    name: &'static str,
    /// The thing that is tested.
    what: &'static str,
    /// The module behind those that it depends on.
    modules: &'static [&'static Module],
    needs: &'static [Need],
    /// Further options of the JVM, with white space between them.
    options: fn() -> &'static str,
}

pub const JAVA: Suite = Suite {
    name: "java",
    what: "the Java library",
    modules: &[&jar::JAVA],
    needs: &[&Jdk],
    options: || "",
};
pub const FLINK: Suite = Suite {
    name: "flink",
    what: "the Flink connector",
    modules: &[&jar::JAVA, &jar::FLINK],
    needs: &[&FLINK_JARS],
    options: || FLINK_JARS.element("argLine"),
};

/// The jars are there, or the reason why they can't be built.
pub type Built = Result<(), String>;

impl Suite {
    /// Builds the jars by `cargo xtask jar` with `options`.
    pub fn build(&self, options: &[&str]) -> Result<Built> {
        if let Err(why) = setup::obtainable(self.needs) {
            return Ok(Err(format!("needs jdk: {why}")));
        }
        atp_output::note!("building the jars of {}", self.what);
        setup::ensure(&[&Jdk])?;
        setup::announce(self.needs);
        // A process of its own ends with an interrupt.
        let mut build = Command::new(std::env::current_exe()?);
        build.arg("jar").args(options);
        let mut missing = None;
        let built = compile::run(&format!("{}-jars", self.name), build, |line| {
            missing = missing.take().or_else(|| missing_file(line).map(str::to_owned));
        });
        match missing {
            Some(why) if built.is_err() => Ok(Err(format!("needs maven_central: {why}"))),
            _ => built.map(Ok),
        }
    }

    pub fn run(&self, built: &Built, choice: &Choice) -> Result<Rung> {
        match built {
            Ok(()) => self.run_tests(choice).map(Rung::here),
            Err(why) => Ok(Rung::skipped(Skip::new(self.what, why))),
        }
    }

    fn run_tests(&self, choice: &Choice) -> Result<Tally> {
        atp_output::note!("tests of {}", self.what);
        let log = choice.log_path(self.name)?;
        let crash = log.with_file_name(format!("{}-crash.log", self.name));
        std::fs::remove_file(&crash).ok();
        let mut reader = Reader::new(self.name, choice.filter);
        let mut warnings = Vec::new();
        let end = watch::run(self.program(&crash, choice)?, &log, LIMIT, |line| {
            if JNI_WARNINGS.iter().any(|warning| line.starts_with(warning)) {
                warnings.push(Failure::Other(format!("{}: {line}", self.name)));
            }
            reader.line(line);
        })?;
        let trouble = end.trouble.map(|how| match std::fs::read_to_string(&crash) {
            Ok(report) => format!("{how}, {}", cause(&report)),
            Err(_) => how,
        });
        let mut tally = reader.finish(trouble);
        tally.failures.extend(warnings);
        atp_output::note!("  {}: {}", self.name, tally.summary());
        logs::show_failures([&tally], &log);
        Ok(tally)
    }

    fn program(&self, crash: &Path, choice: &Choice) -> Result<Command> {
        let module = self.modules.last().context("a suite has no module")?;
        // This tree's jars first: Maven's class path has the library that was installed last.
        let jars = self.modules.iter().map(|module| module.jar());
        let tests = self.modules.iter().map(|module| module.test_classes());
        let ours = jars.chain(tests).map(|path| path.display().to_string());
        let class_path: Vec<String> = ours.chain([module.test_class_path()?]).collect();
        let mut java =
            Command::new(setup::java_home().context("the JDK is gone")?.join("bin/java"));
        java.args(OPTIONS).arg(format!("-XX:ErrorFile={}", crash.display()));
        java.args((self.options)().split_whitespace());
        java.args(["-cp", &class_path.join(":"), PROGRAM]).arg(module.test_classes());
        java.current_dir(setup::paths().workspace.join(module.source));
        java.env(FILTER_VARIABLE, choice.filter.unwrap_or_default());
        java.env(WITHOUT_TAG_VARIABLE, if choice.engine.is_none() { ENGINE_TAG } else { "" });
        Ok(java)
    }
}

/// The file that couldn't be downloaded and the reason, if that is in Maven's line.
fn missing_file(line: &str) -> Option<&str> {
    line[line.find("Could not transfer artifact")?..].split(" -> [").next()
}

/// The signal and the function in the head of a JVM's report of its crash.
fn cause(report: &str) -> String {
    let mut lines = report.lines().filter_map(|line| line.strip_prefix('#')).map(str::trim);
    let signal = lines.find(|line| line.contains(" at pc=") || line.contains("Error"));
    let frame = lines.skip_while(|line| *line != "Problematic frame:").nth(1);
    [signal, frame].into_iter().flatten().collect::<Vec<_>>().join(" in ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file__is_in_an_error_of_maven() {
        let what =
            "Could not transfer artifact a:b:pom:1 from/to central (https://c): Unknown host";
        let line = format!("[ERROR] Plugin a:b:1 could not be resolved: {what} -> [Help 1]");
        assert_eq!(missing_file(&line), Some(what));
        assert_eq!(missing_file("[ERROR] Could not find artifact a:b:jar:1 in central"), None);
    }

    #[test]
    fn cause__is_the_signal_and_the_function() {
        let report = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n\
             #  SIGSEGV (0xb) at pc=0x00007f, pid=7, tid=8\n#\n# JRE version: 17\n\
             # Problematic frame:\n# C  [libatp_jvm.so+0x12]  send+0x2\n#\n# No core dump\n";
        let expected =
            "SIGSEGV (0xb) at pc=0x00007f, pid=7, tid=8 in C  [libatp_jvm.so+0x12]  send+0x2";
        assert_eq!(cause(report), expected);
        assert_eq!(cause(""), "");
    }
}
