//! From options to a running daemon, and back to a host as it was found.

use super::{
    host::{Host, lane_settings},
    instance::{InterfaceLock, prepare_state_dir},
    listener::Listener,
    users::Users,
};
use crate::datapath::{self, Datapath, Object, PacingRequest};
use anyhow::{Context, Result};
use atp_common::{laws::Rules, maps::Config, units::Rate};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use std::{cell::RefCell, path::PathBuf, rc::Rc, time::Duration};
use switch_profiles::Profile;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    task::LocalSet,
    time::MissedTickBehavior,
};

/// How to pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PacingChoice {
    /// fq where the kernel has it, HTB where it hasn't
    Auto,
    /// By departure time, under the fq qdisc
    Fq,
    /// By a class per lane, under the HTB qdisc
    Htb,
}

/// Who evaluates epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Epochs {
    /// This process, with every tick
    Daemon,
    /// The eBPF programs, with the packets themselves: for round trips far below a millisecond (fq only)
    Kernel,
}

impl Epochs {
    /// The shortest epoch that makes sense: a tick of a process, or some packets.
    pub const fn shortest(self) -> Duration {
        match self {
            Self::Daemon => Duration::from_millis(1),
            Self::Kernel => Duration::from_micros(10),
        }
    }

    /// The shortest epoch of a daemon that isn't told of one.
    pub const fn usual(self) -> Duration {
        match self {
            Self::Daemon => Duration::from_millis(2),
            Self::Kernel => Duration::from_micros(100),
        }
    }
}

/// What a daemon is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interfaces to attach to.
    pub interfaces: Vec<String>,
    /// The control socket.
    pub socket: PathBuf,
    /// Locks live here.
    pub state_dir: PathBuf,
    /// Rmax; the interface's speed if not given.
    pub rate_max_bytes_per_s: Option<u64>,
    /// Epochs are an RTT, but never shorter than this.
    pub epoch_min: Duration,
    /// Who evaluates them.
    pub epochs: Epochs,
    /// How to pace.
    pub pacing: PacingChoice,
    /// The rate law of all lanes, and its rules.
    pub rules: Rules,
    /// The queue profile, or the default one.
    pub profile: Option<PathBuf>,
    /// The eBPF object, or the one that this program carries.
    pub object: Option<PathBuf>,
}

impl Options {
    fn tick(&self) -> Duration {
        match self.epochs {
            Epochs::Daemon => self.epoch_min,
            Epochs::Kernel => self.epoch_min.max(TICK_OF_ONLOOKERS),
        }
    }
}

/// With no heartbeat for this long lanes fall to the safe rate...
const HEARTBEAT_NS_MAX: u64 = 500_000_000;
/// ...or for so many ticks: there is one heartbeat in each.
const HEARTBEATS_MISSED_MAX: u64 = 3;
/// The runaway guard. Longer than a full socket buffer takes at the lowest rate, or a blocking
/// sender would spin on drops; shorter than fq's own horizon of ten seconds.
const HORIZON_NS: u64 = 2_000_000_000;
/// How often the loop runs where epochs are the kernel's: what they need it for, targets and statistics,
/// is no more urgent.
const TICK_OF_ONLOOKERS: Duration = Duration::from_millis(2);
/// Packets of the safe rate: 1 Mbit/s.
const SAFE_RATE_BYTES_PER_S: u64 = 125_000;

/// Attaches, serves until a signal or a stop request, and leaves everything as found.
pub async fn run(options: Options) -> Result<()> {
    let profile = match &options.profile {
        Some(path) => Profile::load(path)?,
        None => Profile::default(),
    };
    raise_descriptor_limit();
    prepare_state_dir(&options.state_dir)?;
    let mut locks = Vec::new();
    for interface in &options.interfaces {
        locks.push(InterfaceLock::take(&options.state_dir, interface)?);
    }
    let settings = lane_settings(
        rate_max(&options)?,
        options.epoch_min.as_nanos() as u64,
        profile.mtu_bytes() + ETHERNET_HEADER_BYTES,
        options.rules,
    );
    // From here on a signal must not end the daemon before everything is as it was.
    let signals = Signals::take()?;
    let datapath = attach(&options)?;
    let mut listener = Listener::bind(&options.socket)?;
    let users = Users::new().context("looking at this network namespace")?;
    announce(&options, &datapath);
    let host = Rc::new(RefCell::new(Host::new(datapath, profile, settings)));
    let clients = LocalSet::new();
    let served =
        clients.run_until(serve(&host, &mut listener, users, options.tick(), signals)).await;
    // The socket goes last: `atp-user stop` waits for that.
    drop(clients);
    drop(host);
    drop(locks);
    drop(listener);
    served
}

/// Every client costs some descriptors, and the usual limit of 1,024 is meant for programs that use
/// `select`.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of descriptors can't be raised");
    }
}

const ETHERNET_HEADER_BYTES: u32 = 14;

fn attach(options: &Options) -> Result<Datapath> {
    let tick_ns = options.tick().as_nanos() as u64;
    let object = match &options.object {
        Some(path) => Object::from_file(path)?,
        None => Object::embedded()?,
    };
    let config = Config {
        heartbeat_ns: monotonic_ns(),
        heartbeat_ns_max: HEARTBEAT_NS_MAX.max(HEARTBEATS_MISSED_MAX * tick_ns),
        safe_rate_bytes_per_s: SAFE_RATE_BYTES_PER_S,
        horizon_ns: HORIZON_NS,
        backend: 0,
        generation: 1,
        ack_mark: rand::random_range(1..=u32::MAX),
        reserved: 0,
    };
    let request = match options.pacing {
        PacingChoice::Auto => PacingRequest::Auto,
        PacingChoice::Fq => PacingRequest::Fq,
        PacingChoice::Htb => PacingRequest::Htb,
    };
    let mut datapath = Datapath::load(&object, config, request)?;
    if options.epochs == Epochs::Kernel {
        datapath.load_laws(options.rules.law())?;
    }
    for interface in &options.interfaces {
        datapath.attach(interface)?;
    }
    Ok(datapath)
}

/// The line that says the daemon is ready; scripts wait for it or for the socket.
fn announce(options: &Options, datapath: &Datapath) {
    for (interface, kind) in datapath.interfaces() {
        tracing::info!(interface, xdp = kind, pacing = datapath.pacing_name(), "attached");
    }
    tracing::info!(socket = %options.socket.display(), "ready");
}

/// The signals that end a daemon in good order.
struct Signals {
    /// A terminal that is closed is as good as Ctrl-C, unless the daemon was started to outlive it.
    hang_up: Option<Signal>,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn take() -> Result<Self> {
        let hang_up = match is_ignored(libc::SIGHUP) {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { hang_up, interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }
}

async fn serve(
    host: &Rc<RefCell<Host>>,
    listener: &mut Listener,
    users: Users,
    tick: Duration,
    mut signals: Signals,
) -> Result<()> {
    let stop = Rc::new(Notify::new());
    let mut clients = std::pin::pin!(listener.serve(host.clone(), users, stop.clone()));
    let mut ticks = tokio::time::interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => host.borrow_mut().tick(monotonic_ns()),
            () = &mut clients => break,
            () = stop.notified() => break,
            Some(()) = next(&mut signals.hang_up) => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.terminate.recv() => break,
        }
    }
    tracing::info!("detaching");
    // Lets the reply to a stop request out before the runtime ends.
    tokio::task::yield_now().await;
    Ok(())
}

/// The next of a signal that may not be listened to.
async fn next(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored, as `nohup` has it.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zero is a valid action; it is only written to, and nothing is changed.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut present) };
    asked == 0 && present.sa_sigaction == libc::SIG_IGN
}

/// Rmax: as told, or the least speed of the interfaces.
fn rate_max(options: &Options) -> Result<Rate> {
    if let Some(rate) = options.rate_max_bytes_per_s {
        return Ok(Rate::from_bytes_per_s(rate));
    }
    let mut least = Rate::MAX;
    for interface in &options.interfaces {
        least = least.min(datapath::interface_speed(interface)?);
    }
    Ok(least)
}

/// CLOCK_MONOTONIC, the clock of the datapath.
pub fn monotonic_ns() -> u64 {
    // It fails only for a clock that doesn't exist.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
