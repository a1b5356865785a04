//! The tests of the Java library: JUnit's, and the samples of its guide, with the jar as users have
//! it. A program among them runs them in one JVM, and prints outcomes as Rust's tests do.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::capability::Place;
use super::{Choice, FILTER_VARIABLE, Rung, compile, stage};
use crate::jar;
use crate::setup::{self, Jdk};
use test_report::{Failure, Reader, Skip, Tally};

const LIMIT: Duration = Duration::from_secs(20 * 60);
const PROGRAM: &str = "org.netapprox.atp.testing.RunTests";
/// Checks assertions and the calls of JNI. A crash leaves no memory image in the source tree. Most
/// code runs briefly, such as Kotlin's compiler: optimizing it takes longer than it saves.
const OPTIONS: [&str; 4] =
    ["-ea", "-Xcheck:jni", "-XX:-CreateCoredumpOnCrash", "-XX:TieredStopAtLevel=1"];
/// Lines that a JVM prints about a wrong call of JNI, before it goes on.
const JNI_WARNINGS: [&str; 2] = ["WARNING in native method", "WARNING: JNI local refs"];

/// The jars are there, or the reason why they can't be built.
pub type Built = Result<(), String>;

pub fn build() -> Result<Built> {
    if let Err(why) = setup::obtainable(&[&Jdk]) {
        return Ok(Err(why));
    }
    atp_output::note!("building the jars of the Java library");
    setup::ensure(&[&Jdk])?;
    // A process of its own ends with an interrupt.
    let mut build = Command::new(std::env::current_exe()?);
    build.arg("jar");
    compile::run("jars", build, |_| {})?;
    Ok(Ok(()))
}

pub fn run(built: &Built, choice: &Choice) -> Result<Rung> {
    let tally = match built {
        Ok(()) => run_tests(choice)?,
        Err(why) => {
            let skip = Skip::new("the Java library", &format!("needs jdk: {why}"));
            Tally { skips: vec![skip], ..Tally::default() }
        }
    };
    Ok(Rung { place: Place::host(), tally })
}

fn run_tests(choice: &Choice) -> Result<Tally> {
    atp_output::note!("tests in bindings/jvm");
    let log = choice.log_path("java")?;
    let crash = log.with_file_name("java-crash.log");
    std::fs::remove_file(&crash).ok();
    let mut reader = Reader::new("java", choice.filter);
    let mut warnings = Vec::new();
    let end = stage::run(program(&crash, choice)?, &log, LIMIT, |line| {
        if JNI_WARNINGS.iter().any(|warning| line.starts_with(warning)) {
            warnings.push(Failure::Other(format!("java: {line}")));
        }
        reader.line(line);
    })?;
    let trouble = end.trouble.map(|how| match std::fs::read_to_string(&crash) {
        Ok(report) => format!("{how}, {}", cause(&report)),
        Err(_) => how,
    });
    let mut tally = reader.finish(trouble);
    tally.failures.extend(warnings);
    atp_output::note!("  java: {}", tally.summary());
    stage::show_failures([&tally], &log);
    Ok(tally)
}

fn program(crash: &Path, choice: &Choice) -> Result<Command> {
    let maven = jar::maven_folder();
    let dependencies = std::fs::read_to_string(maven.join("test-classpath"))
        .context("Maven wrote no class path of the tests")?;
    let tests = maven.join("test-classes");
    let class_path = format!("{}:{}:{dependencies}", jar::built().display(), tests.display());
    let mut java = Command::new(setup::java_home().context("the JDK is gone")?.join("bin/java"));
    java.args(OPTIONS).arg(format!("-XX:ErrorFile={}", crash.display()));
    java.args(["-cp", &class_path, PROGRAM]).arg(tests);
    java.current_dir(setup::paths().workspace.join("bindings/jvm/java"));
    java.env(FILTER_VARIABLE, choice.filter.unwrap_or_default());
    Ok(java)
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
