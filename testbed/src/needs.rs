//! The requirements of the end-to-end tests, and the settings that the environment gives them.

use crate::{cgroup, namespace::Namespace, privilege};
use anyhow::{Context, Result};
use std::{env, path::PathBuf};

/// The variable that names the compiled eBPF programs.
const OBJECT: &str = "ATP_EBPF_OBJECT";
/// The variable that names the daemon's binary.
const PROGRAM: &str = "ATP_USER";
/// The variable that names the pacing backend under test; unset for the kernel's best.
const BACKEND: &str = "ATP_BACKEND";
/// The variable set to 1 if a run on another backend covers the tests that don't depend on pacing.
const PACING_ONLY: &str = "ATP_PACING_ONLY";
const EMULATED: &str = "ATP_EMULATED";

/// The variable that names a Python with the packages of the collective.
const COLLECTIVE_PYTHON: &str = "ATP_TORCH_PYTHON";

/// The reason why the tests can't run here, in the test runner's format; `None` if they can.
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

/// Like [`missing`], for tests that need control groups too.
pub fn missing_for_cgroups() -> Option<String> {
    let none = || cgroup::cgroup2_mount().is_none().then(|| "needs cgroup2".to_owned());
    missing().or_else(none)
}

/// Like [`missing`], for tests that need pacing by fq.
pub fn missing_for_fq() -> Option<String> {
    let is_another = backend().is_some_and(|name| name != "fq");
    missing().or_else(|| match qdisc_exists("fq") {
        Ok(true) if !is_another => None,
        _ => Some("needs sch_fq".to_owned()),
    })
}

/// Like [`missing`], for tests that need netem's faults.
pub fn missing_for_netem() -> Option<String> {
    missing().or_else(|| match qdisc_exists("netem") {
        Ok(true) => None,
        _ => Some("needs sch_netem".to_owned()),
    })
}

/// Like [`missing`], for tests that need the Python packages of the collective.
pub fn missing_for_collective() -> Option<String> {
    missing().or_else(|| match collective_python() {
        Ok(_) => None,
        Err(error) => Some(format!("needs collective_packages: {error}")),
    })
}

/// A Python with the packages of the collective.
pub fn collective_python() -> Result<PathBuf> {
    let named = env::var_os(COLLECTIVE_PYTHON).map(PathBuf::from);
    named.with_context(|| format!("{COLLECTIVE_PYTHON} is not set"))
}

/// The compiled eBPF programs, if the environment names them.
pub fn ebpf_object() -> Option<PathBuf> {
    env::var_os(OBJECT).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Like [`ebpf_object`], for tests that require the programs.
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

/// Whether a run on another backend already covers the tests that don't depend on pacing. One run
/// is enough, and the guest is slow.
pub fn pacing_only() -> bool {
    env::var_os(PACING_ONLY).is_some_and(|value| value == "1")
}

/// Whether the machine is emulated: too slow for a lane's rate, so that tests check only that it
/// isn't exceeded.
pub fn emulated() -> bool {
    env::var_os(EMULATED).is_some_and(|value| value == "1")
}

/// The backend under test, `fq` or `htb`, if the environment names one.
pub fn backend() -> Option<String> {
    env::var(BACKEND).ok().filter(|name| !name.is_empty())
}

/// Whether the kernel has a qdisc, tried in a namespace of its own.
pub fn qdisc_exists(kind: &str) -> Result<bool> {
    let namespace = Namespace::new()?;
    Ok(namespace.run(&format!("tc qdisc add dev lo root {kind}")).is_ok())
}
