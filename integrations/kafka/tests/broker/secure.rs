//! A broker with TLS: passwords by SCRAM and PLAIN, and certificates of clients.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use kafka_broker::Broker;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use serde_json::Value;

use crate::certificates::Certificates;
use crate::permissions::{CREATE, GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE, allow};
use crate::process::{Bridge, run_to_end};
use crate::refused;
use crate::topics::{LIMIT, client, counted, make_one};

pub const PASSWORD: &str = "correct0horse0battery";
const RECORDS: u64 = 300;

/// A broker with a listener for passwords, one for certificates, and one in plain text.
pub struct Secure {
    broker: Broker,
    pub certificates: Certificates,
    /// Has the certificates, and the password in the file `kafka-password`.
    pub folder: tempfile::TempDir,
}

/// A client's properties as in the guide, and the variables that they need.
pub struct Login<'a> {
    pub name: String,
    pub user: &'a str,
    pub brokers: String,
    pub properties: String,
    pub variables: Vec<(&'a str, &'a str)>,
}

pub fn bridges_log_in_over_tls(jars: &Path) -> Result<()> {
    let secure = Secure::start(jars)?;
    let ca = secure.certificates.file("ca");
    let password_file = secure.folder.path().join("kafka-password");
    let credentials = secure.folder.path().to_str().context("a path")?;
    let by_file = format!("{{ file = {password_file:?} }}");
    let env = "{ env = \"KAFKA_PASSWORD\" }";
    let credential = "{ credential = \"kafka-password\" }";
    let with_env = vec![("KAFKA_PASSWORD", PASSWORD)];
    let with_credential = vec![("CREDENTIALS_DIRECTORY", credentials)];
    let address = secure.broker.listener("SECURE")?;
    let with_password = [
        ("SCRAM-SHA-512", by_file.as_str(), vec![]),
        ("SCRAM-SHA-512", env, with_env),
        ("PLAIN", credential, with_credential.clone()),
    ];
    let with_password = with_password.map(|(mechanism, password, variables)| Login {
        name: format!("{mechanism} with {password}"),
        user: "User:bridge",
        brokers: address.clone(),
        properties: sasl(mechanism, password, &ca),
        variables,
    });
    let with_certificate = Login {
        name: "a certificate".to_owned(),
        user: "User:CN=bridge",
        brokers: secure.broker.listener("MUTUAL")?,
        properties: format!(
            "\"security.protocol\" = \"SSL\"\n\"ssl.ca.location\" = {ca:?}\n\
             \"ssl.certificate.location\" = {:?}\n\
             \"ssl.key.pem\" = {{ credential = \"bridge.key\" }}\n",
            secure.certificates.file("bridge")
        ),
        variables: with_credential,
    };
    // They mostly wait for the broker.
    thread::scope(|scope| {
        let logins = with_password.iter().chain([&with_certificate]).zip(1..);
        let secure = &secure;
        let carry = |(login, number): (&Login<'_>, u8)| {
            secure.carry(login, number).with_context(|| login.name.clone())
        };
        let runs: Vec<_> = logins.map(|login| scope.spawn(move || carry(login))).collect();
        runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
    })?;
    refused::each_has_one_sentence(&secure)
}

/// The properties of the guide.
pub fn sasl(mechanism: &str, password: &str, ca: &str) -> String {
    format!(
        "\"security.protocol\" = \"SASL_SSL\"\n\"ssl.ca.location\" = {ca:?}\n\
         \"sasl.mechanism\" = \"{mechanism}\"\n\"sasl.username\" = \"bridge\"\n\
         \"sasl.password\" = {password}\n"
    )
}

impl Secure {
    fn start(jars: &Path) -> Result<Secure> {
        let folder = tempfile::tempdir()?;
        let certificates = Certificates::new(folder.path())?;
        std::fs::write(folder.path().join("kafka-password"), format!("{PASSWORD}\n"))?;
        let user = format!("required user_bridge=\"{PASSWORD}\";");
        let module = "org.apache.kafka.common.security";
        let broker = Broker::builder(jars)
            .listener("SECURE", "SASL_SSL")
            .listener("MUTUAL", "SSL")
            .scram_user("bridge", PASSWORD)
            .file("broker.pem", &certificates.pair("broker")?)
            .file("ca.pem", &std::fs::read_to_string(certificates.file("ca"))?)
            // Users may only do as permissions say.
            .property(
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )
            .property("super.users", "User:ANONYMOUS")
            .property("ssl.keystore.type", "PEM")
            .property("ssl.keystore.location", "broker.pem")
            .property("ssl.truststore.type", "PEM")
            .property("ssl.truststore.location", "ca.pem")
            .property("listener.name.mutual.ssl.client.auth", "required")
            .property("listener.name.secure.sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN")
            .property(
                "listener.name.secure.scram-sha-512.sasl.jaas.config",
                &format!("{module}.scram.ScramLoginModule required;"),
            )
            .property(
                "listener.name.secure.plain.sasl.jaas.config",
                &format!("{module}.plain.PlainLoginModule {user}"),
            );
        Ok(Secure { broker: broker.start()?, certificates, folder })
    }

    /// The address of a listener, and that of the one in plain text.
    pub fn address(&self, listener: &str) -> Result<String> {
        match listener {
            "PLAINTEXT" => Ok(self.broker.bootstrap()),
            name => self.broker.listener(name),
        }
    }

    /// Records cross from topic to topic, and the lag is known.
    fn carry(&self, login: &Login<'_>, number: u8) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let plain = client(&self.broker);
        let [source, target] = ["source", "target"].map(|name| format!("{name}-{number}"));
        let [windows, counts] = ["windows", "counted"].map(|name| format!("{target}.{name}"));
        let transactions = format!("atp-kafka/r-{number}");
        // Those of the guide.
        let permissions = [
            (TOPIC, source.as_str(), READ),
            (GROUP, "g", READ),
            (TOPIC, &target, WRITE),
            (TOPIC, &windows, WRITE),
            (TOPIC, &windows, CREATE),
            (TOPIC, &counts, WRITE),
            (TOPIC, &counts, CREATE),
            (TOPIC, &counts, READ),
            (TRANSACTIONAL_ID, &transactions, WRITE),
        ];
        allow(&plain, login.user, &permissions)?;
        make_one(&plain, &source)?;
        make_one(&plain, &target)?;
        produce(&plain, &source)?;
        let [send, receive] = configs(folder.path(), login, number)?;

        let variables = &login.variables;
        let arguments = ["receive", &receive];
        let mut receiver = Bridge::start_with(folder.path(), "receive", &arguments, variables)?;
        receiver.wait_for_log("receiving windows", LIMIT)?;
        // It runs, so this isn't empty.
        let line = std::fs::read_to_string(format!("/proc/{}/cmdline", receiver.pid()))?;
        ensure!(line.contains(".toml") && !line.contains(PASSWORD), "{line}");
        // With all that librdkafka tells of its connections.
        let logged = [variables.as_slice(), &[("RUST_LOG", "trace")]].concat();
        let arguments = ["send", &send, "--until-end"];
        let mut sender = Bridge::start_with(folder.path(), "send", &arguments, &logged)?;
        sender.wait()?;
        ensure!(sender.log().contains("librdkafka"), "{}", sender.log());
        receiver.terminate()?;
        let found = counted(&plain, &target, 1)?;
        ensure!(found == [RECORDS], "{found:?} of {RECORDS}");

        let ended = run_to_end(folder.path(), &["lag", &send, "--json"], variables)?;
        ensure!(ended.is_good && ended.stderr.is_empty(), "{}", ended.stderr);
        let lag: Value = serde_json::from_str(&ended.stdout)?;
        ensure!(lag["lag"] == 0, "{lag}");
        let key = std::fs::read_to_string(self.certificates.key_file("bridge"))?;
        let key = key.lines().nth(1).context("a key has lines")?;
        for text in [receiver.log(), sender.log()] {
            ensure!(!text.contains(PASSWORD) && !text.contains(key), "{text}");
        }
        Ok(())
    }
}

fn produce(client: &ClientConfig, topic: &str) -> Result<()> {
    let producer: ThreadedProducer<_> = client.create()?;
    for _ in 0..RECORDS {
        let record: BaseRecord<'_, str, str> = BaseRecord::to(topic).payload("a value");
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(LIMIT)?;
    Ok(())
}

/// The configurations of a sender and a receiver of the topics with this number.
pub fn configs(folder: &Path, login: &Login<'_>, number: u8) -> Result<[String; 2]> {
    // Of the loopback, where no other test receives.
    let address = format!("127.2.253.{number}:4747");
    let Login { brokers, properties, .. } = login;
    let send = format!(
        "peer = \"{address}\"\n[window]\nrecords = 100\n[sampling]\nmsr = 0.8\n\
         [atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{brokers}\"\ngroup = \"g\"\ntopics = [\"source-{number}\"]\n\
         [kafka.properties]\n{properties}\"debug\" = \"all\"\n"
    );
    let receive = format!(
        "listen = \"{address}\"\nname = \"r-{number}\"\n[atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{brokers}\"\ntopic = \"target-{number}\"\n[kafka.properties]\n{properties}"
    );
    let paths: [PathBuf; 2] = ["send.toml", "receive.toml"].map(|name| folder.join(name));
    std::fs::write(&paths[0], send)?;
    std::fs::write(&paths[1], receive)?;
    Ok(paths.map(|path| path.display().to_string()))
}
