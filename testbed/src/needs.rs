//! The needs of the end-to-end tests, and the settings of this run in its environment.

use crate::{cgroup, namespace::Namespace, privilege};
use anyhow::{Context, Result};
use std::{env, path::PathBuf};

/// The compiled eBPF programs.
const OBJECT: &str = "ATP_EBPF_OBJECT";
/// The daemon's binary.
const PROGRAM: &str = "ATP_USER";
/// The pacing backend under test; the kernel's best if it isn't set.
const BACKEND: &str = "ATP_BACKEND";
/// 1 if a run on another backend has the tests that don't depend on pacing.
const PACING_ONLY: &str = "ATP_PACING_ONLY";

/// The reason why the tests can't run here, as the test runner reads it; `None` if they can.
pub fn missing() -> Option<String> {
    if !privilege::is_root() {
        return Some("needs root".into());
    }
    if !object().is_ok_and(|path| path.is_file()) {
        return Some("needs ebpf_object: ATP_EBPF_OBJECT names none".into());
    }
    if !program().is_ok_and(|path| path.is_file()) {
        return Some(format!("needs atp_user: {PROGRAM} names none"));
    }
    match backend().map(|name| (qdisc_exists(&name), name)) {
        Some((Ok(false), name)) => Some(format!("needs sch_{name}")),
        _ => None,
    }
}

/// As [`missing`], for tests that need control groups too.
pub fn missing_for_cgroups() -> Option<String> {
    let none = || cgroup::cgroup2_mount().is_none().then(|| "needs cgroup2".to_owned());
    missing().or_else(none)
}

/// As [`missing`], for tests that need pacing by fq.
pub fn missing_for_fq() -> Option<String> {
    let is_another = backend().is_some_and(|name| name != "fq");
    missing().or_else(|| match qdisc_exists("fq") {
        Ok(true) if !is_another => None,
        _ => Some("needs sch_fq".to_owned()),
    })
}

/// As [`missing`], for tests that need netem's faults.
pub fn missing_for_netem() -> Option<String> {
    missing().or_else(|| match qdisc_exists("netem") {
        Ok(true) => None,
        _ => Some("needs sch_netem".to_owned()),
    })
}

/// The compiled eBPF programs, if the environment names them.
pub fn ebpf_object() -> Option<PathBuf> {
    env::var_os(OBJECT).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// As [`ebpf_object`], for tests that can't go on without.
pub fn object() -> Result<PathBuf> {
    ebpf_object().with_context(|| format!("{OBJECT} is not set"))
}

/// The fault injector's object, which `cargo xtask build` puts beside the datapath's.
pub fn faults_object() -> Result<PathBuf> {
    Ok(object()?.with_file_name("faults.o"))
}

/// The daemon's binary.
pub fn program() -> Result<PathBuf> {
    env::var_os(PROGRAM).map(PathBuf::from).with_context(|| format!("{PROGRAM} is not set"))
}

/// Whether the tests that don't depend on pacing ran already, on another backend: once is enough,
/// and the guest is slow.
pub fn pacing_only() -> bool {
    env::var_os(PACING_ONLY).is_some_and(|value| value == "1")
}

/// `fq` or `htb`, if this run tests one.
pub fn backend() -> Option<String> {
    env::var(BACKEND).ok().filter(|name| !name.is_empty())
}

/// Whether the kernel has a qdisc, tried in a namespace of its own.
pub fn qdisc_exists(kind: &str) -> Result<bool> {
    let namespace = Namespace::new()?;
    Ok(namespace.run(&format!("tc qdisc add dev lo root {kind}")).is_ok())
}
