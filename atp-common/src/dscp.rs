//! Maps queues to DSCPs, by which switches choose a packet's queue (NetApprox §5.2).

/// The number of queues of a switch port. Queue 0 is served first and belongs to exact traffic.
pub const QUEUES: usize = 8;

/// The default DSCP of an approximate queue (1 to 7): `4k - 1`, in RFC 2474's pool for local use
/// (`xxxx11`). A switch profile may set another DSCP.
///
/// # Panics
/// For queue 0, whose packets keep the application's DSCP, and for queues above 7.
pub const fn default_of_queue(queue: u8) -> u8 {
    assert!(queue > 0 && (queue as usize) < QUEUES, "an approximate queue is 1 to 7");
    4 * queue - 1
}

/// A traffic-class byte with its DSCP replaced and its ECN bits kept.
pub const fn replace(traffic_class: u8, dscp: u8) -> u8 {
    (dscp << 2) | (traffic_class & 0b11)
}

/// Sets ECT(0) (RFC 3168 §5) in a traffic-class byte that is not ECN-capable. The sender reacts to
/// marks.
pub const fn ecn_capable(traffic_class: u8) -> u8 {
    if traffic_class & 0b11 == 0 { traffic_class | 0b10 } else { traffic_class }
}

/// Whether a traffic-class byte carries the mark "congestion experienced" (RFC 3168).
pub const fn is_congestion_experienced(traffic_class: u8) -> bool {
    traffic_class & 0b11 == 0b11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_of_queue__is_in_the_local_pool() {
        for queue in 1..QUEUES as u8 {
            assert_eq!(default_of_queue(queue) & 0b11, 0b11);
        }
        assert_eq!(default_of_queue(7), 27);
    }

    #[test]
    fn ecn_capable__sets_ect_where_it_was_not_set() {
        for class in 0..=255u8 {
            let capable = ecn_capable(class);
            assert_eq!(capable >> 2, class >> 2);
            assert_eq!(capable & 3, if class & 3 == 0 { 2 } else { class & 3 });
        }
    }

    #[test]
    fn replace__keeps_ecn() {
        for class in 0..=255u8 {
            let replaced = replace(class, 19);
            assert_eq!(replaced >> 2, 19);
            assert_eq!(replaced & 3, class & 3);
        }
    }
}
