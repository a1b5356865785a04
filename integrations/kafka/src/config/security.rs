//! Checks of the properties for TLS and logins, where librdkafka's errors name no cause or none
//! comes.

use rdkafka::ClientConfig;
use std::fs::File;

/// The logins that are built in.
const MECHANISMS: [&str; 3] = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];

/// The properties with paths.
const PATHS: [&str; 5] = [
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
];

/// Checks that properties of a login or of TLS have an effect, and that files can be read.
///
/// # Errors
/// A sentence that names the property.
pub fn check(config: &ClientConfig) -> Result<(), String> {
    let protocol = config.get("security.protocol").unwrap_or("plaintext").to_ascii_lowercase();
    let names = config.config_map();
    for (prefix, is_used, needed) in [
        // Otherwise the password would be left out, or sent in plain text.
        ("sasl.", protocol.starts_with("sasl_"), "SASL_SSL"),
        ("ssl.", protocol.ends_with("ssl"), "SSL or SASL_SSL"),
    ] {
        let first = names.keys().find(|name| name.starts_with(prefix) && !is_used);
        if let Some(name) = first {
            return Err(format!("`{name}` needs `security.protocol` = {needed}"));
        }
    }
    // Two names of one property.
    let mechanism = config.get("sasl.mechanism").or_else(|| config.get("sasl.mechanisms"));
    if protocol.starts_with("sasl_") && !mechanism.is_some_and(|name| MECHANISMS.contains(&name)) {
        let names = MECHANISMS.join(", ");
        return Err(format!("{protocol} needs a `sasl.mechanism` that is built in: {names}"));
    }
    for name in PATHS {
        // The last one is librdkafka's word for the system's authorities.
        let Some(path) = config.get(name).filter(|path| *path != "probe") else { continue };
        File::open(path).map_err(|error| format!("{name}: can't read {path}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check__names_the_property() {
        let login = [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN")];
        let tls = ("security.protocol", "ssl");
        for (properties, expected) in [
            (&[][..], ""),
            (&login, ""),
            (&[tls, ("ssl.ca.location", "probe")], ""),
            (&[tls, ("ssl.ca.location", "/")], ""),
            (&[("sasl.username", "a")], "`sasl.username` needs `security.protocol` = SASL_SSL"),
            (
                &[tls, ("sasl.password", "a")],
                "`sasl.password` needs `security.protocol` = SASL_SSL",
            ),
            (
                &[("security.protocol", "sasl_plaintext"), ("ssl.ca.location", "/")],
                "`ssl.ca.location` needs `security.protocol` = SSL or SASL_SSL",
            ),
            (
                &login[..1],
                "sasl_ssl needs a `sasl.mechanism` that is built in: SCRAM-SHA-512, \
                 SCRAM-SHA-256, PLAIN",
            ),
            (
                &[tls, ("ssl.key.location", "/no/key")],
                "ssl.key.location: can't read /no/key: No such file or directory (os error 2)",
            ),
        ] {
            let mut config = ClientConfig::new();
            properties.iter().for_each(|(name, value)| _ = config.set(*name, *value));
            assert_eq!(check(&config).err().unwrap_or_default(), expected);
        }
    }
}
