//! The state of the screen. It does no I/O: values and keys come in, and the views draw it.

use super::columns::{Column, Row};
use approxlib::control::{HostStats, JobUser, LaneStats, ProgramRuns};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The state of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Lanes,
    Chart,
    Datapath,
    Jobs,
}

impl View {
    /// All views with their names, in the order of their keys.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Lanes, "Lanes"),
        (Self::Chart, "Chart"),
        (Self::Datapath, "Datapath"),
        (Self::Jobs, "Jobs"),
    ];
}

/// The state of the screen.
pub struct App {
    /// The last values.
    pub stats: HostStats,
    /// Changes per second between the last two values.
    pub rates: Rates,
    /// Samples of the lanes over time, for the chart.
    pub history: History,
    /// Why the values are old, if they are.
    pub trouble: Option<String>,
    /// The present view.
    pub view: View,
    /// Whether the help covers it.
    pub help: bool,
    /// Lines that the help or the datapath page are scrolled down.
    pub scroll: u16,
    /// Whether new values are ignored.
    pub paused: bool,
    /// The column that orders the lanes.
    pub sort: Column,
    /// Whether its largest values come first.
    pub descending: bool,
    /// The words that a lane must match.
    pub filter: String,
    /// Whether keys go into the filter.
    pub typing: bool,
    /// Whether the terminal has colors.
    pub color: bool,
    /// The selected lane, and where it was last in the table.
    selected: Option<(LaneKey, usize)>,
    /// The first row on the screen, and how many rows there are, as drawn last.
    pub window: (usize, usize),
    /// Indices into the lanes, filtered and sorted.
    order: Vec<usize>,
    /// Whether the order is that of an earlier filter or column.
    is_order_old: bool,
    /// Names of jobs that have one, by user and id.
    job_names: HashMap<(Option<JobUser>, u32), String>,
}

/// Changes per second between two values.
#[derive(Default)]
pub struct Rates {
    /// Rates of the event counters, by name.
    pub counters: BTreeMap<String, f64>,
    /// Rates of the programs, by name.
    pub programs: BTreeMap<String, ProgramRates>,
    at_s: f64,
}

/// A program's work between two values.
#[derive(Clone, Copy, Default)]
pub struct ProgramRates {
    /// Runs per second.
    pub runs_per_s: f64,
    /// Nanoseconds of a run.
    pub ns_per_run: f64,
    /// The share of one processor.
    pub share: f64,
}

impl App {
    /// The state of a screen that has just begun.
    pub fn new(color: bool) -> Self {
        Self {
            stats: HostStats::default(),
            rates: Rates::default(),
            history: History::default(),
            trouble: None,
            view: View::Lanes,
            help: false,
            scroll: 0,
            paused: false,
            sort: Column::Job,
            descending: false,
            filter: String::new(),
            typing: false,
            color,
            selected: None,
            window: (0, 0),
            order: Vec::new(),
            is_order_old: false,
            job_names: HashMap::new(),
        }
    }

    /// Takes new values.
    pub fn update(&mut self, stats: HostStats) {
        if self.paused {
            return;
        }
        self.rates = self.rates.next(&self.stats, &stats);
        self.trouble = None;
        self.history.record(&stats, self.selected_key());
        let named = stats
            .jobs
            .iter()
            .filter_map(|job| Some(((Some(job.user()), job.id), job.name.clone()?)));
        self.job_names = named.collect();
        self.stats = stats;
        self.arrange();
        self.settle();
    }

    /// Says why there are no new values.
    pub fn set_trouble(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    /// The lanes that match the filter, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.order.iter().map(|&index| self.row(&self.stats.lanes[index]))
    }

    /// A lane as a row.
    fn row<'a>(&'a self, lane: &'a LaneStats) -> Row<'a> {
        Row { lane, job: self.job_names.get(&(lane.job_user(), lane.job)).map(String::as_str) }
    }

    /// The selected row: its position and its lane.
    pub fn selected(&self) -> Option<(usize, Row<'_>)> {
        let key = self.selected_key()?;
        self.rows().enumerate().find(|(_, row)| LaneKey::from(row.lane) == key)
    }

    /// The selected lane, even if it is closed.
    pub fn selected_key(&self) -> Option<LaneKey> {
        self.selected.map(|(key, _)| key)
    }

    /// Selects the row `by` rows further down.
    pub fn select(&mut self, by: isize) {
        self.settle();
        let last = self.order.len().saturating_sub(1);
        let at = self.selected().map_or(0, |(at, _)| at.saturating_add_signed(by));
        self.select_at(at.min(last));
    }

    /// Selects the row at a position.
    pub fn select_at(&mut self, at: usize) {
        let row = self.rows().nth(at).map(|row| LaneKey::from(row.lane));
        self.selected = row.map(|key| (key, at));
    }

    /// Lets [`App::settle`] filter and sort the lanes.
    pub fn arrange(&mut self) {
        self.is_order_old = true;
    }

    /// Filters and sorts the lanes if that is due, and keeps the selection where possible. Once for
    /// many keys: a pasted text must not take as many sorts.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.is_order_old) {
            return;
        }
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let lanes = &self.stats.lanes;
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        if !words.is_empty() {
            order.retain(|&index| {
                let text = haystack(self.row(&lanes[index]));
                words.iter().all(|word| text.contains(word))
            });
        }
        order.sort_by(|&one, &other| {
            let by_column = self.sort.compare(self.row(&lanes[one]), self.row(&lanes[other]));
            let by_column = if self.descending { by_column.reverse() } else { by_column };
            by_column.then(one.cmp(&other))
        });
        self.order = order;
        match self.selected {
            Some(_) if self.selected().is_some() => {
                let at = self.selected().map_or(0, |(at, _)| at);
                self.selected = self.selected.map(|(key, _)| (key, at));
            }
            // The chart stays on a lane that has closed.
            Some(_) if self.view == View::Chart => {}
            Some((_, at)) => self.select_at(at.min(self.order.len().saturating_sub(1))),
            None => self.select_at(0),
        }
    }
}

/// The text that a filter searches.
fn haystack(row: Row<'_>) -> String {
    let searched = [
        Column::Job,
        Column::Group,
        Column::Lane,
        Column::Peer,
        Column::Process,
        Column::Pid,
        Column::User,
    ];
    let mut text = row.lane.job.to_string();
    for column in searched {
        text.push(' ');
        text.push_str(&column.text(row).to_lowercase());
    }
    text
}

impl Rates {
    fn next(&self, before: &HostStats, after: &HostStats) -> Self {
        // The daemon reads its counters less often than a fast screen draws them.
        let passed_s = after.counters_read_s - self.at_s;
        if passed_s == 0.0 {
            let (counters, programs) = (self.counters.clone(), self.programs.clone());
            return Self { counters, programs, at_s: self.at_s };
        }
        let mut rates = Self { at_s: after.counters_read_s, ..Self::default() };
        // Another daemon begins at 0.
        if before.counters.is_empty() || passed_s < 0.0 {
            return rates;
        }
        for (name, value) in &after.counters {
            let last = before.counters.get(name).copied().unwrap_or(0);
            rates.counters.insert(name.clone(), value.saturating_sub(last) as f64 / passed_s);
        }
        let (Some(earlier), Some(later)) = (&before.programs, &after.programs) else {
            return rates;
        };
        for (name, runs) in later {
            let last = earlier.get(name).copied().unwrap_or_default();
            rates.programs.insert(name.clone(), program_rates(last, *runs, passed_s));
        }
        rates
    }
}

fn program_rates(before: ProgramRuns, after: ProgramRuns, passed_s: f64) -> ProgramRates {
    let runs = after.runs.saturating_sub(before.runs) as f64;
    let ns = after.run_ns.saturating_sub(before.run_ns) as f64;
    ProgramRates {
        runs_per_s: runs / passed_s,
        ns_per_run: if runs > 0.0 { ns / runs } else { 0.0 },
        share: ns / 1e9 / passed_s,
    }
}

/// The most samples of a lane.
pub const SAMPLES_MAX: usize = 300;

/// Tells a lane from all others of a daemon: its index, and when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneKey {
    lane: u16,
    opened: u64,
}

impl From<&LaneStats> for LaneKey {
    fn from(lane: &LaneStats) -> Self {
        Self { lane: lane.lane, opened: lane.opened_s.to_bits() }
    }
}

/// A lane at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the daemon's start.
    pub at_s: f64,
    /// Measured loss, 0 to 1.
    pub loss: f32,
    /// TLR, 0 to 1.
    pub tlr: f32,
    /// The rate, bits per second.
    pub rate: f32,
    /// The achieved rate, bits per second.
    pub achieved: Option<f32>,
    /// The queue.
    pub queue: u8,
}

/// The samples of all lanes.
#[derive(Default)]
pub struct History(HashMap<LaneKey, VecDeque<Sample>>);

impl History {
    /// Adds a sample of each lane, and forgets closed lanes except `kept`, which is on the screen.
    pub fn record(&mut self, stats: &HostStats, kept: Option<LaneKey>) {
        let mut before = std::mem::take(&mut self.0);
        for lane in &stats.lanes {
            let key = LaneKey::from(lane);
            let mut samples = before.remove(&key).unwrap_or_default();
            if samples.len() >= SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(Sample {
                at_s: stats.uptime_s,
                loss: lane.loss as f32,
                tlr: lane.tlr as f32,
                rate: lane.rate_bytes_per_s as f32 * 8.0,
                achieved: lane.achieved_bytes_per_s.map(|bytes| bytes as f32 * 8.0),
                queue: lane.queue,
            });
            self.0.insert(key, samples);
        }
        if let Some(key) = kept
            && let Some(samples) = before.remove(&key)
        {
            self.0.insert(key, samples);
        }
    }

    /// The samples of a lane, oldest first.
    pub fn of(&self, key: LaneKey) -> impl Iterator<Item = &Sample> {
        self.0.get(&key).into_iter().flatten()
    }
}
