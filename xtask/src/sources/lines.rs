//! The code and the prose of each line of a file.

/// A line of a file. A comment behind code is neither code nor prose.
pub struct Line<'a> {
    pub text: &'a str,
    pub code: &'a str,
    /// Markdown, a comment on lines of its own, or a docstring.
    pub prose: Option<&'a str>,
}

/// How comments begin: those to the end of the line, and longer ones, with their end.
struct Marks {
    comment: &'static str,
    block: Option<[&'static str; 2]>,
}

/// Begins and ends a docstring.
const DOCSTRING: &str = "\"\"\"";

fn marks(extension: &str) -> Option<Marks> {
    let (comment, block) = match extension {
        // Rust here has no block comments, and strings with `/*`.
        "rs" => ("//", None),
        "c" | "h" | "cpp" | "go" => ("//", Some(["/*", "*/"])),
        "py" | "pyi" => ("#", Some([DOCSTRING, DOCSTRING])),
        _ => return None,
    };
    Some(Marks { comment, block })
}

pub fn split<'a>(path: &str, text: &'a str) -> Vec<Line<'a>> {
    let (_, extension) = path.rsplit_once('.').unwrap_or_default();
    let Some(marks) = marks(extension) else {
        let prose = |line| (extension == "md").then_some(line);
        return text.lines().map(|text| Line { text, code: "", prose: prose(text) }).collect();
    };
    // Whether the open block is prose: a string of Python isn't.
    let mut open = None;
    let split = |text: &'a str| {
        let words = text.trim_start();
        let begins = |mark: &str| words.starts_with(mark);
        let is_comment = open.is_none() && begins(marks.comment);
        let is_block = marks.block.is_some_and(|[begin, _]| begins(begin));
        let is_prose = open.unwrap_or(is_comment || is_block);
        if !is_comment {
            open = marks.open_after(text, open, is_prose);
        }
        let prose = is_prose.then(|| words.trim_start_matches(['/', '!', '*', '#', '"']));
        Line { text, code: if is_prose { "" } else { marks.code(text) }, prose }
    };
    text.lines().map(split).collect()
}

impl Marks {
    /// The block that is open at the end of a line.
    fn open_after(&self, line: &str, mut open: Option<bool>, is_prose: bool) -> Option<bool> {
        let [begin, end] = self.block?;
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(if open.is_some() { end } else { begin }) {
            (open, rest) = (if open.is_some() { None } else { Some(is_prose) }, after);
        }
        open
    }

    /// A line without the comment behind its code.
    fn code<'a>(&self, line: &'a str) -> &'a str {
        let begins = [self.comment].into_iter().chain(self.block.map(|[begin, _]| begin));
        let before = |code: &'a str, mark| code.split(&format!(" {mark} ")).next().unwrap_or(code);
        begins.fold(line, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` for a line of code, `p` for one of prose.
    fn kinds(path: &str, text: &str) -> String {
        let kind = |line: &Line| if line.prose.is_some() { 'p' } else { 'c' };
        split(path, text).iter().map(kind).collect()
    }

    #[test]
    fn split__finds_prose_in_each_language() {
        assert_eq!(kinds("a.rs", "//! a\nlet a = \"/*\"; // b\n/// c"), "pcp");
        assert_eq!(kinds("a.h", "/* a\n * b\n */\nint a; /* c */\n/* d */\nint b;"), "pppcpc");
        assert_eq!(
            kinds("a.py", "\"\"\"a\n\nb\"\"\"\n# c\nd = 1\n\"\"\"e\"\"\"\nf = 1"),
            "ppppcpc"
        );
        assert_eq!(kinds("a.py", "a = \"\"\"\nb\n\"\"\"\nc = 1"), "cccc");
        assert_eq!((kinds("a.md", "a"), kinds("a.txt", "a")), ("p".into(), "c".into()));
    }

    #[test]
    fn split__takes_comments_from_code_and_marks_from_prose() {
        assert_eq!(split("a.py", "a = b // c  # d")[0].code, "a = b // c ");
        assert_eq!(split("a.c", "int a; /* b */")[0].code, "int a;");
        assert_eq!(split("a.py", "    \"\"\"Whoever.\"\"\"")[0].prose, Some("Whoever.\"\"\""));
        assert_eq!(split("a.h", " * Whoever.\n")[0].prose, None);
    }
}
