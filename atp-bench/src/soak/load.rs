//! The load: senders that run one job after the other, and their receiver.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use approxlib::{Error, Job, Receiver};
use atp_output::note;
use testbed::{Daemon, Family, Host, Namespace, PORT, privilege::become_user};

/// Sending threads, each with a job of one lane.
pub const SENDERS: usize = 4;
/// The highest rate of a lane, as an option.
pub const RATE_MAX: &str = "20mbit";
/// The highest rate of a lane, bytes per second.
pub const RATE_MAX_BYTES_PER_S: u64 = 20_000_000 / 8;
/// Each job's messages, so that a job takes about two seconds.
const MESSAGES: u32 = 4_000;
const MESSAGE_BYTES: usize = 1_000;
/// The sampling rates of the threads; the last one is exact.
const MSRS: [f64; SENDERS] = [0.5, 0.8, 0.9, 1.0];
/// Longer than any change lasts.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(200);

/// How jobs ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Success, with the sampling rate kept.
    pub complete: u64,
    /// Success below the sampling rate: this must not happen.
    pub short: u64,
    /// An error that says what is missing.
    pub failed: u64,
    /// Jobs that ended in the daemon's datapath.
    pub in_ebpf: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, short, failed, in_ebpf } = self;
        write!(
            f,
            "{complete} complete ({in_ebpf} ended in eBPF), {short} with success below their \
             sampling rate, {failed} ended with an error"
        )
    }
}

/// A running load.
pub struct Load {
    /// No further job begins.
    stop: Arc<AtomicBool>,
    /// All jobs have ended, so the receiver may go.
    senders_ended: Arc<AtomicBool>,
    senders: Vec<JoinHandle<Result<Counts>>>,
    receiver: JoinHandle<Result<()>>,
}

impl Load {
    /// Starts the receiver and the senders.
    ///
    /// The senders are threads of user `uid`.
    pub fn start(from: &Host, to: &Host, [a, b]: &[Daemon; 2], uid: u32) -> Result<Self> {
        let (stop, senders_ended) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let address = to.endpoint(Family::V4, PORT);
        let socket = Some(b.socket().to_owned());
        let mut receiver = to.namespace.enter(|| {
            let at = SocketAddr::from(([0, 0, 0, 0], PORT));
            Ok(Receiver::builder().control_socket(socket).bind(at)?)
        })?;
        let receiver = {
            let senders_ended = senders_ended.clone();
            thread::spawn(move || {
                while !senders_ended.load(Relaxed) {
                    receiver.recv(Some(POLL))?;
                }
                Ok(())
            })
        };
        let senders = MSRS.map(|msr| {
            let sender = Sender {
                from: from.namespace.clone(),
                socket: a.socket().to_owned(),
                to: address,
                uid,
                msr,
                stop: stop.clone(),
            };
            thread::spawn(move || sender.run())
        });
        Ok(Self { stop, senders_ended, senders: senders.into(), receiver })
    }

    /// Lets the current jobs end, and returns how all of them did.
    pub fn finish(self) -> Result<Counts> {
        self.stop.store(true, Relaxed);
        let mut total = Counts::default();
        let ended: Vec<_> = self.senders.into_iter().map(JoinHandle::join).collect();
        self.senders_ended.store(true, Relaxed);
        for counts in ended {
            let counts = counts.map_err(|_| anyhow!("a sender panicked"))??;
            total.complete += counts.complete;
            total.short += counts.short;
            total.failed += counts.failed;
            total.in_ebpf += counts.in_ebpf;
        }
        self.receiver.join().map_err(|_| anyhow!("the receiver panicked"))??;
        Ok(total)
    }
}

struct Sender {
    from: Namespace,
    /// The socket of the sending host's daemon.
    socket: PathBuf,
    to: SocketAddr,
    uid: u32,
    msr: f64,
    stop: Arc<AtomicBool>,
}

impl Sender {
    fn run(&self) -> Result<Counts> {
        self.from.enter(|| {
            become_user(self.uid)?;
            let mut counts = Counts::default();
            while !self.stop.load(Relaxed) {
                match self.job() {
                    Ok(report) => {
                        let kept = report.groups.iter().all(|group| {
                            group.delivered >= group.needed
                                && f64::from(group.needed) >= self.msr * f64::from(group.messages)
                        });
                        counts.complete += u64::from(kept);
                        counts.short += u64::from(!kept);
                        counts.in_ebpf += u64::from(report.datapath == "ebpf");
                    }
                    // The network was away for too long, or there is no route at the moment.
                    Err(error @ (Error::Short(_) | Error::Socket { .. })) => {
                        note!("a job ended with an error: {error}");
                        counts.failed += 1;
                        thread::sleep(POLL);
                    }
                    Err(error) => return Err(error).context("a job failed in another way"),
                }
            }
            Ok(counts)
        })
    }

    fn job(&self) -> Result<approxlib::Report, Error> {
        let builder = Job::builder().msr(self.msr).messages(MESSAGES).peer_timeout(PEER_TIMEOUT);
        let mut job = builder.control_socket(Some(self.socket.clone())).connect(self.to)?;
        for _ in 0..MESSAGES {
            job.send(&[7; MESSAGE_BYTES])?;
        }
        job.finish()
    }
}
