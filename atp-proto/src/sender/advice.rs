//! Keeps the features and the advice that receipts announce.

use atp_common::wire::{Advice, Features, Header};

/// The content of receipts about features and advice.
#[derive(Debug)]
pub(crate) struct ReceiverAdvice {
    features: Features,
    /// When the newest receipt came.
    received_ns: u64,
    /// By index of the group.
    lanes: Vec<Advice>,
}

impl ReceiverAdvice {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { features: Features::default(), received_ns: 0, lanes: vec![Advice::NONE; lanes] }
    }

    /// Takes in the header of a receipt that is newer than all others. `group`: the index of the
    /// group that it names.
    pub(crate) fn on_receipt(&mut self, now_ns: u64, header: &Header, group: Option<u8>) {
        (self.features, self.received_ns) = (Features::from_wire(header.epoch()), now_ns);
        if let Some(group) = group {
            self.lanes[usize::from(group)] = match self.wants_backlogs() {
                true => Advice::from_wire(header.message()),
                false => Advice::NONE,
            };
        }
    }

    /// Whether the first advice is still to come: the receiver gives advice, and no lane has any.
    /// `None` before any receipt.
    pub(crate) fn is_awaited(&self) -> Option<bool> {
        let has_none = || self.lanes.iter().all(|lane| *lane == Advice::NONE);
        (self.received_ns > 0).then(|| self.wants_backlogs() && has_none())
    }

    /// Whether the receiver understands statements of a backlog.
    pub(crate) fn wants_backlogs(&self) -> bool {
        self.features.contains(Features::ADVICE)
    }

    /// The current advice to a lane, and when the newest receipt came; `None` before any.
    pub(crate) fn of_lane(&self, lane: u8) -> Option<(Advice, u64)> {
        (self.received_ns > 0).then_some((self.lanes[usize::from(lane)], self.received_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Packet, Sender, SenderConfig,
        tests::{config, fields, send_all},
    };
    use super::*;
    use atp_common::wire::{Fields, Flags, HEADER_LEN, Kind, ReceiptBody};

    fn sender_with(messages: u32) -> Sender {
        let mut sender = Sender::new(SenderConfig { mrdf: false, ..config() }).unwrap();
        (0..messages).for_each(|_| _ = sender.queue(0, 20).unwrap());
        sender
    }

    fn receive(sender: &mut Sender, now_ns: u64, number: u32, features: Features, advice: Advice) {
        let fields = Fields {
            index: number,
            epoch: features.bits(),
            message: advice.to_wire(),
            ..fields(Kind::Receipt)
        };
        let mut out = Header::new(&fields).as_bytes().to_vec();
        out.resize(HEADER_LEN + 12, 0);
        ReceiptBody::write(&mut out[HEADER_LEN..], 0, 0, 0, &[]).unwrap();
        sender.on_packet(now_ns, &out).unwrap();
    }

    fn backlogs(packets: &[Packet]) -> Vec<bool> {
        let is_set = |packet: &Packet| packet.header.flags().contains(Flags::BACKLOGGED);
        packets.iter().map(is_set).collect()
    }

    #[test]
    fn backlog__is_stated_only_to_receivers_that_want_it() {
        let mut sender = sender_with(2);
        assert_eq!(backlogs(&send_all(&mut sender, 0)), [false; 4]);
        receive(&mut sender, 1, 1, Features::PACKED, Advice::NONE);
        sender.queue(0, 20).unwrap();
        assert_eq!(backlogs(&send_all(&mut sender, 1)), [false; 2]);
        receive(&mut sender, 1, 2, Features::ADVICE, Advice::NONE);
        (0..2).for_each(|_| _ = sender.queue(0, 20).unwrap());
        assert_eq!(backlogs(&send_all(&mut sender, 1)), [true, true, true, false]);
    }

    /// The packets in flight are few until the first advice, if there is to be any.
    #[test]
    fn first_window__is_open_once_there_is_advice_or_none_to_come() {
        let [mut advised, mut unadvised] = [(); 2].map(|()| {
            let window = SenderConfig { initial_window_packets: 5, ..config() };
            let mut sender = Sender::new(SenderConfig { mrdf: false, ..window }).unwrap();
            sender.set_awaiting_packets(16);
            (0..99).for_each(|_| _ = sender.queue(0, 20).unwrap());
            assert_eq!(send_all(&mut sender, 1).len(), 5);
            sender
        });
        receive(&mut advised, 2, 1, Features::ADVICE, Advice::NONE);
        assert_eq!(send_all(&mut advised, 2).len(), 16 - 5);
        receive(&mut advised, 3, 2, Features::ADVICE, Advice::of(6_400));
        assert!(send_all(&mut advised, 3).len() > 40);
        receive(&mut unadvised, 2, 1, Features::PACKED, Advice::NONE);
        assert!(send_all(&mut unadvised, 2).len() > 40);
    }

    #[test]
    fn advice__is_that_of_the_newest_receipt() {
        let mut sender = sender_with(1);
        assert_eq!(sender.advice(0), None);
        receive(&mut sender, 5, 7, Features::ADVICE, Advice::of(6_400));
        assert_eq!((sender.advice(0), sender.advice(1)), (Some((Advice::of(6_400), 5)), None));
        receive(&mut sender, 6, 6, Features::ADVICE, Advice::of(64_000));
        assert_eq!(sender.advice(0), Some((Advice::of(6_400), 5)));
        // A duplicate renews nothing.
        receive(&mut sender, 7, 7, Features::ADVICE, Advice::of(6_400));
        assert_eq!(sender.advice(0), Some((Advice::of(6_400), 5)));
        receive(&mut sender, 8, 8, Features::ADVICE, Advice::NONE);
        assert_eq!(sender.advice(0), Some((Advice::NONE, 8)));
        // A receiver without the feature may use the field for something else.
        receive(&mut sender, 9, 9, Features::default(), Advice::of(6_400));
        assert_eq!(sender.advice(0), Some((Advice::NONE, 9)));
    }
}
