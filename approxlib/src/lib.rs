//! ApproxLib: send and receive messages of which a stated share must arrive.
//!
//! A sender says how many of its messages have to be delivered (the minimal sampling rate, MSR;
//! NetApprox §3.3.2), hands them over, and at the end reads what became of them: at least
//! `ceil(MSR * N)` are in the receiving application's hands, or there is an error that says how
//! many are missing and why. What isn't needed is not sent again, and travels in queues of the
//! network where it is in nobody's way.
//!
//! With an ATP daemon on the host, eBPF programs pace, mark, count and acknowledge the packets.
//! Without one, or without the right to use it, the same laws run in this process: slower, with the
//! same promise. Both kinds understand each other.
//!
//! ```
//! use approxlib::{Event, Job, Receiver};
//! use std::{thread, time::Duration};
//!
//! # fn main() -> Result<(), approxlib::Error> {
//! // `control_socket(None)`: without a daemon. Leave it out to use the one that is there.
//! let mut receiver =
//!     Receiver::builder().control_socket(None).bind("127.0.0.1:0".parse().unwrap())?;
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
//!         Some(Event::WindowEnded { .. }) => {} // Of streams only.
//!         None => panic!("nothing came for five seconds"),
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

pub mod control;
mod datapath;
#[cfg(doctest)]
mod documents;
mod error;
mod job;
mod receiver;
mod report;
mod udp;

pub use atp_common::laws::{RateLaw, Rule, Rules, Variant};
pub use error::{Error, ShortCause, ShortGroup, Shortfall};
pub use job::{Fanout, Group, Job, JobBuilder, Progress, Stream};
pub use receiver::{Event, GroupSummary, Receiver, ReceiverBuilder, ReceiverStats, Summary};
pub use report::{GroupReport, Report, Sample, WindowReport};
