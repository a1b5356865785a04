//! `cargo xtask jar`: the Java library `org.netapprox:atp`, with the native library inside, and the
//! connector of an engine.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::setup::{self, FLINK_JARS, Jdk, ZIG, ZIGBUILD, output};

/// The workspace's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIBRARY: &str = "libatp_jvm.so";
/// What Maven Central demands of a POM. The last two name the project's address.
const ELEMENTS: [&str; 8] =
    ["name", "description", "licenses", "developers", "groupId", "version", "url", "scm"];

/// The processors of a registry's jar. It runs with the glibc of the wheels, or a newer one.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];
const GLIBC: &str = "2.28";
const INSTALL: &str = "org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file";

/// The Java library.
pub const JAVA: Module = Module {
    artifact: "atp",
    source: "bindings/jvm/java",
    build: "maven",
    jars: &[".jar", "-sources.jar", "-javadoc.jar"],
};
/// The connector of Flink. The bundle has the library inside.
pub const FLINK: Module = Module {
    artifact: "atp-flink",
    source: "integrations/flink",
    build: "maven-flink",
    jars: &[".jar", "-bundle.jar", "-sources.jar", "-javadoc.jar"],
};

#[derive(clap::Args)]
pub struct Args {
    /// A jar that a registry takes: for glibc 2.28, x86-64 and aarch64, with the address of the
    /// public repository in the POM
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// Build the jars of the connector of this engine, too
    #[arg(long, value_enum, conflicts_with = "registry")]
    engine: Option<Engine>,
    /// Take the jars of the library from an earlier run
    #[arg(long, hide = true, requires = "engine")]
    without_library: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Engine {
    /// Apache Flink: a download, whose size is printed first
    Flink,
}

/// A Maven module.
pub struct Module {
    artifact: &'static str,
    /// The folder of its POM in the repository.
    pub source: &'static str,
    /// Maven's folder below the target folder.
    build: &'static str,
    /// The ends of the jars' names.
    jars: &'static [&'static str],
}

pub fn main(args: &Args) -> Result<()> {
    let url = args.registry.as_deref();
    let is_address = url.is_none_or(|url| url.starts_with("https://"));
    ensure!(is_address, "--registry takes the address of a public repository: https://...");
    setup::ensure(&[&Jdk])?;
    if args.engine.is_some() {
        setup::announce(&[&FLINK_JARS]);
    }
    for file in build(args)? {
        atp_output::note!("jar      {}", file.display());
    }
    Ok(())
}

/// Builds the connector of Flink, and returns a class path with it, its tests and Flink.
pub fn flink_class_path() -> Result<OsString> {
    build(&Args { registry: None, engine: Some(Engine::Flink), without_library: false })?;
    let bundle = jars_folder().join(FLINK.file_name("-bundle.jar"));
    let jars = fs::read_to_string(FLINK_JARS.path())?;
    let ours = [bundle, FLINK.test_classes()];
    Ok(env::join_paths(ours.into_iter().chain(env::split_paths(&jars)))?)
}

/// Builds the jars, and returns their paths.
fn build(args: &Args) -> Result<Vec<PathBuf>> {
    let url = args.registry.as_deref();
    let mut files = Vec::new();
    if !args.without_library {
        match url {
            Some(_) => place(&build_for_registry()?)?,
            None => place(&[build_native()?])?,
        }
        JAVA.run_maven(url)?;
        // Jars of an earlier version, perhaps.
        fs::remove_dir_all(jars_folder()).ok();
        files.extend(JAVA.collect(url.is_some())?);
    }
    if args.engine.is_some() {
        install_library()?;
        setup::ensure(&[&FLINK_JARS])?;
        FLINK.run_maven(None)?;
        check_library(&FLINK.test_class_path()?, &JAVA.jar())?;
        files.extend(FLINK.collect(false)?);
    }
    Ok(files)
}

fn jars_folder() -> PathBuf {
    setup::paths().target.join("jars")
}

/// A native library and its processor.
type Native = (&'static str, PathBuf);

fn build_native() -> Result<Native> {
    output(&mut build::cargo_beside_bench("build --locked --quiet --package atp-jvm --lib"))
        .context("can't build the native library")?;
    Ok((env::consts::ARCH, setup::paths().target.join("release").join(LIBRARY)))
}

/// Builds the native libraries with Zig's linker, which has the symbols of older glibcs.
fn build_for_registry() -> Result<[Native; 2]> {
    setup::ensure(&[&ZIG, &ZIGBUILD])?;
    let paths = setup::paths();
    for processor in PROCESSORS {
        let mut build = setup::cargo_at(&ZIGBUILD.path());
        build.args(["zigbuild", "--release", "--locked", "--quiet", "--package", "atp-jvm"]);
        build.args(["--target", &format!("{}.{GLIBC}", triple(processor)), "--target-dir"]);
        build.arg(&paths.target).current_dir(&paths.workspace).env_remove("RUSTFLAGS");
        build.env("CARGO", setup::cargo().get_program());
        build.env("CARGO_ZIGBUILD_PYTHON_PATH", paths.venv.join("bin/python"));
        output(&mut build).with_context(|| format!("no native library for {processor}"))?;
    }
    let built = |processor| paths.target.join(triple(processor)).join("release").join(LIBRARY);
    Ok(PROCESSORS.map(|processor| (processor, built(processor))))
}

fn triple(processor: &str) -> String {
    format!("{processor}-unknown-linux-gnu")
}

/// Puts the native libraries where Maven takes resources from.
fn place(libraries: &[Native]) -> Result<()> {
    let resources = setup::paths().target.join("jvm-native");
    fs::remove_dir_all(&resources).ok();
    for (processor, library) in libraries {
        let folder = resources.join(format!("META-INF/native/linux-{processor}"));
        fs::create_dir_all(&folder)?;
        fs::copy(library, folder.join(LIBRARY))
            .with_context(|| format!("can't copy {}", library.display()))?;
    }
    Ok(())
}

impl Module {
    /// The path of the jar that was built last.
    pub fn jar(&self) -> PathBuf {
        jars_folder().join(self.file_name(".jar"))
    }

    /// The compiled tests.
    pub fn test_classes(&self) -> PathBuf {
        self.maven_folder().join("test-classes")
    }

    /// The jars that the tests need.
    pub fn test_class_path(&self) -> Result<String> {
        fs::read_to_string(self.maven_folder().join("test-classpath"))
            .context("Maven wrote no class path of the tests")
    }

    fn maven_folder(&self) -> PathBuf {
        setup::paths().target.join(self.build)
    }

    fn file_name(&self, end: &str) -> String {
        format!("{}-{VERSION}{end}", self.artifact)
    }

    fn run_maven(&self, url: Option<&str>) -> Result<()> {
        // Classes of removed sources would get into the jar.
        fs::remove_dir_all(self.maven_folder()).ok();
        let mut maven = setup::maven_at(self.source);
        maven.args(["-DskipTests", "package"]).args(url.map(|url| format!("-Datp.url={url}")));
        output(&mut maven).with_context(|| format!("can't build {}", self.file_name(".jar")))?;
        Ok(())
    }

    /// Copies the files of a registry out of Maven's folder. Signatures and checksums are those of
    /// the person who publishes them.
    fn collect(&self, is_for_registry: bool) -> Result<Vec<PathBuf>> {
        let (from, to) = (self.maven_folder(), jars_folder());
        let pom = fs::read_to_string(from.join("published.pom"))?;
        check(&pom, is_for_registry)?;
        fs::create_dir_all(&to)?;
        let copy = |(from, to): (PathBuf, PathBuf)| {
            fs::copy(&from, &to).with_context(|| format!("Maven made no {}", from.display()))?;
            Ok(to)
        };
        let jars = self.jars.iter().map(|end| self.file_name(end));
        let jars = jars.map(|name| (from.join(&name), to.join(name)));
        let pom = (from.join("published.pom"), to.join(self.file_name(".pom")));
        jars.chain([pom]).map(copy).collect()
    }
}

/// Puts the library into Maven's local repository, where the connector's build looks for it.
fn install_library() -> Result<()> {
    let jar = JAVA.jar();
    let mut install = setup::maven();
    install.arg(INSTALL).arg(format!("-Dfile={}", jar.display()));
    install.arg(format!("-DpomFile={}", jar.with_extension("pom").display()));
    output(&mut install).context("can't put the Java library into Maven's local repository")?;
    Ok(())
}

/// Refuses a connector that was built on the library of another clone: Maven's local repository
/// belongs to all clones of a user.
fn check_library(class_path: &str, built: &Path) -> Result<()> {
    let is_it = |jar: &&str| Path::new(jar).file_name() == built.file_name();
    let used = class_path.split(':').find(is_it).context("no class path has the Java library")?;
    let is_ours = fs::read(used)? == fs::read(built)?;
    ensure!(is_ours, "another clone has put its library at {used} meanwhile: run this again");
    Ok(())
}

/// Refuses a POM that a registry would refuse.
fn check(pom: &str, is_for_registry: bool) -> Result<()> {
    let demanded = if is_for_registry { &ELEMENTS[..] } else { &ELEMENTS[..ELEMENTS.len() - 2] };
    let has = |element: &str| pom.contains(&format!("\n  <{element}>"));
    let missing: Vec<&str> = demanded.iter().copied().filter(|name| !has(name)).collect();
    ensure!(missing.is_empty(), "a registry would refuse the POM without {}", missing.join(", "));
    ensure!(!pom.contains("${"), "the POM has a property without a value");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_library__refuses_that_of_another_clone() {
        let folder = tempfile::tempdir().unwrap();
        let [built, used] =
            ["target/atp.jar", "repository/atp.jar"].map(|at| folder.path().join(at));
        for (jar, bytes) in [(&built, "ours"), (&used, "ours")] {
            fs::create_dir_all(jar.parent().unwrap()).unwrap();
            fs::write(jar, bytes).unwrap();
        }
        let class_path = format!("a.jar:{}:b.jar", used.display());
        check_library(&class_path, &built).unwrap();
        fs::write(&used, "theirs").unwrap();
        let error = check_library(&class_path, &built).unwrap_err().to_string();
        assert!(error.starts_with("another clone"), "{error}");
        assert!(check_library("a.jar:b.jar", &built).is_err());
    }

    #[test]
    fn check__names_what_a_registry_would_miss() {
        let pom: String = ELEMENTS.map(|name| format!("\n  <{name}>x</{name}>")).concat();
        check(&pom, true).unwrap();
        let no_address = pom.replace("  <url>", "").replace("  <scm>", "");
        check(&no_address, false).unwrap();
        let error = check(&no_address, true).unwrap_err().to_string();
        assert!(error.ends_with("without url, scm"), "{error}");
        assert!(check(&pom.replace('x', "${revision}"), true).is_err());
    }
}
