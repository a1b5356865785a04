//! The requirements of the Kafka bridge: those of librdkafka's build, and for tests with real
//! brokers the jars of Kafka.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::find_command;
use super::{Jdk, Need, Provider, jdk, paths, shell};

/// Names the versions of the jars.
const POM: &str = include_str!("../../../integrations/kafka/broker/pom.xml");
const POM_PATH: &str = "integrations/kafka/broker/pom.xml";
/// Maven's goal, of the plugin's version in the POM.
const COPY: &str = "dependency:copy-dependencies";

/// Rust's binding builds its own librdkafka, with `configure` and `make`, against the system's
/// OpenSSL. It carries zstd, and zlib for systems without it.
pub struct Librdkafka;

/// The jars of a broker, from Maven Central.
pub struct KafkaJars;

impl Provider for Librdkafka {
    fn name(&self) -> String {
        "the compilers and headers for librdkafka".to_owned()
    }

    fn probe(&self) -> Option<String> {
        let has = |command: &&str| find_command(command).is_some();
        // The tests make certificates with the last one.
        let has_commands = ["cc", "c++", "make", "pkg-config", "openssl"].iter().all(has);
        let openssl =
            || shell::output(Command::new("pkg-config").args(["--modversion", "openssl"]));
        has_commands.then(openssl)?.ok().map(|version| format!("OpenSSL {}", version.trim()))
    }

    fn debian_packages(&self) -> Vec<String> {
        ["g++", "make", "pkg-config", "libssl-dev", "openssl"].map(str::to_owned).to_vec()
    }

    fn by_hand(&self) -> String {
        "your package manager for C and C++ compilers, make, pkg-config and OpenSSL with its \
         headers (Fedora: `dnf install gcc-c++ make pkgconf openssl openssl-devel`)"
            .to_owned()
    }
}

impl KafkaJars {
    /// The folder of the jars. It is complete if it is there.
    pub fn folder() -> PathBuf {
        paths().target.join("kafka").join(version())
    }
}

impl Provider for KafkaJars {
    fn name(&self) -> String {
        format!("the jars of Kafka {}", version())
    }

    fn requires(&self) -> &'static [Need] {
        &[&Jdk]
    }

    fn probe(&self) -> Option<String> {
        let folder = KafkaJars::folder();
        folder.is_dir().then(|| folder.display().to_string())
    }

    fn plan(&self) -> String {
        let folder = KafkaJars::folder();
        format!(
            "downloading Kafka {} from Maven Central into {}: 45 jars, 43 MB",
            version(),
            folder.display()
        )
    }

    fn install(&self) -> Result<()> {
        let folder = KafkaJars::folder();
        let parent = folder.parent().context("the folder of the jars has no parent")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("can't make the folder {}", parent.display()))?;
        let scratch = tempfile::tempdir_in(parent)?;
        let jars = scratch.path().join("jars");
        let mut maven = jdk::maven();
        maven.args(["-B", "-ntp", "-q", "-Dstyle.color=never", COPY, "-f"]);
        maven.arg(paths().workspace.join(POM_PATH));
        maven.arg(format!("-DoutputDirectory={}", jars.display()));
        shell::output(&mut maven).context("Maven can't download the jars")?;
        std::fs::rename(&jars, &folder)
            .with_context(|| format!("can't move the jars to {}", folder.display()))
    }

    fn by_hand(&self) -> String {
        format!("mvn -f {POM_PATH} {COPY} -DoutputDirectory={}", KafkaJars::folder().display())
    }
}

/// Kafka's version in the POM.
fn version() -> &'static str {
    let (_, rest) = POM.split_once("<kafka.version>").unwrap_or_default();
    rest.split('<').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version__is_the_pom_s() {
        assert!(super::super::version(version()).is_some(), "{:?}", version());
        assert!(KafkaJars::folder().ends_with(format!("kafka/{}", version())));
    }
}
