//! ATP through ApproxLib, with the host's daemon if there is one.
//!
//! Every sender guarantees the MSR of its own messages, so the job is complete when the last sender
//! has ended.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use approxlib::{Event, Job, Receiver};
use atp_options::law;

use super::super::accepted::Asking;
use super::super::clock::now_ns;
use super::super::control::Control;
use super::super::intervals::Estimators;
use super::super::protocol::SenderReport;
use super::{Received, ReceiverSetup, Scheme, SenderSetup};

/// The idle limit of a job: without a message for this time it has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub struct Atp;

impl Scheme for Atp {
    fn receive(&self, setup: &ReceiverSetup, control: &mut Control) -> Result<Received> {
        let mut receiver = Receiver::builder()
            .control_socket(setup.control_socket.clone())
            .line_rate_bytes_per_s(setup.advised_rate_bytes_per_s())
            .queue_depth_packets(setup.queue_depth_packets)
            .job(setup.job.number)
            .bind(SocketAddr::new(setup.bind, 0))?;
        control.ready(receiver.local_addr()?.port())?;
        control.wait_for_start()?;
        let mut messages = Vec::new();
        let mut finished = BTreeSet::new();
        let asking = |error| {
            let (senders, messages) = (setup.senders(), setup.messages.count());
            let estimators = Estimators::new(&setup.job.queries, senders, messages)?;
            Asking::new(error, setup.job.confidence, estimators, senders)
        };
        let mut asking = setup.job.emax.map(asking).transpose()?;
        while finished.len() < setup.senders() {
            match receiver.recv(Some(SILENCE_MAX))? {
                Some(Event::Message { source, message, data, .. }) => {
                    let sender = sender_at(setup, source)?;
                    // Sender i numbers its own messages, which are every S-th of all from the i-th
                    // on.
                    let index = sender + message as usize * setup.senders();
                    if let Some(asking) = &mut asking {
                        asking.on_message(index, &data, &receiver)?;
                    }
                    messages.push((index, data));
                    control.progress(messages.len())?;
                }
                Some(Event::Finished { source, run, summary, .. }) => {
                    let sender = sender_at(setup, source)?;
                    finished.insert(sender);
                    if let Some(asking) = &mut asking {
                        asking.on_finished(sender, run, &summary, &receiver)?;
                    }
                }
                Some(
                    Event::Started { source, run, terms, .. }
                    | Event::TermsChanged { source, run, terms, .. },
                ) => {
                    if let Some(asking) = &mut asking {
                        asking.on_terms(sender_at(setup, source)?, run, &terms, &receiver)?;
                    }
                }
                Some(Event::WindowEnded { .. }) => bail!("a job of one end ended a window"),
                None => bail!(
                    "nothing arrived for {} s; {} of {} messages were delivered, {} of {} senders \
                     have finished",
                    SILENCE_MAX.as_secs(),
                    messages.len(),
                    setup.messages.count(),
                    finished.len(),
                    setup.senders()
                ),
            }
        }
        let ended_ns = now_ns();
        let accepted = asking.map(|asking| asking.outcome()).transpose()?;
        ensure!(
            accepted.is_some() || messages.len() >= setup.needed(),
            "the job was reported complete with {} messages delivered, but needs {}",
            messages.len(),
            setup.needed()
        );
        Ok(Received { ended_ns, messages, packets_arrived: None, accepted })
    }

    fn send(&self, setup: &SenderSetup, control: &mut Control) -> Result<SenderReport> {
        let own: Vec<usize> = setup.dealt().collect();
        let law = law::Choice::from_options(&setup.job.law)?;
        let mut job = Job::builder()
            .id(setup.job.number)
            .messages(u32::try_from(own.len())?)
            .msr(setup.job.msr)
            .mrdf(law.variant.mrdf())
            .rules(law.rules())
            .initial_window_packets(setup.job.scheme.initial_window_packets())
            .rate_max_bytes_per_s(setup.job.rate_bytes_per_s)
            .control_socket(setup.control_socket.clone())
            .connect(setup.receiver)?;
        control.ready(0)?;
        control.wait_for_start()?;
        for index in own {
            job.send(setup.messages.message(index))?;
        }
        let report = job.finish()?;
        Ok(SenderReport {
            packets_sent: report.packets_sent,
            packets_lost: Some(report.packets_sent.saturating_sub(report.packets_arrived)),
            datapath: Some(report.datapath),
            pacing: Some(report.pacing),
        })
    }
}

fn sender_at(setup: &ReceiverSetup, source: SocketAddr) -> Result<usize> {
    let known = setup.job.sources.iter().position(|&host| IpAddr::V4(host) == source.ip());
    known.with_context(|| format!("{source} sends to this job, but is not one of its senders"))
}
