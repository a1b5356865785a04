//! A C program that forks while the library works.

use crate::tools::{Ports, command, compile, ports, run};
use anyhow::{Result, ensure};
use std::fs;

/// A child has no port, no thread and no descriptor of the library, and goes on.
pub fn have_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("children", folder.path())?;
    let (udp, tcp) = (ports("msr:1")?, ports("tcp:lines,msr:1")?);
    let numbers = [udp.program, udp.atp, tcp.program].map(|port| port.to_string());
    let both = Ports { rule: format!("{};{}", udp.rule, tcp.rule), ..udp };
    let report = folder.path().join("report");
    let said = run(command(true, &both, Some(&report), &program).args(numbers))?;
    ensure!(said == "as expected\n", "it printed {said:?}");
    // The parent ends last. Its datagrams before and after the child of vfork were messages.
    let report = fs::read_to_string(report)?;
    let parent = report.lines().next_back().unwrap_or_default();
    ensure!(parent.contains("\"sent_as_messages\":2,\"sent_plainly\":0,"), "it sent {parent}");
    Ok(())
}
