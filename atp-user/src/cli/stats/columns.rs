//! The columns of the lanes table: titles, texts, order, and which ones fit a terminal.

use super::format;
use approxlib::control::LaneStats;
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Job,
    Group,
    Lane,
    Peer,
    Process,
    Pid,
    User,
    Messages,
    Delivered,
    Lost,
    Msr,
    Tlr,
    Loss,
    Rate,
    Advice,
    Achieved,
    Queue,
    Dscp,
    Rtt,
    Epochs,
}

/// A lane and the name of its job.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The lane.
    pub lane: &'a LaneStats,
    /// The job's name, if it has one.
    pub job: Option<&'a str>,
}

impl Column {
    /// All columns, from left to right.
    pub const ALL: [Self; 20] = [
        Self::Job,
        Self::Group,
        Self::Lane,
        Self::Peer,
        Self::Process,
        Self::Pid,
        Self::User,
        Self::Messages,
        Self::Delivered,
        Self::Lost,
        Self::Msr,
        Self::Tlr,
        Self::Loss,
        Self::Rate,
        Self::Advice,
        Self::Achieved,
        Self::Queue,
        Self::Dscp,
        Self::Rtt,
        Self::Epochs,
    ];

    /// The head of the column.
    pub const fn title(self) -> &'static str {
        self.facts().0
    }

    /// The column's width in cells.
    pub const fn width(self) -> u16 {
        self.facts().1
    }

    /// Narrow terminals show the columns with the lowest numbers.
    const fn priority(self) -> u8 {
        self.facts().2
    }

    /// One line for the help.
    pub const fn meaning(self) -> &'static str {
        self.facts().3
    }

    const fn facts(self) -> (&'static str, u16, u8, &'static str) {
        match self {
            Self::Job => ("JOB", 10, 0, "name or id of the job"),
            Self::Group => ("GRP", 3, 4, "group of the job"),
            Self::Lane => ("LANE", 4, 9, "index of the lane on this host"),
            Self::Peer => ("PEER", 21, 6, "address of the receiver"),
            Self::Process => ("PROCESS", 15, 8, "process that opened the lane"),
            Self::Pid => ("PID", 7, 10, "its id"),
            Self::User => ("USER", 8, 11, "its user"),
            Self::Messages => ("N", 6, 5, "messages of the group on this sender"),
            Self::Delivered => ("DELIV", 6, 3, "messages with a receipt"),
            Self::Lost => ("LOST", 6, 7, "lost messages"),
            Self::Msr => ("MSR", 6, 8, "share of the messages that must arrive"),
            Self::Tlr => ("TLR", 6, 1, "loss that the job can afford now"),
            Self::Loss => ("LOSS", 6, 0, "measured loss of the last epoch; ! above TLR"),
            Self::Rate => ("RATE", 11, 0, "rate that law and advice allow"),
            Self::Advice => ("ADVICE", 11, 9, "rate that the receiver advises, on the wire"),
            Self::Achieved => ("ACHIEVED", 11, 2, "bits that left, per second"),
            Self::Queue => ("Q", 1, 2, "queue at the switches"),
            Self::Dscp => ("DSCP", 4, 12, "DSCP of the packets; app: the application's"),
            Self::Rtt => ("RTT", 7, 3, "smoothed round-trip time"),
            Self::Epochs => ("EPOCHS", 6, 13, "evaluated epochs"),
        }
    }

    /// Whether its texts are numbers, which end at the right.
    pub const fn is_number(self) -> bool {
        !matches!(self, Self::Job | Self::Peer | Self::Process | Self::User)
    }

    /// The text of a cell.
    pub fn text(self, row: Row<'_>) -> String {
        let Row { lane, job } = row;
        let group = &lane.group;
        let identity = lane.identity.as_ref();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        match self {
            Self::Job => job.map_or_else(|| lane.job.to_string(), str::to_owned),
            Self::Group => group.group.to_string(),
            Self::Lane => lane.lane.to_string(),
            Self::Peer => or_dash(identity.map(|identity| identity.peer.to_string())),
            Self::Process => or_dash(identity.map(|identity| identity.process.clone())),
            Self::Pid => or_dash(identity.map(|identity| identity.pid.to_string())),
            Self::User => {
                or_dash(identity.map(|identity| {
                    identity.user.clone().unwrap_or_else(|| identity.uid.to_string())
                }))
            }
            Self::Messages => format::count(group.messages.into()),
            Self::Delivered => format::count(group.delivered.into()),
            Self::Lost => format::count(group.lost.into()),
            Self::Msr => format::percent(group.msr),
            Self::Tlr => format::percent(lane.tlr),
            Self::Loss => {
                let mark = if is_above_target(lane) { "!" } else { "" };
                format!("{mark}{}", format::percent(lane.loss))
            }
            Self::Rate => format::rate(lane.rate_bytes_per_s),
            Self::Advice => or_dash(lane.advice_bytes_per_s.map(format::rate)),
            Self::Achieved => or_dash(lane.achieved_bytes_per_s.map(format::rate)),
            Self::Queue => lane.queue.to_string(),
            Self::Dscp => lane.dscp.map_or_else(|| "app".into(), |dscp| dscp.to_string()),
            Self::Rtt => or_dash(lane.rtt_us.map(format::time_us)),
            Self::Epochs => format::count(lane.epochs_evaluated.into()),
        }
    }

    /// The order of two rows by this column.
    pub fn compare(self, one: Row<'_>, other: Row<'_>) -> Ordering {
        let by = |key: fn(&LaneStats) -> f64| key(one.lane).total_cmp(&key(other.lane));
        let text = |row| Self::text(self, row);
        match self {
            Self::Job => (one.job, one.lane.job).cmp(&(other.job, other.lane.job)),
            Self::Group => by(|lane| lane.group.group.into()),
            Self::Lane => by(|lane| lane.lane.into()),
            Self::Peer => {
                let peer = |row: Row<'_>| row.lane.identity.as_ref().map(|identity| identity.peer);
                peer(one).cmp(&peer(other))
            }
            Self::Pid => by(|lane| lane.identity.as_ref().map_or(0.0, |i| i.pid.into())),
            Self::Process | Self::User => text(one).cmp(&text(other)),
            Self::Messages => by(|lane| lane.group.messages.into()),
            Self::Delivered => by(|lane| lane.group.delivered.into()),
            Self::Lost => by(|lane| lane.group.lost.into()),
            Self::Msr => by(|lane| lane.group.msr),
            Self::Tlr => by(|lane| lane.tlr),
            Self::Loss => by(|lane| lane.loss),
            Self::Rate => by(|lane| lane.rate_bytes_per_s as f64),
            Self::Advice => by(|lane| lane.advice_bytes_per_s.unwrap_or(0) as f64),
            Self::Achieved => by(|lane| lane.achieved_bytes_per_s.unwrap_or(0) as f64),
            Self::Queue => by(|lane| lane.queue.into()),
            Self::Dscp => by(|lane| lane.dscp.map_or(-1.0, f64::from)),
            Self::Rtt => by(|lane| lane.rtt_us.unwrap_or(0.0)),
            Self::Epochs => by(|lane| lane.epochs_evaluated.into()),
        }
    }

    /// Whether one expects its largest values first.
    pub const fn begins_with_largest(self) -> bool {
        !matches!(
            self,
            Self::Job
                | Self::Group
                | Self::Lane
                | Self::Peer
                | Self::Process
                | Self::Pid
                | Self::User
        )
    }
}

/// Whether a lane loses more than its job can afford.
pub fn is_above_target(lane: &LaneStats) -> bool {
    lane.loss > lane.tlr
}

/// The columns that fit `width` cells, with their widths. Columns are one cell apart. `job` and
/// `peer` are the widths that those two would need.
pub fn fitting(width: u16, job: u16, peer: u16) -> Vec<(Column, u16)> {
    let mut by_priority = Column::ALL;
    by_priority.sort_by_key(|column| column.priority());
    let mut left = width;
    let mut chosen = Vec::new();
    for column in by_priority {
        let needed = column.width() + u16::from(!chosen.is_empty());
        match left.checked_sub(needed) {
            Some(rest) => {
                left = rest;
                chosen.push((column, column.width()));
            }
            // A column of lower priority doesn't replace it: the table would look arbitrary.
            None => break,
        }
    }
    for (column, width) in &mut chosen {
        let wanted = match column {
            Column::Job => job,
            Column::Peer => peer,
            _ => 0,
        };
        let more = wanted.saturating_sub(*width).min(left);
        *width += more;
        left -= more;
    }
    chosen.sort_by_key(|(column, _)| Column::ALL.iter().position(|one| one == column));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitting__never_exceeds_the_width_and_keeps_the_important() {
        for width in 0..300 {
            let columns = fitting(width, 64, 47);
            let needed: u16 = columns.iter().map(|(_, width)| width + 1).sum();
            assert!(needed <= width + 1, "{needed} of {width}");
            assert_eq!(width >= 10, columns.iter().any(|(column, _)| *column == Column::Job));
        }
        assert_eq!(fitting(300, 10, 21).len(), Column::ALL.len());
    }
}
