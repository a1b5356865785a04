//! Faults injected by the project's own eBPF program.

use super::{
    Trouble,
    delay_line::DelayLine,
    layout::{Count, Settings},
};
use crate::{namespace::Namespace, needs};
use anyhow::{Context, Result};
use aya::{
    Ebpf,
    maps::{Array, PerCpuArray},
    programs::{SchedClassifier, TcAttachType},
};
use nix::net::if_::if_nametoindex;

const PROGRAM: &str = "inject_faults";

const COUNTS: [(Count, &str); Count::COUNT as usize] = [
    (Count::Seen, "seen"),
    (Count::Lost, "lost"),
    (Count::Duplicated, "duplicated"),
    (Count::Corrupted, "corrupted"),
    (Count::Detoured, "held back"),
    (Count::TooLong, "too long"),
    (Count::Cleared, "DSCP cleared"),
];

// SAFETY: eight words without padding, for which all bit patterns are valid.
unsafe impl aya::Pod for Settings {}

/// The program on a port. Dropping this value detaches the program and ends its delay line.
#[derive(Debug)]
pub struct Injector {
    ebpf: Ebpf,
    _delay_line: Option<DelayLine>,
}

impl Injector {
    /// Attaches the program to the port's egress.
    pub fn attach(router: &Namespace, port: &str, trouble: &Trouble) -> Result<Self> {
        let object = needs::faults_object()?;
        let mut settings = settings(trouble);
        let delay_line = (settings.detour > 0)
            .then(|| DelayLine::start(router, port, trouble.delay))
            .transpose()?;
        let ebpf = router.enter(|| {
            if let Some(line) = &delay_line {
                settings.detour_ifindex = if_nametoindex(line.entrance())?;
            }
            let mut ebpf = Ebpf::load_file(&object).context("the fault injector's object")?;
            let map = ebpf.map_mut("SETTINGS").context("no map SETTINGS")?;
            Array::try_from(map)?.set(0, settings, 0)?;
            let program = ebpf.program_mut(PROGRAM).context("no program")?;
            let program: &mut SchedClassifier = program.try_into()?;
            program.load()?;
            program.attach(port, TcAttachType::Egress)?;
            Ok(ebpf)
        })?;
        Ok(Self { ebpf, _delay_line: delay_line })
    }

    /// The program's counters so far.
    pub fn counts(&self) -> Result<Vec<(&'static str, u64)>> {
        let map = self.ebpf.map("COUNTS").context("no map COUNTS")?;
        let cells = PerCpuArray::<_, u64>::try_from(map)?;
        let sum = |count: Count| -> Result<u64> { Ok(cells.get(&(count as u32), 0)?.iter().sum()) };
        COUNTS.into_iter().map(|(count, name)| Ok((name, sum(count)?))).collect()
    }
}

fn settings(trouble: &Trouble) -> Settings {
    let parts = |share: f64| (share * 1e6).round() as u32;
    let (mut loss, mut loss_after_loss) = (trouble.loss, trouble.loss);
    if trouble.burst > 0.0 {
        loss_after_loss = 1.0 - 1.0 / trouble.burst;
        // The share of time in the bad state is `loss`.
        loss = (1.0 - loss_after_loss) * trouble.loss / (1.0 - trouble.loss);
    }
    Settings {
        loss: parts(loss),
        loss_after_loss: parts(loss_after_loss),
        duplicate: parts(trouble.duplicate),
        corrupt: parts(trouble.corrupt),
        detour: parts(trouble.detoured()),
        detour_ifindex: 0,
        longest: trouble.longest,
        cleared_dscp: trouble.cleared_dscp.into(),
    }
}
