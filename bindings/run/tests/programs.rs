//! Unmodified programs under `atp-run`: a C program, and a public statsd client and server.

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    sync::OnceLock,
};

/// The public programs, pinned: https://github.com/statsd/statsd and
/// https://github.com/jsocol/pystatsd
const SERVER: &str = "statsd@0.9.0";
const CLIENT: &str = "statsd==4.0.1";
const HITS: u64 = 1_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = |program: &str| {
        let found = Command::new(program).arg("--version").output();
        found.err().map(|error| format!("needs {program}: can't run it: {error}"))
    };
    let cc = missing("cc");
    let statsd = missing("node").or(missing("npm")).or(missing("python3"));
    let statsd = statsd.or_else(|| {
        let error = packages().as_ref().err()?;
        Some(format!("needs registries: {}", error.lines().next().unwrap_or_default()))
    });
    let tests: [(&str, Test, &Option<String>); 5] = [
        ("datagrams__are_messages_between_both_ends", datagrams_under_both, &cc),
        ("datagrams__stay_datagrams_without_the_other_end", datagrams_under_one, &cc),
        ("statsd__counts_under_both", || statsd_counts(true, true), &statsd),
        ("statsd__counts_with_the_client_alone", || statsd_counts(false, true), &statsd),
        ("statsd__counts_with_the_server_alone", || statsd_counts(true, false), &statsd),
    ];
    let trials = tests.map(|(name, test, missing)| trial(name, test, missing, &arguments));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

type Test = fn() -> Result<()>;

/// A test. If something is missing it counts as ignored, and says why for the count of skips.
fn trial(name: &str, test: Test, missing: &Option<String>, arguments: &Arguments) -> Trial {
    let runner = move || test().map_err(|error| Failed::from(format!("{error:#}")));
    let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
    if let Some(reason) = missing
        && !arguments.list
        && !arguments.is_filtered_out(&trial)
    {
        println!("skipped: {name}: {reason}");
    }
    trial
}

/// Runs a command to its end, and returns what it printed.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    Ok(said)
}

/// The public programs, installed once into the target folder.
fn packages() -> &'static Result<PathBuf, String> {
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

/// A port for a program, and one for ATP.
struct Ports {
    program: u16,
    rule: String,
}

fn ports() -> Result<Ports> {
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let [program, atp] = [&sockets[0], &sockets[1]].map(|socket| socket.local_addr());
    let (program, atp) = (program?.port(), atp?.port());
    Ok(Ports { program, rule: format!("{program}=msr:0.9,window:200ms,probe:500ms,atp:{atp}") })
}

/// A command under `atp-run`, or the plain command.
fn command(under: bool, ports: &Ports, report: Option<&Path>, program: &Path) -> Command {
    if !under {
        return Command::new(program);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-run"));
    command.args(["--map", &ports.rule]).arg("--library").arg(library());
    if let Some(report) = report {
        command.arg("--report").arg(report);
    }
    command.arg("--").arg(program);
    command
}

/// The library that cargo built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    test.with_file_name("libatp_run.so")
}

/// A server, which is killed when the test ends.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &mut Command, ready: &str) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut server = Self { child, lines };
        while !server.line()?.contains(ready) {}
        Ok(server)
    }

    fn line(&mut self) -> Result<String> {
        Ok(self.lines.next().context("the server has ended")??)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The sum of a count over the processes of a report.
fn counted(report: &Path, name: &str) -> Result<u64> {
    let text = fs::read_to_string(report).context("no report")?;
    let number = |line: &str| -> Option<u64> {
        let value = line.split(&format!("\"{name}\":")).nth(1)?;
        value.split([',', '}']).next()?.parse().ok()
    };
    text.lines().map(|line| number(line).with_context(|| format!("{name} in {line}"))).sum()
}

/// Sends the C program's eight datagrams. Returns the report's folder.
fn send_datagrams(receiver_under: bool) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("datagrams");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/datagrams.c");
    run(Command::new("cc").args(["-O2", "-Wall", "-o"]).arg(&program).arg(source))?;
    let (ports, report) = (ports()?, folder.path().join("report"));
    let port = ports.program.to_string();
    let mut receive = command(receiver_under, &ports, None, &program);
    let mut receiver = Server::start(receive.args(["receive", &port, "8"]), "bound")?;
    run(command(true, &ports, Some(&report), &program).args(["send", &port]))?;
    let sum = receiver.line()?;
    ensure!(sum == format!("sum {}", 1 + 4 + 4 + 4 + 16 + 32 + 4 + 64), "it printed {sum}");
    Ok(folder)
}

fn datagrams_under_both() -> Result<()> {
    let folder = send_datagrams(true)?;
    let report = folder.path().join("report");
    let (sent, plain) = (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!(sent == 8 && plain == 0, "{sent} messages and {plain} datagrams");
    ensure!(counted(&report, "delivered")? == 8, "not all were delivered");
    Ok(())
}

fn datagrams_under_one() -> Result<()> {
    let folder = send_datagrams(false)?;
    let report = folder.path().join("report");
    let (sent, plain) = (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!(sent == 0 && plain == 8, "{sent} messages and {plain} datagrams");
    Ok(())
}

/// Counts a thousand hits in the public server, sent by the public client.
fn statsd_counts(server_under: bool, client_under: bool) -> Result<()> {
    let installed = packages().as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let (folder, ports) = (tempfile::tempdir()?, ports()?);
    let (config, report) = (folder.path().join("config.js"), folder.path().join("report"));
    let settings = format!(
        "{{ port: {}, address: \"127.0.0.1\", servers: [{{ server: \"./servers/udp\", port: {0}, \
         address: \"127.0.0.1\" }}], mgmt_address: \"127.0.0.1\", mgmt_port: {}, backends: [\"./backends/console\"], flushInterval: 300 }}",
        ports.program,
        TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()
    );
    fs::write(&config, settings)?;
    let mut serve = command(server_under, &ports, None, Path::new("node"));
    serve.arg(installed.join("node_modules/statsd/stats.js")).arg(&config);
    let mut server = Server::start(serve.current_dir(folder.path()), "server is up")?;

    let client = format!(
        "import statsd\nclient = statsd.StatsClient('127.0.0.1', {})\n\
         for _ in range({HITS}): client.incr('hits')\n",
        ports.program
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
        let (sent, plain) =
            (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
        let expected = if is_atp { (HITS, 0) } else { (0, HITS) };
        ensure!((sent, plain) == expected, "{sent} messages and {plain} datagrams");
    }
    Ok(())
}
