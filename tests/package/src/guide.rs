//! The commands of the operator's guide, in the order of its pages.
//!
//! Every `sh` block is run, as it stands. A comment in the line above it can change how:
//!
//! | comment | effect |
//! |---|---|
//! | `<!-- test: not run: REASON -->` | the block isn't run |
//! | `<!-- test: on the peer -->` | it runs on the other host |
//! | `<!-- test: in the background -->` | the next block doesn't wait for it |
//! | `<!-- test: on a terminal, until q -->` | it runs on a terminal; after some seconds, q is typed |

use anyhow::{Context, Result, bail, ensure};
use std::{fs, path::Path};

/// The item of the table of contents whose pages are the guide.
const FIRST_PAGE: &str = "- [The daemon](";

/// A block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's page without folder and extension, and its line there: `check:8`.
    pub place: String,
    /// The lines of the block.
    pub commands: String,
    pub how: How,
}

/// The place and the kind of a block's run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct How {
    pub not_run: Option<String>,
    pub on_peer: bool,
    pub in_background: bool,
    pub on_terminal: bool,
}

/// The blocks of the whole guide.
pub fn blocks(book: &Path) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for page in pages(&read(&book.join("SUMMARY.md"))?)? {
        let stem = Path::new(&page).file_stem().context("a page without a name")?;
        let text = read(&book.join(&page))?;
        blocks.extend(blocks_of_page(&stem.to_string_lossy(), &text)?);
    }
    Ok(blocks)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

/// The guide's first page and those indented below it.
fn pages(summary: &str) -> Result<Vec<String>> {
    let mut lines = summary.lines().skip_while(|line| !line.starts_with(FIRST_PAGE));
    let first =
        lines.next().with_context(|| format!("SUMMARY.md has no line `{FIRST_PAGE}...`"))?;
    let others = lines.take_while(|line| line.starts_with("  "));
    let page = |line: &str| Some(line.split_once("](")?.1.split_once(')')?.0.to_owned());
    let pages = [first].into_iter().chain(others).map(page).collect::<Option<_>>();
    pages.context("SUMMARY.md has a page without a link")
}

fn blocks_of_page(page: &str, text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut how = None;
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let place = format!("{page}:{number}");
        let directive = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(words) = directive {
            how = Some(How::parse(words).with_context(|| place)?);
            continue;
        }
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let commands: Vec<&str> = inside.collect();
            if language == "sh" {
                let (commands, how) = (commands.join("\n"), how.take().unwrap_or_default());
                blocks.push(Block { place: place.clone(), commands, how });
            }
        }
        ensure!(how.is_none(), "{place}: a comment for the test needs an `sh` block below it");
    }
    Ok(blocks)
}

impl How {
    fn parse(words: &str) -> Result<Self> {
        let not_run = words.strip_prefix("not run: ").map(str::to_owned);
        let mut how = Self { not_run, ..Self::default() };
        match words {
            _ if how.not_run.is_some() => {}
            "on the peer" => how.on_peer = true,
            "in the background" => how.in_background = true,
            "on the peer, in the background" => (how.on_peer, how.in_background) = (true, true),
            "on a terminal, until q" => how.on_terminal = true,
            _ => bail!("the test knows no comment `{words}`"),
        }
        Ok(how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages__those_below_the_first() {
        let summary =
            "- [A](a.md)\n- [The daemon](g/b.md)\n  - [C](g/c.md)\n- [D](d.md)\n  - [E](e.md)";
        assert_eq!(pages(summary).unwrap(), ["g/b.md", "g/c.md"]);
        assert!(pages("- [A](a.md)").is_err());
    }

    #[test]
    fn blocks_of_page__with_places_and_comments() {
        let text = "```sh\nls\ntrue\n```\n```text\n```\n<!-- test: on the peer -->\n```sh\nid\n```";
        let block = |place: &str, commands: &str, on_peer| Block {
            place: place.to_owned(),
            commands: commands.to_owned(),
            how: How { on_peer, ..How::default() },
        };
        let expected = [block("p:1", "ls\ntrue", false), block("p:8", "id", true)];
        assert_eq!(blocks_of_page("p", text).unwrap(), expected);
    }

    #[test]
    fn blocks_of_page__refuses_comments_that_do_nothing() {
        for text in ["<!-- test: sometimes -->\n```sh\n```", "<!-- test: on the peer -->\n\nls"] {
            assert!(blocks_of_page("p", text).is_err(), "{text}");
        }
    }

    #[test]
    fn blocks__of_this_repository() {
        let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
        crate::checks::steps(&blocks(&book).unwrap()).unwrap();
    }
}
