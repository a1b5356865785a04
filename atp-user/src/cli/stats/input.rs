//! The keys.

use super::{
    app::{App, View},
    columns::Column,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The keys and their meaning, for the help.
pub const KEYS: [(&str, &str); 13] = [
    ("1 2 3 4, Tab", "lanes, chart, datapath, jobs"),
    ("Up Down, j k", "select a lane; scroll"),
    ("PgUp PgDn", "a page up, down"),
    ("Home End, g G", "first, last lane"),
    ("Enter", "chart of the selected lane"),
    ("s S, < >", "sort by the next, previous column"),
    ("r", "reverse the order"),
    ("/", "filter: words that a lane must match"),
    ("Esc", "end the filter, the help, the chart"),
    ("p, Space", "pause"),
    ("Ctrl-L", "draw again"),
    ("?, h", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// The longest filter.
const FILTER_MAX: usize = 64;

/// The terminal's task after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Draw,
    Redraw,
    Quit,
}

impl App {
    /// Handles a key.
    pub fn on_key(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Next::Quit,
            KeyCode::Char('l') if control => return Next::Redraw,
            _ if self.typing => {
                self.on_filter_key(key.code);
                return Next::Draw;
            }
            KeyCode::Char('q') if !self.help => return Next::Quit,
            _ => {}
        }
        match key.code {
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => (self.help, self.scroll) = (!self.help, 0),
            KeyCode::Char('q') | KeyCode::Esc if self.help => (self.help, self.scroll) = (false, 0),
            KeyCode::Esc => self.leave(),
            KeyCode::Char(digit @ '1'..='4') => self.show(digit as usize - '1' as usize),
            KeyCode::Tab => self.show((self.view as usize + 1) % View::ALL.len()),
            KeyCode::BackTab => self.show((self.view as usize + 3) % View::ALL.len()),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => (self.typing, self.help) = (true, false),
            KeyCode::Char('s' | '>') => self.sort_by(1),
            KeyCode::Char('S' | '<') => self.sort_by(Column::ALL.len() - 1),
            KeyCode::Char('r') => {
                self.descending = !self.descending;
                self.arrange();
            }
            KeyCode::Enter if self.view == View::Lanes => self.show(View::Chart as usize),
            code => self.on_move(code),
        }
        Next::Draw
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(char) if self.filter.len() < FILTER_MAX && !char.is_control() => {
                self.filter.push(char);
            }
            code => self.on_move(code),
        }
        self.arrange();
    }

    fn on_move(&mut self, code: KeyCode) {
        let page = self.window.1.max(1) as isize;
        let by = match code {
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown => page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN,
            KeyCode::End | KeyCode::Char('G') => isize::MAX,
            _ => return,
        };
        match self.help || matches!(self.view, View::Datapath | View::Jobs) {
            true => {
                let scroll = isize::try_from(self.scroll).unwrap_or(0).saturating_add(by);
                // The view limits it to its last line.
                self.scroll = scroll.clamp(0, i16::MAX as isize) as u16;
            }
            false => self.select(by),
        }
    }

    fn show(&mut self, view: usize) {
        if let Some((view, _)) = View::ALL.get(view) {
            (self.view, self.help, self.scroll) = (*view, false, 0);
            self.arrange();
        }
    }

    fn leave(&mut self) {
        match self.view {
            View::Lanes => self.filter.clear(),
            _ => self.view = View::Lanes,
        }
        self.scroll = 0;
        self.arrange();
    }

    fn sort_by(&mut self, steps: usize) {
        let at = Column::ALL.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = Column::ALL[(at + steps) % Column::ALL.len()];
        self.descending = self.sort.begins_with_largest();
        self.arrange();
    }
}
