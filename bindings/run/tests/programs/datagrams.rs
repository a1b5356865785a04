//! A C program's UDP datagrams, sent and received in all ways.

use crate::tools::{Server, command, compile, counted, ports, run};
use anyhow::{Result, ensure};

/// Sends the C program's eight datagrams. Returns the report's folder.
fn send_datagrams(receiver_under: bool) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let program = compile("datagrams", folder.path())?;
    let (ports, report) = (ports("msr:0.9")?, folder.path().join("report"));
    let port = ports.program.to_string();
    let mut receive = command(receiver_under, &ports, None, &program);
    let mut receiver = Server::start(receive.args(["receive", &port, "8"]), "bound")?;
    run(command(true, &ports, Some(&report), &program).args(["send", &port]))?;
    let sum = receiver.line()?;
    ensure!(sum == format!("sum {}", 1 + 4 + 4 + 4 + 16 + 32 + 4 + 64), "it printed {sum}");
    Ok(folder)
}

pub fn under_both() -> Result<()> {
    let folder = send_datagrams(true)?;
    let report = folder.path().join("report");
    let (sent, plain) = (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!(sent == 8 && plain == 0, "{sent} messages and {plain} datagrams");
    ensure!(counted(&report, "delivered")? == 8, "not all were delivered");
    Ok(())
}

pub fn under_one() -> Result<()> {
    let folder = send_datagrams(false)?;
    let report = folder.path().join("report");
    let (sent, plain) = (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!(sent == 0 && plain == 8, "{sent} messages and {plain} datagrams");
    Ok(())
}
