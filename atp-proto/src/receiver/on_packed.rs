//! Takes in packed packets. Each member goes the way of a message of one packet.

use super::{DropReason, Outcome, Receiver, partial::Piece};
use atp_common::wire::{Flags, Header, PackedBody, ResetReason};

impl Receiver {
    /// Takes in a packed packet. A malformed one, or one that exceeds a limit, delivers nothing.
    /// Otherwise the outcome is that of the member that is worst off.
    pub(super) fn on_packed(&mut self, now_ns: u64, header: &Header, data: &[u8]) -> Outcome {
        let Some(body) = PackedBody::parse(header, data) else {
            return Outcome::Dropped(DropReason::Malformed);
        };
        if body.members().any(|(message, _)| message >= self.config.messages_max) {
            return Outcome::Refused(ResetReason::TooMany);
        }
        if body.members().any(|(_, data)| data.len() > self.config.message_bytes_max as usize) {
            return Outcome::Refused(ResetReason::TooLarge);
        }
        let group = header.group();
        let ordered = header.flags().contains(Flags::ORDERED);
        let mut worst = Outcome::Duplicate;
        for (message, data) in body.members() {
            let piece = Piece { message, group, index: 0, count: 1, segmentation: 0, data };
            let outcome = self.on_piece(now_ns, &piece, ordered);
            if severity(&outcome) > severity(&worst) {
                worst = outcome;
            }
        }
        worst
    }
}

/// The order of outcomes. A refusal is answered, so it hides the others.
fn severity(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::Duplicate => 0,
        Outcome::Complete | Outcome::Incomplete => 1,
        Outcome::Dropped(_) => 2,
        Outcome::Refused(ResetReason::NoRoom) => 3,
        Outcome::Refused(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Receiver, ReceiverConfig};
    use super::*;
    use atp_common::wire::{Fields, Kind, member_header};

    fn header(flags: Flags, first: u32, count: u32) -> Header {
        Header::new(&Fields {
            flags: flags.with(Flags::PACKED),
            job: 1,
            cookie: 2,
            message: first,
            count,
            slot: first,
            ..Fields::of(Kind::Data)
        })
    }

    fn body(members: &[(u32, usize)]) -> Vec<u8> {
        let member = |&(id, len): &(u32, usize)| {
            [&member_header(id, len as u16)[..], &vec![id as u8; len]].concat()
        };
        members.iter().flat_map(member).collect()
    }

    fn receiver() -> Receiver {
        let config =
            ReceiverConfig { message_bytes_max: 100, messages_max: 1_000, ..Default::default() };
        Receiver::new(config, 0, &header(Flags::NONE, 0, 2))
    }

    fn ids(receiver: &mut Receiver) -> Vec<u32> {
        std::iter::from_fn(|| receiver.next_message()).map(|message| message.message).collect()
    }

    #[test]
    fn on_packed__delivers_each_member_once() {
        let mut receiver = receiver();
        let first = body(&[(3, 10), (4, 0), (9, 100)]);
        let none = Flags::NONE;
        assert_eq!(receiver.on_data(0, &header(none, 3, 3), &first), Outcome::Complete);
        assert_eq!(ids(&mut receiver), [3, 4, 9]);
        let second = body(&[(4, 0), (5, 1)]);
        assert_eq!(receiver.on_data(0, &header(none, 4, 2), &second), Outcome::Complete);
        assert_eq!(receiver.on_data(0, &header(none, 3, 3), &first), Outcome::Duplicate);
        assert_eq!(ids(&mut receiver), [5]);
        let stats = receiver.stats();
        assert_eq!((stats.packets_arrived, stats.packets_duplicate), (3, 1));
        assert_eq!((stats.messages_delivered, stats.bytes_delivered), (4, 111));
    }

    #[test]
    fn on_packed__delivers_exact_messages_in_order() {
        let mut receiver = receiver();
        let later = body(&[(2, 1), (3, 1)]);
        receiver.on_data(0, &header(Flags::ORDERED, 2, 2), &later);
        assert_eq!(ids(&mut receiver), [0; 0]);
        receiver.on_data(0, &header(Flags::ORDERED, 0, 2), &body(&[(0, 1), (1, 1)]));
        assert_eq!(ids(&mut receiver), [0, 1, 2, 3]);
    }

    #[test]
    fn on_packed__takes_nothing_of_a_malformed_or_oversized_packet() {
        let mut receiver = receiver();
        let good = body(&[(3, 10), (4, 10)]);
        let none = Flags::NONE;
        let malformed = Outcome::Dropped(DropReason::Malformed);
        assert_eq!(receiver.on_data(0, &header(none, 3, 2), &good[..31]), malformed);
        assert_eq!(receiver.on_data(0, &header(none, 3, 3), &good), malformed);
        assert_eq!(receiver.on_data(0, &header(none, 4, 2), &good), malformed);
        let too_large = Outcome::Refused(ResetReason::TooLarge);
        let large = body(&[(3, 10), (4, 101)]);
        assert_eq!(receiver.on_data(0, &header(none, 3, 2), &large), too_large);
        let too_many = Outcome::Refused(ResetReason::TooMany);
        let many = body(&[(3, 10), (1_000, 1)]);
        assert_eq!(receiver.on_data(0, &header(none, 3, 2), &many), too_many);
        assert_eq!(ids(&mut receiver), [0; 0]);
        let stats = receiver.stats();
        assert_eq!(
            (stats.packets_arrived, stats.packets_malformed, stats.packets_refused),
            (5, 3, 2)
        );
    }
}
