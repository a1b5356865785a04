//! `cargo xtask bench jvm`: batches sent and received by Java, beside the same batches of Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{
    Args, BATCH, CPUS, MESSAGE_BYTES, Pair, measure, pinned, rust_receiver, rust_sender,
    sender_args,
};
use crate::bench::program_output;
use crate::installed;

const SOURCES: [(&str, &str); 3] = [
    ("Sender.java", include_str!("Sender.java")),
    ("Receiver.java", include_str!("Receiver.java")),
    ("Warmup.java", include_str!("Warmup.java")),
];

pub fn main(args: &Args) -> Result<()> {
    let jar = jar()?;
    let folder = compiled(&jar)?;
    let java = |cpu: usize, program: &str| {
        let mut command = pinned(installed::java(), cpu);
        command.arg("--class-path");
        command.arg(format!("{}:{}", jar.display(), folder.path().display())).arg(program);
        command
    };
    let java_sender = |to: &str| {
        let mut command = java(CPUS.0, "Sender");
        command.args(sender_args(to, args));
        Ok(command)
    };
    let java_receiver = || {
        let mut command = java(CPUS.1, "Receiver");
        command.arg("127.0.0.1:0").args([MESSAGE_BYTES, BATCH].map(|number| number.to_string()));
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

/// The folder of the compiled programs.
fn compiled(jar: &Path) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let mut compile = Command::new(installed::java().with_file_name("javac"));
    compile.arg("--class-path").arg(jar).arg("-d").arg(folder.path());
    for (name, source) in SOURCES {
        let file = folder.path().join(name);
        std::fs::write(&file, source)?;
        compile.arg(file);
    }
    program_output(&mut compile)?;
    Ok(folder)
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
