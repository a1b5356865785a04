//! Starts the daemon, runs its control loop, and restores the host at its end.

use super::{
    clock::monotonic_ns,
    closed_sockets,
    folder::Folder,
    host::{Host, lane_settings},
    interface_lock::InterfaceLock,
    listener::Listener,
    policy::{Policy, Reload},
    stalls::Stalls,
    systemd,
    tenant::Tenants,
    ticks::Ticks,
    users::Users,
};
use crate::{logging, metrics, signals::is_ignored};
use anyhow::{Context, Result};
use atp_common::{
    laws::{RateLaw, Rules, advice, yielding},
    maps::Config,
    units::Rate,
};
use atp_datapath::{AckMark, Datapath, Object, PacingRequest, PacketLog, XdpMode};
use atp_metrics::Server;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    cell::RefCell, collections::BTreeMap, net::SocketAddr, path::PathBuf, rc::Rc, time::Duration,
};
use switch_profiles::Profile;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    task::LocalSet,
};

/// The pacing backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PacingChoice {
    /// fq if the kernel has it, else HTB
    Auto,
    /// The fq qdisc, by departure time
    Fq,
    /// The HTB qdisc, one class per lane
    Htb,
}

/// The part of the system that evaluates epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Epochs {
    /// The daemon, on every tick
    Daemon,
    /// The eBPF programs, as packets pass: for round trips far below a millisecond (fq only)
    Kernel,
}

impl Epochs {
    /// The lowest useful minimum: a tick of a process, or the time of some packets.
    pub const fn lowest_min(self) -> Duration {
        match self {
            Self::Daemon => Duration::from_millis(1),
            Self::Kernel => Duration::from_micros(10),
        }
    }

    /// The default of the shortest epoch.
    pub const fn default_min(self) -> Duration {
        match self {
            Self::Daemon => Duration::from_millis(2),
            Self::Kernel => Duration::from_micros(100),
        }
    }
}

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

impl Switch {
    /// Whether it is on.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// The options of a daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interfaces to attach to.
    pub interfaces: Vec<String>,
    /// The control socket.
    pub socket: PathBuf,
    /// The folder for locks.
    pub state_dir: PathBuf,
    /// The highest rate of a lane (Rmax); by default the speed of the slowest interface.
    pub rate_max_bytes_per_s: Option<u64>,
    /// The shortest epoch.
    pub epoch_min: Duration,
    /// The part of the system that evaluates epochs.
    pub epochs: Epochs,
    /// Whether this host gives advice to senders, and its lanes follow that of receivers.
    pub advice: Switch,
    /// The pacing backend.
    pub pacing: PacingChoice,
    /// The hook that consumes ACKs.
    pub xdp: XdpMode,
    /// The mark of the clones that become ACKs.
    pub ack_mark: AckMark,
    /// The rate law of all lanes, and its rules.
    pub rules: Rules,
    /// The queue profile, if one was stated. Without one, lanes write the DSCPs of the default one.
    pub profile: Option<Profile>,
    /// The file of the operator's policy, if there is one.
    pub policy: Option<PathBuf>,
    /// The packets that the programs log.
    pub packet_log: PacketLog,
    /// The address at which to serve metrics.
    pub metrics: Option<SocketAddr>,
    /// The eBPF object; by default the embedded one.
    pub object: Option<PathBuf>,
}

impl Options {
    /// The time between two runs of the control loop while there are lanes.
    pub fn tick(&self) -> Duration {
        match self.epochs {
            // Drains are short.
            Epochs::Daemon if self.rules.law() == RateLaw::Yield => {
                self.epoch_min.min(Duration::from_nanos(yielding::TICK_NS_MAX))
            }
            Epochs::Daemon => self.epoch_min,
            Epochs::Kernel => self.epoch_min.max(KERNEL_EPOCHS_TICK),
        }
    }

    /// The packets that an approximate queue of the profile holds towards a host. 0, one queue for
    /// all traffic, if no profile was stated.
    pub fn advised_depth_packets(&self) -> u32 {
        self.profile.as_ref().map_or(0, Profile::advised_depth_packets)
    }
}

/// Lanes fall to the safe rate after this long without a heartbeat, or after
/// [`HEARTBEATS_MISSED_MAX`] ticks if that is longer.
const HEARTBEAT_NS_MAX: u64 = 500_000_000;
/// The most missed heartbeats before that. Each tick sends one heartbeat.
const HEARTBEATS_MISSED_MAX: u64 = 3;
/// The runaway guard: egress drops packets with a departure further ahead.
///
/// It is longer than a full socket buffer takes at the lowest rate. Otherwise a blocking sender
/// would spin on drops. It is shorter than fq's own horizon of ten seconds.
const HORIZON_NS: u64 = 2_000_000_000;
/// The tick with epochs in the kernel. The loop then only updates targets and statistics, which are
/// less urgent.
const KERNEL_EPOCHS_TICK: Duration = Duration::from_millis(2);
/// The tick without lanes, if it is longer than the usual one. Half of [`HEARTBEAT_NS_MAX`], so
/// that the heartbeat of a running daemon is never too old for a lane that has just opened.
const TICK_WITHOUT_LANES: Duration = Duration::from_nanos(HEARTBEAT_NS_MAX / 2);
/// The interval of looks at the count of lost log lines.
const LOST_LINES_INTERVAL: Duration = Duration::from_secs(1);
/// The safe rate: 1 Mbit/s.
const SAFE_RATE_BYTES_PER_S: u64 = 125_000;

/// Attaches, serves until a signal or a stop request, then detaches and restores the host.
pub async fn run(options: Options) -> Result<()> {
    let profile = options.profile.clone().unwrap_or_default();
    let policy = options.policy.as_deref().map(Policy::load).transpose()?.unwrap_or_default();
    if options.policy.is_some() {
        policy.log();
    }
    let activated = systemd::activated_socket()?;
    raise_descriptor_limit();
    let mut locks = Vec::new();
    for interface in &options.interfaces {
        let folder = Folder::create(&options.state_dir)?;
        folder.require_own()?;
        locks.push(InterfaceLock::take(folder, interface)?);
    }
    let settings = lane_settings(
        rate_max(&options)?,
        options.epoch_min.as_nanos() as u64,
        profile.mtu_bytes() + ETHERNET_HEADER_BYTES,
        options.rules,
        advice::queues_are_deep(options.advised_depth_packets()),
    );
    // From here on a signal must not end the daemon before the host is restored.
    let signals = Signals::take(&options)?;
    let datapath = attach(&options)?;
    let mut listener = match activated {
        Some(socket) => Listener::inherited(socket)?,
        None => Listener::bind(&options.socket)?,
    };
    let users = Users::new().context("can't read this network namespace")?;
    let tenants = Tenants::new().context("can't read /proc")?;
    let (interfaces, pacing) = (datapath.interfaces(), datapath.pacing_name());
    let host = Rc::new(RefCell::new(Host::new(datapath, profile, settings, &options)?));
    host.borrow_mut().set_policy(policy);
    let metrics = start_metrics(&options, &host.borrow())?;
    log_start(&options, &interfaces, pacing);
    let clients = LocalSet::new();
    let served =
        clients.run_until(serve(&host, &mut listener, (tenants, users), &options, signals)).await;
    // The socket is removed last: `atp-user stop` waits for that.
    drop(clients);
    drop(metrics);
    drop(host);
    drop(locks);
    drop(listener);
    served
}

/// Raises the limit of descriptors: every client needs some, and the usual limit of 1,024 is for
/// programs that use `select`.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "can't raise the limit of descriptors");
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
        ack_mark: options.ack_mark.draw(),
        counts_arrivals: options.advice.is_on().into(),
        // Without a stated profile, nothing is known of the switches.
        approximate_dscps: options.profile.as_ref().map_or(0, Profile::approximate_dscps),
    };
    let request = match options.pacing {
        PacingChoice::Auto => PacingRequest::Auto,
        PacingChoice::Fq => PacingRequest::Fq,
        PacingChoice::Htb => PacingRequest::Htb,
    };
    let mut datapath = Datapath::load(&object, config, request, options.packet_log)?;
    if options.epochs == Epochs::Kernel {
        datapath.load_laws()?;
    }
    for interface in &options.interfaces {
        datapath.attach(interface, options.xdp)?;
    }
    Ok(datapath)
}

/// Starts the server of metrics, if one is asked for.
fn start_metrics(options: &Options, host: &Host) -> Result<Option<Server>> {
    let Some(address) = options.metrics else { return Ok(None) };
    let snapshot = host.snapshot().context("can't read the snapshot page")?;
    let server = metrics::serve(address, snapshot)?;
    tracing::info!(url = format!("http://{}/metrics", server.address()), "serving metrics");
    Ok(Some(server))
}

/// Logs the attachments and that the daemon is ready. Scripts wait for that line or for the socket.
fn log_start(options: &Options, interfaces: &BTreeMap<String, String>, pacing: &str) {
    for (interface, kind) in interfaces {
        tracing::info!(interface, xdp = kind, pacing, "attached");
    }
    tracing::info!(socket = %options.socket.display(), "ready");
    systemd::ready(&format!("{}, paced by {pacing}", options.interfaces.join(", ")));
}

/// The signals that stop the daemon, or have it read its policy.
struct Signals {
    /// Reads the policy again. Without one it stops the daemon as Ctrl-C does, because a terminal
    /// was closed, unless the daemon was started with `nohup`.
    hang_up: Option<Signal>,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn take(options: &Options) -> Result<Self> {
        let hang_up = match options.policy.is_none() && is_ignored(libc::SIGHUP) {
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
    users: (Tenants, Users),
    options: &Options,
    mut signals: Signals,
) -> Result<()> {
    let stop = Rc::new(Notify::new());
    let mut clients = std::pin::pin!(listener.serve(host.clone(), users, stop.clone()));
    let mut watched = std::pin::pin!(closed_sockets::watch(host));
    let first_lane = host.borrow().first_lane();
    let mut ticks = Ticks::new(options.tick(), TICK_WITHOUT_LANES, first_lane)
        .context("can't have a timer for the control loop")?;
    let mut alive = tokio::time::interval(systemd::alive_interval());
    let interfaces_changed = host.borrow().interfaces_changed();
    let mut lost_lines = tokio::time::interval(LOST_LINES_INTERVAL);
    let mut stalls = Stalls::new();
    let mut reload = options.policy.clone().map(Reload::new);
    host.borrow_mut().look_at_interfaces();
    loop {
        let is_busy = host.borrow().is_busy();
        tokio::select! {
            ended = ticks.next(is_busy) => {
                let late = ended.context("can't wait for the timer of the control loop")?;
                stalls.on_tick(late);
                host.borrow_mut().tick(monotonic_ns());
            }
            _ = alive.tick() => systemd::alive(),
            _ = lost_lines.tick() => logging::say_lost(),
            () = interfaces_changed.notified() => {
                host.borrow_mut().look_at_interfaces();
            }
            () = &mut clients => break,
            never = &mut watched => match never {},
            () = stop.notified() => break,
            Some(()) = next(&mut signals.hang_up) => match &mut reload {
                Some(reload) => reload.start(),
                None => break,
            },
            policy = read(&mut reload) => host.borrow_mut().set_policy(policy),
            _ = signals.interrupt.recv() => break,
            _ = signals.terminate.recv() => break,
        }
    }
    tracing::info!("detaching");
    systemd::stopping();
    // Lets the reply to a stop request leave before the runtime ends.
    tokio::task::yield_now().await;
    Ok(())
}

/// The next occurrence of a signal; pending forever for an ignored signal.
async fn next(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// The policy, whenever it was read again.
async fn read(reload: &mut Option<Reload>) -> Policy {
    match reload {
        Some(reload) => reload.finished().await,
        None => std::future::pending().await,
    }
}

/// Rmax: from the options, or the speed of the slowest interface.
fn rate_max(options: &Options) -> Result<Rate> {
    if let Some(rate) = options.rate_max_bytes_per_s {
        return Ok(Rate::from_bytes_per_s(rate));
    }
    let mut least = Rate::MAX;
    for interface in &options.interfaces {
        least = least.min(atp_datapath::interface_speed(interface)?);
    }
    Ok(least)
}
