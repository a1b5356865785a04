//! Checks the host's limits and its clock.

use super::outcome::{Finding, Group};
use atp_common::maps::FLOWS;
use nix::sys::resource::{Resource, getrlimit};
use std::fs;

const GROUP: Group = Group::Host;
/// The daemon holds a few descriptors per flow: the client's socket, its ring, its progress.
const DESCRIPTORS_MIN: u64 = 4 * FLOWS as u64;
/// The wire length of a packet on Ethernet without jumbo frames.
const PACKET_BYTES: usize = 1_514;
/// Clock sources whose reading takes a system call, or an access to a slow device.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// All checks of the host. `mtu_bytes` is the largest of the checked interfaces.
pub fn findings(mtu_bytes: Option<u32>) -> Vec<Finding> {
    let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default();
    let packet_bytes =
        mtu_bytes.map_or(PACKET_BYTES, |mtu| (mtu as usize + 14).clamp(PACKET_BYTES, 9_014));
    let wanted = approxlib::send_buffer_bytes_max(packet_bytes) as u64;
    vec![
        clock_source(&clock),
        descriptors(getrlimit(Resource::RLIMIT_NOFILE).map(|(_, hard)| hard)),
        socket_buffer(
            "receive buffers",
            "net.core.rmem_max",
            read("/proc/sys/net/core/rmem_max").and_then(|text| text.parse().ok()),
            approxlib::RECEIVE_BUFFER_BYTES as u64,
            "a burst can overflow the socket of a program without CAP_NET_ADMIN",
        ),
        socket_buffer(
            "send buffers",
            "net.core.wmem_max",
            read("/proc/sys/net/core/wmem_max").and_then(|text| text.parse().ok()),
            wanted,
            "a fast lane can run empty between two rounds of its thread",
        ),
    ]
}

fn clock_source(name: &str) -> Finding {
    match name {
        "" => GROUP.not_checked("clock source", "the kernel names none below /sys/devices"),
        name if SLOW_CLOCKS.contains(&name) => GROUP.degraded(
            "clock source",
            name,
            "every reading of the clock is slow, and there are several for each packet",
            "boot with clocksource=tsc, if the processor's time stamp counter is stable",
        ),
        name => GROUP.fine("clock source", name),
    }
}

fn descriptors(hard_limit: nix::Result<u64>) -> Finding {
    let check = "open files";
    match hard_limit {
        Ok(limit) if limit < DESCRIPTORS_MIN => GROUP.degraded(
            check,
            format!("a hard limit of {limit} in this shell"),
            "a daemon with this limit can't serve every flow of a full host",
            format!(
                "raise it to {DESCRIPTORS_MIN} or more: `ulimit -Hn`, or LimitNOFILE= of its unit"
            ),
        ),
        Ok(limit) => GROUP.fine(check, format!("a hard limit of {limit} in this shell")),
        Err(error) => GROUP.not_checked(check, error.to_string()),
    }
}

fn socket_buffer(check: &str, sysctl: &str, limit: Option<u64>, wanted: u64, how: &str) -> Finding {
    match limit {
        None => GROUP.not_checked(check, format!("{sysctl} is not readable")),
        Some(limit) if limit < wanted => GROUP.degraded(
            check,
            format!("{sysctl} = {limit}, the library requests {wanted}"),
            how,
            format!("run `sysctl {sysctl}={wanted}`"),
        ),
        Some(limit) => {
            GROUP.fine(check, format!("{sysctl} = {limit}, the library requests {wanted}"))
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_source__slow_ones_are_degraded() {
        for (name, word) in [
            ("tsc", "fine"),
            ("kvm-clock", "fine"),
            ("hyperv_clocksource_tsc_page", "fine"),
            ("arch_sys_counter", "fine"),
            ("hpet", "degraded"),
            ("acpi_pm", "degraded"),
            ("", "not checked"),
        ] {
            assert_eq!(clock_source(name).outcome.word(), word, "{name}");
        }
    }

    #[test]
    fn descriptors__the_hard_limit_counts() {
        assert_eq!(descriptors(Ok(1_048_576)).outcome.word(), "fine");
        assert_eq!(descriptors(Ok(4_096)).outcome.word(), "degraded");
    }

    #[test]
    fn socket_buffer__names_the_command() {
        let low = socket_buffer("receive buffers", "net.core.rmem_max", Some(212_992), 8 << 20, "");
        assert_eq!(low.advice(), Some("run `sysctl net.core.rmem_max=8388608`"));
        let high =
            socket_buffer("receive buffers", "net.core.rmem_max", Some(8 << 20), 8 << 20, "");
        assert_eq!(high.advice(), None);
    }
}
