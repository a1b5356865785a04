//! A Java development kit, and Maven: from the system's packages.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::machine::find_command;
use super::{Provider, paths, shell};

/// The oldest Java that the library runs on.
const RELEASE_MIN: u32 = 17;
const MAVEN_CENTRAL: &str = "repo.maven.apache.org";
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

pub struct Jdk;

/// The kit's folder: that of JAVA_HOME or of the compiler on the PATH, if it is new enough.
pub fn java_home() -> Option<PathBuf> {
    let configured = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let on_path = || {
        // Each program may be a link to another version.
        let compiler = find_command("javac")?.canonicalize().ok()?;
        compiler.parent()?.parent().map(Path::to_path_buf)
    };
    configured.into_iter().chain(on_path()).find(|home| {
        let version = shell::output(Command::new(home.join("bin/javac")).arg("-version"));
        version.is_ok_and(|said| release(&said) >= Some(RELEASE_MIN))
    })
}

/// `mvn`, with that kit.
pub fn maven() -> Command {
    let mut maven = Command::new("mvn");
    maven.args(["-B", "-ntp", "-Dstyle.color=never"]);
    maven.envs(java_home().map(|home| ("JAVA_HOME", home)));
    // Unlike `-q`, this leaves the warnings, which are errors of a build.
    let options = std::env::var("MAVEN_OPTS").unwrap_or_default();
    maven.env("MAVEN_OPTS", options + " -Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    maven
}

/// `mvn` for the POM in that folder of the repository, with this version and target folder.
pub fn maven_at(folder: &str) -> Command {
    let mut maven = maven();
    maven.arg("-f").arg(paths().workspace.join(folder).join("pom.xml"));
    maven.arg(concat!("-Drevision=", env!("CARGO_PKG_VERSION")));
    maven.arg(format!("-Datp.target={}", paths().target.display()));
    maven
}

/// Whether Maven Central accepts connections.
pub fn reaches_maven_central() -> bool {
    let addresses = (MAVEN_CENTRAL, 443).to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|at| TcpStream::connect_timeout(&at, CONNECT_LIMIT).is_ok())
}

impl Provider for Jdk {
    fn name(&self) -> String {
        format!("a JDK {RELEASE_MIN} or newer with Maven")
    }

    fn probe(&self) -> Option<String> {
        Some(format!("{}, {}", java_home()?.display(), find_command("mvn")?.display()))
    }

    fn debian_packages(&self) -> Vec<String> {
        ["default-jdk-headless", "maven"].map(str::to_owned).to_vec()
    }

    fn plan(&self) -> String {
        format!("installing {} with apt: some 130 MB", self.debian_packages().join(", "))
    }

    fn by_hand(&self) -> String {
        format!("your package manager for Maven and a JDK {RELEASE_MIN}, and set JAVA_HOME to it")
    }
}

/// `javac 17.0.15`; before Java 9 it was `javac 1.8.0`.
fn release(said: &str) -> Option<u32> {
    said.strip_prefix("javac ")?.split(['.', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release__is_the_first_number() {
        for (said, expected) in
            [("javac 17.0.15", 17), ("javac 25", 25), ("javac 26-ea", 26), ("javac 1.8.0_44", 1)]
        {
            assert_eq!(release(said), Some(expected), "{said}");
        }
        assert_eq!(release(""), None);
    }
}
