//! Faults injected by netem.

use super::Trouble;
use crate::namespace::Namespace;
use anyhow::{Context, Result};
use std::fmt::Write;

/// Queue limit, with room for the delayed packets.
const LIMIT_PACKETS: u32 = 20_000;

/// Puts the netem qdisc on a port.
pub fn apply(router: &Namespace, port: &str, trouble: &Trouble) -> Result<()> {
    let options = options(trouble);
    router.run(&format!("tc qdisc add dev {port} root netem limit {LIMIT_PACKETS}{options}"))?;
    Ok(())
}

/// Netem's counters of seen and lost packets.
pub fn counts(router: &Namespace, port: &str) -> Result<Vec<(&'static str, u64)>> {
    let text = router.run(&format!("tc -s -j qdisc show dev {}", port))?;
    let qdiscs: serde_json::Value = serde_json::from_str(&text)?;
    let count = |name: &str| qdiscs[0][name].as_u64().with_context(|| format!("no {name}: {text}"));
    let (passed, lost) = (count("packets")?, count("drops")?);
    Ok(vec![("seen", passed + lost), ("lost", lost)])
}

fn options(trouble: &Trouble) -> String {
    let mut options = String::new();
    let mut add = |name: &str, share: f64| {
        if share > 0.0 {
            write!(options, " {name} {:.3}%", share * 100.0).ok();
        }
    };
    if trouble.burst > 0.0 {
        // Gilbert's model: the probability of good to bad, then of bad to good.
        let back = 1.0 / trouble.burst;
        let there = back * trouble.loss / (1.0 - trouble.loss);
        add("loss gemodel", there);
        add("", back);
    } else {
        add("loss", trouble.loss);
    }
    add("duplicate", trouble.duplicate);
    add("corrupt", trouble.corrupt);
    let (least, most) = (trouble.delay.0.as_micros(), trouble.delay.1.as_micros());
    if most > 0 {
        let (middle, half) = ((least + most) / 2, (most - least) / 2);
        write!(options, " delay {middle}us {half}us").ok();
        if trouble.detour > 0.0 {
            // The share sent without delay.
            write!(options, " reorder {:.3}%", (1.0 - trouble.detour) * 100.0).ok();
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn options__say_what_netem_understands() {
        assert_eq!(options(&Trouble::loss(0.3)), " loss 30.000%");
        assert_eq!(options(&Trouble::delay_ms(2, 6)), " delay 4000us 2000us");
        let bursts = Trouble { burst: 5.0, ..Trouble::loss(0.2) };
        assert_eq!(options(&bursts), " loss gemodel 5.000%  20.000%");
        let delay = (Duration::from_millis(5), Duration::from_millis(5));
        let reorder = Trouble { detour: 0.1, delay, ..Trouble::default() };
        assert_eq!(options(&reorder), " delay 5000us 0us reorder 90.000%");
    }
}
