//! Clients that a broker with TLS refuses, and that refuse it.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::process::run_to_end;
use crate::secure::{Login, PASSWORD, Secure, configs, sasl};
use crate::topics::LIMIT;

const WRONG: &str = "wrong0horse0battery";

/// The number of topics that nobody may use.
const FORBIDDEN: u8 = 99;

/// Every program ends with one sentence that gives the cause, and shows no password.
pub fn each_has_one_sentence(secure: &Secure) -> Result<()> {
    let (ca, other) = (secure.certificates.file("ca"), secure.certificates.file("other"));
    let env = "{ env = \"KAFKA_PASSWORD\" }";
    let ssl = |ca: &str| format!("\"security.protocol\" = \"SSL\"\n\"ssl.ca.location\" = {ca:?}\n");
    let at = |listener| secure.address(listener);
    let by_name = at("SECURE")?.replace("127.0.0.1", "localhost");
    let v4 = "\"broker.address.family\" = \"v4\"\n";
    let certificate = "The broker wants a certificate of an authority that it trusts";
    let of_other = format!(
        "{}\"ssl.certificate.location\" = {other:?}\n\"ssl.key.pem\" = {{ file = {:?} }}\n",
        ssl(&ca),
        secure.certificates.key_file("other")
    );
    let login = "Check `sasl.mechanism`, `sasl.username` and `sasl.password`";
    let authority = "needs the authority of the broker's certificate";
    let protocol = "Check `security.protocol`";
    // Names of topics are shown only to those who may read or write them.
    let permission = "can't read topic";
    let cases = [
        ("a wrong password, SCRAM", at("SECURE")?, sasl("SCRAM-SHA-512", env, &ca), WRONG, login),
        ("a wrong password, PLAIN", at("SECURE")?, sasl("PLAIN", env, &ca), WRONG, login),
        ("another authority", at("SECURE")?, sasl("PLAIN", env, &other), PASSWORD, authority),
        ("another name", by_name, sasl("PLAIN", env, &ca) + v4, PASSWORD, authority),
        ("plain text to TLS", at("SECURE")?, String::new(), PASSWORD, protocol),
        ("TLS to plain text", at("PLAINTEXT")?, ssl(&ca), PASSWORD, protocol),
        ("a certificate of another authority", at("MUTUAL")?, of_other, PASSWORD, certificate),
        ("no permission", at("SECURE")?, sasl("PLAIN", env, &ca), PASSWORD, permission),
        ("no certificate", at("MUTUAL")?, ssl(&ca), PASSWORD, certificate),
    ];
    // They mostly wait for the broker.
    thread::scope(|scope| {
        let runs = cases.iter().flat_map(|case| ["send", "receive", "lag"].map(|of| (case, of)));
        let runs: Vec<_> = runs
            .map(|((what, brokers, properties, password, sentence), command)| {
                let login = Login {
                    name: format!("{command} with {what}"),
                    user: "User:bridge",
                    brokers: brokers.clone(),
                    properties: properties.clone(),
                    variables: vec![("KAFKA_PASSWORD", *password)],
                };
                scope.spawn(move || {
                    refused(&login, command, sentence).with_context(|| login.name.clone())
                })
            })
            .collect();
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })
}

fn refused(login: &Login<'_>, command: &str, sentence: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [send, receive] = configs(folder.path(), login, FORBIDDEN)?;
    let path = if command == "receive" { receive } else { send };
    let deadline = Instant::now() + LIMIT;
    let ended = loop {
        let ended = run_to_end(folder.path(), &[command, &path], &login.variables)?;
        // On a machine that is busy for long, the broker hasn't refused it yet.
        let is_late = ended.stderr.contains("no broker answers");
        if !is_late || Instant::now() >= deadline {
            break ended;
        }
    };
    let log = ended.stderr;
    ensure!(!ended.is_good && log.lines().count() == 1, "{log}");
    ensure!(log.starts_with("error: ") && log.contains(sentence), "{log}");
    ensure!(![PASSWORD, WRONG].iter().any(|password| log.contains(password)), "{log}");
    Ok(())
}
