//! Messages that reached the peer's host whole and wait for a receipt.
//!
//! The kernel's acknowledgement comes before the socket's receive buffer is checked, so a message
//! may be acknowledged and still never reach the application. It is sent again as soon as that is
//! certain, or after a long time without certainty:
//!
//! *Certain.* Every receipt says how many messages are whole in all, and in its header's slot field
//! which DATA (or FIN) packet the receiving library took in last. If receipts have named all of
//! these messages, and the library has taken in something sent after a message became whole here,
//! then that message isn't there: a socket's buffer is first in, first out.
//!
//! *Without certainty* (receipts lost, nothing sent afterwards), the message that has waited
//! longest is sent again after [`PATIENCE_TIMEOUTS`] timeouts, alone and ever more rarely: it is
//! the question to which the next receipt is the answer. Until it has one, no other is asked about:
//! to go round all of them would, at a receiver that takes in little of each, begin every message
//! anew and end none.

use super::{Sender, ledger::Standing, report::SendError};
use crate::list::{Links, List, NONE};

const PATIENCE_TIMEOUTS: u64 = 16;
const PATIENCE_NS_MIN: u64 = 100_000_000;
/// As for silence: the application is only called stuck after so many questions.
const QUESTIONS_MIN: u32 = 3;

/// The messages that wait, in the order in which they became whole.
#[derive(Debug)]
pub(crate) struct Awaited {
    list: List,
    links: Links,
    /// When the first of the messages that wait now began to wait, or the last receipt came if that
    /// is later.
    since_ns: u64,
    /// Messages sent again without certainty, since the last receipt.
    questions: u32,
    asked_ns: u64,
    /// The message that was asked about last: the index of its group, and its id.
    asked: Option<(u8, u32)>,
    /// All that the library took in before this slot has been named by receipts.
    known_slot: Option<u32>,
}

impl Awaited {
    pub(crate) fn new() -> Self {
        Self {
            list: List::EMPTY,
            links: Links::default(),
            since_ns: 0,
            questions: 0,
            asked_ns: 0,
            asked: None,
            known_slot: None,
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, key: u32) {
        if self.list.is_empty() {
            self.since_ns = now_ns;
        }
        self.links.push_back(&mut self.list, key);
    }

    pub(crate) fn remove(&mut self, key: u32) {
        self.links.remove(&mut self.list, key);
    }

    pub(crate) fn clear(&mut self) {
        self.list = List::EMPTY;
    }

    /// For `away_ns` nobody could have seen a receipt.
    pub(crate) fn forgive_absence(&mut self, now_ns: u64, away_ns: u64) {
        self.since_ns = (self.since_ns + away_ns).min(now_ns);
    }

    /// Notes that a receipt (or FIN-ACK) came.
    pub(crate) fn receipt_came(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.questions = 0;
    }

    /// Notes that receipts have named all that the library took in up to and including `slot`.
    pub(crate) fn all_known_to(&mut self, slot: u32) {
        self.known_slot = Some(slot);
    }

    fn first(&self) -> Option<u32> {
        (self.list.head != NONE).then_some(self.list.head)
    }
}

impl Sender {
    /// Sends again what certainly never reached the application.
    pub(super) fn restart_missing(&mut self, now_ns: u64) {
        let Some(known_slot) = self.awaited.known_slot else { return };
        // In the order of becoming whole, so in the order of `whole_slot`.
        while let Some(key) = self.awaited.first() {
            let whole_slot = self.ledger.message(key).whole_slot;
            if (known_slot.wrapping_sub(whole_slot) as i32) < 0 {
                return;
            }
            self.restart(now_ns, key);
        }
    }

    /// Asks about the message that has waited longest, if it has waited for too long.
    pub(super) fn ask_for_receipt(&mut self, now_ns: u64) {
        if self.awaited_timeout_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        if self.has_ended() {
            return;
        }
        let silence_ns = now_ns.saturating_sub(self.awaited.since_ns);
        if self.awaited.questions >= QUESTIONS_MIN && silence_ns >= self.config.receipt_timeout_ns {
            let short = self.short();
            self.fail(SendError::NotReading { silence_ns, short });
        } else if let Some(key) = self.question() {
            self.awaited.questions = self.awaited.questions.saturating_add(1);
            self.awaited.asked_ns = now_ns;
            let message = self.ledger.message(key);
            self.awaited.asked = Some((message.group, message.id.id));
            self.restart(now_ns, key);
        }
    }

    /// The message to ask about: the same as last time while it is without a receipt. None while it
    /// is on its way; another if it isn't sent again, because its group has enough without it.
    fn question(&self) -> Option<u32> {
        let first = self.awaited.first()?;
        let Some(asked) = self.awaited.asked.and_then(|(group, id)| self.ledger.key(group, id))
        else {
            return Some(first);
        };
        let message = self.ledger.message(asked);
        match message.standing {
            Standing::Awaiting => Some(asked),
            _ if self.groups[usize::from(message.group)].has_enough() => Some(first),
            _ => None,
        }
    }

    /// When the message that has waited longest is asked about.
    pub(super) fn awaited_timeout_ns(&self) -> Option<u64> {
        let message = self.ledger.message(self.question()?);
        let patience_ns = (PATIENCE_TIMEOUTS * self.losses.base_timeout_ns()).max(PATIENCE_NS_MIN);
        let patience_ns = patience_ns << self.awaited.questions.min(5);
        Some(message.whole_ns.max(self.awaited.asked_ns).saturating_add(patience_ns))
    }

    /// Starts a message over: its acknowledgements no longer count.
    fn restart(&mut self, now_ns: u64, key: u32) {
        let message = self.ledger.message_mut(key);
        debug_assert_eq!(message.standing, Standing::Awaiting);
        message.start_over(self.config.payload_bytes_max, true);
        self.report.messages_sent_again += 1;
        self.refile(now_ns, key, None);
    }
}
