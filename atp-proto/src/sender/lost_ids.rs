//! The ids of the messages that an ended window has lost.

use super::{
    group::Group,
    report::{LostIds, UnknownIds},
    told_by::ToldBy,
    window::Window,
};
use std::ops::Range;

impl Window {
    /// The ids of the messages that were not delivered, by group. `names_lost`: receipts were to
    /// name them.
    pub(super) fn lost_ids(&self, names_lost: bool) -> Vec<LostIds> {
        let of_group = |group: &Group| {
            if !names_lost {
                LostIds::Unknown(UnknownIds::NotAsked)
            } else if !(self.is_over() && self.ending.is_settled()) {
                LostIds::Unknown(UnknownIds::EndUnconfirmed)
            } else if group.delivered_by_fin == group.messages() {
                LostIds::Known(vec![])
            } else if group.delivered_by_fin == 0 {
                LostIds::Known(std::iter::once(0..group.messages()).collect())
            } else if self.told_by == ToldBy::Several || group.delivered != group.delivered_by_fin {
                LostIds::Unknown(UnknownIds::NamesMissing)
            } else {
                LostIds::Known(unnamed(group).collect())
            }
        };
        self.groups.iter().map(of_group).collect()
    }

    /// Whether the end is stated and no receipt can make more ids known. A receiver that was
    /// restarted may count fewer messages than receipts have named.
    pub(super) fn is_all_named(&self) -> bool {
        let is_named = |group: &Group| {
            group.delivered_by_fin == group.messages() || group.delivered >= group.delivered_by_fin
        };
        let no_name_helps = self.told_by == ToldBy::Several;
        self.ending.is_settled() && (no_name_helps || self.groups.iter().all(is_named))
    }
}

/// The ids below N without a receipt.
fn unnamed(group: &Group) -> impl Iterator<Item = Range<u32>> + '_ {
    let (messages, mut next) = (group.messages(), 0);
    std::iter::from_fn(move || {
        let start = find(group, next, messages, false)?;
        next = find(group, start, messages, true).unwrap_or(messages);
        Some(start..next)
    })
}

/// The first id from `from` to below `messages` whose bit is `named`.
fn find(group: &Group, from: u32, messages: u32, named: bool) -> Option<u32> {
    let mut id = from;
    while id < messages {
        let word = group.confirmed.get(id as usize / 64).copied().unwrap_or(0);
        let rest = if named { word } else { !word } >> (id % 64);
        if rest != 0 {
            return Some(id + rest.trailing_zeros()).filter(|&found| found < messages);
        }
        id = (id / 64 + 1).checked_mul(64)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Sender, SenderConfig, config::GroupConfig, tests};
    use super::*;
    use atp_common::units::Msr;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn unnamed__is_the_complement(
            named in proptest::collection::btree_set(0u32..300, 0..300),
            messages in 0u32..310,
        ) {
            let config = GroupConfig { total: Some(messages), ..GroupConfig::new(0, Msr::NONE) };
            let mut group = Group::new(config, false, &SenderConfig::new(1, 2, config));
            for id in named.iter().filter(|id| **id < messages) {
                group.confirmed.resize(group.confirmed.len().max(*id as usize / 64 + 1), 0);
                group.confirmed[*id as usize / 64] |= 1 << (id % 64);
            }
            let ranges: Vec<_> = unnamed(&group).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let expected: BTreeSet<u32> = (0..messages).filter(|id| !named.contains(id)).collect();
            prop_assert_eq!(ranges.into_iter().flatten().collect::<BTreeSet<_>>(), expected);
        }
    }

    /// Ids that aren't known are no empty list.
    #[test]
    fn lost_ids__are_unknown_until_receipts_have_named_all() {
        let group = GroupConfig::new(0, Msr::from_parts_per_billion(500_000_000).unwrap());
        let ended = |names_lost: bool, named: u64| {
            let config = SenderConfig { names_lost, groups: vec![group], ..tests::config() };
            let mut sender = tests::sender(config);
            (0..5).for_each(|_| assert!(sender.queue(0, 5).is_ok()));
            let packets = tests::send_all(&mut sender, 0);
            packets.iter().for_each(|packet| tests::ack(&mut sender, tests::MS, packet));
            if named > 0 {
                sender.on_packet(tests::MS, &tests::receipt(1, 4, named)).unwrap();
            }
            sender.finish();
            let (mut now_ns, before) = (tests::MS, sender.lost_ids());
            while !sender.has_ended() {
                while let Some(fin) = tests::control(&mut sender, now_ns) {
                    sender.on_packet(now_ns, &tests::fin_ack(&fin, 3)).unwrap();
                }
                now_ns = sender.poll_timeout().map_or(now_ns, |at_ns| at_ns.max(now_ns));
                sender.handle_timeout(now_ns);
            }
            (before, sender.lost_ids())
        };
        let unknown = |why| vec![LostIds::Unknown(why)];
        let unasked = unknown(UnknownIds::NotAsked);
        assert_eq!(ended(false, 0b10101), (unasked.clone(), unasked));
        let before = unknown(UnknownIds::EndUnconfirmed);
        assert_eq!(ended(true, 0b10101), (before.clone(), vec![LostIds::Known(vec![1..2, 3..4])]));
        for named in [0, 0b00101, 0b11011, 0b11111] {
            assert_eq!(ended(true, named), (before.clone(), unknown(UnknownIds::NamesMissing)));
        }
    }

    /// Receipts that name nothing come from another process, or none come.
    #[test]
    fn lost_ids__of_all_or_no_messages_need_no_names() {
        for (delivered, lost) in [(5, LostIds::Known(vec![])), (0, known(0..5))] {
            for receipts in [0, 1] {
                let mut sender = of_five_messages();
                (0..receipts).for_each(|_| {
                    sender.on_packet(tests::MS, &tests::receipt(1, 0, 0)).unwrap();
                });
                sender.cancel();
                answer(&mut sender, delivered, 9);
                assert!(sender.has_ended(), "it asks for names of nothing");
                assert_eq!(sender.lost_ids(), std::slice::from_ref(&lost));
            }
        }
    }

    /// A process that has named no message is restarted: nothing is lost by that.
    #[test]
    fn lost_ids__are_known_if_the_first_process_named_nothing() {
        let mut sender = of_five_messages();
        sender.on_packet(tests::MS, &tests::receipt(1, 0, 0)).unwrap();
        let mut of_next = tests::receipt(1, 4, 0b00011);
        of_next[28..32].copy_from_slice(&9u32.to_be_bytes());
        sender.on_packet(tests::MS, &of_next).unwrap();
        sender.cancel();
        answer(&mut sender, 2, 9);
        assert_eq!(sender.lost_ids(), [known(2..5)]);
    }

    fn known(lost: Range<u32>) -> LostIds {
        LostIds::Known(std::iter::once(lost).collect())
    }

    /// A sender that wants the ids of lost messages, and has sent all of five.
    fn of_five_messages() -> Sender {
        let group = GroupConfig::new(0, Msr::from_parts_per_billion(400_000_000).unwrap());
        let config = SenderConfig { names_lost: true, groups: vec![group], ..tests::config() };
        let mut sender = tests::sender(config);
        (0..5).for_each(|_| assert!(sender.queue(0, 5).is_ok()));
        let packets = tests::send_all(&mut sender, 0);
        packets.iter().for_each(|packet| tests::ack(&mut sender, tests::MS, packet));
        sender
    }

    /// Gives the sender an end that the process that began at `begun` states, with this count.
    fn answer(sender: &mut Sender, delivered: u32, begun: u32) {
        let fin = tests::control(sender, tests::MS).expect("a FIN is due");
        let mut answer = tests::fin_ack(&fin, delivered);
        // ENDED, also if it is short.
        answer[2] |= 128;
        answer[28..32].copy_from_slice(&begun.to_be_bytes());
        sender.on_packet(tests::MS, &answer).unwrap();
    }

    /// A receipt names two messages, the receiver is restarted, and its next process gets two
    /// others: the counts are equal. Its end may be forced.
    #[test]
    fn lost_ids__are_unknown_after_a_restart_of_the_receiver() {
        for forced in [false, true] {
            for begun in [0u32, 1] {
                let known = known(2..5);
                let unknown = LostIds::Unknown(UnknownIds::NamesMissing);
                let expected = if begun == 0 { known } else { unknown };
                assert_eq!(lost_ids_with_an_end_of(begun, forced), [expected]);
            }
        }
    }

    /// A receipt of the process that began at 0 names two of five messages; the one that began at
    /// `begun` states an end with two messages.
    fn lost_ids_with_an_end_of(begun: u32, forced: bool) -> Vec<LostIds> {
        let mut sender = of_five_messages();
        sender.on_packet(tests::MS, &tests::receipt(1, 4, 0b00011)).unwrap();
        if forced {
            sender.cancel()
        } else {
            sender.finish()
        }
        answer(&mut sender, 2, begun);
        assert!(sender.has_ended());
        sender.lost_ids()
    }
}
