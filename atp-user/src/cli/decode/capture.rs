//! Reads the packets of a capture file, pcap or pcapng.

use anyhow::{Result, bail};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, Linktype, PcapBlockOwned, PcapError, create_reader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use std::{io::Read, ops::ControlFlow};

/// The first size of the buffer, which must hold a complete packet.
const BUFFER_BYTES: usize = 1 << 18;
/// The largest size of the buffer. A larger packet is a sign of a damaged file.
const BUFFER_BYTES_MAX: usize = 1 << 24;
const NS_PER_S: u64 = 1_000_000_000;

/// A captured packet.
pub struct Frame<'a> {
    /// Nanoseconds since 1970; 0 in a block without a time.
    pub time_ns: u64,
    /// The type of its first header.
    pub link: Linktype,
    /// The packet's bytes, as far as they were captured.
    pub bytes: &'a [u8],
}

/// Calls `each` for every packet of a capture, until it breaks.
///
/// # Errors
/// The file is no capture, is damaged or ends within a packet.
pub fn read(
    capture: impl Read + Send,
    mut each: impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut reader = match create_reader(BUFFER_BYTES, capture) {
        Ok(reader) => reader,
        Err(PcapError::ReadError) => bail!("reading the file failed"),
        Err(_) => bail!("the file is neither a pcap nor a pcapng capture"),
    };
    let mut section = Section::default();
    let mut capacity = BUFFER_BYTES;
    loop {
        let needs_space = match reader.next() {
            Ok((bytes, block)) => {
                if let Some(frame) = section.frame(&block)
                    && each(frame).is_break()
                {
                    return Ok(());
                }
                reader.consume(bytes);
                continue;
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => false,
            Err(PcapError::BufferTooSmall) => true,
            Err(PcapError::UnexpectedEof) => bail!("the file ends within a packet"),
            Err(PcapError::ReadError) => bail!("reading the file failed"),
            Err(_) => bail!("the file is damaged after {} bytes", reader.consumed()),
        };
        if refill(reader.as_mut(), needs_space, &mut capacity)? {
            bail!("the file ends within a packet");
        }
    }
}

/// Reads more of the file, into a larger buffer if needed. Returns whether the file has ended
/// without the bytes that are missing.
fn refill(
    reader: &mut dyn PcapReaderIterator,
    needs_space: bool,
    capacity: &mut usize,
) -> Result<bool> {
    let before = reader.data().len();
    if needs_space || before >= *capacity {
        *capacity *= 2;
        if *capacity > BUFFER_BYTES_MAX || !reader.grow(*capacity) {
            bail!("the file is damaged after {} bytes: a packet is too long", reader.consumed());
        }
    }
    if reader.refill().is_err() {
        bail!("reading the file failed");
    }
    // An empty rest is a regular end, which the next read reports.
    Ok(reader.reader_exhausted() && before > 0 && reader.data().len() == before)
}

/// The properties of a capture, or of the present section of a pcapng file.
#[derive(Default)]
struct Section {
    interfaces: Vec<Interface>,
}

/// The properties of a capturing interface.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    units_per_s: u64,
    offset_s: i64,
}

impl Section {
    /// The packet in a block. Blocks of other types update the section.
    fn frame<'a>(&mut self, block: &'a PcapBlockOwned<'a>) -> Option<Frame<'a>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s =
                    if header.is_nanosecond_precision() { NS_PER_S } else { 1_000_000 };
                let link = header.network;
                self.interfaces = vec![Interface { link, units_per_s, offset_s: 0 }];
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = self.interfaces.first()?;
                let units = u128::from(packet.ts_sec) * u128::from(interface.units_per_s)
                    + u128::from(packet.ts_usec);
                let bytes = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                Some(interface.frame(units, bytes))
            }
            PcapBlockOwned::NG(block) => self.next_generation(block),
        }
    }

    fn next_generation<'a>(&mut self, block: &'a Block<'a>) -> Option<Frame<'a>> {
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                self.interfaces.push(Interface::described(interface));
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let units = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                return Some(interface.frame(units, packet.packet_data()));
            }
            Block::SimplePacket(packet) => {
                let link = self.interfaces.first()?.link;
                return Some(Frame { time_ns: 0, link, bytes: packet.packet_data() });
            }
            _ => {}
        }
        None
    }
}

impl Interface {
    fn described(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let exponent = u32::from(block.if_tsresol & 0x7f);
        // The high bit selects a power of 2. A resolution beyond 64 bits is invalid.
        let units_per_s = match block.if_tsresol & 0x80 {
            0 => 10u64.checked_pow(exponent),
            _ => 1u64.checked_shl(exponent),
        };
        Self {
            link: block.linktype,
            units_per_s: units_per_s.unwrap_or(1_000_000),
            offset_s: block.if_tsoffset,
        }
    }

    /// A packet at `units` since 1970.
    ///
    /// Overflow: units are below 2^64 and times 10^9 below 2^94, the offset in nanoseconds below
    /// 2^93.
    fn frame<'a>(&self, units: u128, bytes: &'a [u8]) -> Frame<'a> {
        let since_offset_ns = units * u128::from(NS_PER_S) / u128::from(self.units_per_s);
        let time_ns = since_offset_ns as i128 + i128::from(self.offset_s) * i128::from(NS_PER_S);
        let time_ns = u64::try_from(time_ns.max(0)).unwrap_or(u64::MAX);
        Frame { time_ns, link: self.link, bytes }
    }
}
