//! The code and the prose of each line of a file.

/// A line of a file. A comment behind code is neither code nor prose.
pub struct Line<'a> {
    pub text: &'a str,
    /// The line without comments and docstrings.
    pub code: String,
    /// Markdown, a comment on lines of its own, or a docstring.
    pub prose: Option<&'a str>,
}

/// How a comment or a string begins and ends.
#[derive(Clone, Copy)]
struct Mark {
    begin: &'static str,
    end: &'static str,
    is_string: bool,
    /// Whether it may have several lines.
    is_long: bool,
}

const fn comment(begin: &'static str, end: &'static str, is_long: bool) -> Mark {
    Mark { begin, end, is_string: false, is_long }
}

const fn string(begin: &'static str, end: &'static str) -> Mark {
    Mark { begin, end, is_string: true, is_long: end.len() == 3 }
}

const SLASHES: Mark = comment("//", "\n", false);
/// Rust here has no block comments, and apostrophes of lifetimes. The character `"` is `'"'`.
const RUST: &[Mark] = &[SLASHES, string("'\"", "'"), string("\"", "\"")];
/// Also Go, Java and Kotlin.
const C: &[Mark] = &[SLASHES, comment("/*", "*/", true), string("\"", "\""), string("'", "'")];
const PYTHON: &[Mark] = &[
    comment("#", "\n", false),
    string("\"\"\"", "\"\"\""),
    string("'''", "'''"),
    string("\"", "\""),
    string("'", "'"),
];

pub fn split<'a>(path: &str, text: &'a str) -> Vec<Line<'a>> {
    let (_, extension) = path.rsplit_once('.').unwrap_or_default();
    let marks = match extension {
        "rs" => RUST,
        "c" | "h" | "cpp" | "go" | "java" | "kt" => C,
        "py" | "pyi" => PYTHON,
        _ => &[],
    };
    if marks.is_empty() {
        let prose = |line| (extension == "md").then_some(line);
        let line = |text| Line { text, code: String::new(), prose: prose(text) };
        return text.lines().map(line).collect();
    }
    let mut open = None;
    text.lines().map(|text| split_line(text, marks, &mut open)).collect()
}

/// `open` is the comment or string that goes on from line to line, and whether it is prose.
fn split_line<'a>(text: &'a str, marks: &[Mark], open: &mut Option<(Mark, bool)>) -> Line<'a> {
    let mut code = String::new();
    let mut prose = open.is_some_and(|(_, is_prose)| is_prose).then_some(text);
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        let (before, rest) = text.split_at(at);
        let was_open = *open;
        let mut length = char.len_utf8();
        match was_open {
            None => {
                if let Some(mark) = marks.iter().find(|mark| rest.starts_with(mark.begin)) {
                    let is_prose = mark.begins_prose(before);
                    *open = Some((*mark, is_prose));
                    prose = prose.or(is_prose.then_some(rest));
                    length = mark.begin.len();
                }
            }
            Some((mark, _)) if rest.starts_with(mark.end) => {
                *open = None;
                length = mark.end.len();
            }
            Some((mark, _)) if mark.is_string && char == '\\' => {
                length = rest.chars().take(2).map(char::len_utf8).sum();
            }
            Some(_) => {}
        }
        if open.or(was_open).is_none_or(|(mark, is_prose)| mark.is_string && !is_prose) {
            code += &rest[..length];
        }
        at += length;
    }
    *open = open.filter(|(mark, _)| mark.is_long || mark.is_string && text.ends_with('\\'));
    let marks = ['/', '!', '*', '#', '"', '\''];
    Line { text, code, prose: prose.map(|words| words.trim_start().trim_start_matches(marks)) }
}

impl Mark {
    /// Whether it begins a line, and is a comment or a docstring. A docstring may have a prefix.
    fn begins_prose(self, before: &str) -> bool {
        let is_prefix = |c: char| self.is_string && c.is_alphabetic();
        before.trim_start().trim_end_matches(is_prefix).is_empty()
            && (self.is_long || !self.is_string)
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
        assert_eq!(kinds("A.java", "/** a\n * b */\nint a; // c\n// d"), "ppcp");
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
        assert_eq!(split("a.py", "a = b // c  # d")[0].code, "a = b // c  ");
        assert_eq!(split("a.c", "int a;/* b */ int c; // d")[0].code, "int a; int c; ");
        assert_eq!(split("a.py", "    \"\"\"Whoever.\"\"\"")[0].prose, Some("Whoever.\"\"\""));
        assert_eq!(split("a.h", " * Whoever.\n")[0].prose, None);
    }

    #[test]
    fn split__finds_no_comments_in_strings_and_no_strings_in_comments() {
        let code = |path: &str, text: &str| split(path, text).pop().unwrap().code;
        for line in [r#"f("a // b");"#, r#"f("\" /* a");"#, r#"f('"', " // a");"#] {
            assert_eq!([code("a.c", line), code("a.rs", line)], [line, line]);
            assert_eq!(kinds("a.c", &format!("{line}\nint a;")), "cc");
        }
        assert_eq!(kinds("a.c", "// a \" /*\nint a; // a /*\nint b; /* \"\n*/ int c;"), "pccc");
        assert_eq!(code("a.c", "f(\"a \\\n// b\"); // c"), "// b\"); ");
        let line = r##"f("#", '"""', "\"#")"##;
        assert_eq!(code("a.py", &format!("{line}# a")), line);
        assert_eq!(
            kinds("a.py", "a = 1  # b \"\"\"\nb = 2\n'''c\nd'''\nr\"\"\"e\n\"\"\""),
            "ccpppp"
        );
        assert_eq!(split("a.py", "    r\"\"\"Whoever")[0].prose, Some("Whoever"));
    }
}
