//! The features of an interface's driver: offloads, interrupt coalescing and XDP.

use super::{
    interface::{control_socket, ethtool},
    netlink_query::Query,
};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, Nla, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_generic::{
    GenlFamily, GenlHeader, GenlMessage,
    ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs},
};
use netlink_sys::protocols::NETLINK_GENERIC;
use std::{collections::BTreeMap, io, mem};

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
/// The set of the features' names.
const ETH_SS_FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// Far more features than any kernel has.
const FEATURES_MAX: usize = 256;

/// `struct ethtool_sset_info` for one set.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

/// `struct ethtool_gstrings`
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME_BYTES]; FEATURES_MAX],
}

/// `struct ethtool_gfeatures`: for each 32 features the words available, requested, active and
/// never changed.
#[repr(C)]
struct Features {
    command: u32,
    words: u32,
    features: [[u32; 4]; FEATURES_MAX / 32],
}

/// `struct ethtool_coalesce`
#[repr(C)]
struct Coalesce {
    command: u32,
    receive_us: u32,
    rest: [u32; 21],
}

const _: () = assert!(size_of::<Coalesce>() == 92);

/// Offloads by the kernel's names, such as `rx-lro`, and whether they are on. Empty if the kernel
/// doesn't say.
pub fn offloads(interface: &str) -> BTreeMap<String, bool> {
    read_offloads(interface).unwrap_or_default()
}

fn read_offloads(interface: &str) -> Option<BTreeMap<String, bool>> {
    let socket = control_socket().ok()?;
    let mut info =
        SetInfo { command: ETHTOOL_GSSET_INFO, reserved: 0, mask: 1 << ETH_SS_FEATURES, count: 0 };
    ethtool(&socket, interface, &mut info)?;
    let count = info.count as usize;
    // The kernel writes as many names as it has.
    if info.mask == 0 || count > FEATURES_MAX {
        return None;
    }
    // SAFETY: all zero is a valid value of both structures.
    let (mut strings, mut features): (Box<Strings>, Features) =
        unsafe { (Box::new(mem::zeroed()), mem::zeroed()) };
    (strings.command, strings.set, strings.count) = (ETHTOOL_GSTRINGS, ETH_SS_FEATURES, info.count);
    ethtool(&socket, interface, &mut *strings)?;
    (features.command, features.words) = (ETHTOOL_GFEATURES, features.features.len() as u32);
    ethtool(&socket, interface, &mut features)?;
    Some(active(&strings.names[..count], &features.features))
}

fn active(names: &[[u8; NAME_BYTES]], features: &[[u32; 4]]) -> BTreeMap<String, bool> {
    let named = names.iter().enumerate().filter_map(|(at, name)| {
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let name = std::str::from_utf8(&name[..len]).ok().filter(|name| !name.is_empty())?;
        let [_, _, active, _] = features.get(at / 32)?;
        Some((name.to_owned(), active >> (at % 32) & 1 == 1))
    });
    named.collect()
}

/// The longest time in microseconds by which the driver delays an interrupt for received packets;
/// `None` if it doesn't say.
pub fn receive_interrupt_delay_us(interface: &str) -> Option<u32> {
    let mut coalesce = Coalesce { command: ETHTOOL_GCOALESCE, receive_us: 0, rest: [0; 21] };
    ethtool(&control_socket().ok()?, interface, &mut coalesce)?;
    Some(coalesce.receive_us)
}

/// The netlink family that reports XDP features, from Linux 6.3 on.
const NETDEV: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// The driver can run programs that pass and drop packets.
const XDP_ACT_BASIC: u64 = 1;

/// A message about a device.
#[derive(Debug)]
struct Device(Vec<DefaultNla>);

impl GenlFamily for Device {
    fn family_name() -> &'static str {
        NETDEV
    }

    fn command(&self) -> u8 {
        NETDEV_CMD_DEV_GET
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Device {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Device {
    fn parse_with_param(bytes: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        let attributes = NlasIterator::new(bytes).map(|nla| DefaultNla::parse(&nla?));
        attributes.collect::<Result<_, _>>().map(Self)
    }
}

impl Device {
    fn xdp_features(&self) -> Option<u64> {
        let features = self.0.iter().find(|nla| nla.kind() == NETDEV_A_DEV_XDP_FEATURES)?;
        let mut value = [0; 8];
        if features.value_len() != value.len() {
            return None;
        }
        features.emit_value(&mut value);
        Some(u64::from_ne_bytes(value))
    }
}

/// Whether an interface's driver runs XDP programs; `None` if the kernel doesn't say (before 6.3).
pub fn has_native_xdp(ifindex: u32) -> Option<bool> {
    Some(xdp_features(ifindex).ok().flatten()? & XDP_ACT_BASIC != 0)
}

fn xdp_features(ifindex: u32) -> io::Result<Option<u64>> {
    let query = Query::open(NETLINK_GENERIC)?;
    let Some(family) = family(&query, NETDEV)? else { return Ok(None) };
    let ask = Device(vec![DefaultNla::new(NETDEV_A_DEV_IFINDEX, ifindex.to_ne_bytes().into())]);
    let mut message = GenlMessage::from_payload(ask);
    message.set_resolved_family_id(family);
    let answers = query.one(message)?;
    Ok(answers.iter().find_map(|answer| answer.payload.xdp_features()))
}

/// The number of a family of generic netlink.
fn family(query: &Query, name: &str) -> io::Result<Option<u16>> {
    let nlas = vec![GenlCtrlAttrs::FamilyName(name.into())];
    let ask = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas });
    let answers = match query.one(ask) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        answers => answers?,
    };
    let mut attributes = answers.iter().flat_map(|answer| &answer.payload.nlas);
    Ok(attributes.find_map(|attribute| match attribute {
        GenlCtrlAttrs::FamilyId(id) => Some(*id),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active__reads_bits_by_position() {
        let mut names = [[0; NAME_BYTES]; 34];
        for (at, name) in [(0, "rx-gro"), (1, "rx-lro"), (33, "tx-udp-segmentation")] {
            names[at][..name.len()].copy_from_slice(name.as_bytes());
        }
        let found = active(&names, &[[0, 0, 0b01, 0], [0, 0, 0b10, 0]]);
        let expected = [("rx-gro", true), ("rx-lro", false), ("tx-udp-segmentation", true)];
        assert_eq!(found, expected.map(|(name, on)| (name.to_owned(), on)).into());
        // Features beyond the words that the kernel filled in are unknown.
        assert_eq!(active(&names, &[[0, 0, 1, 0]]).len(), 2);
    }

    #[test]
    fn offloads__of_the_loopback() {
        let offloads = offloads("lo");
        assert!(offloads.contains_key("tx-udp-segmentation"), "{offloads:?}");
        assert!(super::offloads("no-such-device").is_empty());
    }

    #[test]
    fn xdp_features__is_the_attribute_of_that_number() {
        let nla = |kind, value: &[u8]| DefaultNla::new(kind, value.into());
        let features = 0x7fu64.to_ne_bytes();
        let device = Device(vec![nla(1, &[1, 0, 0, 0]), nla(3, &features)]);
        assert_eq!(device.xdp_features(), Some(0x7f));
        assert_eq!(Device(vec![nla(3, &features[..4])]).xdp_features(), None);
        assert_eq!(Device(Vec::new()).xdp_features(), None);
    }

    /// The kernel knows no XDP in the driver of the loopback, or doesn't know the question.
    #[test]
    fn has_native_xdp__not_on_the_loopback() {
        assert_ne!(has_native_xdp(1), Some(true));
    }
}
