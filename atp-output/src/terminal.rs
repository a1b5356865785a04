//! Whether a stream is a terminal that knows escape sequences and may show colors.

use std::{env, ffi::OsStr, io::IsTerminal};

/// Whether `stream` is a terminal that can move its cursor. One without a type can't, nor can a
/// dumb one, such as the shell of an editor.
pub fn draws(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && knows_escapes(env::var_os("TERM").as_deref())
}

/// Whether `stream` is a terminal with colors, and nobody declined them (<https://no-color.org>).
pub fn has_color(stream: &impl IsTerminal) -> bool {
    draws(stream) && env::var_os("NO_COLOR").is_none_or(|declined| declined.is_empty())
}

fn knows_escapes(kind: Option<&OsStr>) -> bool {
    kind.is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_escapes__unless_dumb_or_unnamed() {
        for (kind, knows) in
            [(None, false), (Some(""), false), (Some("dumb"), false), (Some("xterm"), true)]
        {
            assert_eq!(knows_escapes(kind.map(OsStr::new)), knows, "{kind:?}");
        }
    }
}
