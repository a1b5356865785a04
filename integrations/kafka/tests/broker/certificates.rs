//! Certificates of a test, made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Files in PEM. The keys are in PKCS #8, as Kafka wants them.
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// An authority with certificates for the broker at 127.0.0.1 and for the client `bridge`, and
    /// another authority, `other`.
    pub fn new(folder: &Path) -> Result<Certificates> {
        let certificates = Certificates { folder: folder.to_owned() };
        // Instead of the system's, which differ.
        fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n")?;
        let authority = ["basicConstraints=critical,CA:TRUE", "subjectKeyIdentifier=hash"];
        certificates.make("ca", &authority, None)?;
        certificates.make("other", &authority, None)?;
        let broker = ["subjectAltName=IP:127.0.0.1", "basicConstraints=critical,CA:FALSE"];
        certificates.make("broker", &broker, Some("ca"))?;
        certificates.make("bridge", &broker[1..], Some("ca"))?;
        Ok(certificates)
    }

    /// The file of a certificate.
    pub fn file(&self, name: &str) -> String {
        self.folder.join(format!("{name}.pem")).display().to_string()
    }

    /// The file of a key.
    pub fn key_file(&self, name: &str) -> String {
        self.folder.join(format!("{name}.key")).display().to_string()
    }

    /// The key and the certificate.
    pub fn pair(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.key_file(name))? + &fs::read_to_string(self.file(name))?)
    }

    fn make(&self, name: &str, extensions: &[&str], issuer: Option<&str>) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(&self.folder).stdin(Stdio::null());
        openssl.args("req -x509 -config openssl.cnf -days 2 -nodes -newkey ec".split(' '));
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", &format!("/CN={name}")]);
        openssl.args(["-keyout", &self.key_file(name), "-out", &self.file(name)]);
        extensions.iter().for_each(|extension| _ = openssl.args(["-addext", extension]));
        if let Some(issuer) = issuer {
            openssl.args(["-CA", &self.file(issuer), "-CAkey", &self.key_file(issuer)]);
        }
        let output = openssl.output().context("can't start openssl: install it")?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl can't make the certificate of {name}: {log}");
        Ok(())
    }
}
