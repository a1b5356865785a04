//! Texts of other hosts.

/// A text of another host, for a terminal: control characters and other invisible ones are
/// escaped, and an ellipsis replaces what is beyond `chars_max`.
pub fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    let mut room = chars_max;
    for char in text.chars() {
        let escaped = match char {
            '"' | '\'' | '\\' => char.to_string(),
            // Behind a letter: an accent of its own is no invisible character.
            _ => format!("a{char}").escape_debug().skip(1).collect(),
        };
        match room.checked_sub(escaped.chars().count()) {
            Some(left) => room = left,
            None => return shown + "…",
        }
        shown += &escaped;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable__keeps_letters_of_all_scripts() {
        for text in ["", "O'Hare \"ORD\" \\ 5 %", "Zürich", "Zu\u{308}rich", "हिन्दी", "東京"]
        {
            assert_eq!(printable(text, 40), text);
        }
        assert_eq!(printable("abcdef", 5), "abcde…");
        assert_eq!(printable("abcd\0", 5), "abcd…");
        assert_eq!(printable("\u{7f}\t", 40), "\\u{7f}\\t");
    }
}
