//! An outgoing port: a line, a queue discipline before it, and what was counted there.

use super::{
    Discipline, Link, PacketId, Packets, Queueing,
    discipline::{Entry, Waiting},
    duration_ps,
};

/// What happened at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub arrived_packets: u64,
    /// Packets on the line, the last of which may still be leaving.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets for which there was no room, or no longer, or that were refused.
    pub dropped_packets: u64,
    /// Of these, those that the queue discipline dropped though there was room.
    pub refused_packets: u64,
    /// Packets that were marked.
    pub marked_packets: u64,
    /// Packets that lost their payload.
    pub trimmed_packets: u64,
    /// Packets that wait now.
    pub waiting_packets: u32,
    /// The most packets that ever waited.
    pub waiting_packets_max: u32,
    /// Waiting packets, times the picoseconds for which they waited. 2^64 is a million packets for five
    /// seconds of simulated time.
    pub waiting_packet_ps: u64,
    /// The most bytes that ever waited.
    pub waiting_bytes_max: u64,
    /// Waiting bytes, times the picoseconds for which they waited.
    pub waiting_byte_ps: u128,
    /// Of the packets that waited and then left by the line, how long they did, picoseconds.
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
    /// When the line is free again.
    free_ps: u64,
    /// An event will come then; it is the latest one that was asked for, and the only one that counts.
    event_ps: Option<u64>,
    changed_ps: u64,
    counters: Counters,
}

/// What came of a packet that wanted to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on the line.
    Leaves(Departure),
    /// It waits; if a time is given, the port wants an event then.
    Waits(Option<u64>),
    /// There was no room.
    Dropped,
}

/// A packet on its way to the line's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Which one.
    pub packet: PacketId,
    /// Where it goes.
    pub to: u32,
    /// When it is there.
    pub arrives_ps: u64,
}

impl Port {
    /// A port with nothing in it.
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

    /// A packet wants to leave. `room_bytes`: what the switch's buffer still takes. Others that have to
    /// go for it are added to `displaced`.
    pub fn offer(
        &mut self,
        now_ps: u64,
        id: PacketId,
        packets: &mut Packets,
        room_bytes: u64,
        displaced: &mut Vec<Waiting>,
    ) -> Fate {
        let label = packets.label(id);
        let wire_bytes = label.wire_bytes;
        self.counters.arrived_packets += 1;
        // What waits though the line is free has an event at this time, which comes after arrivals of
        // the same moment, or must wait for longer.
        let is_empty = self.waiting_packets == 0;
        if now_ps >= self.free_ps && self.discipline.pass(now_ps, label, is_empty) {
            return Fate::Leaves(self.send(now_ps, id, wire_bytes));
        }
        let before = displaced.len();
        let mut cut = 0;
        match self.discipline.put(now_ps, id, packets, room_bytes, displaced) {
            Entry::Waits => {}
            Entry::Marked => self.counters.marked_packets += 1,
            Entry::Trimmed { cut_bytes } => {
                self.counters.trimmed_packets += 1;
                cut = u64::from(cut_bytes);
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
        self.waiting_bytes = self.waiting_bytes + u64::from(wire_bytes) - cut;
        let counters = &mut self.counters;
        counters.waiting_packets_max = counters.waiting_packets_max.max(self.waiting_packets);
        counters.waiting_bytes_max = counters.waiting_bytes_max.max(self.waiting_bytes);
        Fate::Waits(self.expect(now_ps))
    }

    /// An event that it asked for: the next packet, and when the port wants one again.
    pub fn next(&mut self, now_ps: u64) -> (Option<Departure>, Option<u64>) {
        // It has asked for an earlier one since, which did what there was to do.
        if self.event_ps != Some(now_ps) {
            return (None, None);
        }
        self.event_ps = None;
        (self.depart(now_ps), self.expect(now_ps))
    }

    /// The next one of those that wait, if the line is free and one may leave.
    pub fn depart(&mut self, now_ps: u64) -> Option<Departure> {
        if now_ps < self.free_ps || self.waiting_packets == 0 {
            return None;
        }
        let Waiting { packet, wire_bytes, since_ps } = self.discipline.take(now_ps)?;
        self.note_change(now_ps);
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(wire_bytes);
        self.counters.waited_ps += now_ps - since_ps;
        Some(self.send(now_ps, packet, wire_bytes))
    }

    /// From when on one of those that wait may leave.
    pub fn ready_ps(&self) -> Option<u64> {
        (self.waiting_packets != 0).then(|| self.discipline.ready_ps().max(self.free_ps))
    }

    /// When it wants an event, if not only then as it has said already.
    fn expect(&mut self, now_ps: u64) -> Option<u64> {
        let at_ps = self.ready_ps()?.max(now_ps);
        if self.event_ps.is_some_and(|known_ps| known_ps <= at_ps) {
            return None;
        }
        self.event_ps = Some(at_ps);
        Some(at_ps)
    }

    /// The line's rate.
    pub fn bits_per_s(&self) -> u64 {
        self.link.bits_per_s
    }

    /// When the line is free.
    pub fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// Bytes that wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Packets that wait.
    pub fn waiting_packets(&self) -> u32 {
        self.waiting_packets
    }

    /// What happened so far, at `now_ps`.
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
