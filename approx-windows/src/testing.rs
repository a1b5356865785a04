//! Windows for tests.

use crate::{
    Count, Cutter, Group, GroupId, Limits, MalformedError, OutgoingWindow, Plan, Position,
    ReceivedWindow, RecordRef, Rule, Sampling, Stream,
};

pub(crate) const LIMITS: Limits = Limits { window_bytes_max: 1 << 24, record_bytes_max: 3_000 };

pub(crate) fn sampling(groups: &[(&str, f64)]) -> Sampling {
    let group = |&(name, msr): &(&str, f64)| Group { name: name.into(), msr };
    Sampling::new(groups.iter().map(group).collect()).unwrap()
}

/// A window of all these values, from offset 0 on.
pub(crate) fn window<V: AsRef<[u8]>>(
    values: &[Option<V>],
    sampling: Sampling,
    group: impl Fn(u64) -> GroupId,
    seed: u64,
) -> OutgoingWindow {
    let rule = Rule::Records(values.len() as u64);
    let plan = Plan { rule, limits: LIMITS, sampling };
    let mut cutter = Cutter::new(plan, Position::begin(0), seed);
    let mut window: Option<OutgoingWindow> = None;
    let stream = Stream::default();
    for (offset, value) in (0..).zip(values) {
        let value = value.as_ref().map(AsRef::as_ref);
        cutter.push(&RecordRef { offset, value, ..RecordRef::default() }, group(offset));
        if let Some(batch) = cutter.take_batch() {
            match &mut window {
                Some(window) => window.add(batch),
                None => window = Some(OutgoingWindow::open(batch, &stream)),
            }
        }
    }
    let cut = cutter.pop().unwrap();
    match window {
        None => OutgoingWindow::closed(cut, &stream),
        Some(mut window) => {
            window.close(cut);
            window
        }
    }
}

/// The window of a receiver that got those messages for which `arrives`, by group and place.
pub(crate) fn received(
    window: &OutgoingWindow,
    mut arrives: impl FnMut(u8, usize) -> bool,
    count: Count,
) -> Result<ReceivedWindow, MalformedError> {
    let messages = window.messages.iter().enumerate();
    let messages = messages.filter(|(at, (id, _))| arrives(*id, *at));
    let messages: Vec<_> = messages.map(|(_, message)| message.clone()).collect();
    ReceivedWindow::new((1, 0), window.header().unwrap().clone(), &messages, count)
}
