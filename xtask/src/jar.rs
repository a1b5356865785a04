//! `cargo xtask jar`: the Java library `org.netapprox:atp`, with the native library inside.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::setup::{self, Jdk, ZIG, ZIGBUILD, output};

/// The workspace's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIBRARY: &str = "libatp_jvm.so";
/// What Maven Central demands of a POM. The last two name the project's address.
const ELEMENTS: [&str; 8] =
    ["name", "description", "licenses", "developers", "groupId", "version", "url", "scm"];

/// The processors of a registry's jar. It runs with the glibc of the wheels, or a newer one.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];
const GLIBC: &str = "2.28";

#[derive(clap::Args)]
pub struct Args {
    /// A jar that a registry takes: for glibc 2.28, x86-64 and aarch64, with the address of the
    /// public repository in the POM
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

pub fn main(args: &Args) -> Result<()> {
    let url = args.registry.as_deref();
    let is_address = url.is_none_or(|url| url.starts_with("https://"));
    ensure!(is_address, "--registry takes the address of a public repository: https://...");
    setup::ensure(&[&Jdk])?;
    match url {
        Some(_) => place(&build_for_registry()?)?,
        None => place(&[build_native()?])?,
    }
    run_maven(url)?;
    for file in collect(url.is_some())? {
        atp_output::note!("jar      {}", file.display());
    }
    Ok(())
}

/// Maven's folder, with the compiled tests.
pub fn maven_folder() -> PathBuf {
    setup::paths().target.join("maven")
}

/// The path of the jar that was built last.
pub fn built() -> PathBuf {
    jars_folder().join(file_name(".jar"))
}

fn jars_folder() -> PathBuf {
    setup::paths().target.join("jars")
}

/// A native library and its processor.
type Native = (&'static str, PathBuf);

fn build_native() -> Result<Native> {
    output(&mut build::cargo_beside_bench("build --locked --quiet --package atp-jvm --lib"))
        .context("can't build the native library")?;
    Ok((std::env::consts::ARCH, setup::paths().target.join("release").join(LIBRARY)))
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
    std::fs::remove_dir_all(&resources).ok();
    for (processor, library) in libraries {
        let folder = resources.join(format!("META-INF/native/linux-{processor}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(library, folder.join(LIBRARY))
            .with_context(|| format!("can't copy {}", library.display()))?;
    }
    Ok(())
}

fn run_maven(url: Option<&str>) -> Result<()> {
    let paths = setup::paths();
    // Classes of removed sources would get into the jar.
    std::fs::remove_dir_all(maven_folder()).ok();
    let mut maven = setup::maven();
    maven.args(["-B", "-ntp", "-Dstyle.color=never", "-DskipTests", "package", "-f"]);
    maven.arg(paths.workspace.join("bindings/jvm/java/pom.xml"));
    maven.arg(format!("-Drevision={VERSION}"));
    maven.arg(format!("-Datp.target={}", paths.target.display()));
    maven.args(url.map(|url| format!("-Datp.url={url}")));
    // Unlike `-q`, this leaves the warnings, which are errors here.
    let options = std::env::var("MAVEN_OPTS").unwrap_or_default();
    maven.env("MAVEN_OPTS", options + " -Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    output(&mut maven).context("can't build the jar").map(drop)
}

/// Copies the files of a registry out of Maven's folder. Signatures and checksums are those of the
/// person who publishes them.
fn collect(is_for_registry: bool) -> Result<Vec<PathBuf>> {
    let (from, to) = (maven_folder(), jars_folder());
    let pom = std::fs::read_to_string(from.join("published.pom"))?;
    check(&pom, is_for_registry)?;
    // Of an earlier version, perhaps.
    std::fs::remove_dir_all(&to).ok();
    std::fs::create_dir_all(&to)?;
    let jars = [".jar", "-sources.jar", "-javadoc.jar"].map(file_name);
    let mut files: Vec<_> = jars.iter().map(|name| (from.join(name), to.join(name))).collect();
    files.push((from.join("published.pom"), to.join(file_name(".pom"))));
    let copy = |(from, to): (PathBuf, PathBuf)| {
        std::fs::copy(&from, &to).with_context(|| format!("Maven made no {}", from.display()))?;
        Ok(to)
    };
    files.into_iter().map(copy).collect()
}

fn file_name(end: &str) -> String {
    format!("atp-{VERSION}{end}")
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
