//! The keys of a terminal, from its bytes.
//!
//! Crossterm's reader is not used. It leaves bytes unread after a burst until a further key comes
//! (it reads 1,024 of them, and its epoll is edge-triggered). It waits inside of an unfinished
//! sequence, while the screen stands still. And it reads the end of a closed terminal again and
//! again.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longer sequences have no meaning here. Their bytes are skipped.
const SEQUENCE_BYTES_MAX: usize = 32;

/// Finds keys in the bytes of a terminal.
#[derive(Debug, Default)]
pub struct Keyboard {
    state: State,
    /// The parameters of a control sequence, or the begun bytes of a character.
    begun: Vec<u8>,
}

/// Where the last byte left off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// In a character of UTF-8; its length in bytes.
    Character(usize),
    /// After ESC.
    Escape,
    /// After ESC O, which function keys send.
    Function,
    /// After ESC [, in the parameters.
    Control,
    /// After ESC [ [, which the function keys of Linux's console send.
    Console,
}

impl Keyboard {
    /// The keys that `bytes` complete. `more` says that further bytes can be read at once: without
    /// them, a final ESC is the key Escape.
    pub fn keys(&mut self, bytes: &[u8], more: bool) -> Vec<KeyEvent> {
        let mut keys = Vec::new();
        for byte in bytes {
            keys.extend(self.advance(*byte));
        }
        if self.state == State::Escape && !more {
            self.forget();
            keys.push(plain(KeyCode::Esc));
        }
        keys
    }

    /// Forgets an unfinished sequence. A key sends its bytes at once, so after a pause the rest of
    /// them won't come.
    pub fn forget(&mut self) {
        self.state = State::Ground;
        self.begun.clear();
    }

    fn advance(&mut self, byte: u8) -> Option<KeyEvent> {
        match (self.state, byte) {
            (State::Escape, 0x1b) => Some(plain(KeyCode::Esc)),
            // Control characters end every sequence: Ctrl-C always works.
            (_, ..0x20 | 0x7f) => {
                self.forget();
                if byte == 0x1b {
                    self.state = State::Escape;
                    return None;
                }
                control(byte)
            }
            (State::Ground, _) => self.begin_character(byte, KeyModifiers::NONE),
            (State::Character(bytes), 0x80..0xc0) => {
                self.begun.push(byte);
                if self.begun.len() < bytes {
                    return None;
                }
                let character =
                    str::from_utf8(&self.begun).ok().and_then(|text| text.chars().next());
                self.forget();
                Some(plain(KeyCode::Char(character?)))
            }
            (State::Character(_), _) => {
                self.forget();
                self.begin_character(byte, KeyModifiers::NONE)
            }
            (State::Escape, b'[') => self.go_on(State::Control),
            (State::Escape, b'O') => self.go_on(State::Function),
            (State::Escape, _) => {
                self.forget();
                self.begin_character(byte, KeyModifiers::ALT)
            }
            (State::Control, b'[') if self.begun.is_empty() => self.go_on(State::Console),
            (State::Control, 0x20..0x40) if self.begun.len() < SEQUENCE_BYTES_MAX => {
                self.begun.push(byte);
                None
            }
            (State::Control, 0x20..0x40) => None,
            (State::Control | State::Function, _) => {
                let code = self.code(byte);
                self.forget();
                code.map(plain)
            }
            (State::Console, _) => {
                self.forget();
                (byte == b'A').then_some(plain(KeyCode::F(1)))
            }
        }
    }

    fn go_on(&mut self, state: State) -> Option<KeyEvent> {
        self.state = state;
        None
    }

    fn begin_character(&mut self, byte: u8, modifiers: KeyModifiers) -> Option<KeyEvent> {
        let bytes = match byte {
            ..0x80 => return Some(KeyEvent::new(KeyCode::Char(byte.into()), modifiers)),
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            // No first byte of UTF-8.
            _ => return None,
        };
        self.begun.push(byte);
        self.go_on(State::Character(bytes))
    }

    /// The key of a sequence that ends with `end`: of xterm, rxvt and Linux's console.
    fn code(&self, end: u8) -> Option<KeyCode> {
        let number = self.begun.split(|byte| *byte == b';').next().unwrap_or_default();
        Some(match (end, number) {
            (b'A', _) => KeyCode::Up,
            (b'B', _) => KeyCode::Down,
            (b'C', _) => KeyCode::Right,
            (b'D', _) => KeyCode::Left,
            (b'F', _) | (b'~', b"4" | b"8") => KeyCode::End,
            (b'H', _) | (b'~', b"1" | b"7") => KeyCode::Home,
            (b'P', _) | (b'~', b"11") => KeyCode::F(1),
            (b'Z', _) => KeyCode::BackTab,
            (b'~', b"5") => KeyCode::PageUp,
            (b'~', b"6") => KeyCode::PageDown,
            (b'M', b"") if self.state == State::Function => KeyCode::Enter,
            _ => return None,
        })
    }
}

fn control(byte: u8) -> Option<KeyEvent> {
    Some(match byte {
        b'\t' => plain(KeyCode::Tab),
        b'\r' | b'\n' => plain(KeyCode::Enter),
        0x08 | 0x7f => plain(KeyCode::Backspace),
        1..=26 => KeyEvent::new(KeyCode::Char((byte + b'a' - 1).into()), KeyModifiers::CONTROL),
        _ => return None,
    })
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<KeyEvent> {
        Keyboard::default().keys(bytes, false)
    }

    fn codes(bytes: &[u8]) -> Vec<KeyCode> {
        keys(bytes).iter().map(|key| key.code).collect()
    }

    #[test]
    fn keys__of_several_terminals() {
        for (code, sequences) in [
            (KeyCode::Up, &["\x1b[A", "\x1bOA", "\x1b[1;5A"][..]),
            (KeyCode::Home, &["\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"]),
            (KeyCode::End, &["\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"]),
            (KeyCode::PageDown, &["\x1b[6~", "\x1b[6;3~"]),
            (KeyCode::BackTab, &["\x1b[Z"]),
            (KeyCode::F(1), &["\x1bOP", "\x1b[11~", "\x1b[[A", "\x1b[1;2P"]),
            (KeyCode::Enter, &["\r", "\n", "\x1bOM"]),
            (KeyCode::Backspace, &["\x7f", "\x08"]),
            (KeyCode::Esc, &["\x1b"]),
            (KeyCode::Char('é'), &["é", "\x1bé"]),
            (KeyCode::Char('好'), &["好"]),
        ] {
            for sequence in sequences {
                assert_eq!(codes(sequence.as_bytes()), [code], "{sequence:?}");
                // Also byte by byte.
                let mut keyboard = Keyboard::default();
                let split = sequence.bytes().flat_map(|byte| keyboard.keys(&[byte], true));
                let split: Vec<_> = split.map(|key| key.code).collect();
                let expected = if code == KeyCode::Esc { &[][..] } else { &[code] };
                assert_eq!(split, expected, "{sequence:?}");
            }
        }
    }

    #[test]
    fn keys__answers_and_unknown_keys_are_none() {
        // A cursor report, attributes, a change of focus, F5, a paste's begin, no UTF-8.
        for bytes in
            [&b"\x1b[24;80R"[..], b"\x1b[?6c", b"\x1b[I", b"\x1b[15~", b"\x1b[200~", b"\xff"]
        {
            assert_eq!(codes(bytes), [], "{bytes:?}");
        }
        let endless = [&b"\x1b["[..], &b"1;".repeat(1_000), b"Aq"].concat();
        assert_eq!(codes(&endless), [KeyCode::Up, KeyCode::Char('q')]);
    }

    #[test]
    fn keys__control_c_ends_every_sequence() {
        for begun in ["", "\x1b", "\x1b[", "\x1b[[", "\x1bO", "\x1b[1;", "\u{e9}"] {
            let bytes = [begun.as_bytes(), b"\x03"].concat();
            let last = keys(&bytes).pop();
            let expected = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
            assert_eq!(last, Some(expected), "{begun:?}");
        }
    }

    /// A pause ends an unfinished sequence, so that the next key has its meaning.
    #[test]
    fn forget__after_an_unfinished_sequence() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.keys(b"\x1b[", false), []);
        keyboard.forget();
        assert_eq!(keyboard.keys(b"q", false), [plain(KeyCode::Char('q'))]);
    }

    proptest! {
        /// Any bytes, however they are divided, end in a state from which Ctrl-C is found.
        #[test]
        fn keys__of_any_bytes(chunks: Vec<(Vec<u8>, bool)>) {
            let mut keyboard = Keyboard::default();
            for (bytes, more) in chunks {
                keyboard.keys(&bytes, more);
                prop_assert!(keyboard.begun.len() <= SEQUENCE_BYTES_MAX);
            }
            let last = keyboard.keys(b"\x03", false).pop();
            prop_assert_eq!(last, Some(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        }
    }
}
