//! A line of the programs' log.

use atp_common::{
    maps::Event,
    wire::{HEADER_LEN, Header},
};
use std::net::{IpAddr, SocketAddr};

/// The target of lines about packets.
pub const TARGET: &str = "datapath";

/// A line. The programs write hook, event, interface, addresses with ports, and the header's bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct LogLine {
    hook: String,
    event: Event,
    ifindex: u32,
    from: SocketAddr,
    to: SocketAddr,
    header: Header,
}

impl LogLine {
    /// Reads the text that aya-log makes of a line.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut next = || words.next();
        let hook = next()?.to_owned();
        let event = Event::from_number(next()?.parse().ok()?)?;
        let ifindex = next()?.parse().ok()?;
        let mut end = || {
            let address: IpAddr = next()?.parse().ok()?;
            Some(SocketAddr::new(address, next()?.parse().ok()?))
        };
        let (from, to) = (end()?, end()?);
        let header = header(words.next()?)?;
        words.next().is_none().then_some(Self { hook, event, ifindex, from, to, header })
    }

    /// Writes the line to this process's log.
    pub fn print(&self) {
        macro_rules! print {
            ($level:ident, $($header:tt)*) => {
                tracing::$level!(
                    target: TARGET,
                    hook = self.hook,
                    ifindex = self.ifindex,
                    from = %self.from,
                    to = %self.to,
                    $($header)*
                    "{}",
                    self.event.text()
                )
            };
        }
        let header = &self.header;
        match (header.kind(), Event::is_ordinary(self.event as u32)) {
            (Err(_), false) => print!(debug,),
            (Err(_), true) => print!(trace,),
            (Ok(kind), ordinary) => {
                let (kind, job, group) = (kind.name(), header.job(), header.group());
                let (slot, epoch) = (header.slot(), header.epoch());
                match ordinary {
                    false => print!(debug, kind, job, group, slot, epoch,),
                    true => print!(trace, kind, job, group, slot, epoch,),
                }
            }
        }
    }
}

fn header(hex: &str) -> Option<Header> {
    let mut bytes = [0u8; HEADER_LEN];
    if hex.len() != 2 * HEADER_LEN || !hex.is_ascii() {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytemuck::cast(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "a7110005000000070000000000000000000000000001000000000000000000ff";

    #[test]
    fn parse__reads_what_the_programs_write() {
        let text = format!("tc {} 3 10.0.0.1 4000 10.0.0.2 4747 {HEADER}", Event::TooFar as u32);
        let line = LogLine::parse(&text).unwrap();
        assert_eq!((line.hook.as_str(), line.event, line.ifindex), ("tc", Event::TooFar, 3));
        assert_eq!(line.from, "10.0.0.1:4000".parse().unwrap());
        assert_eq!(line.to, "10.0.0.2:4747".parse().unwrap());
        assert_eq!((line.header.job(), line.header.group()), (7, 5));
        let text = format!("xdp {} 3 fd00::1 4000 fd00::2 4747 {HEADER}", Event::AckNews as u32);
        assert_eq!(LogLine::parse(&text).unwrap().to, "[fd00::2]:4747".parse().unwrap());
    }

    #[test]
    fn parse__refuses_other_lines() {
        let good = format!("tc 1 3 10.0.0.1 4000 10.0.0.2 4747 {HEADER}");
        assert!(LogLine::parse(&good).is_some());
        let bad = [good.replace(" 1 ", " 99999 "), format!("{good} 1"), good[..60].to_owned()];
        for text in bad {
            assert_eq!(LogLine::parse(&text), None, "{text}");
        }
    }
}
