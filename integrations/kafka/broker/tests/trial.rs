//! A test that needs the jars of Kafka.

use anyhow::{Error, Result};
use libtest_mimic::{Completion, Failed, Trial};
use std::path::Path;
use std::time::Instant;

/// A test that gets the folder of the jars. Without one it counts as skipped, and says why.
pub fn trial(name: &'static str, test: fn(&Path) -> Result<()>) -> Trial {
    trial_if(name, || None, test)
}

/// Like [`trial`], skipped as well if `missing` gives a reason.
pub fn trial_if(
    name: &'static str,
    missing: fn() -> Option<String>,
    test: fn(&Path) -> Result<()>,
) -> Trial {
    Trial::ignorable_test(name, move || {
        let jars = match (kafka_broker::jars(), missing()) {
            (Ok(jars), None) => jars,
            (Err(reason), _) | (_, Some(reason)) => {
                println!("skipped: {name}: {reason}");
                return Ok(Completion::ignored_with(reason));
            }
        };
        // On lines of their own: other tests print too.
        println!("\nbegan {name}");
        let started = Instant::now();
        let outcome = test(&jars);
        println!("\ntook {name}: {:.3} s", started.elapsed().as_secs_f64());
        let words = |error: Error| Failed::from(format!("{error:#}"));
        outcome.map(|()| Completion::Completed).map_err(words)
    })
}
