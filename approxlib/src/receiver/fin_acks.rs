//! Keeps the last answers to a sender's FIN, by page, to repeat them after the transport's state is
//! gone.

use atp_common::wire::Header;
use atp_proto::answer_fin_again;
use std::net::IpAddr;

/// The answers, one per page, and the address that they come from. Most jobs have one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinAcks {
    answers: Vec<Vec<u8>>,
    /// The local address of the sender's packets.
    pub local: Option<IpAddr>,
}

impl FinAcks {
    /// No answers yet, for a sender whose packets come to `local`.
    pub fn new(local: Option<IpAddr>) -> Self {
        Self { local, ..Self::default() }
    }

    /// Keeps the answer to the page of `fin`. An empty answer changes nothing.
    pub fn note(&mut self, fin: &Header, answer: &[u8]) {
        let page = usize::from(fin.epoch());
        if answer.is_empty() {
            return;
        }
        if self.answers.len() <= page {
            // Bounded: the transport answers only as many pages as 256 groups need.
            self.answers.resize(page + 1, Vec::new());
        }
        self.answers[page] = answer.to_vec();
    }

    /// Writes the kept answer to `fin` and returns its length; 0 if there is none.
    pub fn answer(&self, fin: &Header, out: &mut [u8]) -> usize {
        let kept = self.answers.get(usize::from(fin.epoch()));
        kept.map_or(0, |answer| answer_fin_again(fin, answer, out))
    }

    /// All answers, as the transport wrote them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.answers.iter().map(|answer| &answer[..])
    }
}
