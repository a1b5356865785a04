//! Finds, adds and removes qdiscs through netlink.

use super::{PacingError, netlink::Netlink};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, Nla, NlasIterator};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
    tc::{TcAttribute, TcHandle, TcMessage, TcOption},
};

/// Major number of the handle of every root qdisc that ATP installs. A later run recognizes them.
pub const OWN_MAJOR: u16 = 0xa7a7;

const TCA_OPTIONS: u16 = 2;

/// An interface by name and index.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub index: u32,
}

impl Interface {
    /// Looks an interface up.
    pub fn named(name: &str) -> Result<Self, PacingError> {
        let index = nix::net::if_::if_nametoindex(name)
            .map_err(|_| PacingError::NoSuchInterface(name.into()))?;
        Ok(Self { name: name.into(), index })
    }

    /// A message for a qdisc or class of this interface.
    pub fn message(&self, parent: TcHandle, handle: TcHandle) -> TcMessage {
        let mut message = TcMessage::with_index(self.index as i32);
        message.header.parent = parent;
        message.header.handle = handle;
        message
    }
}

/// A qdisc as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// `fq_codel`, `mq`, `noqueue`...
    pub kind: String,
    /// The parent to which the qdisc is attached: [`TcHandle::ROOT`], or a class of another qdisc.
    pub parent: TcHandle,
    /// Major number of its handle; 0 for the system's default qdisc.
    pub major: u16,
    /// Attributes of four bytes, by type.
    pub numbers: Vec<(u16, u32)>,
}

impl Qdisc {
    fn of_message(message: &TcMessage) -> Self {
        Self {
            kind: kind_of(message),
            parent: message.header.parent,
            major: message.header.handle.major,
            numbers: numbers_of(message),
        }
    }

    /// An attribute of four bytes.
    pub fn number(&self, attribute: u16) -> Option<u32> {
        self.numbers.iter().find(|(kind, _)| *kind == attribute).map(|(_, number)| *number)
    }
}

/// The qdiscs of an interface, without those that the kernel hides.
pub fn all(netlink: &mut Netlink, interface: &Interface) -> Result<Vec<Qdisc>, PacingError> {
    let ask = interface.message(TcHandle::UNSPEC, TcHandle::UNSPEC);
    let found = netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(ask)).map_err(|error| {
        PacingError::kernel(format!("list the qdiscs of {}", interface.name), error)
    })?;
    let of_interface = found.into_iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewQueueDiscipline(qdisc)
            if qdisc.header.index == interface.index as i32 =>
        {
            Some(Qdisc::of_message(&qdisc))
        }
        _ => None,
    });
    Ok(of_interface.collect())
}

/// The root qdisc of an interface; `None` if the kernel reports none.
pub fn root(netlink: &mut Netlink, interface: &Interface) -> Result<Option<Qdisc>, PacingError> {
    let all = all(netlink, interface)?;
    Ok(all.into_iter().find(|qdisc| qdisc.parent == TcHandle::ROOT))
}

/// The attributes in a qdisc's options: their numbers and bytes.
pub fn options_of(message: &TcMessage) -> Vec<(u16, Vec<u8>)> {
    let options = message.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options),
        _ => None,
    });
    // The parser keeps the options of most qdiscs in one piece.
    let whole = options.flatten().filter_map(|option| match option {
        TcOption::Other(options) => Some(bytes_of(options)),
        _ => None,
    });
    whole.flat_map(|bytes| attributes_in(&bytes)).collect()
}

fn numbers_of(message: &TcMessage) -> Vec<(u16, u32)> {
    let number = |(kind, value): (u16, Vec<u8>)| {
        Some((kind, u32::from_ne_bytes(value.as_slice().try_into().ok()?)))
    };
    options_of(message).into_iter().filter_map(number).collect()
}

fn bytes_of(attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.value_len()];
    attribute.emit_value(&mut bytes);
    bytes
}

fn attributes_in(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let attributes = NlasIterator::new(bytes).map_while(Result::ok);
    attributes.map(|attribute| (attribute.kind(), attribute.value().to_vec())).collect()
}

fn kind_of(qdisc: &TcMessage) -> String {
    let kind = qdisc.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.clone()),
        _ => None,
    });
    kind.unwrap_or_default()
}

/// The number of transmit queues of an interface.
pub fn transmit_queues(netlink: &mut Netlink, interface: &Interface) -> Result<u16, PacingError> {
    let links = netlink
        .dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))
        .map_err(|error| PacingError::kernel("list the interfaces", error))?;
    let queues = links.into_iter().find_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) if link.header.index == interface.index => {
            link.attributes.into_iter().find_map(|attribute| match attribute {
                LinkAttribute::NumTxQueues(queues) => u16::try_from(queues).ok(),
                _ => None,
            })
        }
        _ => None,
    });
    Ok(queues.unwrap_or(1))
}

/// A qdisc's options.
pub enum Options {
    /// None.
    None,
    /// Attributes.
    Attributes(Vec<(u16, Vec<u8>)>),
    /// One plain structure.
    Plain(Vec<u8>),
}

impl Options {
    fn into_attribute(self) -> Option<TcAttribute> {
        match self {
            Self::None => None,
            Self::Attributes(attributes) => Some(nested(attributes)),
            Self::Plain(bytes) => Some(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, bytes))),
        }
    }
}

/// The attributes of a qdisc's or class's options.
pub fn nested(attributes: Vec<(u16, Vec<u8>)>) -> TcAttribute {
    let options =
        attributes.into_iter().map(|(kind, bytes)| TcOption::Other(DefaultNla::new(kind, bytes)));
    TcAttribute::Options(options.collect())
}

/// Adds a qdisc under `parent`. Fails if one is configured there.
pub fn add(
    netlink: &mut Netlink,
    interface: &Interface,
    parent: TcHandle,
    major: u16,
    kind: &str,
    options: Options,
) -> Result<(), PacingError> {
    let mut message = interface.message(parent, TcHandle { major, minor: 0 });
    message.attributes.push(TcAttribute::Kind(kind.into()));
    message.attributes.extend(options.into_attribute());
    netlink
        .request(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|error| {
            PacingError::kernel(format!("add the qdisc {kind} to {}", interface.name), error)
        })
}

/// Removes the root qdisc if ATP installed it; the kernel restores the default.
pub fn remove_own_root(netlink: &mut Netlink, interface: &Interface) -> Result<(), PacingError> {
    if root(netlink, interface)?.is_none_or(|root| root.major != OWN_MAJOR) {
        return Ok(());
    }
    let message = interface.message(TcHandle::ROOT, TcHandle { major: OWN_MAJOR, minor: 0 });
    netlink.request(RouteNetlinkMessage::DelQueueDiscipline(message), 0).map_err(|error| {
        PacingError::kernel(format!("remove the qdisc of {}", interface.name), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{Emitable, Parseable};

    #[test]
    fn attributes_in__ends_at_damage() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let list = [attribute(1, &[9, 0, 0, 0]), attribute(15, &[1]), vec![255; 5]];
        let expected = [(1, vec![9, 0, 0, 0]), (15, vec![1])];
        assert_eq!(attributes_in(&list.concat()), expected);
        assert_eq!(attributes_in(&[]), []);
    }

    #[test]
    fn numbers_of__skips_other_sizes() {
        let attributes = vec![(14, 7u32.to_ne_bytes().into()), (15, vec![1])];
        let mut message = TcMessage::with_index(2);
        message.attributes = vec![TcAttribute::Kind("fq".into()), nested(attributes)];
        assert_eq!(numbers_of(&as_received(&message)), [(14, 7)]);
    }

    /// The message as the parser reads it from the kernel's bytes.
    fn as_received(message: &TcMessage) -> TcMessage {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        TcMessage::parse(&bytes).unwrap()
    }
}
