//! Inspects an interface: its type, its driver and its speed.

use super::DatapathError;
use atp_common::units::Rate;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::{AsRawFd, OwnedFd};

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;

/// Assumed speed of an interface that reports none: 10 Gbit/s.
const SPEED_UNKNOWN_BYTES_PER_S: u64 = 1_250_000_000;
const SPEED_UNKNOWN_MBIT_PER_S: u32 = u32::MAX;

/// `struct ethtool_cmd`
#[derive(Clone, Copy)]
#[repr(C)]
struct LinkSettings {
    command: u32,
    modes: [u32; 2],
    speed_low: u16,
    port: [u8; 6],
    packets: [u32; 2],
    speed_high: u16,
    wires: [u8; 2],
    rest: [u32; 3],
}

const _: () = assert!(size_of::<LinkSettings>() == 44);

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// An interface that exists and carries Ethernet frames.
pub struct EthernetInterface {
    /// The driver's name, if the driver reports it.
    pub driver: Option<String>,
}

impl EthernetInterface {
    /// Inspects an interface.
    pub fn inspect(name: &str) -> Result<Self, DatapathError> {
        let missing = || DatapathError::NoSuchInterface(name.into());
        nix::net::if_::if_nametoindex(name).map_err(|_| missing())?;
        let socket = control_socket()?;
        let kind = hardware_type(&socket, name).ok_or_else(missing)?;
        if !matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
            return Err(DatapathError::NotEthernet(name.into()));
        }
        Ok(Self { driver: driver(&socket, name) })
    }
}

/// The speed of an interface, or 10 Gbit/s if it reports none.
pub fn interface_speed(name: &str) -> Result<Rate, DatapathError> {
    EthernetInterface::inspect(name)?;
    Ok(reported_speed(name).unwrap_or(Rate::from_bytes_per_s(SPEED_UNKNOWN_BYTES_PER_S)))
}

/// The speed that an interface reports now; many report none while their link is down.
pub fn reported_speed(name: &str) -> Option<Rate> {
    let megabits = reported_speed_mbit_per_s(name)?;
    Some(Rate::from_bytes_per_s(u64::from(megabits) * 125_000))
}

/// The MTU of an interface; `None` if there is no such interface.
pub fn mtu_bytes(name: &str) -> Option<u32> {
    let (socket, mut request) = (control_socket().ok()?, request(name)?);
    // SAFETY: `request` is a live ifreq; this ioctl fills in its MTU.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    // SAFETY: filled by the ioctl, if that succeeded.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (result == 0).then(|| u32::try_from(mtu).ok()).flatten()
}

/// The speed that an interface reports, in Mbit/s; `None` if it reports none.
pub fn reported_speed_mbit_per_s(name: &str) -> Option<u32> {
    let megabits = link_speed_mbit_per_s(&control_socket().ok()?, name);
    megabits.filter(|megabits| *megabits > 0)
}

pub(super) fn control_socket() -> Result<OwnedFd, DatapathError> {
    socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|errno| DatapathError::map("open a socket", errno.into()))
}

fn link_speed_mbit_per_s(socket: &OwnedFd, name: &str) -> Option<u32> {
    // SAFETY: all zero is a valid request.
    let mut settings: LinkSettings = unsafe { std::mem::zeroed() };
    settings.command = ETHTOOL_GSET;
    ethtool(socket, name, &mut settings)?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed_low);
    (speed != SPEED_UNKNOWN_MBIT_PER_S && speed != u32::from(u16::MAX)).then_some(speed)
}

/// Runs an ethtool command, which fills `data`; `None` if the driver doesn't support it.
pub(super) fn ethtool<T>(socket: &OwnedFd, name: &str, data: &mut T) -> Option<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast();
    // SAFETY: `request` is a live ifreq whose data points at the structure of the command in it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (result == 0).then_some(())
}

fn hardware_type(socket: &OwnedFd, name: &str) -> Option<u16> {
    let mut request = request(name)?;
    // SAFETY: `request` is a live ifreq; this ioctl fills in its address.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    // SAFETY: zeroed or filled by the ioctl, every bit of the union is a valid address family.
    let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    (result == 0).then_some(family)
}

fn driver(socket: &OwnedFd, name: &str) -> Option<String> {
    let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    ethtool(socket, name, &mut info)?;
    let len = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    String::from_utf8(info.driver[..len].to_vec()).ok()
}

fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}
