//! The rates of the lines over which packets arrive.
//!
//! A rate that is too low would slow lanes down, so that only that of a real card is believed:
//! veths, bridges and loopbacks report a speed that nobody keeps, or none. In a virtual machine
//! every card is such an interface: its host invents the speed of an emulated one, and limits or
//! shares the line of a real one.

use crate::interface::Interface;
use std::{
    collections::BTreeMap,
    sync::mpsc::{self, TryRecvError},
    thread,
};

/// The time between two looks at the interfaces, while lanes arrive.
const LOOK_NS: u64 = 10_000_000_000;

/// How the rates are known.
#[derive(Debug)]
pub enum LineRates {
    /// They aren't.
    Unknown,
    /// The application stated one for all lines, bytes per second.
    Stated(u64),
    /// The interfaces report them.
    Reported(ReportedRates),
}

/// Rates that interfaces report. The kernel answers under its lock of the network configuration,
/// which others hold for seconds, so that a thread of its own asks.
#[derive(Debug, Default)]
pub struct ReportedRates {
    /// Bytes per second by interface.
    rates: BTreeMap<u32, u64>,
    answer: Option<mpsc::Receiver<BTreeMap<u32, u64>>>,
    due_ns: u64,
}

impl LineRates {
    /// `stated`: by the application, bytes per second; 0 if no rate is to be believed.
    pub fn new(stated: Option<u64>) -> Self {
        match stated {
            Some(0) => Self::Unknown,
            Some(bytes_per_s) => Self::Stated(bytes_per_s),
            None if is_virtual_machine() => Self::Unknown,
            None => Self::Reported(ReportedRates::default()),
        }
    }

    /// Whether a line may have a known rate, now or later.
    pub const fn may_be_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Whether the rate of any line is known.
    pub fn is_any_known(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Stated(_) => true,
            Self::Reported(reported) => !reported.rates.is_empty(),
        }
    }

    /// The rate of an interface other than the loopback, bytes per second.
    pub fn of(&self, interface: u32) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Stated(bytes_per_s) => Some(*bytes_per_s),
            Self::Reported(reported) => reported.rates.get(&interface).copied(),
        }
    }

    /// Takes in what interfaces report, and asks again if that is due. Returns whether a rate has
    /// changed. Never blocks.
    pub fn refresh(&mut self, now_ns: u64) -> bool {
        let Self::Reported(reported) = self else { return false };
        if reported.answer.is_none() && now_ns >= reported.due_ns {
            reported.due_ns = now_ns + LOOK_NS;
            let (sender, receiver) = mpsc::channel();
            let thread = thread::Builder::new().name("atp-line-rates".into());
            // Without a thread there is no advice, as without a speed.
            if thread.spawn(move || _ = sender.send(reported_rates())).is_ok() {
                reported.answer = Some(receiver);
            }
        }
        match reported.answer.as_ref().map(mpsc::Receiver::try_recv) {
            Some(Ok(rates)) => {
                reported.answer = None;
                let is_new = rates != reported.rates;
                reported.rates = rates;
                is_new
            }
            Some(Err(TryRecvError::Disconnected)) => {
                reported.answer = None;
                false
            }
            Some(Err(TryRecvError::Empty)) | None => false,
        }
    }
}

/// The believable rates of this thread's network namespace.
fn reported_rates() -> BTreeMap<u32, u64> {
    let Ok(interfaces) = nix::net::if_::if_nameindex() else { return BTreeMap::new() };
    let named = interfaces.iter().filter_map(|one| Some((one.index(), one.name().to_str().ok()?)));
    let known = named.filter_map(|(index, name)| {
        let interface = Interface { name: name.to_owned(), index };
        let driver = interface.driver().filter(|driver| is_pci_address(&driver.bus))?;
        let megabits = interface.reported_speed_mbit_per_s()?;
        tracing::debug!(interface = name, driver = driver.name, megabits, "a line of known rate");
        Some((index, u64::from(megabits) * 125_000))
    });
    known.collect()
}

/// Whether a driver's bus address is that of a PCI card: domain, bus, device and function, such as
/// `0000:3b:00.1`. Virtual interfaces have none, and wireless ones report no speed.
fn is_pci_address(bus: &str) -> bool {
    let is_hex = |digits: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let parts = bus.split_once('.').map(|(place, function)| (place.split(':'), function));
    parts.is_some_and(|(mut place, function)| {
        let mut next = || place.next().unwrap_or_default();
        let (domain, bus, device) = (next(), next(), next());
        is_hex(domain, 4..=8)
            && is_hex(bus, 2..=2)
            && is_hex(device, 2..=2)
            && place.next().is_none()
            && is_hex(function, 1..=1)
    })
}

/// Whether this is a virtual machine, or may be one.
#[cfg(target_arch = "x86_64")]
fn is_virtual_machine() -> bool {
    /// Hypervisors set this bit, which no processor sets.
    const HYPERVISOR: u32 = 1 << 31;
    std::arch::x86_64::__cpuid(1).ecx & HYPERVISOR != 0
}

/// Other processors have no word for it.
#[cfg(not(target_arch = "x86_64"))]
const fn is_virtual_machine() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_pci_address__of_cards_only() {
        for bus in ["0000:3b:00.1", "10000:01:00.0", "ffff:ff:1f.7"] {
            assert!(is_pci_address(bus), "{bus}");
        }
        let others = ["", "N/A", "tap", "virtio0", "usb-0000:00:14.0-2", "fd580000.ethernet"];
        let odd = ["0000:3b:00", "0000:3b.1", "0000:3b:00:00.1", "0000:3b:0x.1", "0000:3b:00.10"];
        for bus in others.into_iter().chain(odd) {
            assert!(!is_pci_address(bus), "{bus}");
        }
    }

    #[test]
    fn new__believes_what_is_stated() {
        let stated = LineRates::new(Some(25_000_000));
        assert_eq!((stated.of(7), stated.is_any_known()), (Some(25_000_000), true));
        let off = LineRates::new(Some(0));
        assert_eq!((off.of(7), off.is_any_known(), off.may_be_known()), (None, false, false));
    }

    // A machine's loopback is no card.
    #[test]
    fn refresh__never_believes_the_loopback() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        assert_eq!(reported_rates().get(&lo), None);
        let mut rates = LineRates::Reported(ReportedRates::default());
        while matches!(&rates, LineRates::Reported(reported) if reported.due_ns == 0 || reported.answer.is_some())
        {
            rates.refresh(0);
            thread::yield_now();
        }
        assert_eq!(rates.of(lo), None);
    }
}
