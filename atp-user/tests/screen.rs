//! The screen of `stats` in a pseudoterminal, and who gets escape sequences.

mod common;

use common::{Host, atp, pty::Terminal};
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;

/// The text in the screen's last line.
const DRAWN: &str = "q:quit";
const QUESTIONS: [&str; 5] = ["\x1b[6n", "\x1b[?6n", "\x1b[5n", "\x1b[c", "\x1b[18t"];

/// The screen after its first picture.
fn screen(host: &Host) -> Terminal {
    let mut terminal = Terminal::start(host.command("stats"), Some("xterm"));
    terminal.wait_for(DRAWN);
    terminal
}

#[test]
fn stats__of_a_dumb_terminal_are_text() {
    for kind in [Some("dumb"), Some(""), None] {
        let host = Host::new(3);
        let mut terminal = Terminal::start(host.command("stats --interval 50ms"), kind);
        // Twice: it goes on, as without a terminal.
        let drawn = terminal.wait_for("up 1 min") + &terminal.wait_for("up 1 min");
        terminal.type_in(b"\x03");
        assert_eq!(terminal.ended().signal(), Some(Signal::SIGINT as i32));
        let drawn = drawn + &terminal.take_drawn();
        assert!(!drawn.contains('\x1b'), "{kind:?}: {drawn:?}");
    }
}

/// The other side of the terminal answers nothing.
#[test]
fn screen__asks_the_terminal_for_nothing() {
    let host = Host::new(3);
    let mut terminal = Terminal::start(host.command("stats"), Some("xterm"));
    let mut drawn = terminal.wait_for(DRAWN);
    for _ in 0..2 {
        terminal.type_in(b"\x0c");
        drawn += &terminal.wait_for("\x1b[2J");
        drawn += &terminal.wait_for(DRAWN);
    }
    for (columns, rows) in [(100, 30), (40, 10), (80, 24)] {
        terminal.resize(columns, rows);
        drawn += &terminal.wait_for("ATP");
    }
    terminal.type_in(b"q");
    assert!(terminal.ended().success());
    drawn += &terminal.take_drawn();
    for question in QUESTIONS {
        assert!(!drawn.contains(question), "{question:?} in {drawn:?}");
    }
}

#[test]
fn screen__quits_after_a_burst_of_keys() {
    for (burst, quit) in [
        (&b"j"[..], &b"q"[..]),
        // The text of a filter, whose q's are letters.
        (b"jq/ab", b"\x03"),
        (b"\x1b[B", b"q"),
        (b"sj", b"q"),
    ] {
        let keys = burst.iter().cycle().copied().filter(|key| *key != b'q');
        let host = Host::new(512);
        let mut terminal = screen(&host);
        terminal.type_in(&keys.take(3_000).chain(quit.iter().copied()).collect::<Vec<_>>());
        assert!(terminal.ended().success(), "{burst:?}");
    }
}

/// Alt-[ begins a sequence. The screen goes on meanwhile, and ends by a signal.
#[test]
fn screen__goes_on_in_an_unfinished_sequence() {
    let host = Host::new(3);
    let mut terminal = screen(&host);
    terminal.type_in(b"\x1b[");
    terminal.resize(100, 30);
    terminal.wait_for(DRAWN);
    terminal.signal(Signal::SIGTERM);
    assert!(terminal.ended().success());
}

#[test]
fn screen__ends_with_its_terminal() {
    let host = Host::new(3);
    let mut terminal = screen(&host);
    terminal.close();
    let ended = terminal.ended();
    assert!(ended.success(), "{ended}");
}

#[test]
fn colors__only_where_they_are_known_and_wanted() {
    let drawn = |(words, expected): (&str, &str), kind: &str, declined: bool| {
        let mut command = atp(words);
        match declined {
            true => command.env("NO_COLOR", "1"),
            false => command.env_remove("NO_COLOR"),
        };
        let mut terminal = Terminal::start(command, Some(kind));
        terminal.ended();
        let drawn = terminal.take_drawn();
        assert!(drawn.contains(expected), "{drawn:?}");
        drawn
    };
    for case in [
        ("--help", "Options"),
        ("--unknown", "unexpected argument"),
        ("recv 127.0.0.1:0 --timeout 100ms", "receiving"),
        ("doctor --iface lo", "kernel"),
    ] {
        assert!(drawn(case, "xterm", false).contains('\x1b'), "{case:?}");
        for (kind, declined) in [("xterm", true), ("dumb", false), ("", false)] {
            let drawn = drawn(case, kind, declined);
            assert!(!drawn.contains('\x1b'), "{case:?} {kind}: {drawn:?}");
        }
    }
}
