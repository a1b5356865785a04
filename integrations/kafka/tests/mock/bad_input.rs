//! Wrong configurations and hosts: one sentence, an exit code that isn't 0, and an end.

use crate::cluster::Cluster;
use crate::process::run_to_end;
use anyhow::{Result, ensure};
use approxlib::Receiver;
use std::{
    net::{TcpListener, UdpSocket},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

const SEND: &str = r#"peer = "127.0.0.1:9"
[window]
records = 100
[sampling]
msr = 0.5
[atp]
daemon = false
peer_timeout = "1s"
[kafka]
brokers = "BROKERS"
group = "bridge"
topics = ["readings"]
"#;

const RECEIVE: &str = r#"listen = "127.0.0.1:0"
name = "copy"
[atp]
daemon = false
[kafka]
brokers = "BROKERS"
topic = "copy"
"#;

/// The sentence with which the program refuses a configuration.
fn refusal(folder: &Path, command: &str, text: &str) -> Result<String> {
    let path = folder.join("bad.toml");
    std::fs::write(&path, text)?;
    let path = path.to_str().unwrap();
    let ended = run_to_end(folder, &[command, path], &[])?;
    ensure!(!ended.is_good, "{command} takes {text}");
    ensure!(ended.stdout.is_empty(), "{}", ended.stdout);
    let mut lines = ended.stderr.lines();
    let (first, rest) = (lines.next().unwrap_or_default(), lines.count());
    ensure!(rest == 0, "more than a sentence: {}", ended.stderr);
    let sentence = first.strip_prefix("error: ").unwrap_or_default();
    ensure!(!sentence.is_empty(), "{}", ended.stderr);
    Ok(sentence.replace(path, "FILE"))
}

/// Wrong files, of both commands, need no broker.
#[test]
fn read__refuses_a_wrong_file_in_one_sentence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let group = "[[sampling.groups]]\nname = \"a\"\nmsr = 1.0\n";
    for (from, to, expected) in [
        ("msr = 0.5", "msr = 1.01", "FILE:5: the MSR 1.01 isn't between 0 and 1"),
        ("msr = 0.5", "msr = -0.1", "FILE:5: the MSR -0.1 isn't between 0 and 1"),
        ("msr = 0.5", "msr = nan", "FILE:5: the MSR NaN isn't between 0 and 1"),
        ("records = 100", "records = 0", "FILE:3: 0 isn't allowed: give at least 1"),
        ("records = 100", "length = \"0s\"", "FILE:3: `0s` isn't a time"),
        ("records = 100", "record = 100", "FILE:3: unknown field `record`, expected one of"),
        ("msr = 0.5\n", &format!("msr = 0.5\n{group}"), "FILE: group `a` needs `header` or"),
        (
            "msr = 0.5\n",
            &format!("msr = 0.5\n{group}header = \"\"\n"),
            "FILE: group `a` has an empty `header`",
        ),
        (
            "msr = 0.5\n",
            "msr = 0.5\n[sampling.accepted]\nerror = 2.0\nnumber = \"/t\"\n",
            "FILE:7: 2 isn't above 0 and below 1",
        ),
        (
            "msr = 0.5\n",
            "msr = 0.5\n[sampling.accepted]\nerror = 0.02\nnumber = \"t\"\n",
            "FILE: `number` of [sampling.accepted] is no JSON pointer: write \"/t\"",
        ),
        (
            "msr = 0.5\n",
            "msr = 0.0\n[sampling.accepted]\nerror = 0.02\nnumber = \"/t\"\n",
            "FILE: `msr` is 0, with which any record may be lost",
        ),
        ("[window]", "[windows]", "FILE:2: unknown field `windows`, expected one of"),
        ("peer = ", "metrics = \"9465\"\npeer = ", "FILE:1: invalid socket address syntax"),
        ("[window]", "[window", "FILE:2: "),
        ("peer = \"127.0.0.1:9\"", "", "FILE:1: missing field `peer`"),
    ] {
        ensure!(SEND.contains(from), "{from} isn't there");
        let sentence = refusal(folder.path(), "send", &SEND.replace(from, to))?;
        ensure!(sentence.starts_with(expected), "{to}: {sentence}");
    }
    for (from, to, expected) in [
        ("name = \"copy\"", "name = \"\"", "FILE: `name` is empty"),
        ("topic = \"copy\"", "topics = [\"copy\"]", "FILE:7: unknown field `topics`, expected"),
        ("daemon = false", "senders = [\"host\"]", "FILE: [atp] `senders` has \"host\", which"),
        ("daemon = false", "memory_max = \"0B\"", "FILE:4: `0B` isn't a size"),
    ] {
        ensure!(RECEIVE.contains(from), "{from} isn't there");
        let sentence = refusal(folder.path(), "receive", &RECEIVE.replace(from, to))?;
        ensure!(sentence.starts_with(expected), "{to}: {sentence}");
    }
    for command in ["send", "receive", "lag"] {
        let path = folder.path().join("none.toml");
        let path = path.to_str().unwrap();
        let ended = run_to_end(folder.path(), &[command, path], &[])?;
        let expected = format!("error: can't read {path}: No such file or directory");
        ensure!(!ended.is_good && ended.stderr.starts_with(&expected), "{}", ended.stderr);
        ensure!(ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
    Ok(())
}

#[test]
fn properties__are_refused_in_one_sentence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let with = |config: &str, line: &str| format!("{config}[kafka.properties]\n{line}\n");
    for (line, expected) in [
        (
            "\"sasl.password\" = { file = \"none/password\" }",
            "[kafka.properties] sasl.password: can't read none/password: No such file",
        ),
        (
            "\"sasl.password\" = { env = \"ATP_NO_SUCH\" }",
            "[kafka.properties] sasl.password: there is no text in the environment variable \
             ATP_NO_SUCH",
        ),
        (
            "\"sasl.password\" = { credential = \"kafka-password\" }",
            "[kafka.properties] sasl.password: there is no credential \"kafka-password\": start \
             this by a unit",
        ),
        (
            "\"sasl.password\" = { credential = \"../password\" }",
            "[kafka.properties] sasl.password: the credential \"../password\" isn't the name of",
        ),
        (
            "\"group.id\" = \"mine\"",
            "[kafka.properties] can't set `group.id`: the program sets it itself",
        ),
        (
            "\"transactional.id\" = \"mine\"",
            "[kafka.properties] can't set `transactional.id`: the program sets it itself",
        ),
        ("\"no.such\" = 1", "[kafka.properties] no.such: "),
        ("\"security.protocol\" = \"mine\"", "[kafka.properties] security.protocol: "),
        ("\"linger.ms\" = 1.5", "FILE:"),
    ] {
        for (command, config) in [("send", SEND), ("receive", RECEIVE), ("lag", SEND)] {
            let sentence = refusal(folder.path(), command, &with(config, line))?;
            ensure!(sentence.starts_with(expected), "{command}, {line}: {sentence}");
        }
    }
    Ok(())
}

/// A port where no broker listens, and a host without an address.
#[test]
fn brokers__that_are_away_are_named_in_one_sentence() -> Result<()> {
    let check = |brokers: &str, command: &str, config: &str| {
        let folder = tempfile::tempdir()?;
        let sentence = refusal(folder.path(), command, &config.replace("BROKERS", brokers))?;
        let expected = format!("no broker answers at {brokers}: ");
        ensure!(sentence.starts_with(&expected), "{command}: {sentence}");
        Ok(())
    };
    thread::scope(|scope| {
        let mut runs = Vec::new();
        for brokers in ["127.0.0.1:1", "no-such-host.invalid:9092"] {
            for (command, config) in [("send", SEND), ("receive", RECEIVE), ("lag", SEND)] {
                runs.push(scope.spawn(move || check(brokers, command, config)));
            }
        }
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })
}

#[test]
fn topics__that_are_not_there_are_named_in_one_sentence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    let brokers = cluster.brokers()?;
    for (command, config) in [("send", SEND), ("receive", RECEIVE), ("lag", SEND)] {
        let text = config.replace("BROKERS", &brokers);
        let text = text.replace("\"readings\"", "\"none\"").replace("\"copy\"", "\"none\"");
        let sentence = refusal(folder.path(), command, &text)?;
        let expected = format!("there is no topic \"none\" at {brokers}: make it");
        ensure!(sentence.starts_with(&expected), "{command}: {sentence}");
    }
    Ok(())
}

#[test]
fn send__needs_a_receiver_of_windows() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    let config = SEND.replace("BROKERS", &cluster.brokers()?);
    // A socket of this test has the port, so that nobody else can.
    let silent = UdpSocket::bind("127.0.0.1:0")?;
    let peer = silent.local_addr()?.to_string();
    let sentence = refusal(folder.path(), "send", &config.replace("127.0.0.1:9", &peer))?;
    let expected = format!("no receiver of windows answers at {peer}: ");
    ensure!(sentence.starts_with(&expected), "{sentence}");

    let mut plain = Receiver::builder().control_socket(None).bind("127.0.0.1:0")?;
    let peer = plain.local_addr()?.to_string();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            while !stop.load(Relaxed) {
                plain.recv(Some(Duration::from_millis(20)))?;
            }
            anyhow::Ok(())
        });
        let sentence = refusal(folder.path(), "send", &config.replace("127.0.0.1:9", &peer));
        stop.store(true, Relaxed);
        receiving.join().expect("no panic")?;
        let (sentence, expected) = (sentence?, format!("{peer} takes messages, but confirms no"));
        ensure!(sentence.contains(&expected), "{sentence}");
        Ok(())
    })
}

#[test]
fn ports__that_are_taken_are_named_in_one_sentence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("copy", 1)?;
    cluster.mock()?.create_topic("copy.windows", 1, 1)?;
    cluster.mock()?.create_topic("copy.counted", 1, 1)?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    let expected = format!("can't serve metrics at {address}: choose another `metrics`");
    for (command, config) in [("send", SEND), ("receive", RECEIVE)] {
        let text = format!("metrics = \"{address}\"\n{config}");
        let sentence = refusal(folder.path(), command, &text)?;
        ensure!(sentence.starts_with(&expected), "{command}: {sentence}");
    }
    let taken = UdpSocket::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let text = RECEIVE.replace("BROKERS", &cluster.brokers()?).replace("127.0.0.1:0", &address);
    let sentence = refusal(folder.path(), "receive", &text)?;
    ensure!(sentence.contains(&address) && sentence.contains("in use"), "{sentence}");
    Ok(())
}
