//! Prints an error and its causes.

/// An error and its causes as one sentence. Leaves out a cause that the text before it repeats.
pub fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match () {
        () if said.is_empty() => cause,
        () if said.contains(&cause) => said,
        () => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence__leaves_out_repeated_causes() {
        let error = anyhow::anyhow!("no such file")
            .context("can't read x: no such file")
            .context("starting");
        assert_eq!(sentence(&error), "starting: can't read x: no such file");
    }
}
