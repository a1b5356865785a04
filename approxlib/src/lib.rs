//! ApproxLib sends and receives messages of which a stated share must arrive.
//!
//! A sender states the minimal sampling rate (MSR; NetApprox §3.3.2), the share of its N messages
//! that must be delivered. At the end, either the receiving application has at least
//! `ceil(MSR * N)` messages, or an error tells how many are missing and why. The sender doesn't
//! retransmit messages that aren't needed, and the packets of approximate messages travel in
//! separate switch queues, below other traffic.
//!
//! If an ATP daemon runs on the host, its eBPF programs pace, mark, count and acknowledge packets.
//! Otherwise this process does so by the same laws: more slowly, with the same guarantee. Hosts of
//! both kinds work together.
//!
//! # Overview
//!
//! | type | purpose |
//! |---|---|
//! | [`Job`], [`JobBuilder`] | send messages to one receiver, in windows or without |
//! | [`Group`] | messages of a job with an MSR of their own |
//! | [`Fanout`] | one job to several receivers |
//! | [`Receiver`], [`Event`] | receive messages of any number of jobs |
//! | [`Report`], [`Summary`] | the outcome, at the sender and at the receiver |
//! | [`Error`], [`Shortfall`] | failures |
//! | [`control`] | the daemon's control socket |
//! | `AsyncJob`, `AsyncReceiver` | the same for tokio, with the feature `tokio` |
//!
//! # Example
//!
//! ```
//! use approxlib::{Event, Job, Receiver};
//! use std::{thread, time::Duration};
//!
//! # fn main() -> Result<(), approxlib::Error> {
//! // `control_socket(None)` uses no daemon. Without this call, a daemon on the host is used.
//! let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0")?;
//! let address = receiver.local_addr()?;
//! let sender = thread::spawn(move || {
//!     let mut job = Job::builder().msr(0.8).control_socket(None).connect(address)?;
//!     for i in 0..100u32 {
//!         job.send(&i.to_be_bytes())?;
//!     }
//!     job.finish()
//! });
//!
//! let mut sum = 0;
//! let summary = loop {
//!     match receiver.recv(Some(Duration::from_secs(5)))? {
//!         Some(Event::Message { data, .. }) => {
//!             sum += u32::from_be_bytes(data.try_into().unwrap());
//!         }
//!         Some(Event::Finished { summary, .. }) => break summary,
//!         Some(_) => {} // The start, and the ends of windows.
//!         None => panic!("no event for five seconds"),
//!     }
//! };
//! assert!(summary.delivered >= 80);
//! println!("mean of {} of 100 numbers: {}", summary.delivered, sum / summary.delivered);
//! let report = sender.join().unwrap()?;
//! assert!(report.groups[0].delivered >= report.groups[0].needed);
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

// A map for readers of the source. `Job::send` hands a message to the sender thread of `job`. The
// thread asks the transport (atp-proto) for packets, `datapath` when they may leave, and `udp` to
// send them. `receiver` is the other end: `udp` reads packets, the transport assembles messages,
// and an event queue hands them to the application.
mod address;
#[cfg(feature = "tokio")]
mod asynchronous;
pub mod control;
mod datapath;
#[cfg(doctest)]
mod documents;
mod error;
mod interface;
mod job;
mod job_id;
mod order;
mod peer;
mod receiver;
mod report;
mod signal;
mod udp;

pub use address::{AddressError, ScopedIp, socket_address};
#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncJob, AsyncReceiver};
pub use atp_common::{
    laws::{RateLaw, Rule, Rules, Variant},
    wire::ResetReason,
};
pub use atp_proto::{LostIds, UnknownIds};
pub use datapath::send_buffer_bytes_max;
pub use error::{Error, ShortCause, ShortGroup, Shortfall};
pub use interface::Interface;
pub use job::{Fanout, Group, Job, JobBuilder, JobHandle, Progress, Requests};
pub use job_id::JobId;
pub use order::Order;
pub use peer::{Addresses, ToAddresses};
pub use receiver::{
    Event, GroupArrivals, GroupSummary, GroupTerms, RateRequest, Receiver, ReceiverBuilder,
    ReceiverStats, Refusals, SourceProgress, Summary, Terms,
};
pub use report::{GroupReport, Report, Sample, WindowReport};
pub use udp::RECEIVE_BUFFER_BYTES;
