//! `recv --query`: answers a query of CSV records while they arrive, and asks the senders for as
//! much as an accepted error needs.

mod print;
mod strata;

use super::csv_rows::{HEADER_GROUP, ORDERED_NAME, ROWS_GROUP};
use anyhow::{Context, Result, bail, ensure};
use approx_answers::{
    AcceptedError, Action, AnswerError, Answering, Answers, Confidence, Delivery, Planner, Query,
    Report,
};
use approxlib::{Event, RateRequest, Receiver, Summary, Terms};
use std::{
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};
use strata::Strata;

/// The longest message that fits a packet: MRDF prefers none of shorter ones.
const PACKET_BYTES: u64 = 1_420;
/// The most bytes of messages that wait for the header.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// The time between two live lines on a terminal, and elsewhere.
const LIVE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// A query of arriving records.
pub struct Live {
    query: Query,
    confidence: Confidence,
    /// Once the header is known.
    answering: Option<(Vec<u8>, Answering)>,
    /// Messages that came before the header.
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_bytes: usize,
    strata: Strata,
    planner: Option<Planner>,
    delivery: Delivery,
    is_terminal: bool,
    printed: Instant,
}

impl Live {
    /// A query of the records of so many senders.
    pub fn new(query: Query, senders: u32, confidence: f64, emax: Option<f64>) -> Result<Self> {
        let confidence = Confidence::new(confidence)?;
        let plan = |error| {
            let planner = Planner::new(AcceptedError::relative(error)?, confidence);
            Ok(planner.with_sources(senders as usize))
        };
        let planner = emax.map(plan).transpose().map_err(|error: AnswerError| error)?;
        Ok(Self {
            query,
            confidence,
            answering: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            strata: Strata::default(),
            planner,
            delivery: Delivery::default(),
            is_terminal: io::stderr().is_terminal(),
            printed: Instant::now(),
        })
    }

    /// Takes in an event, and sends the requests that follow from it.
    pub fn on_event(&mut self, event: &Event, receiver: &Receiver) -> Result<()> {
        match event {
            Event::Message { group: HEADER_GROUP, data, .. } => self.on_header(data)?,
            Event::Message { source, job, window, group, data, .. } => {
                ensure!(
                    *group == ROWS_GROUP,
                    "a message of group {group} from {source}: it was not sent by `atp-user send --csv`"
                );
                let stratum = self.strata.number(*source, *job, *window);
                if let Some(planner) = &mut self.planner {
                    planner.source_heard(stratum);
                }
                self.on_rows(stratum, data)?;
            }
            Event::Started { source, job, terms } | Event::TermsChanged { source, job, terms } => {
                self.on_terms(*source, *job, terms, receiver)?;
            }
            Event::WindowEnded { source, job, summary }
            | Event::Finished { source, job, summary } => {
                self.on_end(*source, *job, summary)?;
            }
        }
        self.look(receiver)?;
        self.print_live();
        Ok(())
    }

    fn on_header(&mut self, data: &[u8]) -> Result<()> {
        if let Some((header, _)) = &self.answering {
            ensure!(
                header == data,
                "two senders have different CSV headers: query them apart, with --job or --from"
            );
            return Ok(());
        }
        let mut answering = Answering::of_csv(self.query.clone(), data)?;
        for (stratum, sent) in self.strata.known() {
            answering.set_messages_sent(stratum, sent)?;
        }
        self.answering = Some((data.to_vec(), answering));
        self.waiting_bytes = 0;
        for (stratum, data) in std::mem::take(&mut self.waiting) {
            self.on_rows(stratum, &data)?;
        }
        Ok(())
    }

    fn on_rows(&mut self, stratum: u32, data: &[u8]) -> Result<()> {
        let Some((_, answering)) = &mut self.answering else {
            self.waiting_bytes += data.len();
            ensure!(
                self.waiting_bytes <= WAITING_BYTES_MAX,
                "no CSV header has arrived: send the file with `atp-user send --csv`"
            );
            self.waiting.push((stratum, data.to_vec()));
            return Ok(());
        };
        self.delivery.note_message_bytes(data.len() as u64);
        let pushed = answering.push_csv(stratum, data);
        pushed.context("a message can't be read: send the file with `atp-user send --csv`")
    }

    fn on_terms(
        &mut self,
        source: SocketAddr,
        job: u32,
        terms: &Terms,
        receiver: &Receiver,
    ) -> Result<()> {
        for group in terms.groups.iter().filter(|group| group.group == ROWS_GROUP) {
            let stratum = self.strata.number(source, job, terms.window);
            self.delivery.is_ordered |= group.name == ORDERED_NAME;
            self.set_sent(stratum, group.messages)?;
            let Some(planner) = &mut self.planner else { continue };
            if group.exact {
                // It keeps its rate.
                planner.source_heard(stratum);
            } else {
                let action = planner.source_started(stratum, group.msr);
                self.obey(action, receiver)?;
            }
        }
        Ok(())
    }

    fn on_end(&mut self, source: SocketAddr, job: u32, summary: &Summary) -> Result<()> {
        let stratum = self.strata.number(source, job, summary.window);
        let rows = summary.groups.iter().find(|group| group.group == ROWS_GROUP);
        self.set_sent(stratum, rows.map(|group| group.messages))?;
        self.delivery.stopped_early |= rows.is_some_and(|group| group.delivered < group.messages);
        self.strata.end(stratum);
        if let Some(planner) = &mut self.planner {
            planner.source_ended(stratum);
        }
        Ok(())
    }

    fn set_sent(&mut self, stratum: u32, sent: Option<u32>) -> Result<()> {
        let Some(sent) = sent.map(u64::from) else { return Ok(()) };
        self.strata.set_sent(stratum, sent);
        if let Some((_, answering)) = &mut self.answering {
            answering.set_messages_sent(stratum, sent)?;
        }
        Ok(())
    }

    /// Looks at the error, if the plan says so.
    fn look(&mut self, receiver: &Receiver) -> Result<()> {
        let (Some(planner), Some((_, answering))) = (&mut self.planner, &mut self.answering) else {
            return Ok(());
        };
        let actions = planner.look_at(answering)?;
        self.obey(actions, receiver)
    }

    fn obey(&self, actions: impl IntoIterator<Item = Action>, receiver: &Receiver) -> Result<()> {
        for action in actions {
            match action {
                Action::Raise { stratum, msr } | Action::Lower { stratum, msr } => {
                    if let Some((source, job)) = self.strata.running(stratum) {
                        let group = ROWS_GROUP;
                        receiver.request_msr(&RateRequest { source, job, group, msr })?;
                    }
                }
                Action::End => {
                    for (source, job) in self.strata.all_running() {
                        receiver.request_end(source, job);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The answers so far; `None` before there are any.
    fn answers(&mut self) -> Result<Option<Answers>> {
        let mut delivery = self.delivery;
        delivery.is_mrdf = delivery.message_bytes.is_some_and(|(_, most)| most > PACKET_BYTES);
        let Some((_, answering)) = &mut self.answering else { return Ok(None) };
        answering.set_delivery(delivery);
        let answers = match &self.planner {
            Some(planner) => planner.answers(answering),
            None => answering.answers(self.confidence),
        };
        match answers {
            Ok(answers) => Ok(Some(answers)),
            Err(AnswerError::NoMessages) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Prints the state of the answer on standard error, now and then.
    fn print_live(&mut self) {
        let interval = LIVE[usize::from(!self.is_terminal)];
        if self.printed.elapsed() < interval {
            return;
        }
        self.printed = Instant::now();
        // A sum has no answer before its N is known.
        let Ok(Some(answers)) = self.answers() else { return };
        let line = print::live_line(&self.query, &answers, &self.strata);
        let (before, after) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // A closed standard error doesn't stop the query.
        let _ = write!(io::stderr(), "{before}{line}{after}");
        let _ = io::stderr().flush();
    }

    /// Prints the answers at the end.
    pub fn finish(mut self, json: bool) -> Result<()> {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let Some(answers) = self.answers()? else {
            bail!(
                "{}",
                match self.answering {
                    None => "no CSV header arrived: send the file with `atp-user send --csv`",
                    Some(_) => "no record arrived, so the query has no answer",
                }
            );
        };
        let report: Option<&Report> = self.planner.as_ref().and_then(Planner::report);
        match json {
            true => println!("{}", print::json(&self.query, &answers, report)),
            false => print!("{}", print::text(&self.query, &answers, report)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::csv_rows::{ORDERED_NAME, SHUFFLED_NAME, Table};
    use approxlib::{Group, Job};
    use std::{
        sync::{Arc, Barrier},
        thread,
    };

    const ROWS: u32 = 60_000;

    /// Sends a table with a known mean of 4.5, by two senders. Returns the end of the query.
    fn run(live: &mut Live, name: &'static str, shuffle: bool) -> Result<()> {
        let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0")?;
        let peer = receiver.local_addr()?;
        let together = Arc::new(Barrier::new(2));
        let senders = [0, 1].map(|_| {
            let together = together.clone();
            thread::spawn(move || {
                let rows: String =
                    (0..ROWS).map(|row| format!("k{},{}\n", row % 3, row % 10)).collect();
                let file = format!("key,value\n{rows}");
                let table = Table::read(file.as_bytes(), Some(10), shuffle).unwrap();
                let number = table.messages.len() as u32;
                let groups = [
                    Group::new(ROWS_GROUP).messages(number).name(name),
                    Group::new(HEADER_GROUP).messages(1),
                ];
                let groups = [groups[0].msr(0.999), groups[1]];
                let job = Job::builder().control_socket(None).groups(groups);
                let mut job = job.rate_max_bytes_per_s(500_000).connect(peer).unwrap();
                together.wait();
                job.send_in(HEADER_GROUP, &table.header).unwrap();
                for message in &table.messages {
                    job.send_in(ROWS_GROUP, message).unwrap();
                }
                job.finish().unwrap()
            })
        });
        let mut ended = 0;
        while ended < 2 {
            let event = receiver.recv(Some(Duration::from_secs(20)))?.context("an event")?;
            ended += usize::from(matches!(event, Event::Finished { .. }));
            live.on_event(&event, &receiver)?;
        }
        for sender in senders {
            let report = sender.join().expect("a sender");
            // A job that met its lowered MSR may end before the request to end it arrives.
            let cut_short = report.ended_by_receiver || report.groups[0].msr < 0.999;
            ensure!(cut_short == live.planner.is_some(), "{report:?}");
        }
        Ok(())
    }

    #[test]
    fn query__answers_by_key_from_two_senders() {
        let query = "avg(value) by key".parse().unwrap();
        let mut live = Live::new(query, 2, 0.95, None).unwrap();
        run(&mut live, ORDERED_NAME, false).unwrap();
        let answers = live.answers().unwrap().unwrap();
        let keys: Vec<_> = answers.rows.iter().filter_map(|(key, _)| key.as_deref()).collect();
        assert_eq!(keys, ["k0", "k1", "k2"]);
        for (_, estimate) in &answers.rows {
            assert!((estimate.value - 4.5).abs() < 0.1, "{estimate}");
            assert_eq!(estimate.messages_sent, Some(u64::from(ROWS) / 5));
        }
        let text = print::text(&live.query, &answers, None);
        assert!(text.contains("k1") && text.contains("(95 %)"), "{text}");
        let json = print::json(&live.query, &answers, None);
        assert_eq!(json["rows"][2]["key"], "k2");
    }

    #[test]
    fn query__with_an_accepted_error_ends_the_job() {
        let query = "avg(value)".parse().unwrap();
        let mut live = Live::new(query, 2, 0.95, Some(0.05)).unwrap();
        run(&mut live, SHUFFLED_NAME, true).unwrap();
        let report = live.planner.as_ref().and_then(Planner::report).expect("a report");
        assert!(report.is_met() && report.reached <= 0.05, "{report}");
        let answers = live.answers().unwrap().unwrap();
        let (_, estimate) = &answers.rows[0];
        assert!((estimate.value - 4.5).abs() < 0.7, "{estimate}");
        assert!(estimate.messages < u64::from(ROWS) / 5, "{estimate:?}");
        // The looks cost confidence.
        let (_, answering) = live.answering.as_ref().unwrap();
        let plain = answering.overall(Confidence::P95).unwrap().unwrap();
        assert!(
            estimate.half_width() > plain.half_width() && estimate.confidence == Confidence::P95
        );
    }

    fn message(job: u32, group: u8, data: &[u8]) -> Event {
        let source = "127.0.0.1:1".parse().unwrap();
        Event::Message { source, job, window: 0, group, message: 0, data: data.to_vec() }
    }

    #[test]
    fn on_event__awaits_all_senders_before_it_ends_them() {
        let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        for by in ["", " by key"] {
            let query = format!("avg(value){by}").parse().unwrap();
            let mut live = Live::new(query, 2, 0.95, Some(0.05)).unwrap();
            live.on_event(&message(1, HEADER_GROUP, b"key,value\n"), &receiver).unwrap();
            let send = |live: &mut Live, job, count: u32| {
                for value in 0..count {
                    let row = format!("k,{}\n", 100 + value % 7);
                    live.on_event(&message(job, ROWS_GROUP, row.as_bytes()), &receiver).unwrap();
                }
            };
            // One sender's messages meet the error.
            send(&mut live, 1, 500);
            assert_eq!(live.planner.as_ref().and_then(Planner::report), None);
            send(&mut live, 2, 2_000);
            let report = live.planner.as_ref().and_then(Planner::report);
            assert!(report.is_some_and(Report::is_met), "{report:?}");
        }
    }

    #[test]
    fn on_event__refuses_what_is_no_table() {
        let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        let message = |group, data: &[u8]| message(1, group, data);
        let new = || Live::new("sum(value)".parse().unwrap(), 1, 0.95, None).unwrap();
        let header = message(HEADER_GROUP, b"key,value\n");
        for (events, words) in [
            (vec![message(7, b"x")], "send --csv"),
            (vec![message(HEADER_GROUP, b"a,b\n")], "value"),
            (vec![header.clone(), message(HEADER_GROUP, b"value,key\n")], "different CSV headers"),
            (vec![header.clone(), message(ROWS_GROUP, b"a\n")], "value"),
            (vec![header.clone(), message(ROWS_GROUP, b"a,many\n")], "many"),
            (vec![header, message(ROWS_GROUP, b"a,\xff\n")], "isn't CSV"),
        ] {
            let mut live = new();
            let outcome: Result<()> = events.iter().try_for_each(|e| live.on_event(e, &receiver));
            let error = format!("{:#}", outcome.expect_err(words));
            assert!(error.contains(words), "{error}");
        }
        let error = new().finish(false).unwrap_err().to_string();
        assert!(error.contains("no CSV header arrived"), "{error}");
    }
}
