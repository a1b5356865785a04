//! A C program that makes every call which the library replaces.

use crate::tools::{Ports, Server, command, compile_all, counted, library, ports, run};
use anyhow::{Result, ensure};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn compile(into: &Path) -> Result<PathBuf> {
    compile_all(&["calls", "sending", "receiving", "leaving"], into)
}

/// The program sees the same under `atp-run`, and nearly all of its datagrams were messages.
pub fn do_as_without() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let report = folder.path().join("report");
    let (udp, tcp) = (ports("msr:1")?, ports("tcp:lines,msr:1")?);
    let both = Ports { rule: format!("{};{}", udp.rule, tcp.rule), ..ports("msr:1")? };
    let said = |under: bool| {
        let mut command = command(under, &both, Some(&report), &program);
        run(command.args([&udp, &tcp].map(|ports| ports.program.to_string())))
    };
    let (plain, under) = (said(false)?, said(true)?);
    ensure!(plain == under, "it printed {under:?}, and without the library {plain:?}");
    ensure!(plain.lines().count() > 30, "it has too few cases: {plain:?}");
    let (messages, datagrams) =
        (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!(messages > 80, "{messages} messages and {datagrams} datagrams");
    Ok(())
}

/// The names of symbols that `nm` lists with these options.
fn symbols(file: &Path, option: &str) -> Result<HashSet<String>> {
    let listed = run(Command::new("nm").args(["-D", option]).arg(file))?;
    let name = |line: &str| {
        let name = line.split_whitespace().last()?;
        Some(name.split('@').next().unwrap_or(name).to_owned())
    };
    Ok(listed.lines().filter_map(name).collect())
}

/// The program calls each function that the library exports, and names a case for it.
pub fn have_cases() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let replaced = symbols(&library(), "--defined-only")?;
    ensure!(replaced.contains("sendto") && replaced.len() > 20, "the library has {replaced:?}");
    let called = symbols(&program, "--undefined-only")?;
    let missing: Vec<_> = replaced.difference(&called).collect();
    ensure!(missing.is_empty(), "the program doesn't call {missing:?}");
    let (udp, tcp) = (ports("msr:1")?, ports("msr:1")?);
    let mut command = command(false, &udp, None, &program);
    let said = run(command.args([&udp, &tcp].map(|ports| ports.program.to_string())))?;
    let cases: HashSet<String> = said.split_whitespace().map(str::to_owned).collect();
    let missing: Vec<_> = replaced.difference(&cases).collect();
    ensure!(missing.is_empty(), "the program has no case for {missing:?}");
    Ok(())
}

/// The library has looked up the functions that it replaces before the program starts: a signal
/// handler may call each of them, in the middle of the dynamic linker's work.
pub fn are_looked_up() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile_all(&["endings"], folder.path())?;
    let (ports, logs) = (ports("tcp:lines,msr:1")?, folder.path().join("logs"));
    let port = ports.program.to_string();
    fs::create_dir(&logs)?;
    let mut serve = command(true, &ports, None, &program);
    let _server = Server::start(serve.args(["serve", &port]), "listening")?;
    let mut write = command(true, &ports, None, &program);
    write.env("LD_DEBUG", "bindings,files").env("LD_DEBUG_OUTPUT", logs.join("of"));
    run(write.args(["write", "_exit", &port]))?;
    let replaced = symbols(&library(), "--defined-only")?;
    let start = format!("transferring control: {}", program.display());
    let from = format!("binding file {} ", library().display());
    let mut has_started = false;
    for log in fs::read_dir(&logs)? {
        let text = fs::read_to_string(log?.path())?;
        let Some((_, after)) = text.split_once(&start) else { continue };
        has_started = true;
        let late = after.lines().find(|line| {
            let name = line.split(['`', '\'']).nth(1);
            line.contains(&from) && name.is_some_and(|name| replaced.contains(name))
        });
        ensure!(late.is_none(), "the library looked up a function late: {late:?}");
    }
    ensure!(has_started, "the dynamic linker tells no start of {}", program.display());
    Ok(())
}
