//! The last answers to a sender's FIN, page by page, for when it asks again and nobody is there who
//! could count anew.

use atp_common::wire::Header;
use atp_proto::answer_fin_again;

/// One answer per page; most jobs have one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinAcks(Vec<Vec<u8>>);

impl FinAcks {
    /// Keeps the answer to the page that `fin` is; no answer is none to keep.
    pub fn note(&mut self, fin: &Header, answer: &[u8]) {
        let page = usize::from(fin.epoch());
        if answer.is_empty() {
            return;
        }
        if self.0.len() <= page {
            // The transport answers as many pages as 256 groups have.
            self.0.resize(page + 1, Vec::new());
        }
        self.0[page] = answer.to_vec();
    }

    /// Writes the answer to `fin`, once more; 0 if there is none.
    pub fn answer(&self, fin: &Header, out: &mut [u8]) -> usize {
        let kept = self.0.get(usize::from(fin.epoch()));
        kept.map_or(0, |answer| answer_fin_again(fin, answer, out))
    }

    /// All of them, as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|answer| &answer[..])
    }
}
