//! The senders of a query's records, each of whose windows is a stratum.

use std::{collections::HashMap, net::SocketAddr};

/// The strata, numbered in the order of their first message or terms.
#[derive(Debug, Default)]
pub struct Strata {
    numbers: HashMap<(SocketAddr, u32, u32), u32>,
    strata: Vec<Stratum>,
}

#[derive(Debug)]
struct Stratum {
    source: SocketAddr,
    job: u32,
    sent: Option<u64>,
    has_ended: bool,
}

impl Strata {
    /// The number of the stratum of a sender's window, a new one if it is unknown.
    pub fn number(&mut self, source: SocketAddr, job: u32, window: u32) -> u32 {
        let strata = &mut self.strata;
        *self.numbers.entry((source, job, window)).or_insert_with(|| {
            strata.push(Stratum { source, job, sent: None, has_ended: false });
            strata.len() as u32 - 1
        })
    }

    pub fn set_sent(&mut self, stratum: u32, sent: u64) {
        if let Some(stratum) = self.strata.get_mut(stratum as usize) {
            stratum.sent = Some(sent);
        }
    }

    pub fn end(&mut self, stratum: u32) {
        if let Some(stratum) = self.strata.get_mut(stratum as usize) {
            stratum.has_ended = true;
        }
    }

    /// The strata whose N is known, with it.
    pub fn known(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(&self.strata).filter_map(|(number, stratum)| Some((number, stratum.sent?)))
    }

    /// N of all strata, if it is known.
    pub fn sent(&self) -> Option<u64> {
        self.strata.iter().map(|stratum| stratum.sent).sum()
    }

    /// The sender and job of a stratum that has not ended.
    pub fn running(&self, stratum: u32) -> Option<(SocketAddr, u32)> {
        let stratum = self.strata.get(stratum as usize).filter(|stratum| !stratum.has_ended)?;
        Some((stratum.source, stratum.job))
    }

    /// The senders and jobs that have not ended.
    pub fn all_running(&self) -> impl Iterator<Item = (SocketAddr, u32)> {
        let running = self.strata.iter().filter(|stratum| !stratum.has_ended);
        running.map(|stratum| (stratum.source, stratum.job))
    }
}
