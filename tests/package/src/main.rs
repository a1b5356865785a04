//! `package-test container|machine FILE.deb`: installs the package in a new Debian 12, and uses it
//! as an operator would. Needs root, mmdebstrap and Debian's mirror.
//!
//! - `container`: systemd-nspawn boots that Debian on this machine's kernel. The steps stand in
//!   `service.rs`.
//! - `machine`: QEMU boots it with Debian's kernel 6.12. The steps are the commands of the
//!   operator's guide, with checks between them (`guide.rs`, `checks.rs`).

mod checks;
mod container;
mod debian;
mod guide;
mod machine;
mod service;

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let passed = match words[..] {
        ["container", deb] => container::test(Path::new(deb)),
        ["machine", deb] => machine::test(Path::new(deb)),
        _ => Err(anyhow::anyhow!("name the place and the package: container|machine FILE.deb")),
    };
    match passed {
        Ok(passed) => {
            println!("{passed} passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
