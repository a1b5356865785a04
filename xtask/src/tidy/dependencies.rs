//! Dependencies between crates point one way: laws depend on none, and none depends on the tools.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::setup;

/// The crates that each may depend on; a crate that isn't listed is an error.
const ALLOWED: [(&str, &[&str]); 31] = [
    ("atp-common", &[]),
    ("atp-ebpf", &["atp-common"]),
    ("atp-proto", &["atp-common", "atp-proto"]), // itself: the tests choose features
    ("approxlib", &["atp-common", "atp-proto", "approxlib"]), // itself: the tests choose features
    ("atp-c", &["approxlib"]),
    ("atp-jvm", &["approxlib"]),
    ("atp-run", &["approxlib"]),
    ("switch-profiles", &[]),
    ("approx-answers", &[]),
    ("approx-frames", &[]),
    ("approx-session", &["approxlib"]),
    ("approx-windows", &["approxlib"]),
    ("atp-kafka", &["approxlib", "atp-metrics"]),
    ("kafka-broker", &["testbed"]),
    ("atp-options", &["atp-common"]),
    ("atp-output", &[]),
    ("atp-metrics", &[]),
    ("atp-datapath", &["atp-common", "atp-proto"]),
    (
        "atp-user",
        &[
            "atp-common",
            "atp-datapath",
            "atp-metrics",
            "atp-options",
            "atp-proto",
            "approxlib",
            "switch-profiles",
        ],
    ),
    ("atp-sim", &["atp-common", "atp-proto", "switch-profiles"]),
    ("testbed", &["atp-common", "approxlib", "switch-profiles"]),
    (
        "atp-bench",
        &[
            "atp-common",
            "approxlib",
            "atp-datapath",
            "atp-options",
            "kafka-broker",
            "switch-profiles",
            "testbed",
        ],
    ),
    ("counting-allocator", &[]),
    ("test-report", &[]),
    ("package-test", &[]),
    ("xtask", &["test-report"]),
    ("atp-tests", &["atp-common", "approxlib", "atp-datapath", "testbed"]),
    ("atp-ebpf-faults", &[]),
    ("fuzz-targets", &["atp-common", "atp-proto", "approxlib", "atp-c", "counting-allocator"]),
    ("atp-fuzz", &["fuzz-targets"]),
    ("atp-python", &["approxlib"]),
];
/// The crates that only the tests of each may depend on.
const ALLOWED_IN_TESTS: [(&str, &[&str]); 5] = [
    (
        "approx-answers",
        &["atp-common", "atp-proto", "atp-sim", "counting-allocator", "switch-profiles"],
    ),
    ("atp-proto", &["counting-allocator"]),
    ("atp-kafka", &["kafka-broker"]),
    ("atp-run", &["testbed"]),
    ("atp-sim", &["counting-allocator"]),
];
const WORKSPACES: [&str; 4] =
    ["Cargo.toml", "atp-ebpf/Cargo.toml", "fuzz/Cargo.toml", "tests/ebpf-faults/Cargo.toml"];

pub fn check() -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for manifest in WORKSPACES {
        let metadata = setup::metadata(&setup::paths().workspace.join(manifest))?;
        packages.extend(metadata["packages"].as_array().context("odd `cargo metadata`")?.clone());
    }
    Ok(wrong(&packages))
}

/// The complaints about packages, as `cargo metadata` describes them.
fn wrong(packages: &[Value]) -> Vec<String> {
    let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut complaints = Vec::new();
    for (package, whole) in packages.iter().map(|package| (name(package), package)) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
            complaints.push(format!("{package}: not in tidy's table of dependencies"));
            continue;
        };
        let dependencies = whole["dependencies"].as_array().into_iter().flatten();
        let may_use_everywhere = |name: &str| name == "atp-output" || name.starts_with("approx-");
        let tests = ALLOWED_IN_TESTS.iter().find(|(name, _)| *name == package);
        let may_in_tests = |name: &str| tests.is_some_and(|(_, crates)| crates.contains(&name));
        let is_wrong = |dependency: &&Value| {
            let name = name(dependency);
            let may = may_use_everywhere(&name)
                || allowed.contains(&name.as_str())
                || dependency["kind"] == "dev" && may_in_tests(&name);
            ours.contains(&name) && !may
        };
        let wrong = dependencies.filter(is_wrong).map(name);
        complaints.extend(wrong.map(|name| format!("{package} must not depend on {name}")));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong__finds_directions_and_unknown_crates() {
        let package = |name: &str, dependencies: &[&str]| {
            let dependencies: Vec<_> = dependencies.iter().map(|d| json!({ "name": d })).collect();
            json!({ "name": name, "dependencies": dependencies })
        };
        let mut packages = vec![package("atp-common", &["bytemuck"]), package("atp-proto", &[])];
        assert!(wrong(&packages).is_empty());
        packages[0] = package("atp-common", &["atp-proto"]);
        assert_eq!(wrong(&packages).len(), 1);
        packages.push(package("atp-quic", &[]));
        assert_eq!(wrong(&packages).len(), 2);
    }

    #[test]
    fn wrong__tests_may_depend_on_more() {
        for (kind, complaints) in [(json!(null), 1), (json!("dev"), 0), (json!("build"), 1)] {
            let proto = json!({ "name": "atp-proto", "kind": kind });
            let answers = json!({ "name": "approx-answers", "dependencies": [proto] });
            let packages = [answers, json!({ "name": "atp-proto", "dependencies": [] })];
            assert_eq!(wrong(&packages).len(), complaints, "{kind}");
        }
    }
}
