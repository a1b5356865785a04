//! `cargo xtask book`: builds the book in `docs/`, after checking the links of every tracked
//! Markdown file.

mod markdown;
mod messages;

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::sources::{self, Source};
use markdown::{Document, Link};

/// The pages of the book. A page can link to other pages only: the built book has nothing else.
const PAGES: &str = "docs/src/";
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// The Markdown files by their paths.
type Documents<'a> = BTreeMap<&'a str, Document>;

#[derive(clap::Args)]
pub struct Args {
    /// Check the links only
    #[arg(long)]
    check: bool,
}

pub fn main(args: &Args) -> Result<()> {
    let root = &setup::paths().workspace;
    let (tracked, sources) = sources::read(root)?;
    let mut complaints = complaints(&sources, &tracked);
    complaints.extend(messages::complaints(&sources));
    for complaint in &complaints {
        atp_output::note!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("the documentation has {} errors", complaints.len());
    }
    atp_output::note!("book: links and messages are as they should be");
    if args.check {
        return Ok(());
    }
    setup::ensure(&[&setup::MDBOOK])?;
    let built = setup::paths().target.join("book");
    build(&root.join("docs"), &built)?;
    atp_output::note!("book: {}", built.join("index.html").display());
    Ok(())
}

fn build(docs: &Path, into: &Path) -> Result<()> {
    let mut build = Command::new(setup::MDBOOK.path());
    build.arg("build").arg(docs).arg("--dest-dir").arg(into);
    let output = build.output().context("can't start mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // mdbook reports a faulty page only as a warning.
    let warned = said.lines().any(|line| line.contains("WARN"));
    if !output.status.success() || warned {
        bail!("mdbook can't build {}:\n{said}", docs.display());
    }
    Ok(())
}

/// Everything that is broken, as `FILE:LINE: reason`.
fn complaints(sources: &[Source], tracked: &[String]) -> Vec<String> {
    let markdown = sources.iter().filter(|source| source.is_markdown());
    let documents: Documents =
        markdown.map(|source| (source.path.as_str(), Document::parse(&source.text))).collect();
    let mut complaints = Vec::new();
    for (path, document) in &documents {
        let is_documentation = path.starts_with("docs/") || !path.contains('/');
        for line in document.blocks_without_language.iter().filter(|_| is_documentation) {
            complaints.push(format!("{path}:{line}: this code block has no language: add one"));
        }
        for link in &document.links {
            if let Some(reason) = broken(path, link, &documents, tracked) {
                complaints.push(format!("{path}:{}: {}: {reason}", link.line, link.target));
            }
        }
    }
    complaints.extend(unlisted(&documents));
    complaints
}

/// Why a link leads nowhere; `None` if it leads somewhere, or out of the repository.
fn broken(from: &str, link: &Link, documents: &Documents, tracked: &[String]) -> Option<String> {
    if is_external(&link.target) {
        return None;
    }
    let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let Some(path) = resolve(from, file) else {
        return Some("it leaves the repository".to_owned());
    };
    if from.starts_with(PAGES) && !path.starts_with(PAGES) {
        return Some("pages of the book can link to pages of the book only".to_owned());
    }
    let folder = format!("{}/", path.trim_end_matches('/'));
    if !tracked.iter().any(|file| *file == path || file.starts_with(&folder)) {
        return Some(format!("no tracked file {path}"));
    }
    match documents.get(path.as_str()) {
        _ if anchor.is_empty() => None,
        None => Some(format!("{path} isn't Markdown and has no anchors")),
        Some(document) if document.anchors.contains(anchor) => None,
        Some(_) => Some(format!("{path} has no heading #{anchor}")),
    }
}

fn is_external(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// The path of a link's file from the root of the repository; `None` if it lies outside.
fn resolve(from: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(from.to_owned());
    }
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut parts: Vec<String> = Vec::new();
    for part in folder.join(file).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?.to_owned()),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// Pages that the table of contents doesn't name: the built book wouldn't have them.
fn unlisted(documents: &Documents) -> Vec<String> {
    let is_listed = |page: &str| {
        let links = documents.get(SUMMARY).map_or(&[][..], |summary| &summary.links);
        page == SUMMARY || links.iter().any(|link| format!("{PAGES}{}", link.target) == page)
    };
    let pages = documents.keys().filter(|path| path.starts_with(PAGES) && !is_listed(path));
    pages.map(|page| format!("{page}:1: {SUMMARY} doesn't list this page")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let tracked: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        complaints(&sources, &tracked)
    }

    #[test]
    fn complaints__none_where_links_lead_somewhere() {
        let files = [
            ("README.md", "[a](docs/src/a.md#one-two) [b](atp/) [c](https://example.org/x)"),
            ("atp/lib.rs", ""),
            (SUMMARY, "[a](a.md)\n[b](g/b.md)"),
            ("docs/src/a.md", "# One, two\n[here](#one-two)\n![p](g/p.svg)"),
            ("docs/src/g/b.md", "[a](../a.md)"),
            ("docs/src/g/p.svg", ""),
        ];
        assert_eq!(check(&files), Vec::<String>::new());
    }

    #[test]
    fn complaints__name_file_and_line() {
        let missing = check(&[("README.md", "text\n[a](b.md)")]);
        assert_eq!(missing, ["README.md:2: b.md: no tracked file b.md"]);
        let anchor = check(&[("README.md", "# Here\n[a](#there)")]);
        assert_eq!(anchor, ["README.md:2: #there: README.md has no heading #there"]);
        let outside = check(&[("README.md", "[a](../b.md)")]);
        assert_eq!(outside, ["README.md:1: ../b.md: it leaves the repository"]);
    }

    #[test]
    fn complaints__a_page_stays_in_the_book() {
        let files = [
            ("README.md", ""),
            (SUMMARY, "[a](a.md)"),
            ("docs/src/a.md", "[r](../../README.md)"),
            ("docs/src/b.md", ""),
        ];
        let complaints = check(&files);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("pages of the book only"), "{complaints:?}");
        assert!(complaints[1].contains("doesn't list this page"), "{complaints:?}");
    }

    #[test]
    fn complaints__a_code_block_needs_a_language() {
        assert_eq!(check(&[("README.md", "```sh\nls\n```")]), Vec::<String>::new());
        assert_eq!(check(&[("README.md", "\n```\nls\n```")]).len(), 1);
    }
}
