//! The jars of engines, from Maven Central: Kafka's brokers, for tests, and Flink, on which its
//! connector is compiled and tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Jdk, Need, Provider, jdk, paths, shell};

/// The jars that a POM of this repository names.
pub struct EngineJars {
    engine: &'static str,
    /// The folder of the POM, and its text.
    folder: &'static str,
    pom: &'static str,
    /// The element of the POM with the version.
    version: &'static str,
    /// Maven's goal, of the plugin's version in the POM, and the option that names its output.
    goal: [&'static str; 2],
    /// The download.
    size: &'static str,
}

/// A folder with the jars of a broker.
pub const KAFKA_JARS: EngineJars = EngineJars {
    engine: "Kafka",
    folder: "integrations/kafka/broker",
    pom: include_str!("../../../integrations/kafka/broker/pom.xml"),
    version: "kafka.version",
    goal: ["dependency:copy-dependencies", "outputDirectory"],
    size: "45 jars, 43 MB",
};
/// A list of jars in Maven's local repository. The Java library must be there before.
pub const FLINK_JARS: EngineJars = EngineJars {
    engine: "Flink",
    folder: "integrations/flink",
    pom: include_str!("../../../integrations/flink/pom.xml"),
    version: "flink.version",
    goal: ["dependency:build-classpath", "mdep.outputFile"],
    size: "68 jars, 165 MB",
};

impl EngineJars {
    /// The folder or the list. The jars are complete if it is there.
    pub fn path(&self) -> PathBuf {
        paths().target.join(self.engine.to_lowercase()).join(self.element(self.version))
    }

    /// The text of an element of the POM.
    pub fn element(&self, name: &str) -> &'static str {
        let (_, rest) = self.pom.split_once(&format!("<{name}>")).unwrap_or_default();
        rest.split('<').next().unwrap_or_default()
    }

    fn maven(&self, output: &Path) -> Command {
        let mut maven = jdk::maven_at(self.folder);
        let [goal, option] = self.goal;
        maven.arg(goal).arg(format!("-D{option}={}", output.display()));
        maven
    }
}

impl Provider for EngineJars {
    fn name(&self) -> String {
        format!("the jars of {} {}", self.engine, self.element(self.version))
    }

    fn requires(&self) -> &'static [Need] {
        &[&Jdk]
    }

    fn probe(&self) -> Option<String> {
        Some(self.path()).filter(|path| path.exists()).map(|path| path.display().to_string())
    }

    fn plan(&self) -> String {
        let (engine, version) = (self.engine, self.element(self.version));
        format!(
            "downloading {engine} {version} from Maven Central: {}, unless Maven has them",
            self.size
        )
    }

    fn install(&self) -> Result<()> {
        let path = self.path();
        let parent = path.parent().context("the path of the jars has no folder")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("can't make the folder {}", parent.display()))?;
        let scratch = tempfile::tempdir_in(parent)?;
        let jars = scratch.path().join("jars");
        shell::output(&mut self.maven(&jars)).context("Maven can't download the jars")?;
        std::fs::rename(&jars, &path)
            .with_context(|| format!("can't move the jars to {}", path.display()))
    }

    fn by_hand(&self) -> String {
        shell::shown(&self.maven(&self.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path__has_the_version_of_the_pom() {
        for (jars, folder) in [(KAFKA_JARS, "kafka"), (FLINK_JARS, "flink")] {
            let version = jars.element(jars.version);
            assert!(shell::version(version).is_some(), "{version:?}");
            assert!(jars.path().ends_with(Path::new(folder).join(version)));
        }
    }

    #[test]
    fn element__has_the_options_of_a_jvm() {
        let options = FLINK_JARS.element("argLine");
        assert!(options.contains("-Xmx"), "{options}");
        assert!(options.split_whitespace().all(|option| option.starts_with('-')), "{options}");
        assert_eq!(KAFKA_JARS.element("argLine"), "");
    }
}
