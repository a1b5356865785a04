//! Names the lost messages of a window that has ended.
//!
//! FIN-ACKs only count. The ids are in receipts, of which the last ones may be lost or late. A
//! sender that names losses repeats the FIN until receipts have named as many messages as the
//! receiver's final counts. The receiver answers each such FIN with a receipt too.

/// FINs without a newly named message until the sender gives up: half a second on a short path.
const ASKS: u8 = 8;
/// FINs in all. A hostile receiver may name one message in each of its receipts.
const ASKS_MAX: u8 = 64;

/// The end of a window that the receiver has confirmed, while ids are still missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    /// FINs that may still be sent until a message is newly named.
    asks_left: u8,
    /// FINs that may still be sent in all.
    asks_left_in_all: u8,
    /// Messages that receipts had named when the last FIN was sent.
    named: u32,
}

impl Naming {
    pub(crate) fn new() -> Self {
        Self { asks_left: ASKS, asks_left_in_all: ASKS_MAX, named: 0 }
    }

    /// Whether to send another FIN, after `named` messages in all.
    pub(crate) fn asks_again(&mut self, named: u32) -> bool {
        if std::mem::replace(&mut self.named, named) != named {
            self.asks_left = ASKS;
        }
        let asks = self.asks_left.min(self.asks_left_in_all) > 0;
        self.asks_left = self.asks_left.saturating_sub(1);
        self.asks_left_in_all = self.asks_left_in_all.saturating_sub(1);
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_again__until_nothing_new_is_named() {
        let mut naming = Naming::new();
        assert!((0..20).all(|named| naming.asks_again(named)));
        assert_eq!((0..100).filter(|_| naming.asks_again(19)).count(), usize::from(ASKS) - 1);
    }

    #[test]
    fn asks_again__has_a_bound() {
        let mut naming = Naming::new();
        assert_eq!((0..1_000).filter(|named| naming.asks_again(*named)).count(), ASKS_MAX.into());
    }
}
