//! The application of a receiving host: its messages, terms, summary and requests.

use atp_common::units::{Msr, Rate};
use atp_proto::{
    GroupConfig, ReceiverConfig, Summary, Terms,
    endpoint::{Event, EventKind, Request, RequestKind},
};
use atp_sim::{
    engine::{MS, US},
    net::{
        PortQueues, Unit,
        topology::{Lines, Star},
    },
    scheme::{
        LawChoice,
        atp::{Application, AtpReceiver, AtpSender, AtpSettings},
    },
    simulation::{NewFlow, Simulation},
};
use std::{cell::RefCell, rc::Rc};
use switch_profiles::Profile;

const MESSAGES: u32 = 1_000;
const BITS_PER_S: u64 = 100_000_000;

/// The things that an application saw.
#[derive(Debug, Default)]
struct Seen {
    messages: Vec<u32>,
    terms: Vec<Terms>,
    summary: Option<Summary>,
}

/// Asks for the end after some messages.
#[derive(Debug)]
struct Impatient {
    enough: usize,
    seen: Rc<RefCell<Seen>>,
    request: Option<Request>,
}

impl Application for Impatient {
    fn take(&mut self, _: u64, Event { run, kind, .. }: Event) {
        let mut seen = self.seen.borrow_mut();
        match kind {
            EventKind::Started(terms) | EventKind::TermsChanged(terms) => seen.terms.push(terms),
            EventKind::Message(message) => seen.messages.push(message.message),
            EventKind::WindowEnded(_) => {}
            EventKind::Finished(summary) => seen.summary = Some(summary),
        }
        if seen.messages.len() >= self.enough {
            self.request = Some(Request { run, kind: RequestKind::End });
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        self.request.take()
    }
}

/// Runs a job whose application asks for the end after `enough` messages.
fn run(enough: usize, announce_terms: bool) -> Seen {
    let lines = Lines {
        host_bits_per_s: BITS_PER_S,
        switch_bits_per_s: BITS_PER_S,
        propagation_ps: US,
        switching_ps: US,
    };
    let profile = Profile::paper();
    let queues = PortQueues::of_profile(&profile, Unit::default(), 1_500_000);
    let mut simulation = Simulation::new(&Star { hosts: 2 }.topology(&lines), queues);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let application = Impatient { enough, seen: seen.clone(), request: None };
    let messages = (0..MESSAGES).map(|_| (0, 1_400));
    simulation.add(NewFlow::new(0, 1, Box::new(messages), 0), |route| {
        let msr = Msr::from_parts_per_billion(900_000_000).expect("a rate");
        let group = GroupConfig { total: Some(MESSAGES), ..GroupConfig::new(0, msr) };
        let rate_max = Rate::from_bytes_per_s(BITS_PER_S / 8);
        let mut settings = AtpSettings::new(LawChoice::PAPER, 0, group, rate_max, &profile);
        settings.config.announce_terms = announce_terms;
        let receiver = AtpReceiver::new(route, ReceiverConfig::default(), None);
        let receiver = receiver.with_application(Box::new(application));
        (Box::new(AtpSender::new(route, settings, 0)), Box::new(receiver))
    });
    simulation.run_on(1_000 * MS);
    seen.take()
}

#[test]
fn application__gets_each_message_and_the_summary() {
    let Seen { mut messages, terms, summary } = run(usize::MAX, true);
    let group = &summary.expect("an end").groups[0];
    assert_eq!((group.messages, group.delivered), (MESSAGES, messages.len() as u32));
    assert!(group.delivered >= 900 && terms[0].groups[0].messages == Some(MESSAGES));
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len() as u32, group.delivered);
}

#[test]
fn application__ends_the_job() {
    let summary = run(300, true).summary.expect("an end");
    assert!((300..400).contains(&summary.groups[0].delivered), "{summary:?}");
    // A sender without terms takes no requests.
    let Seen { terms, summary, .. } = run(300, false);
    let summary = summary.expect("an end");
    assert!(summary.groups[0].delivered >= 900 && terms.is_empty(), "{summary:?}");
}
