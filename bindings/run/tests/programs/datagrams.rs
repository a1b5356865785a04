//! A C program's UDP datagrams, sent and received in all ways.

use crate::tools::{Server, command, compile, counted, ports, ports_alone, run};
use anyhow::{Result, ensure};
use std::{collections::HashSet, net::UdpSocket, thread, time::Duration};

/// Sends the C program's eight datagrams. Returns the report's folder.
fn send_datagrams(receiver_under: bool) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let program = compile("datagrams", folder.path())?;
    let ports = if receiver_under { ports } else { ports_alone };
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

/// When the receiver disappears, the datagrams that were queued for it follow as plain ones.
pub fn of_a_lost_receiver() -> Result<()> {
    const SENT: u64 = 500;
    let folder = tempfile::tempdir()?;
    let program = compile("datagrams", folder.path())?;
    let (ports, report) = (ports("msr:0.9")?, folder.path().join("report"));
    let port = ports.program.to_string();
    let mut receive = command(true, &ports, None, &program);
    let receiver = Server::start(receive.args(["receive", &port, "1000"]), "bound")?;
    let mut send = command(true, &ports, Some(&report), &program);
    let mut sender = send.args(["go-on", &port, &SENT.to_string()]).spawn()?;
    thread::sleep(Duration::from_secs(1));
    drop(receiver);
    let socket = UdpSocket::bind(("127.0.0.1", ports.program))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut numbers, mut bytes) = (HashSet::new(), [0; 4]);
    let status = loop {
        while socket.recv(&mut bytes).is_ok() {
            ensure!(numbers.insert(bytes), "a datagram came twice");
        }
        if let Some(status) = sender.try_wait()? {
            break status;
        }
    };
    ensure!(status.success(), "the sender: {status}");
    let (sent, plain) = (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    let ended = counted(&report, "delivered")? + counted(&report, "lost")?;
    ensure!(sent + plain == SENT && ended < sent, "{sent} messages, {plain} plain, {ended} ended");
    let (arrived, expected) = (numbers.len() as u64, SENT - ended);
    ensure!(arrived == expected, "{arrived} of {expected} plain datagrams, {plain} sent late");
    Ok(())
}
