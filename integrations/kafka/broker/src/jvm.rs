//! The command lines of Kafka's programs, each in a JVM.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use testbed::Process;

use crate::properties;

/// The kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'a> {
    /// Writes the identity of a cluster, and the users' credentials, into a new folder.
    Format { scram_users: &'a [String] },
    /// The broker.
    Serve,
}

/// The words of its log with which a broker says that it answers.
pub const STARTED: &str = "Kafka Server started";

/// The cluster's identity: 16 bytes, in base64.
const CLUSTER: &str = "QVRQLWthZmthLWJyb2tlcg";
const MEMORY: &str = "-Xmx256m";
/// The collector with the smallest footprint. No file is left elsewhere, even if the JVM is killed:
/// no performance data, and native libraries are unpacked in the broker's folder.
const OPTIONS: [&str; 5] = [
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:ErrorFile=crash.log",
    "-Djava.io.tmpdir=.",
];
/// Warnings and errors, with the time of day, and the line that says that the broker answers.
const LOG_OPTIONS: [&str; 4] = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
];

/// The program runs for a second: compiling it well takes longer than it saves.
const FORMAT_OPTIONS: [&str; 1] = ["-XX:TieredStopAtLevel=1"];
const FORMAT: [&str; 6] =
    ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", properties::FILE];
const SERVE: [&str; 2] = ["kafka.Kafka", properties::FILE];

/// Makes the command that starts a program, perhaps inside another network.
#[derive(Clone)]
pub struct Launcher(pub Arc<dyn Fn(&Path) -> Command + Send + Sync>);

/// A JVM and the jars.
#[derive(Clone, Debug)]
pub struct Jvm {
    class_path: OsString,
    java: PathBuf,
    launcher: Launcher,
}

impl Jvm {
    /// `jars` is a folder.
    ///
    /// # Errors
    /// The folder has no jar of Kafka.
    pub fn new(jars: &Path, launcher: Launcher) -> Result<Jvm> {
        let what_to_do = "`cargo xtask test --engine kafka` downloads the jars";
        let folder = jars.canonicalize();
        let folder = folder
            .with_context(|| format!("there is no folder {}: {what_to_do}", jars.display()))?;
        let names = std::fs::read_dir(&folder)
            .with_context(|| format!("can't read the folder {}", folder.display()))?;
        let is_broker = |name: &str| name.starts_with("kafka_") && name.ends_with(".jar");
        let has_broker =
            names.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_broker));
        ensure!(has_broker, "no jar of Kafka is in {}: {what_to_do}", folder.display());
        ensure!(
            !folder.as_os_str().as_encoded_bytes().contains(&b':'),
            "Java takes no jars from a folder with a colon in its path, {}: move it",
            folder.display()
        );
        let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
        let java = home.map_or_else(|| "java".into(), |home| Path::new(&home).join("bin/java"));
        Ok(Jvm { class_path: folder.join("*").into(), java, launcher })
    }

    /// Starts `program` in the folder of a broker.
    ///
    /// # Errors
    /// There is no JVM.
    pub fn start(&self, program: Program<'_>, folder: &Path) -> Result<Process> {
        Process::captured("java", self.command(program, folder))
            .context("Kafka needs Java 17 or newer, on the PATH or in JAVA_HOME")
    }

    fn command(&self, program: Program<'_>, folder: &Path) -> Command {
        let mut command = (self.launcher.0)(&self.java);
        command.current_dir(folder).arg(MEMORY).args(OPTIONS);
        let (options, words): (&[&str], &[&str]) = match program {
            Program::Format { .. } => (&FORMAT_OPTIONS, &FORMAT),
            Program::Serve => (&LOG_OPTIONS, &SERVE),
        };
        command.args(options).arg("-cp").arg(&self.class_path).args(words);
        if let Program::Format { scram_users } = program {
            scram_users.iter().for_each(|user| _ = command.args(["--add-scram", user]));
        }
        command
    }
}

impl Default for Launcher {
    fn default() -> Launcher {
        Launcher(Arc::new(|program| Command::new(program)))
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launcher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(jar: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(jar), "").unwrap();
        folder
    }

    #[test]
    fn new__a_folder_without_kafka_is_refused() {
        let jars = folder_with("kafka-clients-4.4.0.jar");
        for folder in [jars.path(), &jars.path().join("absent")] {
            let error = Jvm::new(folder, Launcher::default()).unwrap_err().to_string();
            assert!(error.ends_with("`cargo xtask test --engine kafka` downloads the jars"));
        }
        std::fs::create_dir(jars.path().join("a:b")).unwrap();
        std::fs::write(jars.path().join("a:b/kafka_2.13-4.4.0.jar"), "").unwrap();
        let folder = jars.path().join("a:b");
        let error = Jvm::new(&folder, Launcher::default()).unwrap_err().to_string();
        assert!(error.contains("a colon in its path"), "{error}");
    }

    #[test]
    fn command__options_of_the_jvm_come_before_the_program() {
        let jars = folder_with("kafka_2.13-4.4.0.jar");
        let launcher = Launcher(Arc::new(|program| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", "a"]).arg(program);
            command
        }));
        let jvm = Jvm::new(jars.path(), launcher).unwrap();
        let (place, users) = (Path::new("/broker"), ["a".to_owned()]);
        for (program, main, last) in [
            (
                Program::Format { scram_users: &[] },
                "kafka.tools.StorageTool",
                "--config server.properties",
            ),
            (Program::Format { scram_users: &users }, "kafka.tools.StorageTool", "--add-scram a"),
            (Program::Serve, "kafka.Kafka", "kafka.Kafka server.properties"),
        ] {
            let command = jvm.command(program, place);
            assert_eq!(command.get_program(), "ip");
            assert_eq!(command.get_current_dir(), Some(place));
            let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words[..3], ["netns", "exec", "a"]);
            assert!(words[3].ends_with("java"), "{}", words[3]);
            let at = |word| words.iter().position(|other| *other == word).unwrap();
            assert!(at("-Xmx256m") < at("-cp") && at("-cp") + 2 == at(main));
            assert!(words[at("-cp") + 1].ends_with("/*"));
            assert!(words.join(" ").ends_with(last));
        }
    }
}
