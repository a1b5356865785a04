//! `cargo xtask bench jvm`: batches sent and received by Java, beside the same batches of Rust.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Args, CPUS, Pair, measure, pinned, rust_receiver, rust_sender, sender_args};
use crate::bench::program_output;
use crate::installed;

const SENDER: &str = include_str!("Sender.java");
const RECEIVER: &str = include_str!("Receiver.java");

pub fn main(args: &Args) -> Result<()> {
    let jar = jar()?;
    let folder = tempfile::tempdir()?;
    let program = |name: &str, source: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, source).map(|()| file)
    };
    let (sender, receiver) = (program("Sender.java", SENDER)?, program("Receiver.java", RECEIVER)?);
    let java = |cpu: usize, source: &PathBuf| {
        let mut command = pinned(installed::java(), cpu);
        command.arg("--class-path").arg(&jar).arg(source);
        command
    };
    let java_sender = |to: &str| {
        let mut command = java(CPUS.0, &sender);
        command.args(sender_args(to, args));
        Ok(command)
    };
    let java_receiver = || {
        let mut command = java(CPUS.1, &receiver);
        command.arg("127.0.0.1:0");
        Ok(command)
    };
    let rust = |to: &str| rust_sender(to, args);
    let pairs = [
        Pair { name: "Rust", send: &rust, receive: &rust_receiver },
        Pair { name: "Java's sender", send: &java_sender, receive: &rust_receiver },
        Pair { name: "Java's receiver", send: &rust, receive: &java_receiver },
        Pair { name: "Java", send: &java_sender, receive: &java_receiver },
    ];
    measure(args, &pairs)
}

/// Builds the jar, and returns its path.
fn jar() -> Result<PathBuf> {
    let mut build = Command::new(installed::cargo());
    build.args(["xtask", "jar"]).current_dir(installed::workspace());
    program_output(&mut build)?;
    let name = format!("atp-{}.jar", env!("CARGO_PKG_VERSION"));
    let jar = installed::target().join("jars").join(name);
    jar.canonicalize().with_context(|| format!("no jar was built: {}", jar.display()))
}
