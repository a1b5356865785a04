//! Renders a profile as tc commands for a Linux port.
//!
//! HTB shapes the port and schedules by strict priority. Each queue has a pfifo, or RED if it
//! marks. u32 filters select the queue by DSCP. One queue for all traffic needs no filter.

use super::{
    profile::{Profile, Queue},
    role::PortRole,
};
use std::fmt;

/// Two full frames: HTB's shortest accurate burst up to about 500 Mbit/s.
const BURST_BYTES_MIN: u64 = 3028;
/// At higher rates a burst is the data of 100 us.
const BURSTS_PER_S: u64 = 10_000;
/// HTB serves a leaf's own rate before priorities. The smallest rate it accepts keeps strict
/// priority.
const LEAF_RATE: &str = "8bit";
const ETHERNET_HEADER_BYTES: u32 = 14;
/// Behind a token bucket the packet in service counts as waiting, so a limit of k holds k - 1.
const IN_SERVICE_PACKETS: u32 = 1;
/// The leaf of queue k is class 1:1k (hexadecimal); class 1:1 is the port.
const FIRST_LEAF: u16 = 0x10;

/// The features of the kernel that runs the commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcKernel {
    /// Whether it has the qdisc sch_red.
    pub has_red: bool,
}

/// A port's configuration as tc commands, with notes about deviations from the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcRendering {
    /// Arguments of `tc`, one command each, in order. They are also the lines of a `tc -batch`
    /// file.
    pub commands: Vec<String>,
    /// One note per queue.
    pub notes: Vec<QueueNote>,
    /// The limit of all approximate queues together, if the profile has one: tc has no such limit.
    pub not_expressed: Option<String>,
}

/// The requested behavior of a queue, and how far the platform implements it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueNote {
    /// The queue, 0 to 7.
    pub queue: u8,
    /// The behavior that the profile requests.
    pub requested: String,
    /// Whether the platform implements it.
    pub fidelity: Fidelity,
}

/// How far a platform implements a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Completely.
    Exact,
    /// Not completely: the missing part, and why it is missing.
    NotExpressed(String),
}

impl fmt::Display for QueueNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}: {}: ", self.queue, self.requested)?;
        match &self.fidelity {
            Fidelity::Exact => f.write_str("exact"),
            Fidelity::NotExpressed(what) => write!(f, "not expressed: {what}"),
        }
    }
}

/// Renders the commands that configure the egress of `device` as a port of this profile, role and
/// rate.
///
/// # Panics
/// If the rate is zero.
pub fn render_tc(
    profile: &Profile,
    device: &str,
    role: PortRole,
    rate_bytes_per_s: u64,
    kernel: TcKernel,
) -> TcRendering {
    let port = Port::new(profile, device, role, rate_bytes_per_s);
    let mut commands = port.shaper();
    let mut notes = Vec::new();
    let order = if profile.is_one_queue() { "one FIFO for all traffic" } else { "strict priority" };
    for (number, queue) in (0u8..).zip(profile.queues()) {
        commands.push(port.leaf(number));
        commands.push(port.buffer(number, queue, kernel));
        notes.push(note(number, queue, order, role, kernel));
    }
    for (number, queue) in (0u8..).zip(profile.queues()).skip(1) {
        for &dscp in &queue.dscp {
            commands.extend(port.filters(number, dscp));
        }
    }
    let not_expressed = profile.approximate_limit_packets(role).map(|packets| {
        format!(
            "queues 1 to 7 hold {packets} packets together: not expressed: tc has no such limit"
        )
    });
    TcRendering { commands, notes, not_expressed }
}

/// Renders the commands that give the queues of a port, which [`render_tc`]'s commands have
/// configured, the limits of another profile.
///
/// # Panics
/// If the rate is zero.
pub fn render_tc_limits(
    profile: &Profile,
    device: &str,
    role: PortRole,
    rate_bytes_per_s: u64,
    kernel: TcKernel,
) -> Vec<String> {
    let port = Port::new(profile, device, role, rate_bytes_per_s);
    let queues = (0u8..).zip(profile.queues());
    queues.map(|(number, queue)| port.buffer(number, queue, kernel)).collect()
}

struct Port<'a> {
    device: &'a str,
    role: PortRole,
    rate_bits_per_s: u64,
    burst_bytes: u64,
    mtu_bytes: u32,
}

impl<'a> Port<'a> {
    fn new(profile: &Profile, device: &'a str, role: PortRole, rate_bytes_per_s: u64) -> Self {
        assert!(rate_bytes_per_s > 0, "a port needs a rate above zero");
        let frame_bytes = profile.mtu_bytes() + ETHERNET_HEADER_BYTES;
        let burst_bytes =
            (rate_bytes_per_s / BURSTS_PER_S).max(BURST_BYTES_MIN).max(2 * u64::from(frame_bytes));
        let rate_bits_per_s = rate_bytes_per_s * 8;
        Self { device, role, rate_bits_per_s, burst_bytes, mtu_bytes: profile.mtu_bytes() }
    }

    fn shaper(&self) -> Vec<String> {
        let Self { device, rate_bits_per_s: rate, burst_bytes: burst, .. } = self;
        vec![
            // Packets that match no filter are exact traffic.
            format!("qdisc replace dev {device} root handle 1: htb default {FIRST_LEAF:x}"),
            format!(
                "class replace dev {device} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit \
                 burst {burst} cburst {burst} quantum {}",
                self.quantum_bytes()
            ),
        ]
    }

    fn leaf(&self, number: u8) -> String {
        let Self { device, rate_bits_per_s: rate, burst_bytes: burst, .. } = self;
        format!(
            "class replace dev {device} parent 1:1 classid 1:{:x} htb prio {number} rate {LEAF_RATE} \
             ceil {rate}bit burst {burst} cburst {burst} quantum {}",
            leaf(number),
            self.quantum_bytes()
        )
    }

    fn buffer(&self, number: u8, queue: &Queue, kernel: TcKernel) -> String {
        let Self { device, mtu_bytes, .. } = self;
        let limit = queue.limit_packets.of(self.role) + IN_SERVICE_PACKETS;
        let leaf = leaf(number);
        let parent = format!("qdisc replace dev {device} parent 1:{leaf:x} handle {leaf:x}:");
        match queue.ecn_threshold_packets {
            Some(threshold) if kernel.has_red => {
                // A hard threshold: min and max are one byte apart, and the average has no memory.
                // Without nodrop, RED would drop packets that aren't ECN-capable.
                let min = threshold * mtu_bytes;
                format!(
                    "{parent} red limit {} min {min} max {} avpkt {mtu_bytes} burst {threshold} \
                     probability 1 bandwidth {}bit ecn nodrop",
                    limit * mtu_bytes,
                    min + 1,
                    self.rate_bits_per_s
                )
            }
            _ => format!("{parent} pfifo limit {limit}"),
        }
    }

    /// One filter for IPv4 and one for IPv6. Both ignore the two ECN bits.
    fn filters(&self, number: u8, dscp: u8) -> [String; 2] {
        let (device, leaf, class) = (self.device, leaf(number), dscp << 2);
        [("ip", "dsfield", 1), ("ipv6", "priority", 2)].map(|(protocol, field, priority)| {
            let family = if protocol == "ip" { "ip" } else { "ip6" };
            format!(
                "filter add dev {device} parent 1: protocol {protocol} prio {priority} \
                 u32 match {family} {field} {class:#04x} 0xfc flowid 1:{leaf:x}"
            )
        })
    }

    fn quantum_bytes(&self) -> u32 {
        self.mtu_bytes + ETHERNET_HEADER_BYTES
    }
}

fn leaf(number: u8) -> u16 {
    FIRST_LEAF + u16::from(number)
}

fn note(number: u8, queue: &Queue, order: &str, role: PortRole, kernel: TcKernel) -> QueueNote {
    let mut requested = format!("{} packets, {order}", queue.limit_packets.of(role));
    let mut fidelity = Fidelity::Exact;
    if let Some(threshold) = queue.ecn_threshold_packets {
        requested += &format!(", ECN marks from {threshold} packets on");
        if !kernel.has_red {
            fidelity =
                Fidelity::NotExpressed("no ECN marks, because this kernel has no sch_red".into());
        }
    }
    QueueNote { queue: number, requested, fidelity }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE_BYTES_PER_S: u64 = 25_000_000;

    fn rendered(kernel: TcKernel) -> TcRendering {
        render_tc(&Profile::paper(), "port9", PortRole::ToHost, RATE_BYTES_PER_S, kernel)
    }

    #[test]
    fn render_tc__shaper_leaves_and_filters() {
        let commands = rendered(TcKernel::default()).commands;
        assert_eq!(commands.len(), 2 + 8 * 2 + 7 * 2);
        assert_eq!(commands[0], "qdisc replace dev port9 root handle 1: htb default 10");
        assert!(commands[1].contains("rate 200000000bit ceil 200000000bit burst 3028 cburst 3028"));
        assert_eq!(commands[3], "qdisc replace dev port9 parent 1:10 handle 10: pfifo limit 257");
        assert_eq!(commands[17], "qdisc replace dev port9 parent 1:17 handle 17: pfifo limit 2");
        assert_eq!(
            &commands[30..],
            [
                "filter add dev port9 parent 1: protocol ip prio 1 u32 match ip dsfield 0x6c 0xfc flowid 1:17",
                "filter add dev port9 parent 1: protocol ipv6 prio 2 u32 match ip6 priority 0x6c 0xfc flowid 1:17",
            ]
        );
    }

    #[test]
    fn render_tc__marks_if_the_kernel_can_and_notes_if_not() {
        let with = rendered(TcKernel { has_red: true });
        assert_eq!(
            with.commands[3],
            "qdisc replace dev port9 parent 1:10 handle 10: red limit 385500 min 97500 max 97501 \
             avpkt 1500 burst 65 probability 1 bandwidth 200000000bit ecn nodrop"
        );
        assert!(with.notes.iter().all(|note| note.fidelity == Fidelity::Exact));
        let without = rendered(TcKernel::default());
        assert_eq!(
            without.notes[0].to_string(),
            "queue 0: 256 packets, strict priority, ECN marks from 65 packets on: not expressed: \
             no ECN marks, because this kernel has no sch_red"
        );
        assert_eq!(without.notes[7].to_string(), "queue 7: 1 packets, strict priority: exact");
    }

    #[test]
    fn render_tc__one_queue_has_one_leaf_and_no_filter() {
        let (profile, role) = (Profile::one_queue(), PortRole::ToHost);
        let kernel = TcKernel { has_red: true };
        let TcRendering { commands, notes, not_expressed } =
            render_tc(&profile, "p", role, RATE_BYTES_PER_S, kernel);
        assert_eq!(commands.len(), 4);
        assert_eq!(commands[0], "qdisc replace dev p root handle 1: htb default 10");
        assert!(commands[2].starts_with("class replace dev p parent 1:1 classid 1:10 htb prio 0"));
        assert_eq!(commands[3], "qdisc replace dev p parent 1:10 handle 10: pfifo limit 257");
        let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["queue 0: 256 packets, one FIFO for all traffic: exact"]);
        assert_eq!(not_expressed, None);
        let limits = render_tc_limits(&profile, "p", role, RATE_BYTES_PER_S, kernel);
        assert_eq!(limits, commands[3..]);
    }

    #[test]
    fn render_tc__limits_depend_on_where_the_port_leads() {
        let limit = |role| {
            let rendering = render_tc(&Profile::default(), "p", role, 1, TcKernel::default());
            let words = rendering.commands[5].rsplit_once(' ').map(|(_, limit)| limit.to_owned());
            (words.unwrap(), rendering.notes[1].requested.clone())
        };
        let priority = "packets, strict priority";
        assert_eq!(limit(PortRole::ToHost), ("97".into(), format!("96 {priority}")));
        assert_eq!(limit(PortRole::BetweenSwitches), ("8".into(), format!("7 {priority}")));
    }

    #[test]
    fn render_tc__says_that_it_has_no_common_limit() {
        let not_expressed = |profile: &Profile| {
            let kernel = TcKernel { has_red: true };
            render_tc(profile, "p", PortRole::ToHost, 1, kernel).not_expressed
        };
        let sentence =
            "queues 1 to 7 hold 96 packets together: not expressed: tc has no such limit";
        assert_eq!(not_expressed(&Profile::default()).as_deref(), Some(sentence));
        assert_eq!(not_expressed(&Profile::paper()), None);
    }

    #[test]
    fn render_tc_limits__are_those_of_the_whole() {
        let port = ("port9", PortRole::ToHost, RATE_BYTES_PER_S, TcKernel { has_red: true });
        let (device, role, rate, kernel) = port;
        let all = render_tc(&Profile::default(), device, role, rate, kernel).commands;
        let limits = render_tc_limits(&Profile::default(), device, role, rate, kernel);
        assert_eq!(limits, all[3..18].iter().step_by(2).cloned().collect::<Vec<_>>());
    }

    #[test]
    fn render_tc__burst_grows_with_the_rate() {
        let fast = render_tc(
            &Profile::default(),
            "p",
            PortRole::ToHost,
            1_250_000_000,
            TcKernel::default(),
        );
        assert!(fast.commands[1].contains("burst 125000 cburst 125000"), "{}", fast.commands[1]);
    }
}
