//! The programs, loaded, with one job: a flow and a lane for IPv4 and one for IPv6, a receiving
//! port, and an interface through which ACKs leave.

use std::fs;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use atp_common::maps::arrivals::ArrivalKey;
use atp_common::maps::{Config, Flow, GROUPS, JOB_ACTIVE, Job, LaneControl, PortEntry};
use atp_datapath::{Datapath, EGRESS, INGRESS, Object, PacingRequest, PacketLog, XDP, XdpMode};
use nix::sched::{CloneFlags, unshare};

use super::packet::{Ends, HERE, mapped};

pub const JOB: u32 = 4711;
pub const COOKIE: u32 = 0x5eed_cafe;
/// The packet mark of clones that become ACKs.
pub const ACK_MARK: u32 = 0xacac_acac;
/// Local ports of the flows, IPv4 and IPv6.
const SENDER_PORTS: [u16; 2] = [5000, 5001];
const RECEIVER_PORT: u16 = 6000;
const FOREIGN_PORT: u16 = 7000;
/// A rate at which no packet waits: this benchmark measures programs, not pacing.
const RATE_BYTES_PER_S: u64 = 1_000_000_000_000;
const DSCP: u32 = 15;
const INTERFACE: &str = "atp-bench0";
const PEER: &str = "atp-bench1";

/// One of the datapath's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Egress,
    Ingress,
    Xdp,
}

impl Program {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Egress => EGRESS,
            Self::Ingress => INGRESS,
            Self::Xdp => XDP,
        }
    }
}

/// Loaded programs and their maps.
pub struct Fixture {
    pub datapath: Datapath,
    /// Index of the interface that programs are attached to.
    pub ifindex: u32,
    /// Keeps the rings alive.
    _rings: [OwnedFd; 2],
}

/// Moves this process into its own network namespace, which ends with the process. The peer of its
/// veth pair stays down, so ACKs pass the egress program and end at the device.
pub fn enter_own_namespace() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("can't make a network namespace")?;
    let address = HERE.map(|byte| format!("{byte:02x}")).join(":");
    ip(&["link", "add", INTERFACE, "address", &address, "type", "veth", "peer", "name", PEER])?;
    ip(&["link", "set", INTERFACE, "up"])
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).output().context("can't start `ip`")?;
    if !output.status.success() {
        bail!("`ip {}`: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Fixture {
    /// Loads an object. With `bound`, the job is bound to this process's cgroup, so that the
    /// programs check sockets. With `counts`, they count arrivals for advice.
    pub fn load(object: &Path, pacing: PacingRequest, bound: bool, counts: bool) -> Result<Self> {
        let config = Config {
            // No control loop runs here to refresh the heartbeat.
            heartbeat_ns: u64::MAX / 2,
            heartbeat_ns_max: u64::MAX / 2,
            safe_rate_bytes_per_s: RATE_BYTES_PER_S,
            horizon_ns: 1_000_000_000,
            backend: 0,
            generation: 0,
            ack_mark: ACK_MARK,
            counts_arrivals: counts.into(),
            approximate_dscps: u64::MAX << 1,
        };
        let mut datapath =
            Datapath::load(&Object::from_file(object)?, config, pacing, PacketLog::Off)?;
        datapath.attach(INTERFACE, XdpMode::Auto)?;
        let cgroup = if bound { own_cgroup()? } else { 0 };
        let job = Job { cgroup, id: JOB, state: JOB_ACTIVE };
        datapath.add_job(0, &job)?;
        let ring = |flow| datapath.new_ack_ring(flow);
        let rings = [ring(0)?, ring(1)?];
        for (index, ends) in [v4(), v6()].iter().enumerate() {
            open_flow(&datapath, index as u16, ends)?;
        }
        datapath.set_port(RECEIVER_PORT, PortEntry::receiver([0; 16], PortEntry::ANY_SOCKET))?;
        for (index, ends) in (0..).zip([v4(), v6()]) {
            let key = ArrivalKey {
                source: mapped(ends.source.0),
                cookie: COOKIE,
                source_port: ends.source.1,
                local_port: RECEIVER_PORT,
                group: 0,
            };
            datapath.arrivals().add(index, &key)?;
        }
        let ifindex = nix::net::if_::if_nametoindex(INTERFACE)?;
        Ok(Self { datapath, ifindex, _rings: rings })
    }

    /// The descriptor of a program.
    pub fn program(&self, program: Program) -> Result<OwnedFd> {
        let ebpf = self.datapath.ebpf();
        let loaded = ebpf.program(program.name());
        Ok(loaded.context("the object lacks a program")?.fd()?.as_fd().try_clone_to_owned()?)
    }

    /// The event counter `name`.
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.datapath.counters()?.get(name).copied().with_context(|| format!("no counter {name}"))
    }
}

/// Opens a flow and a lane, both with index `index`.
fn open_flow(datapath: &Datapath, index: u16, ends: &Ends) -> Result<()> {
    let lanes = datapath.lanes();
    lanes.reset(index);
    lanes.store_control(
        index,
        &LaneControl {
            rate_bytes_per_s: RATE_BYTES_PER_S,
            htb_class: lanes.htb_class(index),
            dscp: DSCP,
            epoch: 0,
            active: 1,
            due_ns: 0,
            ..LaneControl::default()
        },
    );
    let flow = Flow {
        local: mapped(ends.source.0),
        remote: mapped(ends.destination.0),
        local_port: ends.source.1,
        remote_port: ends.destination.1,
        job_index: 0,
        cookie: COOKIE,
        lanes: [index; GROUPS],
    };
    datapath.set_flow(u32::from(index), &flow)?;
    let port = PortEntry::sender(index, PortEntry::ANY_SOCKET);
    datapath.set_port(ends.source.1, port)?;
    Ok(())
}

/// Addresses for documentation (RFC 5737, RFC 3849).
fn ends(source: &str, destination: &str, source_port: u16) -> Ends {
    let parse = |text: &str| text.parse::<IpAddr>().expect("a literal address");
    Ends { source: (parse(source), source_port), destination: (parse(destination), RECEIVER_PORT) }
}

/// The IPv4 flow, in the direction of its DATA.
pub fn v4() -> Ends {
    ends("192.0.2.1", "192.0.2.2", SENDER_PORTS[0])
}

/// The IPv6 flow, in the direction of its DATA.
pub fn v6() -> Ends {
    ends("2001:db8::1", "2001:db8::2", SENDER_PORTS[1])
}

/// A flow between ports that aren't ATP's.
pub fn foreign() -> Ends {
    let mut ends = v4();
    (ends.source.1, ends.destination.1) = (FOREIGN_PORT, FOREIGN_PORT + 1);
    ends
}

/// The id of this process's cgroup (v2): its folder's inode number.
fn own_cgroup() -> Result<u64> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let root = fields.find(|mount| mount.get(2) == Some(&"cgroup2"));
    let root = root.context("no cgroup v2 hierarchy is mounted")?[1].to_owned();
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.context("this process is in no cgroup v2")?;
    ensure!(path.starts_with('/'), "this process's cgroup isn't visible here: {path}");
    Ok(fs::metadata(format!("{root}{path}"))?.ino())
}
