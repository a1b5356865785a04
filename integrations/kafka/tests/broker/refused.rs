//! Clients that a broker with TLS refuses, and that refuse it.

use std::thread;

use anyhow::{Context, Result, ensure};

use crate::process::run_to_end;
use crate::secure::{Login, PASSWORD, Secure, configs, sasl};

const WRONG: &str = "wrong0horse0battery";

/// Every program ends with one sentence that gives the cause, and shows no password.
pub fn each_has_one_sentence(secure: &Secure) -> Result<()> {
    let (ca, other) = (secure.certificates.file("ca"), secure.certificates.file("other"));
    let env = "{ env = \"KAFKA_PASSWORD\" }";
    let ssl = |ca: &str| format!("\"security.protocol\" = \"SSL\"\n\"ssl.ca.location\" = {ca:?}\n");
    let at = |listener| secure.address(listener);
    let by_name = at("SECURE")?.replace("127.0.0.1", "localhost");
    let v4 = "\"broker.address.family\" = \"v4\"\n";
    let cases = [
        ("a wrong password, SCRAM", at("SECURE")?, sasl("SCRAM-SHA-512", env, &ca), WRONG, ""),
        ("a wrong password, PLAIN", at("SECURE")?, sasl("PLAIN", env, &ca), WRONG, ""),
        ("another authority", at("SECURE")?, sasl("PLAIN", env, &other), PASSWORD, ""),
        ("another name", by_name, sasl("PLAIN", env, &ca) + v4, PASSWORD, ""),
        ("plain text to TLS", at("SECURE")?, String::new(), PASSWORD, ""),
        ("TLS to plain text", at("PLAINTEXT")?, ssl(&ca), PASSWORD, ""),
        ("no certificate", at("MUTUAL")?, ssl(&ca), PASSWORD, ""),
    ];
    // They mostly wait for the broker.
    thread::scope(|scope| {
        let runs = cases.iter().flat_map(|case| ["send", "receive", "lag"].map(|of| (case, of)));
        let runs: Vec<_> = runs
            .map(|((what, brokers, properties, password, sentence), command)| {
                let run = move || {
                    let variables = vec![("KAFKA_PASSWORD", *password)];
                    let (brokers, properties) = (brokers.clone(), properties.clone());
                    let login = Login { brokers, properties, variables };
                    refused(&login, command, sentence).with_context(|| format!("{what}: {command}"))
                };
                scope.spawn(run)
            })
            .collect();
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })
}

fn refused(login: &Login<'_>, command: &str, sentence: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [send, receive] = configs(folder.path(), login, "source", "target")?;
    let path = if command == "receive" { receive } else { send };
    let began = std::time::Instant::now();
    let ended = run_to_end(folder.path(), &[command, &path], &login.variables)?;
    let log = ended.stderr;
    eprintln!("{command} {:?} {log}", began.elapsed());
    ensure!(!ended.is_good && log.lines().count() == 1, "{log}");
    ensure!(log.starts_with("error: ") && log.contains(sentence), "{log}");
    ensure!(![PASSWORD, WRONG].iter().any(|password| log.contains(password)), "{log}");
    Ok(())
}
