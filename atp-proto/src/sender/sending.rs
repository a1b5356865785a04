//! Handing out packets, taking them back, and keeping the books after every change.

use super::{
    Fate, Packet, Sender, ledger::Standing, report::MessageId, schedule::Place,
    sent_packets::Transmission,
};
use crate::packets::PacketState;
use atp_common::wire::{Fields, Flags, Header, Kind};

impl Sender {
    pub(super) fn hand_out(
        &mut self,
        now_ns: u64,
        may_send: impl Fn(u8) -> bool,
    ) -> Option<Packet> {
        let mut packet = None;
        self.hand_out_run(now_ns, may_send, 1, |next| packet = Some(next));
        packet
    }

    /// Hands out packets of the message that sends next, `number` at most, as long as it stays the one that
    /// sends next; returns how many.
    pub(super) fn hand_out_run(
        &mut self,
        now_ns: u64,
        may_send: impl Fn(u8) -> bool,
        number: usize,
        mut take: impl FnMut(Packet),
    ) -> usize {
        if self.has_ended() || self.ending.is_forced() {
            return 0;
        }
        let mut room = self.config.window_packets().saturating_sub(self.sent_packets.span());
        if room == 0 {
            self.sent_packets.reclaim(|_| true);
            room = self.config.window_packets().saturating_sub(self.sent_packets.span());
        }
        let Some(key) = self.next_message(may_send).filter(|_| room > 0) else { return 0 };
        let message = self.ledger.message(key);
        let (group, before, is_fresh) = (message.group, message.place(), message.packets.new > 0);
        let departs_ns = now_ns + self.losses.backlog_ns(group);
        let probed = self.losses.is_probed(group);
        let number = number.min(room as usize);
        let mut handed = 0;
        while handed < number {
            let message = self.ledger.message_mut(key);
            let Some((turn, again)) = message.packets.hand_out() else { break };
            let index = message.index_of_turn(turn);
            let slot = self.sent_packets.push(Transmission {
                departs_ns,
                number: 0,
                group,
                message: message.id.id,
                index,
                turn,
                round: message.round,
                fate: Fate::Open,
                probed,
            });
            let runs_dry = is_fresh && message.packets.new == 0;
            let packet = self.packet(key, index, slot, again);
            self.report.packets_sent += 1;
            self.report.packets_retransmitted += u64::from(again);
            self.report.bytes_sent += u64::from(packet.len);
            take(packet);
            handed += 1;
            // What is left of it are packets that were lost: others may come first.
            if runs_dry {
                break;
            }
        }
        self.refile(now_ns, key, before);
        handed
    }

    /// The message that sends next. A group that has enough sends nothing more, or only what was
    /// never tried if that is asked for.
    fn next_message(&self, may_send: impl Fn(u8) -> bool) -> Option<u32> {
        // As long as messages are still to be queued that are needed, those that are not must not
        // fill the buffer for good: they are sent after all, last.
        let ending = self
            .groups
            .iter()
            .all(|group| group.is_all_queued() || group.has_enough() && !group.tries_all);
        let candidates = self.groups.iter().filter_map(|group| {
            let enough = group.has_enough();
            if enough && ending && !group.tries_all || !may_send(group.config.group) {
                return None;
            }
            let (rank, key) = group.schedule.first(enough && ending)?;
            // An exact group's ranks are ids, not remaining data.
            Some(((enough, !group.exact, rank), key))
        });
        candidates.min_by_key(|(order, _)| *order).map(|(_, key)| key)
    }

    fn packet(&self, key: u32, index: u32, slot: u32, again: bool) -> Packet {
        let message = self.ledger.message(key);
        let offset = index * message.payload_bytes;
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Data,
            flags: flag(again, Flags::RETRANSMIT)
                .with(flag(self.groups[usize::from(message.group)].exact, Flags::ORDERED))
                .with(flag(self.losses.is_probed(message.group), Flags::NO_ACK))
                .with(flag(self.window % 2 == 1, Flags::ODD_WINDOW)),
            group: message.id.group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: message.id.id,
            index,
            count: message.packets.count,
            epoch: 0,
            slot,
            time: 0,
        })
        .with_segmentation(message.cut);
        let len = (message.len_bytes - offset).min(message.payload_bytes);
        Packet { header, message: message.id, offset, len }
    }

    /// The message that a transmission was part of.
    pub(super) fn message_id(&self, transmission: &Transmission) -> MessageId {
        let group = self.groups[usize::from(transmission.group)].config.group;
        MessageId { group, id: transmission.message }
    }

    pub(super) fn take_back(&mut self, packet: &Packet) {
        let slot = packet.header.slot();
        let Some(&transmission) = self.sent_packets.get(slot) else { return };
        let same = self.message_id(&transmission) == packet.message
            && transmission.index == packet.header.index()
            && transmission.fate == Fate::Open;
        if !same {
            return;
        }
        self.sent_packets.take_back(slot);
        let again = packet.header.flags().contains(Flags::RETRANSMIT);
        self.report.packets_sent -= 1;
        self.report.packets_retransmitted -= u64::from(again);
        self.report.bytes_sent -= u64::from(packet.len);
        let Some(key) = self.current(&transmission) else { return };
        let message = self.ledger.message_mut(key);
        if message.packets.state(transmission.turn) == PacketState::InFlight {
            let before = message.place();
            let state = if again { PacketState::Lost } else { PacketState::New };
            message.packets.set(transmission.turn, state);
            self.refile(transmission.departs_ns, key, before);
        }
    }

    /// Brings the group's counts, the schedule and the list of awaited receipts in line with the
    /// states of a message's packets. `before` is its place before they changed.
    pub(super) fn refile(&mut self, now_ns: u64, key: u32, before: Option<Place>) {
        let next_slot = self.sent_packets.next_slot();
        let message = self.ledger.message_mut(key);
        let group = &mut self.groups[usize::from(message.group)];
        let after = message.place();
        if before != after {
            group.schedule.set(&mut self.ranks, key, before, after);
        }
        let standing = message.standing_now();
        if standing == message.standing {
            return;
        }
        *group.counter(message.standing) -= 1;
        *group.counter(standing) += 1;
        if message.standing == Standing::Awaiting {
            self.awaited.remove(key);
        }
        message.standing = standing;
        if standing == Standing::Awaiting {
            message.whole_ns = now_ns;
            message.whole_slot = next_slot;
            self.awaited.push(now_ns, key);
        }
    }
}
