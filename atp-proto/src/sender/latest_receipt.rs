//! The order of receipts, also of those of several processes of the receiver.

use atp_common::wire::Header;

/// The latest receipt, of any window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatestReceipt {
    /// When the receiver's process began. Another one counts receipts and messages from 1 again.
    begun: u32,
    number: u32,
    slot: u32,
}

/// A receipt beside the latest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Earlier,
    /// The receipt is of a process before the current one.
    OfEarlierProcess,
    /// The receipt is a duplicate of the latest one.
    Same,
    Later,
    /// The first one, or one of another process that reads on.
    OfAnother,
}

impl LatestReceipt {
    pub(super) fn of(header: &Header) -> Self {
        Self { begun: header.time(), number: header.index(), slot: header.slot() }
    }

    /// The place of a receipt beside the latest one.
    pub(super) fn order(latest: Option<Self>, header: &Header) -> Order {
        let Some(latest) = latest else { return Order::OfAnother };
        if header.time() != latest.begun {
            let reads_on = (header.slot().wrapping_sub(latest.slot) as i32) >= 0;
            return if reads_on { Order::OfAnother } else { Order::OfEarlierProcess };
        }
        // The index field of a receipt counts receipts: 24 bits, wrapping.
        match (header.index().wrapping_sub(latest.number) << 8) as i32 {
            0 => Order::Same,
            ahead if ahead < 0 => Order::Earlier,
            _ => Order::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fields;
    use super::*;
    use atp_common::wire::{Fields, Kind};

    #[test]
    fn order__by_number_and_of_another_process_by_slot() {
        let receipt =
            |time, index, slot| Header::new(&Fields { time, index, slot, ..fields(Kind::Receipt) });
        let order = |latest: Option<(u32, u32, u32)>, next: (u32, u32, u32)| {
            let latest = latest.map(|(t, i, s)| LatestReceipt::of(&receipt(t, i, s)));
            LatestReceipt::order(latest, &receipt(next.0, next.1, next.2))
        };
        assert_eq!(order(None, (7, 3, 0)), Order::OfAnother);
        let latest = Some((7, 900, 50));
        assert_eq!(order(latest, (7, 901, 40)), Order::Later);
        assert_eq!(order(latest, (7, 900, 50)), Order::Same);
        assert_eq!(order(latest, (7, 899, 60)), Order::Earlier);
        assert_eq!(order(Some((7, (1 << 24) - 1, 0)), (7, 2, 0)), Order::Later);
        // Another process counts anew, and an earlier one has read less.
        assert_eq!(order(latest, (8, 1, 50)), Order::OfAnother);
        assert_eq!(order(latest, (6, 950, 49)), Order::OfEarlierProcess);
        assert_eq!(order(Some((7, 900, u32::MAX)), (8, 1, 3)), Order::OfAnother);
    }
}
