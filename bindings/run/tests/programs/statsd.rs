//! A public statsd server and client: datagrams of UDP, and lines of TCP.

use crate::tools::{Server, command, counted, port, ports, ports_alone, run};
use anyhow::{Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The public programs, pinned: https://github.com/statsd/statsd and
/// https://github.com/jsocol/pystatsd
const SERVER: &str = "statsd@0.9.0";
const CLIENT: &str = "statsd==4.0.1";
const HITS: u64 = 1_000;

/// How the client sends, and what the programs call it.
#[derive(Clone, Copy)]
pub struct Transport {
    settings: &'static str,
    server: &'static str,
    client: &'static str,
    check: fn(&Path, bool) -> Result<()>,
}

pub const UDP: Transport =
    Transport { settings: "msr:0.9", server: "udp", client: "StatsClient", check: check_datagrams };
pub const TCP: Transport = Transport {
    settings: "tcp:lines,msr:0.9",
    server: "tcp",
    client: "TCPStatsClient",
    check: check_frames,
};

/// The public programs, installed once into the target folder.
pub fn packages() -> &'static Result<PathBuf, String> {
    static PACKAGES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PACKAGES.get_or_init(|| install().map_err(|error| format!("{error:#}")))
}

fn install() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("statsd");
    fs::create_dir_all(&folder)?;
    if !folder.join("node_modules/statsd/stats.js").is_file() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--omit=optional", "--no-audit", "--no-fund", "--prefix"]);
        run(npm.arg(&folder).arg(SERVER))?;
    }
    if !folder.join("python/statsd/__init__.py").is_file() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
        run(pip.arg(folder.join("python")).arg(CLIENT))?;
    }
    Ok(folder)
}

/// Counts a thousand hits in the public server, sent by the public client.
pub fn counts(transport: Transport, server_under: bool, client_under: bool) -> Result<()> {
    let installed = packages().as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let ports = if server_under { ports } else { ports_alone };
    let (folder, ports) = (tempfile::tempdir()?, ports(transport.settings)?);
    let (config, report) = (folder.path().join("config.js"), folder.path().join("report"));
    let settings = format!(
        "{{ port: {}, address: \"127.0.0.1\", servers: [{{ server: \"./servers/{}\", port: {0}, \
         address: \"127.0.0.1\" }}], mgmt_address: \"127.0.0.1\", mgmt_port: {}, backends: [\"./backends/console\"], flushInterval: 300 }}",
        ports.program,
        transport.server,
        port()?
    );
    fs::write(&config, settings)?;
    let mut serve = command(server_under, &ports, None, Path::new("node"));
    serve.arg(installed.join("node_modules/statsd/stats.js")).arg(&config);
    let mut server = Server::start(serve.current_dir(folder.path()), "server is up")?;

    let client = format!(
        "import statsd\nclient = statsd.{}('127.0.0.1', {})\n\
         for _ in range({HITS}): client.incr('hits')\n",
        transport.client, ports.program
    );
    let mut count = command(client_under, &ports, Some(&report), Path::new("python3"));
    count.args(["-c", &client]).env("PYTHONPATH", installed.join("python"));
    run(&mut count)?;
    let is_atp = server_under && client_under;
    let needed = if is_atp { HITS * 9 / 10 } else { 1 };
    let mut hits = 0;
    while hits < needed {
        let line = server.line()?;
        let number = line.trim().strip_prefix("hits: ").map(|rest| rest.trim_end_matches(','));
        // The counter comes first, then its rate.
        hits += number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    }
    if client_under {
        (transport.check)(&report, is_atp)?;
    }
    Ok(())
}

fn check_datagrams(report: &Path, is_atp: bool) -> Result<()> {
    let (sent, plain) = (counted(report, "sent_as_messages")?, counted(report, "sent_plainly")?);
    let expected = if is_atp { (HITS, 0) } else { (0, HITS) };
    ensure!((sent, plain) == expected, "{sent} messages and {plain} datagrams");
    Ok(())
}

fn check_frames(report: &Path, is_atp: bool) -> Result<()> {
    let (sent, plain) =
        (counted(report, "sent_as_messages")?, counted(report, "connections_plain")?);
    let expected = if is_atp { (HITS, 0) } else { (0, 1) };
    ensure!((sent, plain) == expected, "{sent} messages and {plain} plain connections");
    Ok(())
}
