//! Draws the screen on a terminal in memory.

use super::{app::App, input::Next, views};
use approxlib::control::{
    CoverageStats, GroupStats, HostStats, JobInfo, LaneIdentity, LaneStats, PolicyRefusals,
    ProgramRuns,
};
use atp_common::maps::Counter;
use insta::assert_snapshot;
use proptest::prelude::*;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};

/// The state of a host with so many lanes, at one of many times.
fn stats(lanes: u16, time: u32) -> HostStats {
    let counter = |(at, (_, name)): (usize, (Counter, &str))| {
        (name.to_owned(), at as u64 * 1_000 + u64::from(time) * 250)
    };
    let runs =
        ProgramRuns { runs: 1_000_000 * u64::from(time), run_ns: 150_000_000 * u64::from(time) };
    HostStats {
        interfaces: [("eth0".into(), "native".into()), ("eth1".into(), "tc".into())].into(),
        pacing: "fq".into(),
        law: "paper".into(),
        epochs: "daemon".into(),
        uptime_s: 7_265.0 + f64::from(time),
        ended: false,
        counters: Counter::NAMES.into_iter().enumerate().map(counter).collect(),
        counters_read_s: 7_265.0 + f64::from(time),
        programs: Some([("atp_egress".to_owned(), runs)].into()),
        coverage: CoverageStats {
            refused_flows: 2,
            lost_flows: 1,
            returned_flows: 1,
            last_reason: Some("job 41: 12 packets left past the programs".into()),
        },
        policy_refusals: PolicyRefusals::default(),
        skipped_entries: 0,
        jobs: (0..lanes.min(3).into()).map(job).collect(),
        lanes: (0..lanes).map(|index| lane(index, time)).collect(),
    }
}

fn job(id: u32) -> JobInfo {
    let name = (id != 1).then(|| format!("training-{id}"));
    let cgroup = (id == 2).then(|| "/sys/fs/cgroup/training".into());
    JobInfo { id: 40 + id, name, cgroup, uid: 1000, container: None, ephemeral: id == 1, flows: 2 }
}

fn lane(index: u16, time: u32) -> LaneStats {
    let number = u32::from(index);
    let wave = f64::from((number + time) % 10) / 10.0;
    LaneStats {
        lane: index,
        job: 40 + number % 3,
        job_uid: Some(1000),
        job_container: None,
        flow: number / 2,
        identity: (index != 2).then(|| LaneIdentity {
            local: "10.0.0.1:40000".parse().unwrap(),
            peer: format!("10.0.{}.{}:4747", index / 250, index % 250).parse().unwrap(),
            pid: 4_000 + number,
            process: "trainer".into(),
            uid: 1000,
            user: (index != 3).then(|| "ann".into()),
        }),
        opened_s: 60.0 + f64::from(index),
        group: GroupStats {
            group: index as u8 % 2,
            msr: 0.8,
            messages: 50_000,
            delivered: 2_000 * (1 + time),
            lost: 17 * time,
        },
        rate_bytes_per_s: 1_250_000 * u64::from(number + 1 + time),
        advice_bytes_per_s: (time > 1).then(|| 1_350_000 * u64::from(number + 1)),
        achieved_bytes_per_s: (time > 0).then(|| 1_150_000 * u64::from(number + 1 + time)),
        sent_packets: Some(1_000),
        sent_bytes: Some(1_500_000),
        queue: (index % 8) as u8,
        dscp: (!index.is_multiple_of(8)).then_some(8 * (index % 8) as u8),
        epoch: 77,
        epochs_evaluated: 12_345,
        loss: 0.05 + wave / 5.0,
        tlr: 0.2 - wave / 10.0,
        rtt_us: Some(123.4 * f64::from(number + 1)),
        rtt_min_us: Some(90.0),
        burst_packets: 1,
        too_far_packets: 0,
    }
}

/// A screen without color after `times` updates.
fn app(lanes: u16, times: u32) -> App {
    let mut app = App::new(false);
    for time in 0..times {
        app.update(stats(lanes, time));
    }
    app
}

fn drawn(app: &mut App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| views::draw(frame, app)).unwrap();
    terminal
}

fn picture(app: &mut App, width: u16, height: u16) -> String {
    drawn(app, width, height).backend().to_string()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            key => KeyCode::Char(key),
        };
        assert_eq!(app.on_key(KeyEvent::new(code, KeyModifiers::NONE)), Next::Draw, "{key:?}");
    }
    app.settle();
}

/// All views, in one file of pictures.
#[test]
fn draw__pictures() {
    let mut pictures = String::new();
    let mut add = |name: &str, lanes: u16, times: u32, keys: &str, (width, height)| {
        let mut app = app(lanes, times);
        press(&mut app, keys);
        pictures += &format!("{name}, {width}x{height}\n{}\n", picture(&mut app, width, height));
    };
    add("lanes", 5, 2, "", (80, 24));
    add("lanes", 5, 2, "", (200, 50));
    add("lanes", 5, 2, "", (40, 10));
    add("no lanes", 0, 2, "", (80, 10));
    add("the last of 200 lanes", 200, 2, "G", (100, 12));
    add("a filter is typed", 200, 2, "/training-2 10.0.0.1", (80, 12));
    add("a filter is kept, sorted by group", 200, 2, "/training-2 10.0.0.1\nsr", (80, 12));
    add("help", 5, 2, "?", (80, 40));
    add("chart of the second lane", 5, 60, "j\n", (80, 30));
    add("datapath", 5, 2, "3", (80, 32));
    add("jobs", 5, 2, "4", (100, 8));
    assert_snapshot!(pictures);
}

#[test]
fn lanes__more_than_rows_follow_the_selection() {
    let mut app = app(200, 2);
    press(&mut app, "G");
    let last = picture(&mut app, 100, 12);
    assert!(last.contains(">training-2 "), "{last}");
    press(&mut app, "g");
    let first = picture(&mut app, 100, 12);
    assert!(first.contains(">41 "), "{first}");
}

#[test]
fn lanes__filtered_and_sorted() {
    let mut app = app(200, 2);
    press(&mut app, "/training-2 10.0.0.1");
    // 11, 14, 17, and a third of 100 to 199.
    assert_eq!(app.rows().len(), 36);
    press(&mut app, "\n");
    while app.sort != super::columns::Column::Rate {
        press(&mut app, "s");
    }
    let rates: Vec<u64> = app.rows().map(|row| row.lane.rate_bytes_per_s).collect();
    assert!(rates.is_sorted_by(|one, next| one >= next), "{rates:?}");
    press(&mut app, "/ nothing");
    assert!(picture(&mut app, 80, 12).contains("no lane matches"));
    press(&mut app, "\x1b");
    assert_eq!(app.rows().len(), 200);
}

#[test]
fn chart__of_the_selected_lane() {
    let mut app = app(5, 60);
    press(&mut app, "j\n");
    // It stays when the lane closes.
    app.update(stats(0, 60));
    let closed = picture(&mut app, 80, 30);
    assert!(closed.contains("the lane is closed") && closed.contains("measured loss"), "{closed}");
}

/// A line to infinity has no last dot.
#[test]
fn chart__of_odd_values_ends() {
    for value in [f64::MAX, f64::INFINITY, f64::NAN, -1e300] {
        let mut app = app(5, 60);
        press(&mut app, "j\n");
        for uptime_s in [61.0, 62.0, value] {
            let mut odd = stats(5, 61);
            odd.uptime_s = uptime_s;
            for lane in &mut odd.lanes {
                (lane.loss, lane.rate_bytes_per_s) = (value, u64::MAX);
            }
            app.update(odd);
            picture(&mut app, 80, 30);
        }
    }
}

#[test]
fn datapath__page() {
    let mut app = app(5, 2);
    press(&mut app, "3");
    assert!(picture(&mut app, 80, 32).contains("1.00M/s"));
    app.stats.programs = None;
    assert!(picture(&mut app, 80, 32).contains("sysctl kernel.bpf_stats_enabled=1"));
}

#[test]
fn pause__keeps_the_values() {
    let mut app = app(5, 2);
    press(&mut app, "p");
    let before = picture(&mut app, 80, 24);
    assert!(before.contains("PAUSED"));
    app.update(stats(9, 7));
    assert_eq!(picture(&mut app, 80, 24), before);
    press(&mut app, "p");
    app.update(stats(9, 7));
    assert!(!picture(&mut app, 80, 24).contains("PAUSED") && app.rows().len() == 9);
}

#[test]
fn trouble__is_said_and_the_last_values_stay() {
    let mut app = app(5, 2);
    app.set_trouble("the ATP daemon at /run/atp/atp.sock has ended: its last values".into());
    let picture = picture(&mut app, 80, 24);
    assert!(picture.contains("has ended") && picture.contains("training-2"), "{picture}");
}

#[test]
fn selection__stays_on_its_lane_when_the_order_changes() {
    let mut app = app(20, 2);
    press(&mut app, "jjj");
    let selected = app.selected_key().unwrap();
    press(&mut app, "sss");
    app.update(stats(20, 3));
    assert_eq!(app.selected_key(), Some(selected));
}

#[test]
fn color__only_where_it_is_wanted() {
    for color in [false, true] {
        let mut app = app(5, 2);
        app.color = color;
        let terminal = drawn(&mut app, 80, 24);
        let cells = terminal.backend().buffer().content();
        let is_colored =
            cells.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        assert_eq!(is_colored, color);
    }
}

#[test]
fn quit__by_q_and_control_c() {
    let mut app = app(5, 2);
    let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert_eq!(app.on_key(q), Next::Quit);
    press(&mut app, "?");
    assert_eq!(app.on_key(q), Next::Draw);
    press(&mut app, "/q");
    assert_eq!(app.filter, "q");
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.on_key(interrupt), Next::Quit);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Terminals of all sizes, after any keys, draw any values.
    #[test]
    fn draw__never_panics(
        width in 0u16..260,
        height in 0u16..80,
        lanes in 0u16..40,
        keys in proptest::collection::vec(proptest::sample::select(&KEYS[..]), 0..30),
        value in any::<f64>(),
        count in any::<u64>(),
    ) {
        let mut app = app(lanes, 3);
        let mut odd = stats(lanes, 3);
        for lane in &mut odd.lanes {
            (lane.loss, lane.tlr, lane.rtt_us) = (value, value, Some(value));
            (lane.rate_bytes_per_s, lane.achieved_bytes_per_s) = (count, Some(count));
        }
        (odd.counters_read_s, odd.uptime_s) = (value, value);
        for (at, key) in keys.into_iter().enumerate() {
            app.on_key(KeyEvent::new(key, KeyModifiers::NONE));
            if at % 3 == 0 {
                app.update(odd.clone());
            }
            drawn(&mut app, width, height);
        }
        drawn(&mut app, width, height);
    }
}

const KEYS: [KeyCode; 16] = [
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Tab,
    KeyCode::BackTab,
    KeyCode::Backspace,
    KeyCode::Char('/'),
    KeyCode::Char('1'),
    KeyCode::Char('s'),
    KeyCode::Char('?'),
    KeyCode::Char('r'),
];
