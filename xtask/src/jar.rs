//! `cargo xtask jar`: the Java library `org.netapprox:atp`, with the native library inside.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::setup::{self, Jdk, output};

/// The workspace's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIBRARY: &str = "libatp_jvm.so";
/// What Maven Central demands of a POM. The last two name the project's address.
const ELEMENTS: [&str; 8] =
    ["name", "description", "licenses", "developers", "groupId", "version", "url", "scm"];

#[derive(clap::Args)]
pub struct Args {
    /// Name the public repository at this address in the POM, as Maven Central demands
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

pub fn main(args: &Args) -> Result<()> {
    let url = args.registry.as_deref();
    let is_address = url.is_none_or(|url| url.starts_with("https://"));
    ensure!(is_address, "--registry takes the address of a public repository: https://...");
    setup::ensure(&[&Jdk])?;
    place_native()?;
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

/// Builds the native library, and puts it where Maven takes resources from.
fn place_native() -> Result<()> {
    let target = &setup::paths().target;
    output(&mut build::cargo("build --release --locked --quiet --package atp-jvm"))
        .context("can't build the native library")?;
    let native = target.join("jvm-native");
    std::fs::remove_dir_all(&native).ok();
    let folder = native.join(format!("META-INF/native/linux-{}", std::env::consts::ARCH));
    std::fs::create_dir_all(&folder)?;
    let built = target.join("release").join(LIBRARY);
    std::fs::copy(&built, folder.join(LIBRARY))
        .with_context(|| format!("can't copy {}", built.display()))?;
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
