//! An outgoing port: a line, the queue discipline before it, and counters.

use super::{
    Discipline, Labels, Link, PacketId, Queueing,
    discipline::{Entry, Queued},
    duration_ps,
};

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived.
    pub arrived_packets: u64,
    /// Packets sent. The last one may still be in transmission.
    pub sent_packets: u64,
    /// Bytes of the sent packets.
    pub sent_bytes: u64,
    /// Packets dropped: no room, displaced by another packet, or refused.
    pub dropped_packets: u64,
    /// Dropped packets that the discipline refused although there was room.
    pub refused_packets: u64,
    /// ECN-marked packets.
    pub marked_packets: u64,
    /// Trimmed packets.
    pub trimmed_packets: u64,
    /// Packets that wait at the time of reading.
    pub waiting_packets: u32,
    /// Maximum of waiting packets.
    pub waiting_packets_max: u32,
    /// Integral of waiting packets over time, in packet-picoseconds. 2^64 is a million packets for
    /// some 18 seconds of simulated time.
    pub waiting_packet_ps: u64,
    /// Maximum of waiting bytes.
    pub waiting_bytes_max: u64,
    /// Integral of waiting bytes over time, in byte-picoseconds.
    pub waiting_byte_ps: u128,
    /// Sum of the waiting times of sent packets, picoseconds.
    pub waited_ps: u64,
}

impl Counters {
    fn add_waiting(&mut self, packets: u32, bytes: u64, ps: u64) {
        self.waiting_packet_ps += u64::from(packets) * ps;
        self.waiting_byte_ps += u128::from(bytes) * u128::from(ps);
    }
}

/// A port.
#[derive(Debug)]
pub struct Port {
    link: Link,
    discipline: Discipline,
    waiting_packets: u32,
    waiting_bytes: u64,
    /// Time from which the line is free.
    free_ps: u64,
    /// Time of the last event that the port asked for. Earlier requests no longer count.
    event_ps: Option<u64>,
    changed_ps: u64,
    counters: Counters,
}

/// The result of offering a packet to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet is on the line.
    Leaves(Departure),
    /// The packet is queued. If a time is given, the port needs an event then.
    Queued(Option<u64>),
    /// The port dropped it.
    Dropped,
}

/// A packet that travels to the line's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet.
    pub packet: PacketId,
    /// The node at the other end.
    pub to: u32,
    /// Arrival time.
    pub arrives_ps: u64,
}

impl Port {
    /// A port with empty queues.
    pub fn new(link: Link, queueing: &Queueing) -> Self {
        Self {
            link,
            discipline: Discipline::new(queueing, link.bits_per_s),
            waiting_packets: 0,
            waiting_bytes: 0,
            free_ps: 0,
            event_ps: None,
            changed_ps: 0,
            counters: Counters::default(),
        }
    }

    /// Sends or queues a packet. `room_bytes` is the free space in the switch's buffer. Queued
    /// packets that were dropped in favor of the new one are added to `displaced`.
    pub fn offer(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        room_bytes: u64,
        displaced: &mut Vec<Queued>,
    ) -> Fate {
        let label = labels.label(id);
        let wire_bytes = label.wire_bytes;
        self.counters.arrived_packets += 1;
        // Packets may wait although the line is free. They wait for an event of this very time,
        // which follows all arrivals of that time, or for their rate limit.
        let is_empty = self.waiting_packets == 0;
        if now_ps >= self.free_ps && self.discipline.pass(now_ps, label, is_empty) {
            return Fate::Leaves(self.send(now_ps, id, wire_bytes));
        }
        let before = displaced.len();
        let mut trimmed_bytes = 0;
        match self.discipline.put(now_ps, id, labels, room_bytes, displaced) {
            Entry::Queued => {}
            Entry::Marked => self.counters.marked_packets += 1,
            Entry::Trimmed { cut_bytes } => {
                self.counters.trimmed_packets += 1;
                trimmed_bytes = u64::from(cut_bytes);
            }
            entry @ (Entry::Dropped | Entry::Refused) => {
                self.counters.dropped_packets += 1;
                self.counters.refused_packets += u64::from(entry == Entry::Refused);
                return Fate::Dropped;
            }
        }
        self.note_change(now_ps);
        for gone in &displaced[before..] {
            self.counters.dropped_packets += 1;
            self.waiting_packets -= 1;
            self.waiting_bytes -= u64::from(gone.wire_bytes);
        }
        self.waiting_packets += 1;
        self.waiting_bytes = self.waiting_bytes + u64::from(wire_bytes) - trimmed_bytes;
        let counters = &mut self.counters;
        counters.waiting_packets_max = counters.waiting_packets_max.max(self.waiting_packets);
        counters.waiting_bytes_max = counters.waiting_bytes_max.max(self.waiting_bytes);
        Fate::Queued(self.expect(now_ps))
    }

    /// Handles the event that the port asked for. Returns the next packet, and the time of the next
    /// event that the port needs.
    pub fn next(&mut self, now_ps: u64) -> (Option<Departure>, Option<u64>) {
        // The port has asked for an earlier event since, and that event did the work.
        if self.event_ps != Some(now_ps) {
            return (None, None);
        }
        self.event_ps = None;
        (self.depart(now_ps), self.expect(now_ps))
    }

    /// Sends the next queued packet, if the line is free and a packet may leave.
    pub fn depart(&mut self, now_ps: u64) -> Option<Departure> {
        if now_ps < self.free_ps || self.waiting_packets == 0 {
            return None;
        }
        let Queued { packet, wire_bytes, since_ps } = self.discipline.take(now_ps)?;
        self.note_change(now_ps);
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(wire_bytes);
        self.counters.waited_ps += now_ps - since_ps;
        Some(self.send(now_ps, packet, wire_bytes))
    }

    /// Earliest time at which a queued packet may leave.
    pub fn ready_ps(&self) -> Option<u64> {
        (self.waiting_packets != 0).then(|| self.discipline.ready_ps().max(self.free_ps))
    }

    /// The time of the event that the port needs, unless it already asked for one by then.
    fn expect(&mut self, now_ps: u64) -> Option<u64> {
        let at_ps = self.ready_ps()?.max(now_ps);
        if self.event_ps.is_some_and(|known_ps| known_ps <= at_ps) {
            return None;
        }
        self.event_ps = Some(at_ps);
        Some(at_ps)
    }

    /// The rate of the port's line.
    pub fn bits_per_s(&self) -> u64 {
        self.link.bits_per_s
    }

    /// Time from which the port's line is free.
    pub fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// Bytes in the port's queues.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Packets in the port's queues.
    pub fn waiting_packets(&self) -> u32 {
        self.waiting_packets
    }

    /// The counters at `now_ps`.
    pub fn counters(&self, now_ps: u64) -> Counters {
        let mut counters = Counters { waiting_packets: self.waiting_packets, ..self.counters };
        counters.add_waiting(self.waiting_packets, self.waiting_bytes, now_ps - self.changed_ps);
        counters
    }

    fn send(&mut self, now_ps: u64, packet: PacketId, wire_bytes: u32) -> Departure {
        self.free_ps = now_ps + duration_ps(wire_bytes, self.link.bits_per_s);
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += u64::from(wire_bytes);
        Departure { packet, to: self.link.to, arrives_ps: self.free_ps + self.link.latency_ps }
    }

    fn note_change(&mut self, now_ps: u64) {
        let since_ps = now_ps - self.changed_ps;
        self.counters.add_waiting(self.waiting_packets, self.waiting_bytes, since_ps);
        self.changed_ps = now_ps;
    }
}
