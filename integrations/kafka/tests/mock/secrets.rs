//! Secrets are shown to nobody.

use crate::process::{Bridge, run_to_end};
use anyhow::{Result, ensure};
use std::{net::TcpListener, path::Path, thread};

const SECRET: &str = "correct-horse-battery";

fn write(folder: &Path, name: &str, password: &str, brokers: &str) -> Result<String> {
    let text = match name {
        "send" | "lag" => {
            "peer = \"127.0.0.1:9\"\nwindow = { records = 100 }\n\
                           sampling = { msr = 0.5 }\n[kafka]\ngroup = \"bridge\"\n\
                           topics = [\"readings\"]\n"
        }
        _ => "listen = \"127.0.0.1:0\"\nname = \"copy\"\n[kafka]\ntopic = \"copy\"\n",
    };
    let text = format!(
        "{text}brokers = \"{brokers}\"\n[kafka.properties]\n\
         \"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanisms\" = \"PLAIN\"\n\
         \"sasl.username\" = \"bridge\"\n\"debug\" = \"all\"\n\"sasl.password\" = {password}\n"
    );
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text)?;
    Ok(path.to_str().unwrap().to_owned())
}

/// Everything is logged, librdkafka's own lines too.
#[test]
fn secrets__are_in_no_output() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("kafka-password"), format!("{SECRET}\n"))?;
    let file = folder.path().join("kafka-password");
    let by_file = format!("{{ file = {file:?} }}");
    let in_file = format!("{SECRET:?}");
    let passwords = [
        in_file.as_str(),
        by_file.as_str(),
        "{ env = \"ATP_TEST_PASSWORD\" }",
        "{ credential = \"kafka-password\" }",
    ];
    let variables = [
        ("RUST_LOG", "trace"),
        ("ATP_TEST_PASSWORD", SECRET),
        ("CREDENTIALS_DIRECTORY", folder.path().to_str().unwrap()),
    ];
    let check = |command: &str, password: &str| {
        let folder = tempfile::tempdir()?;
        let path = write(folder.path(), command, password, "127.0.0.1:1")?;
        let ended = run_to_end(folder.path(), &[command, &path], &variables)?;
        ensure!(!ended.is_good && ended.stderr.contains("DEBUG"), "{}", ended.stderr);
        let error = ended.stderr.lines().last().unwrap_or_default();
        ensure!(error.starts_with("error: no broker answers at 127.0.0.1:1"), "{error}");
        let text = ended.stdout + &ended.stderr;
        ensure!(!text.contains(SECRET), "{command}, {password}: {text}");
        Ok(())
    };
    let runs = passwords.map(|password| ("send", password));
    let runs = runs.into_iter().chain([("receive", by_file.as_str()), ("lag", &by_file)]);
    // They mostly wait for the broker.
    thread::scope(|scope| {
        let check = &check;
        let runs: Vec<_> =
            runs.map(|(command, password)| scope.spawn(move || check(command, password))).collect();
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })?;
    // A property that can't be.
    let path = write(folder.path(), "send", &format!("[{SECRET:?}]"), "127.0.0.1:1")?;
    let ended = run_to_end(folder.path(), &["send", &path], &variables)?;
    ensure!(!ended.is_good && !ended.stderr.contains(SECRET), "{}", ended.stderr);
    Ok(())
}

/// While a broker is silent.
#[test]
fn secrets__are_in_no_command_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let brokers = silent.local_addr()?.to_string();
    let path = write(folder.path(), "send", &format!("{SECRET:?}"), &brokers)?;
    let mut bridge = Bridge::start(folder.path(), "send", &["send", &path])?;
    // It has read the configuration.
    let _connection = silent.accept()?;
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", bridge.pid()))?;
    ensure!(line.contains("send.toml") && !line.contains(SECRET), "{line}");
    let log = bridge.wait_for_failure()?;
    ensure!(log.starts_with(&format!("error: no broker answers at {brokers}")), "{log}");
    ensure!(log.lines().count() == 1 && !log.contains(SECRET), "{log}");
    Ok(())
}
