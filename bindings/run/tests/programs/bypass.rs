//! A C program that goes around the library.

use crate::tools::{command, compile, ports};
use anyhow::{Result, ensure};

/// One sentence for each kind of call around libc, and the calls do as always.
pub fn is_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("bypass", folder.path())?;
    for (argument, sentences) in [
        (None, &["uses io_uring: datagrams sent with it stay plain", "makes raw socket calls"][..]),
        (Some("libc"), &[]),
    ] {
        let mut run = command(true, &ports("msr:0.9")?, None, &program);
        let output = run.args(argument).output()?;
        let (said, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        ensure!(said == "as usual\n", "its calls went {said:?}: {errors}");
        ensure!(errors.lines().count() == sentences.len(), "it was reported: {errors}");
        for sentence in sentences {
            ensure!(errors.contains(sentence), "{sentence:?} isn't in: {errors}");
        }
    }
    Ok(())
}
