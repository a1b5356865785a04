//! Receiving superpackets: what the kernel merged, as one, its headers in one place and what follows
//! them in another. A message that came whole then lies in one piece, in memory that goes on to the
//! application without a copy.
//!
//! The kernel fills places in order, so where each header ends has to be said beforehand: as it was in
//! the superpackets before. One of another shape is put together here.

use super::{
    receive::{Control, Incoming, Said, address, read_control, receive_into},
    socket::UdpSocket,
};
use atp_common::{laws::burst, wire::HEADER_LEN};
use std::{io, mem, net::SocketAddr, ptr};

/// Superpackets, or packets, that one call receives.
const SUPERPACKETS: usize = 16;
/// Room for the longest.
const SUPERPACKET_BYTES_MAX: usize = 1 << 16;
/// Segments whose headers get places of their own: as many as a sender of ours puts together.
const SEGMENTS_MAX: usize = burst::PACKETS_MAX as usize;
/// Fewer are not worth a list of places.
const SEGMENTS_MIN: usize = 4;
/// Header and body of each, and what is left.
const VECTORS: usize = 2 * SEGMENTS_MAX + 1;
/// Memory that is kept for superpackets to come.
const SPARES_MAX: usize = 2 * SUPERPACKETS;

/// Buffers for some superpackets.
pub struct SuperpacketBatch {
    slots: Vec<Slot>,
    names: Box<[libc::sockaddr_storage; SUPERPACKETS]>,
    controls: Box<[Control; SUPERPACKETS]>,
    arrived: usize,
    /// The segments that are expected next, bytes; 0 for whatever comes.
    segment_len: usize,
    spares: Vec<Vec<u8>>,
}

/// One buffer.
struct Slot {
    /// The headers, if there is a shape.
    heads: Box<[u8; SEGMENTS_MAX * HEADER_LEN]>,
    /// What follows them; without a shape, everything.
    data: Vec<u8>,
    /// What was beyond the last place.
    rest: Box<[u8]>,
    /// How long the segments are that it has places for, bytes; 0 without a shape.
    shape: usize,
    len: usize,
    /// How long the segments are that came.
    segment_len: usize,
    traffic_class: u8,
    /// Whether all of it came.
    whole: bool,
}

/// Packets of one source that came together, or one alone.
pub struct Superpacket<'a> {
    slot: &'a mut Slot,
    /// Where from.
    pub source: SocketAddr,
}

impl SuperpacketBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            slots: std::iter::repeat_with(Slot::new).take(SUPERPACKETS).collect(),
            // SAFETY: all-zero is a valid sockaddr_storage (of no family).
            names: Box::new(unsafe { mem::zeroed() }),
            controls: Box::new([Control::EMPTY; SUPERPACKETS]),
            arrived: 0,
            segment_len: 0,
            spares: Vec::new(),
        }
    }

    /// Whether every buffer was used, so that more may wait.
    pub fn is_full(&self) -> bool {
        self.arrived == self.slots.len()
    }

    /// Takes memory for what will come, in which messages have gone to the application.
    pub fn refill(&mut self, memory: &mut Vec<Vec<u8>>) {
        let room = SPARES_MAX.saturating_sub(self.spares.len());
        self.spares.extend(memory.drain(..).filter(is_for_superpackets).take(room));
    }

    /// Receives what has arrived, without blocking, in place of what was here; returns how many
    /// packets, 0 if none waits.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.arrived = 0;
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [[libc::iovec; VECTORS]; SUPERPACKETS] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; SUPERPACKETS] = unsafe { mem::zeroed() };
        for (i, (slot, vectors)) in self.slots.iter_mut().zip(&mut vectors).enumerate() {
            slot.prepare(self.segment_len, &mut self.spares);
            let message = &mut messages[i].msg_hdr;
            message.msg_name = ptr::from_mut(&mut self.names[i]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_iov = vectors.as_mut_ptr();
            message.msg_iovlen = slot.places(vectors) as _;
            message.msg_control = ptr::from_mut(&mut self.controls[i]).cast();
            message.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every pointer in `messages` points into `vectors` or into `self`'s buffers, with
        // their true lengths; all outlive the call.
        let received = unsafe { receive_into(socket, &mut messages) }?;
        self.arrived = received;
        let mut packets = 0;
        let mut longest = (0, 0);
        for ((slot, message), control) in
            self.slots.iter_mut().zip(&messages[..received]).zip(self.controls.iter())
        {
            let said = read_control(control.written(message.msg_hdr.msg_controllen as _));
            slot.whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            // SAFETY: the kernel wrote that many bytes to the slot's places.
            unsafe { slot.take_in(message.msg_len as usize, &said) };
            packets += slot.packets();
            longest = longest.max((slot.packets(), slot.segment_len));
        }
        if received > 0 {
            let (segments, segment_len) = longest;
            self.segment_len = if segments >= SEGMENTS_MIN { segment_len } else { 0 };
        }
        Ok(packets)
    }

    /// What arrived last; what is too long, or from no IP address, is left out.
    pub fn superpackets(&mut self) -> impl Iterator<Item = Superpacket<'_>> {
        let arrived = self.slots.iter_mut().take(self.arrived).zip(self.names.iter());
        arrived.filter_map(|(slot, name)| {
            let source = address(name).filter(|_| slot.whole)?;
            Some(Superpacket { slot, source })
        })
    }
}

/// Whether memory is long enough for a superpacket, and not much longer: it is kept as long as the receiver.
pub fn is_for_superpackets(memory: &Vec<u8>) -> bool {
    (SUPERPACKET_BYTES_MAX..=2 * SUPERPACKET_BYTES_MAX).contains(&memory.capacity())
}

impl Slot {
    fn new() -> Self {
        Self {
            heads: Box::new([0; SEGMENTS_MAX * HEADER_LEN]),
            data: Vec::new(),
            // The system gives pages as they are touched, and these rarely are.
            rest: vec![0; SUPERPACKET_BYTES_MAX].into(),
            shape: 0,
            len: 0,
            segment_len: 1,
            traffic_class: 0,
            whole: false,
        }
    }

    /// Empties it, for segments of `segment_len`.
    fn prepare(&mut self, segment_len: usize, spares: &mut Vec<Vec<u8>>) {
        self.shape = if segment_len > HEADER_LEN { segment_len } else { 0 };
        if self.data.capacity() < SUPERPACKET_BYTES_MAX {
            self.data = spares.pop().unwrap_or_else(|| Vec::with_capacity(SUPERPACKET_BYTES_MAX));
        }
        self.data.clear();
    }

    /// How many segments have places of their own.
    fn places_max(&self) -> usize {
        SEGMENTS_MAX.min(SUPERPACKET_BYTES_MAX / self.shape.max(1))
    }

    /// Lists its places, and returns how many they are.
    fn places(&mut self, vectors: &mut [libc::iovec; VECTORS]) -> usize {
        let data = self.data.spare_capacity_mut();
        if self.shape == 0 {
            vectors[0] =
                libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: SUPERPACKET_BYTES_MAX };
            return 1;
        }
        let places = SEGMENTS_MAX.min(SUPERPACKET_BYTES_MAX / self.shape);
        let bodies = data.chunks_exact_mut(self.shape - HEADER_LEN);
        let heads = self.heads.chunks_exact_mut(HEADER_LEN);
        for (pair, (head, body)) in
            vectors.as_chunks_mut::<2>().0.iter_mut().zip(heads.zip(bodies).take(places))
        {
            *pair = [
                libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() },
                libc::iovec { iov_base: body.as_mut_ptr().cast(), iov_len: body.len() },
            ];
        }
        let rest = SUPERPACKET_BYTES_MAX - places * self.shape;
        vectors[2 * places] =
            libc::iovec { iov_base: self.rest.as_mut_ptr().cast(), iov_len: rest };
        2 * places + 1
    }

    /// Takes note of what came.
    ///
    /// # Safety
    /// The first `len` bytes of its places, as [`Slot::places`] listed them, were written.
    unsafe fn take_in(&mut self, len: usize, said: &Said) {
        self.len = len;
        self.traffic_class = said.traffic_class;
        // Nothing says so of a packet that came alone.
        self.segment_len = if said.segment_len == 0 { len.max(1) } else { said.segment_len };
        let in_data = match self.shape {
            0 => len,
            shape => {
                let placed = len.min(self.places_max() * shape);
                let last = (placed % shape).saturating_sub(HEADER_LEN);
                placed / shape * (shape - HEADER_LEN) + last
            }
        };
        // SAFETY: the bodies follow each other in `data` without a gap, or are all that came.
        unsafe { self.data.set_len(in_data) };
        let alone = self.packets() == 1 && len <= self.shape;
        let fits = self.segment_len == self.shape && len <= self.places_max() * self.shape;
        if self.shape != 0 && !alone && !fits {
            self.put_together();
        }
    }

    /// Everything in one piece again: it came in another shape.
    fn put_together(&mut self) {
        let mut bytes = Vec::with_capacity(SUPERPACKET_BYTES_MAX);
        let bodies = self.data.chunks(self.shape - HEADER_LEN).chain(std::iter::repeat(&[][..]));
        let heads = self.heads.chunks_exact(HEADER_LEN).take(self.places_max());
        for (head, body) in heads.zip(bodies) {
            let left = self.len - bytes.len();
            bytes.extend_from_slice(&head[..head.len().min(left)]);
            bytes.extend_from_slice(body);
        }
        let left = self.len - bytes.len();
        bytes.extend_from_slice(&self.rest[..left]);
        (self.data, self.shape) = (bytes, 0);
    }

    fn packets(&self) -> usize {
        // An empty packet is one, too.
        self.len.div_ceil(self.segment_len).max(1)
    }

    /// The header and the body of a packet.
    fn packet(&self, index: usize) -> (&[u8], &[u8]) {
        let start = index * self.segment_len;
        let len = self.segment_len.min(self.len - start);
        let head_len = len.min(HEADER_LEN);
        if self.shape == 0 {
            return self.data[start..start + len].split_at(head_len);
        }
        let (head, body) = (index * HEADER_LEN, index * (self.shape - HEADER_LEN));
        (&self.heads[head..head + head_len], &self.data[body..body + len - head_len])
    }
}

impl Superpacket<'_> {
    /// How many packets.
    pub fn len(&self) -> usize {
        self.slot.packets()
    }

    /// Their traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.slot.traffic_class
    }

    /// The packets.
    pub fn packets(&self) -> impl Iterator<Item = Incoming<'_>> {
        let (source, traffic_class) = (self.source, self.slot.traffic_class);
        (0..self.len()).map(move |index| {
            let (head, body) = self.slot.packet(index);
            Incoming { head, body, source, traffic_class }
        })
    }

    /// Whether what follows the headers lies in one piece, and how long it is, bytes.
    pub fn joined_bytes(&self) -> Option<usize> {
        (self.slot.shape != 0).then_some(self.slot.data.len())
    }

    /// That piece, which is gone from here then. Memory of which it would leave most unused is kept.
    pub fn take_joined(&mut self) -> Vec<u8> {
        let data = &mut self.slot.data;
        if data.len() >= data.capacity() / 2 { mem::take(data) } else { data.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Outgoing, SendBatch};
    use proptest::prelude::*;

    fn pair(bind: &str, peer: &str) -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind(bind.parse().unwrap()).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = UdpSocket::connect(format!("{peer}:{port}").parse().unwrap()).unwrap();
        (sender, receiver)
    }

    /// Sends packets of these lengths together, and returns all packets that come.
    fn exchange(
        (sender, receiver): &(UdpSocket, UdpSocket),
        batch: &mut SuperpacketBatch,
        packets: &[Vec<u8>],
    ) -> Vec<Vec<u8>> {
        let outgoing: Vec<_> = packets
            .iter()
            .map(|bytes| Outgoing { traffic_class: 15 << 2, ..Outgoing::control(bytes) })
            .collect();
        let sent = SendBatch::new().send_bursts(sender, &outgoing, |left| left.len()).unwrap();
        assert_eq!(sent, packets.len());
        let mut seen = Vec::new();
        while batch.receive(receiver).unwrap() > 0 {
            assert!(!batch.is_full());
            for superpacket in batch.superpackets() {
                assert_eq!(superpacket.source, sender.local_addr().unwrap());
                let joined = superpacket.joined_bytes();
                let bodies: usize = superpacket.packets().map(|packet| packet.body.len()).sum();
                assert!(joined.is_none_or(|bytes| bytes == bodies));
                seen.extend(superpacket.packets().map(|packet| {
                    assert_eq!(packet.traffic_class, 15 << 2);
                    [packet.head, packet.body].concat()
                }));
            }
        }
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // Whatever shape was expected, what was sent comes out.
        #[test]
        fn packets__are_what_was_sent(
            superpackets in proptest::collection::vec((1usize..1_460, 1usize..=44, 0usize..1_460), 1..12),
        ) {
            let sockets = pair("127.0.0.1:0", "127.0.0.1");
            let mut batch = SuperpacketBatch::new();
            for (number, (len, packets, last)) in superpackets.into_iter().enumerate() {
                // Often the same again.
                let len = if number % 3 == 0 { len } else { 1_432 };
                let mut lens = vec![len; packets];
                lens[packets - 1] = last.clamp(1, len);
                let packets: Vec<_> =
                    (0u8..).zip(lens).map(|(i, len)| vec![i ^ number as u8; len]).collect();
                prop_assert_eq!(exchange(&sockets, &mut batch, &packets), packets);
            }
        }
    }

    /// The second of one shape lies in one piece, and can be taken away.
    #[test]
    fn take_joined__is_what_follows_the_headers() {
        for (bind, peer) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let sockets = pair(bind, peer);
            let packets: Vec<_> =
                (0..44).map(|i| vec![i; if i == 43 { 40 } else { 1_432 }]).collect();
            let mut batch = SuperpacketBatch::new();
            for _ in 0..3 {
                exchange(&sockets, &mut batch, &packets);
            }
            let outgoing: Vec<_> = packets.iter().map(|bytes| Outgoing::control(bytes)).collect();
            SendBatch::new().send_bursts(&sockets.0, &outgoing, |left| left.len()).unwrap();
            assert_eq!(batch.receive(&sockets.1).unwrap(), 44);
            let mut superpacket = batch.superpackets().next().unwrap();
            assert_eq!(superpacket.joined_bytes(), Some(43 * 1_400 + 8));
            let expected: Vec<_> = packets.iter().flat_map(|bytes| &bytes[HEADER_LEN..]).collect();
            assert!(superpacket.take_joined().iter().eq(expected), "{bind}");
            // Other memory takes its place.
            assert_eq!(exchange(&sockets, &mut batch, &packets), packets);
        }
    }

    #[test]
    fn receive__from_every_kind_of_address() {
        for (bind, peer) in [("[::1]:0", "[::1]"), ("[::]:0", "127.0.0.1")] {
            let (sender, receiver) = pair(bind, peer);
            let packet =
                |head, body| Outgoing { body, traffic_class: 15 << 2, ..Outgoing::control(head) };
            let packets = [packet(b"ab", b"cde"), packet(b"", b""), packet(b"f", b"")];
            assert_eq!(SendBatch::new().send(&sender, &packets).unwrap(), 3);
            let mut batch = SuperpacketBatch::new();
            assert_eq!(batch.receive(&receiver).unwrap(), 3);
            let port = sender.local_addr().unwrap().port();
            let seen: Vec<_> = batch
                .superpackets()
                .map(|superpacket| {
                    assert_eq!(superpacket.source.port(), port);
                    let packet = superpacket.packets().next().unwrap();
                    (packet.head.to_vec(), packet.traffic_class)
                })
                .collect();
            let expected = [&b"abcde"[..], b"", b"f"].map(|bytes| (bytes.to_vec(), 15 << 2));
            assert_eq!(seen, expected, "{bind}");
        }
    }

    #[test]
    fn packets__one_alone_and_an_empty_one() {
        let sockets = pair("127.0.0.1:0", "127.0.0.1");
        let mut batch = SuperpacketBatch::new();
        let many: Vec<_> = (0..44).map(|i| vec![i; 1_432]).collect();
        for packet in [vec![], vec![1; 7], vec![2; 32], vec![3; 33], vec![4; 1_433], vec![5; 9_000]]
        {
            assert_eq!(exchange(&sockets, &mut batch, &many), many);
            assert_eq!(exchange(&sockets, &mut batch, std::slice::from_ref(&packet)), [packet]);
        }
    }
}
