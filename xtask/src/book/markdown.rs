//! Reads what the link check needs from a Markdown file: links, headings and code blocks.

use std::collections::BTreeSet;

/// A Markdown file, as far as the link check reads it.
#[derive(Debug, Default)]
pub struct Document {
    pub links: Vec<Link>,
    /// The anchors of the headings, as GitHub and mdBook make them.
    pub anchors: BTreeSet<String>,
    /// Lines at which a code block begins that names no language.
    pub blocks_without_language: Vec<usize>,
}

/// A link or an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Counted from 1.
    pub line: usize,
    pub target: String,
}

impl Document {
    pub fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut fence: Option<&str> = None;
        for (line, text) in (1..).zip(text.lines()) {
            let start = text.trim_start();
            if let Some(open) = fence {
                if start.starts_with(open) && start.trim_matches('`').trim().is_empty() {
                    fence = None;
                }
            } else if start.starts_with("```") {
                let ticks = start.len() - start.trim_start_matches('`').len();
                fence = Some(&start[..ticks]);
                if start[ticks..].trim().is_empty() {
                    document.blocks_without_language.push(line);
                }
            } else {
                document.read_line(line, text);
            }
        }
        document
    }

    fn read_line(&mut self, line: usize, text: &str) {
        if let Some(heading) = heading(text) {
            let anchor = anchor(heading);
            let repeated = (1..).map(|n| format!("{anchor}-{n}"));
            let mut candidates = [anchor.clone()].into_iter().chain(repeated);
            self.anchors.extend(candidates.find(|anchor| !self.anchors.contains(anchor)));
        }
        let text = without_code(text);
        self.links.extend(targets(&text).map(|target| Link { line, target: target.to_owned() }));
    }
}

fn heading(text: &str) -> Option<&str> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let title = text[hashes..].strip_prefix(' ')?;
    (1..=6).contains(&hashes).then_some(title.trim())
}

/// Lower case, spaces to hyphens, punctuation left out.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || "_- ".contains(*c);
    heading.chars().filter(is_kept).collect::<String>().to_lowercase().replace(' ', "-")
}

/// The line with its code spans left out: links in code are examples.
fn without_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A tick without a partner is text.
    let has_lone_tick = parts.len().is_multiple_of(2);
    let is_text = |at: usize| at.is_multiple_of(2) || (has_lone_tick && at == parts.len() - 1);
    (0..parts.len()).filter(|at| is_text(*at)).map(|at| parts[at]).collect()
}

/// The targets of `[text](target)` and `![text](target)`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, open)| {
        let rest = &text[at + open.len()..];
        let target = &rest[..rest.find(')')?];
        // A title may follow.
        target.split_whitespace().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(text: &str) -> Vec<(usize, String)> {
        Document::parse(text).links.into_iter().map(|link| (link.line, link.target)).collect()
    }

    #[test]
    fn parse__finds_links_and_images_outside_of_code() {
        let text =
            "[a](b.md)\n`[c](d.md)` and ![e](f.svg \"title\")\n```text\n[g](h.md)\n```\n[i](j)";
        let expected = [(1, "b.md"), (2, "f.svg"), (6, "j")];
        assert_eq!(links(text), expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn parse__makes_anchors_as_github_does() {
        let anchors =
            Document::parse("# FIN and FIN-ACK\n## `paper`, why?\n## Open\n## Open").anchors;
        let expected = ["fin-and-fin-ack", "paper-why", "open", "open-1"].map(str::to_owned);
        assert_eq!(anchors, BTreeSet::from(expected));
    }

    #[test]
    fn parse__a_longer_fence_holds_shorter_ones() {
        let document = Document::parse("````text\n```\n[a](b)\n```\n````\n[c](d)");
        assert_eq!(document.links.len(), 1);
        assert_eq!(document.blocks_without_language, Vec::<usize>::new());
    }

    #[test]
    fn without_code__keeps_a_single_tick() {
        assert_eq!(without_code("a `b` c ` d"), "a  c  d");
    }
}
