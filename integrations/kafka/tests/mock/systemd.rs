//! Reports that systemd receives from a unit.

use crate::cluster::{Cluster, Sent};
use crate::process::run_to_end;
use crate::receiving::Receiving;
use crate::send::config;
use anyhow::{Result, ensure};
use std::os::unix::net::UnixDatagram;

/// A queue of datagrams is short: nothing reads it before the program's end.
#[test]
fn send__reports_to_systemd() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    cluster.produce("readings", &[Sent { value: Some(b"value"), ..Sent::default() }])?;
    let receiving = Receiving::at_own_address()?;
    let sections = "window = { records = 5 }\nsampling = { msr = 1.0 }\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let (path, socket) = (path.to_str().unwrap(), folder.path().join("notify"));
    let datagrams = UnixDatagram::bind(&socket)?;
    let variables = [
        ("NOTIFY_SOCKET", socket.to_str().unwrap()),
        // An hour: one report is enough.
        ("WATCHDOG_USEC", "3600000000"),
    ];
    let ended = run_to_end(folder.path(), &["send", path, "--until-end"], &variables)?;
    ensure!(ended.is_good, "{}", ended.stderr);
    datagrams.set_nonblocking(true)?;
    let (mut words, mut buffer) = (Vec::new(), [0; 4_096]);
    while let Ok(bytes) = datagrams.recv(&mut buffer) {
        words.extend(str::from_utf8(&buffer[..bytes])?.lines().map(str::to_owned));
    }
    let status = format!("STATUS=sending windows of readings to {}", receiving.address);
    assert_eq!(words, ["READY=1", &status, "WATCHDOG=1", "STOPPING=1"]);
    receiving.end()?;
    Ok(())
}
