//! What an interface's driver reports: its name, its bus address and the speed (`linux/ethtool.h`).

use super::Interface;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::AsRawFd;

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;

const SPEED_UNKNOWN_MBIT_PER_S: u32 = u32::MAX;

/// A structure that an ethtool command fills.
///
/// # Safety
/// The type is `repr(C)`, begins with the number of its command, has no more bytes than the kernel
/// may write, and is valid with any bytes.
unsafe trait Answer {}

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

// SAFETY: as `struct ethtool_cmd`, all of it numbers.
unsafe impl Answer for LinkSettings {}

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    versions: [[u8; 32]; 2],
    bus: [u8; 32],
    rest: [u8; 64],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

// SAFETY: as `struct ethtool_drvinfo`, all of it numbers.
unsafe impl Answer for DriverInfo {}

/// The driver of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// Where the device is, such as `0000:3b:00.0` for a PCI card; empty if the driver doesn't say.
    pub bus: String,
}

impl Interface {
    /// The speed that the interface reports, in Mbit/s. Many report none while their link is down.
    /// That of a virtual interface says nothing of any line.
    pub fn reported_speed_mbit_per_s(&self) -> Option<u32> {
        // SAFETY: all zero is a valid value.
        let mut settings: LinkSettings = unsafe { std::mem::zeroed() };
        settings.command = ETHTOOL_GSET;
        self.ask(&mut settings)?;
        let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed_low);
        let is_known = ![0, u32::from(u16::MAX), SPEED_UNKNOWN_MBIT_PER_S].contains(&speed);
        is_known.then_some(speed)
    }

    /// The interface's driver; `None` if there is none, or if it doesn't tell.
    pub fn driver(&self) -> Option<Driver> {
        // SAFETY: all zero is a valid value.
        let mut info: DriverInfo = unsafe { std::mem::zeroed() };
        info.command = ETHTOOL_GDRVINFO;
        self.ask(&mut info)?;
        Some(Driver { name: text(&info.driver)?, bus: text(&info.bus)? })
    }

    /// Runs the command of `answer`; `None` if the driver doesn't support it.
    fn ask(&self, answer: &mut impl Answer) -> Option<()> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None).ok()?;
        // SAFETY: all zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if self.name.len() >= request.ifr_name.len() {
            return None;
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
        // SAFETY: `request` is a live ifreq whose data points at the structure of the command in
        // it, as `Answer` promises.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        (done == 0).then_some(())
    }
}

/// Text that ends with a zero byte, or with the field.
fn text(field: &[u8; 32]) -> Option<String> {
    let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8(field[..len].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ask__the_loopback_and_no_interface() {
        let lo = Interface::named("lo").unwrap().unwrap();
        assert_eq!((lo.reported_speed_mbit_per_s(), lo.driver()), (None, None));
        let none = Interface { name: "none-of-that-name-here".into(), index: 1 };
        assert_eq!((none.reported_speed_mbit_per_s(), none.driver()), (None, None));
    }
}
