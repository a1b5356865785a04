//! Dependencies between the project's crates point one way: the laws depend on no other crate, and
//! no crate depends on the tools.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Deserialize;

use crate::setup;

/// The crates that each may depend on; a crate that isn't listed is an error.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("atp-common", &[]),
    ("atp-ebpf", &["atp-common"]),
    ("atp-proto", &["atp-common"]),
    ("approxlib", &["atp-common", "atp-proto"]),
    ("switch-profiles", &[]),
    ("atp-options", &["atp-common"]),
    ("atp-user", &["atp-common", "atp-options", "approxlib", "switch-profiles"]),
    ("atp-sim", &["atp-common", "atp-proto", "switch-profiles"]),
    ("testbed", &["atp-common", "approxlib", "switch-profiles"]),
    (
        "atp-bench",
        &["atp-common", "approxlib", "atp-options", "atp-user", "switch-profiles", "testbed"],
    ),
    ("xtask", &[]),
    ("atp-tests", &["atp-common", "approxlib", "atp-user", "testbed"]),
    ("atp-ebpf-faults", &[]),
    ("fuzz-targets", &["atp-common", "atp-proto", "approxlib"]),
    ("atp-fuzz", &["fuzz-targets"]),
];
const WORKSPACES: [&str; 4] =
    ["Cargo.toml", "atp-ebpf/Cargo.toml", "fuzz/Cargo.toml", "tests/ebpf-faults/Cargo.toml"];

pub fn check() -> Result<Vec<String>> {
    Ok(wrong(&packages()?))
}

fn wrong(packages: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut complaints = Vec::new();
    for package in packages {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            complaints.push(format!("{}: not in tidy's table of dependencies", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if ours.contains(name) && !allowed.contains(&name) {
                complaints.push(format!("{} must not depend on {name}", package.name));
            }
        }
    }
    complaints
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

/// The crates of the workspace and of those that have their own.
fn packages() -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for manifest in WORKSPACES {
        let found: Metadata = setup::metadata(&setup::paths().workspace.join(manifest))?;
        packages.extend(found.packages);
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong__finds_directions_and_unknown_crates() {
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|d| Dependency { name: (*d).into() }).collect(),
        };
        let mut packages = vec![package("atp-common", &["bytemuck"]), package("atp-proto", &[])];
        assert!(wrong(&packages).is_empty());
        packages[0] = package("atp-common", &["atp-proto"]);
        assert_eq!(wrong(&packages).len(), 1);
        packages.push(package("atp-quic", &[]));
        assert_eq!(wrong(&packages).len(), 2);
    }
}
