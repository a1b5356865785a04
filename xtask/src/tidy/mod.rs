//! `cargo xtask tidy`: rules of the repository that no compiler checks. Each rule is a function
//! over the tracked files that returns its complaints.

mod dependencies;
mod documents;
mod imports;
mod laws;
mod resources;
mod sizes;
mod words;

use anyhow::{Result, bail};

use crate::setup;
use crate::sources::{self, Source};

type Rule = fn(&[Source]) -> Vec<String>;

const RULES: [Rule; 17] = [
    sizes::long_files,
    sizes::long_documents,
    sizes::large_folders,
    sizes::long_lines,
    imports::cycles,
    imports::layers,
    laws::clocks,
    laws::untested_equations,
    words::old_names,
    words::old_words,
    words::scheme_names,
    words::machine_paths,
    documents::missing,
    documents::folders_without_row,
    documents::measurements,
    documents::ignores_without_reason,
    resources::without_test,
];

pub fn main() -> Result<()> {
    let root = &setup::paths().workspace;
    let (paths, sources) = sources::read(root)?;
    let mut complaints: Vec<String> = RULES.iter().flat_map(|rule| rule(&sources)).collect();
    complaints.extend(sizes::many_files(&paths));
    complaints.extend(dependencies::check()?);
    if complaints.is_empty() {
        atp_output::note!("tidy: {} files keep the rules", paths.len());
        return Ok(());
    }
    for complaint in &complaints {
        atp_output::note!("tidy: {complaint}");
    }
    bail!("{} breaches of the repository's rules", complaints.len())
}
