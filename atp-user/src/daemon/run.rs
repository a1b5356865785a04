//! From options to a running daemon, and back to a host as it was found.

use super::{
    connection,
    host::{Host, lane_settings},
    instance::{InterfaceLock, prepare_state_dir},
};
use crate::{
    datapath::{self, Datapath, Object, PacingRequest},
    switch::Profile,
};
use anyhow::{Context, Result, bail};
use atp_common::{maps::Config, units::Rate};
use nix::time::{ClockId, clock_gettime};
use std::{
    cell::RefCell,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    task::LocalSet,
    time::MissedTickBehavior,
};
use tokio_seqpacket::UnixSeqpacketListener;

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
    /// How to pace.
    pub pacing: PacingChoice,
    /// The queue profile, or the default one.
    pub profile: Option<PathBuf>,
    /// The eBPF object, or the one that this program carries.
    pub object: Option<PathBuf>,
}

/// With no heartbeat for this long lanes fall to the safe rate.
const HEARTBEAT_NS_MAX: u64 = 500_000_000;
/// The runaway guard. Longer than a full socket buffer takes at the lowest rate, or a blocking
/// sender would spin on drops; shorter than fq's own horizon of ten seconds.
const HORIZON_NS: u64 = 2_000_000_000;
/// Packets of the safe rate: 1 Mbit/s.
const SAFE_RATE_BYTES_PER_S: u64 = 125_000;

/// Attaches, serves until a signal or a stop request, and leaves everything as found.
pub async fn run(options: Options) -> Result<()> {
    let profile = match &options.profile {
        Some(path) => Profile::load(path)?,
        None => Profile::default(),
    };
    prepare_state_dir(&options.state_dir)?;
    let mut locks = Vec::new();
    for interface in &options.interfaces {
        locks.push(InterfaceLock::take(&options.state_dir, interface)?);
    }
    let settings = lane_settings(
        rate_max(&options)?,
        options.epoch_min.as_nanos() as u64,
        profile.mtu_bytes() + ETHERNET_HEADER_BYTES,
    );
    let datapath = attach(&options)?;
    let listener = Listener::bind(&options.socket)?;
    announce(&options, &datapath);
    let host = Rc::new(RefCell::new(Host::new(datapath, profile, settings)));
    LocalSet::new().run_until(serve(host, listener, options.epoch_min)).await
}

const ETHERNET_HEADER_BYTES: u32 = 14;

fn attach(options: &Options) -> Result<Datapath> {
    let object = match &options.object {
        Some(path) => Object::from_file(path)?,
        None => Object::embedded()?,
    };
    let config = Config {
        heartbeat_ns: monotonic_ns(),
        heartbeat_ns_max: HEARTBEAT_NS_MAX,
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

async fn serve(host: Rc<RefCell<Host>>, mut listener: Listener, epoch_min: Duration) -> Result<()> {
    let stop = Rc::new(Notify::new());
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval(epoch_min);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut session = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => host.borrow_mut().tick(monotonic_ns()),
            connection = listener.socket.accept() => {
                session += 1;
                let connection = connection.context("accepting on the control socket")?;
                let client = connection::serve(connection, session, host.clone(), stop.clone());
                tokio::task::spawn_local(client);
            }
            () = stop.notified() => break,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    tracing::info!("detaching");
    // Lets the reply to a stop request out before the runtime ends.
    tokio::task::yield_now().await;
    Ok(())
}

/// The control socket; its file goes with it.
struct Listener {
    socket: UnixSeqpacketListener,
    path: PathBuf,
}

impl Listener {
    fn bind(path: &Path) -> Result<Self> {
        if approxlib::control::Client::connect(path).is_ok() {
            bail!(
                "a daemon already listens on {}: stop it with `atp-user stop`, or choose another --socket",
                path.display()
            );
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        }
        // A socket that nobody listens on is a crashed daemon's.
        fs::remove_file(path).ok();
        let socket = UnixSeqpacketListener::bind(path)
            .with_context(|| format!("listening on {}", path.display()))?;
        // Every user may register jobs; who may command which is decided by peer credentials.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        Ok(Self { socket, path: path.into() })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
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
