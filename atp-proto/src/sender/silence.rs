//! Measures how long the peer and its host have been silent.

/// The peer counts as silent only after this many timeouts in a row. A caller that was busy
/// elsewhere for a while must send again before it may call the peer silent.
const TIMEOUTS_MIN: u32 = 3;

/// Timeouts and repeated FINs since the last packet of the peer or its host.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    timeouts: u32,
    /// How often the peer or its host sent something.
    answers: u64,
    /// When the first packet without an answer was sent.
    since_ns: u64,
    /// The end of this process's last absence. Silence doesn't count before.
    absent_until_ns: u64,
    /// When this process last looked at its timeouts.
    called_ns: u64,
    /// Whether the peer's host has refused a packet since its last answer.
    is_refused: bool,
}

impl Silence {
    /// Notes that the peer or its host sent something.
    pub(crate) fn end(&mut self) {
        (self.timeouts, self.is_refused) = (0, false);
        self.answers += 1;
    }

    /// Notes that the peer's host said that nothing listens on the port.
    pub(crate) fn on_refused(&mut self) {
        self.is_refused = true;
    }

    /// Whether the peer's host has refused a packet since its last answer.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether the peer or its host ever sent something.
    pub(crate) fn has_answered(&self) -> bool {
        self.answers > 0
    }

    /// How often the peer or its host sent something.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Notes that this process looks at its timeouts. Returns when it did before.
    pub(crate) fn note_call(&mut self, now_ns: u64) -> u64 {
        std::mem::replace(&mut self.called_ns, now_ns)
    }

    /// Notes that a packet sent at `sent_ns` got no answer in time.
    pub(crate) fn on_timeout(&mut self, sent_ns: u64) {
        if self.timeouts == 0 {
            self.since_ns = sent_ns.max(self.absent_until_ns);
        }
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// Timeouts in a row.
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// The length of the silence; 0 before the first timeout.
    pub(crate) fn length_ns(&self, now_ns: u64) -> u64 {
        match self.timeouts {
            0 => 0,
            _ => now_ns.saturating_sub(self.since_ns),
        }
    }

    /// The length of the silence, once enough timeouts have confirmed it.
    pub(crate) fn confirmed_ns(&self, now_ns: u64) -> Option<u64> {
        (self.timeouts >= TIMEOUTS_MIN).then(|| self.length_ns(now_ns))
    }

    /// When a confirmed silence will have lasted `timeout_ns`.
    pub(crate) fn lasts_until_ns(&self, timeout_ns: u64) -> Option<u64> {
        (self.timeouts >= TIMEOUTS_MIN).then(|| self.since_ns.saturating_add(timeout_ns))
    }

    /// Excludes a time in which this process did not run: it received nothing then.
    pub(crate) fn exclude_absence(&mut self, now_ns: u64, absent_ns: u64) {
        self.since_ns = (self.since_ns + absent_ns).min(now_ns);
        self.absent_until_ns = now_ns;
    }
}
