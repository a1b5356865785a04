//! Receives GRO buffers: packets of one flow that the kernel merged.
//!
//! The kernel scatters each buffer: all headers into one memory area, all bodies into another. The
//! body of a message that came complete then lies in one piece, and goes to the application without
//! a copy.
//!
//! The kernel fills the given memory in order, so the segment length must be known beforehand. It
//! is expected to be that of the previous buffers. If it differs, [`Storage::rejoin`] copies the
//! buffer into one piece.

use super::{
    receive::{Control, PacketInfo, address, read_control, receive_into},
    socket::UdpSocket,
};
use atp_common::{laws::burst, wire::HEADER_LEN};
use atp_proto::endpoint::{Buffer, Datagram, Ends};
use std::{io, mem, ptr};

/// The most GRO buffers or single packets that one call receives.
const GRO_BUFFERS: usize = 16;
/// Room for the longest GRO buffer.
const GRO_BUFFER_BYTES_MAX: usize = 1 << 16;
/// The most segments whose headers are separated: a sender puts no more into one GSO buffer.
const SEGMENTS_MAX: usize = burst::PACKETS_MAX as usize;
/// The fewest segments whose headers are separated. Fewer are not worth a longer list of vectors.
const SEGMENTS_MIN: usize = 4;
/// A header and a body for each segment, and the rest.
const VECTORS: usize = 2 * SEGMENTS_MAX + 1;
/// The most memory blocks that are kept for later buffers.
const FREE_BUFFERS_MAX: usize = 2 * GRO_BUFFERS;

/// Memory for a batch of GRO buffers.
pub struct GroBatch {
    storages: Vec<Storage>,
    names: Box<[libc::sockaddr_storage; GRO_BUFFERS]>,
    controls: Box<[Control; GRO_BUFFERS]>,
    /// How many of `storages` the last call filled.
    arrived: usize,
    /// The segment length of the last buffers, bytes; 0 if they had too few segments.
    segment_len: usize,
    /// Memory for later buffers.
    free: Vec<Vec<u8>>,
}

/// Memory for one GRO buffer.
struct Storage {
    /// The headers, if they are separated.
    headers: Box<[u8; SEGMENTS_MAX * HEADER_LEN]>,
    /// The bodies, or the complete buffer if headers are not separated.
    data: Vec<u8>,
    /// Bytes beyond the last expected segment.
    rest: Box<[u8]>,
    /// The segment length for which headers are separated, bytes; 0 if they are not.
    expected_len: usize,
    /// Bytes received.
    len: usize,
    /// The segment length of the received buffer, bytes.
    segment_len: usize,
    info: PacketInfo,
    /// Whether the kernel delivered the buffer without truncating it.
    complete: bool,
}

/// A received GRO buffer: one or more packets of one source.
pub struct GroBuffer<'a> {
    storage: &'a mut Storage,
    ends: Ends,
}

impl GroBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            storages: std::iter::repeat_with(Storage::new).take(GRO_BUFFERS).collect(),
            // SAFETY: all-zero is a valid sockaddr_storage (of no family).
            names: Box::new(unsafe { mem::zeroed() }),
            controls: Box::new([Control::EMPTY; GRO_BUFFERS]),
            arrived: 0,
            segment_len: 0,
            free: Vec::new(),
        }
    }

    /// Whether every buffer was used: then more packets may wait.
    pub fn is_full(&self) -> bool {
        self.arrived == self.storages.len()
    }

    /// Takes memory for later buffers. Complete messages took theirs to the application.
    pub fn refill(&mut self, memory: &mut Vec<Vec<u8>>) {
        let room = FREE_BUFFERS_MAX.saturating_sub(self.free.len());
        self.free.extend(memory.drain(..).filter(fits_gro_buffer).take(room));
    }

    /// Receives waiting buffers without blocking, and replaces those of the last call. Returns the
    /// number of packets, 0 if none waits.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.arrived = 0;
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [[libc::iovec; VECTORS]; GRO_BUFFERS] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; GRO_BUFFERS] = unsafe { mem::zeroed() };
        for (i, (storage, vectors)) in self.storages.iter_mut().zip(&mut vectors).enumerate() {
            storage.prepare(self.segment_len, &mut self.free);
            let message = &mut messages[i].msg_hdr;
            message.msg_name = ptr::from_mut(&mut self.names[i]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_iov = vectors.as_mut_ptr();
            message.msg_iovlen = storage.fill_vectors(vectors) as _;
            message.msg_control = ptr::from_mut(&mut self.controls[i]).cast();
            message.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every pointer in `messages` points into `vectors` or into `self`'s buffers, with
        // their true lengths; all outlive the call.
        let received = unsafe { receive_into(socket, &mut messages) }?;
        self.arrived = received;
        let mut packets = 0;
        let mut longest = (0, 0);
        for ((storage, message), control) in
            self.storages.iter_mut().zip(&messages[..received]).zip(self.controls.iter())
        {
            let info = read_control(control.written(message.msg_hdr.msg_controllen as _));
            storage.complete = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            // SAFETY: the kernel wrote that many bytes to the storage's vectors.
            unsafe { storage.set_received(message.msg_len as usize, info) };
            packets += storage.packets();
            longest = longest.max((storage.packets(), storage.segment_len));
        }
        if received > 0 {
            let (segments, segment_len) = longest;
            self.segment_len = if segments >= SEGMENTS_MIN { segment_len } else { 0 };
        }
        Ok(packets)
    }

    /// The buffers received last, without truncated ones and those from no IP address.
    pub fn buffers(&mut self) -> impl Iterator<Item = GroBuffer<'_>> {
        let arrived = self.storages.iter_mut().take(self.arrived).zip(self.names.iter());
        arrived.filter_map(|(storage, name)| {
            let source = address(name).filter(|_| storage.complete)?;
            let ends = Ends { source, local: storage.info.local };
            Some(GroBuffer { storage, ends })
        })
    }
}

/// Whether memory has the right size for a GRO buffer. Much longer memory is not worth keeping for
/// the receiver's lifetime.
pub fn fits_gro_buffer(memory: &Vec<u8>) -> bool {
    (GRO_BUFFER_BYTES_MAX..=2 * GRO_BUFFER_BYTES_MAX).contains(&memory.capacity())
}

impl Storage {
    fn new() -> Self {
        Self {
            headers: Box::new([0; SEGMENTS_MAX * HEADER_LEN]),
            data: Vec::new(),
            // The system allocates pages when they are touched, and these rarely are.
            rest: vec![0; GRO_BUFFER_BYTES_MAX].into(),
            expected_len: 0,
            len: 0,
            segment_len: 1,
            info: PacketInfo::default(),
            complete: false,
        }
    }

    /// Empties the storage and expects segments of `segment_len`.
    fn prepare(&mut self, segment_len: usize, free: &mut Vec<Vec<u8>>) {
        self.expected_len = if segment_len > HEADER_LEN { segment_len } else { 0 };
        if self.data.capacity() < GRO_BUFFER_BYTES_MAX {
            self.data = free.pop().unwrap_or_else(|| Vec::with_capacity(GRO_BUFFER_BYTES_MAX));
        }
        self.data.clear();
    }

    /// The number of segments whose headers are separated.
    fn expected_segments(&self) -> usize {
        SEGMENTS_MAX.min(GRO_BUFFER_BYTES_MAX / self.expected_len.max(1))
    }

    /// Points `vectors` to the storage's memory in the order of arrival, and returns their number.
    fn fill_vectors(&mut self, vectors: &mut [libc::iovec; VECTORS]) -> usize {
        let segments = self.expected_segments();
        let data = self.data.spare_capacity_mut();
        if self.expected_len == 0 {
            vectors[0] =
                libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: GRO_BUFFER_BYTES_MAX };
            return 1;
        }
        let bodies = data.chunks_exact_mut(self.expected_len - HEADER_LEN);
        let headers = self.headers.chunks_exact_mut(HEADER_LEN);
        for (pair, (header, body)) in
            vectors.as_chunks_mut::<2>().0.iter_mut().zip(headers.zip(bodies).take(segments))
        {
            *pair = [
                libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
                libc::iovec { iov_base: body.as_mut_ptr().cast(), iov_len: body.len() },
            ];
        }
        let rest = GRO_BUFFER_BYTES_MAX - segments * self.expected_len;
        vectors[2 * segments] =
            libc::iovec { iov_base: self.rest.as_mut_ptr().cast(), iov_len: rest };
        2 * segments + 1
    }

    /// Records what was received.
    ///
    /// # Safety
    /// The first `len` bytes of the vectors that [`Storage::fill_vectors`] listed were written.
    unsafe fn set_received(&mut self, len: usize, info: PacketInfo) {
        self.len = len;
        self.info = info;
        // A single packet comes without a segment length.
        self.segment_len = if info.segment_len == 0 { len.max(1) } else { info.segment_len };
        let in_data = match self.expected_len {
            0 => len,
            expected_len => {
                let separated = len.min(self.expected_segments() * expected_len);
                let last = (separated % expected_len).saturating_sub(HEADER_LEN);
                separated / expected_len * (expected_len - HEADER_LEN) + last
            }
        };
        // SAFETY: the bodies follow each other in `data` without a gap, or `data` holds everything.
        unsafe { self.data.set_len(in_data) };
        let alone = self.packets() == 1 && len <= self.expected_len;
        let fits = self.segment_len == self.expected_len
            && len <= self.expected_segments() * self.expected_len;
        if self.expected_len != 0 && !alone && !fits {
            self.rejoin();
        }
    }

    /// Copies a buffer of unexpected segment length into one piece.
    fn rejoin(&mut self) {
        let mut bytes = Vec::with_capacity(GRO_BUFFER_BYTES_MAX);
        let body_len = self.expected_len - HEADER_LEN;
        let bodies = self.data.chunks(body_len).chain(std::iter::repeat(&[][..]));
        let headers = self.headers.chunks_exact(HEADER_LEN).take(self.expected_segments());
        for (header, body) in headers.zip(bodies) {
            let left = self.len - bytes.len();
            bytes.extend_from_slice(&header[..header.len().min(left)]);
            bytes.extend_from_slice(body);
        }
        let left = self.len - bytes.len();
        bytes.extend_from_slice(&self.rest[..left]);
        (self.data, self.expected_len) = (bytes, 0);
    }

    fn packets(&self) -> usize {
        // An empty packet counts as one.
        self.len.div_ceil(self.segment_len).max(1)
    }

    /// The header and the body of a packet.
    fn packet(&self, index: usize) -> (&[u8], &[u8]) {
        let start = index * self.segment_len;
        let len = self.segment_len.min(self.len - start);
        let head_len = len.min(HEADER_LEN);
        if self.expected_len == 0 {
            return self.data[start..start + len].split_at(head_len);
        }
        let (head, body) = (index * HEADER_LEN, index * (self.expected_len - HEADER_LEN));
        (&self.headers[head..head + head_len], &self.data[body..body + len - head_len])
    }
}

impl GroBuffer<'_> {
    /// The index of the interface over which its packets arrived; 0 if it isn't known.
    pub fn interface(&self) -> u32 {
        self.storage.info.interface
    }
}

impl Buffer for GroBuffer<'_> {
    fn ends(&self) -> Ends {
        self.ends
    }

    fn traffic_class(&self) -> u8 {
        self.storage.info.traffic_class
    }

    fn packets(&self) -> impl ExactSizeIterator<Item = Datagram<'_>> {
        let (ends, traffic_class) = (self.ends, self.storage.info.traffic_class);
        (0..self.storage.packets()).map(move |index| {
            let (head, body) = self.storage.packet(index);
            Datagram { head, body, ends, traffic_class }
        })
    }

    fn contiguous_bytes(&self) -> Option<usize> {
        (self.storage.expected_len != 0).then_some(self.storage.data.len())
    }

    /// Takes the bodies out of the buffer, in one piece. If they fill less than half of their
    /// memory, copies them and keeps the memory.
    fn take_contiguous(&mut self) -> Vec<u8> {
        let data = &mut self.storage.data;
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

    /// Sends `packets` in one GSO buffer, and returns all packets that arrive.
    fn exchange(
        (sender, receiver): &(UdpSocket, UdpSocket),
        batch: &mut GroBatch,
        packets: &[Vec<u8>],
    ) -> Vec<Vec<u8>> {
        let outgoing: Vec<_> = packets
            .iter()
            .map(|bytes| Outgoing { traffic_class: 15 << 2, ..Outgoing::control(bytes) })
            .collect();
        let sent = SendBatch::new().send_segmented(sender, &outgoing, |left| left.len()).unwrap();
        assert_eq!(sent, packets.len());
        let mut seen = Vec::new();
        while batch.receive(receiver).unwrap() > 0 {
            assert!(!batch.is_full());
            for buffer in batch.buffers() {
                assert_eq!(buffer.ends.source, sender.local_addr().unwrap());
                let joined = buffer.contiguous_bytes();
                let bodies: usize = buffer.packets().map(|packet| packet.body.len()).sum();
                assert!(joined.is_none_or(|bytes| bytes == bodies));
                seen.extend(buffer.packets().map(|packet| {
                    assert_eq!(packet.traffic_class, 15 << 2);
                    [packet.head, packet.body].concat()
                }));
            }
        }
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // The packets come out unchanged for any expected segment length.
        #[test]
        fn packets__are_what_was_sent(
            buffers in proptest::collection::vec(
                (1usize..1_460, 1usize..=44, 0usize..1_460),
                1..12,
            ),
        ) {
            let sockets = pair("127.0.0.1:0", "127.0.0.1");
            let mut batch = GroBatch::new();
            for (number, (len, packets, last)) in buffers.into_iter().enumerate() {
                // Two of three buffers have the same segment length.
                let len = if number % 3 == 0 { len } else { 1_432 };
                let mut lens = vec![len; packets];
                lens[packets - 1] = last.clamp(1, len);
                let packets: Vec<_> =
                    (0u8..).zip(lens).map(|(i, len)| vec![i ^ number as u8; len]).collect();
                prop_assert_eq!(exchange(&sockets, &mut batch, &packets), packets);
            }
        }
    }

    /// The second buffer of one segment length lies in one piece, which can be taken away.
    #[test]
    fn take_contiguous__returns_all_bodies() {
        for (bind, peer) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let sockets = pair(bind, peer);
            let packets: Vec<_> =
                (0..44).map(|i| vec![i; if i == 43 { 40 } else { 1_432 }]).collect();
            let mut batch = GroBatch::new();
            for _ in 0..3 {
                exchange(&sockets, &mut batch, &packets);
            }
            let outgoing: Vec<_> = packets.iter().map(|bytes| Outgoing::control(bytes)).collect();
            SendBatch::new().send_segmented(&sockets.0, &outgoing, |left| left.len()).unwrap();
            assert_eq!(batch.receive(&sockets.1).unwrap(), 44);
            let mut buffer = batch.buffers().next().unwrap();
            assert_eq!(buffer.contiguous_bytes(), Some(43 * 1_400 + 8));
            let expected: Vec<_> = packets.iter().flat_map(|bytes| &bytes[HEADER_LEN..]).collect();
            assert!(buffer.take_contiguous().iter().eq(expected), "{bind}");
            // The next buffers go to other memory.
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
            let mut batch = GroBatch::new();
            assert_eq!(batch.receive(&receiver).unwrap(), 3);
            let port = sender.local_addr().unwrap().port();
            let seen: Vec<_> = batch
                .buffers()
                .map(|buffer| {
                    assert_eq!(buffer.ends.source.port(), port);
                    let packet = buffer.packets().next().unwrap();
                    (packet.head.to_vec(), packet.traffic_class)
                })
                .collect();
            let expected = [&b"abcde"[..], b"", b"f"].map(|bytes| (bytes.to_vec(), 15 << 2));
            assert_eq!(seen, expected, "{bind}");
        }
    }

    #[test]
    fn packets__a_single_one_and_an_empty_one() {
        let sockets = pair("127.0.0.1:0", "127.0.0.1");
        let mut batch = GroBatch::new();
        let many: Vec<_> = (0..44).map(|i| vec![i; 1_432]).collect();
        for packet in [vec![], vec![1; 7], vec![2; 32], vec![3; 33], vec![4; 1_433], vec![5; 9_000]]
        {
            assert_eq!(exchange(&sockets, &mut batch, &many), many);
            assert_eq!(exchange(&sockets, &mut batch, std::slice::from_ref(&packet)), [packet]);
        }
    }
}
