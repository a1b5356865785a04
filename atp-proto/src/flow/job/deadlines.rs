//! The deadlines of the open windows, and how much the current one hurries.

use crate::Sender;
use atp_common::laws::urgency::Urgency;

/// The deadlines of a job's windows.
#[derive(Debug)]
pub struct Deadlines {
    /// How long a window may take from its first message.
    allowed_ns: Option<u64>,
    /// The deadline of the current window.
    current: Option<Deadline>,
    /// The deadline of the window before, while its end is confirmed beside the current one.
    closing_ns: Option<u64>,
    /// The limits of packets in flight held the job back in the last round.
    was_full: bool,
    /// The current level of urgency.
    level: u8,
    /// The number of windows that yielded less to exact traffic for their deadlines.
    hurried: u32,
}

#[derive(Debug)]
struct Deadline {
    at_ns: u64,
    urgency: Urgency,
    /// It has made its window yield less to exact traffic.
    has_hurried: bool,
}

impl Deadlines {
    pub fn new(allowed_ns: Option<u64>) -> Self {
        Self { allowed_ns, current: None, closing_ns: None, was_full: false, level: 0, hurried: 0 }
    }

    /// Starts the current window's time with its first message.
    pub fn on_message(&mut self, now_ns: u64) {
        if let (Some(allowed_ns), None) = (self.allowed_ns, &self.current) {
            let at_ns = now_ns.saturating_add(allowed_ns);
            let urgency = Urgency::begin(now_ns, at_ns);
            self.current = Some(Deadline { at_ns, urgency, has_hurried: false });
        }
    }

    /// The current window has ended.
    pub fn clear_current(&mut self) {
        self.current = None;
    }

    /// The window beside the current one has ended.
    pub fn clear_closing(&mut self) {
        self.closing_ns = None;
    }

    /// The next window begins. `is_beside`: the last one has not ended.
    pub fn begin_window(&mut self, is_beside: bool) {
        let last = self.current.take();
        self.closing_ns = last.filter(|_| is_beside).map(|last| last.at_ns);
    }

    /// Notes that the limits of packets in flight hold the job back until the next round.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    pub fn hurried(&self) -> u32 {
        self.hurried
    }

    /// When a deadline passes next.
    pub fn next_ns(&self, sender: &Sender) -> Option<u64> {
        self.current_ns(sender).into_iter().chain(self.closing_ns).min()
    }

    /// When the current window's deadline passes. `None` if it has no deadline, or while its N is
    /// unknown: without N the receiver can't be told how many messages it misses.
    fn current_ns(&self, sender: &Sender) -> Option<u64> {
        let current = self.current.as_ref()?;
        sender.can_end_now().then_some(current.at_ns)
    }

    /// Ends the windows whose deadlines have passed.
    pub fn end_in_time(&mut self, now_ns: u64, sender: &mut Sender) {
        if self.closing_ns.take_if(|at_ns| *at_ns <= now_ns).is_some() {
            sender.end_closing_now();
        }
        if self.current_ns(sender).is_some_and(|at_ns| at_ns <= now_ns) {
            sender.end_now();
        }
    }

    /// Lets lanes that yield to exact traffic yield less where the current window would miss its
    /// deadline. Returns the number of the job's first window that does.
    pub fn hurry(&mut self, now_ns: u64, sender: &mut Sender) -> Option<u32> {
        let was_full = std::mem::take(&mut self.was_full);
        let current = self.current.as_mut().filter(|_| sender.can_end_now());
        let level = current.map_or(0, |Deadline { urgency, .. }| {
            if urgency.is_due(now_ns, was_full) {
                let (delivered, needed) = sender.needed_of_yielding();
                urgency.look(now_ns, delivered, needed);
            }
            urgency.level()
        });
        if level == std::mem::replace(&mut self.level, level) {
            return None;
        }
        sender.set_urgency(level);
        let window = sender.window();
        tracing::debug!(window, level, "the deadline of the window has set its urgency");
        let current = self.current.as_mut().filter(|_| level > 0)?;
        let is_first = !std::mem::replace(&mut current.has_hurried, true);
        self.hurried += u32::from(is_first);
        (is_first && self.hurried == 1).then_some(window)
    }
}
