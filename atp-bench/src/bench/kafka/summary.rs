//! Figures of a cell from the lines of its programs.

use std::collections::HashMap;

use serde::Deserialize;

use super::row::Outcome;

/// A line of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    Ready,
    Answer(Answer),
    Truth(Truth),
    Produced(Produced),
}

/// The answer of a receiver to a window.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Answer {
    pub partition: u32,
    pub window: i64,
    pub received: u64,
    pub count: f64,
    pub mean: f64,
    /// The interval of the mean, if the receiver says one.
    #[serde(default)]
    pub low: Option<f64>,
    #[serde(default)]
    pub high: Option<f64>,
    pub at_ms: f64,
}

/// The right answer to a window.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Truth {
    pub partition: u32,
    pub window: i64,
    pub count: u64,
    pub mean: f64,
}

/// The end of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Produced {
    pub behind_ms_max: f64,
}

/// The windows that are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The first, and the one after the last.
    pub windows: (i64, i64),
    pub partitions: u32,
    pub length_ms: u64,
}

impl Span {
    pub fn count(self) -> usize {
        (self.windows.1 - self.windows.0).max(0) as usize * self.partitions as usize
    }

    fn contains(self, window: i64) -> bool {
        (self.windows.0..self.windows.1).contains(&window)
    }

    /// The answers to measured windows, in the order of windows.
    pub fn answers(self, lines: &[Line]) -> Vec<Answer> {
        let answer = |line: &Line| match line {
            Line::Answer(answer) if self.contains(answer.window) => Some(*answer),
            _ => None,
        };
        let mut answers: Vec<Answer> = lines.iter().filter_map(answer).collect();
        answers.sort_by_key(|answer| (answer.window, answer.partition));
        answers
    }

    fn latency_ms(self, answer: &Answer) -> f64 {
        answer.at_ms - ((answer.window + 1) * self.length_ms as i64) as f64
    }
}

impl Outcome {
    /// Fills in the figures of answers, from the lines of the receiver and the producer.
    pub fn add_answers(&mut self, span: Span, received: &[Line], produced: &[Line]) {
        let mut truths = HashMap::new();
        for line in produced {
            match line {
                Line::Truth(truth) => _ = truths.insert((truth.partition, truth.window), *truth),
                Line::Produced(end) => self.behind_ms_max = end.behind_ms_max,
                Line::Ready | Line::Answer(_) => {}
            }
        }
        let answers = span.answers(received);
        self.windows = span.count();
        self.answered = answers.len();
        self.latency_ms = answers.iter().map(|answer| span.latency_ms(answer)).collect();
        self.lag_growth = lag_growth(span, &answers);
        let (mut count_errors, mut mean_errors) = (Vec::new(), Vec::new());
        for answer in &answers {
            let Some(truth) = truths.get(&(answer.partition, answer.window)) else { continue };
            self.records += truth.count;
            self.received += answer.received;
            count_errors.push((answer.count / truth.count as f64 - 1.0).abs());
            mean_errors.push((answer.mean / truth.mean - 1.0).abs());
            if let (Some(low), Some(high)) = (answer.low, answer.high) {
                self.intervals.0 += 1;
                self.intervals.1 += u64::from((low..=high).contains(&truth.mean));
            }
        }
        let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        self.count_error = mean(count_errors);
        self.mean_error = mean(mean_errors);
        let all = received.iter().filter_map(|line| match line {
            Line::Answer(answer) => Some(answer.received),
            _ => None,
        });
        self.processed = all.sum();
    }
}

/// Seconds per second by which answers fall behind: the slope of a line through the latencies, by
/// least squares.
fn lag_growth(span: Span, answers: &[Answer]) -> f64 {
    let point = |answer: &Answer| {
        let end_s = (answer.window - span.windows.0) as f64 * span.length_ms as f64 / 1e3;
        (end_s, span.latency_ms(answer) / 1e3)
    };
    let points: Vec<(f64, f64)> = answers.iter().map(point).collect();
    let number = points.len().max(1) as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / number;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / number;
    let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let squares = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { windows: (10, 14), partitions: 1, length_ms: 1_000 };

    fn answer(window: i64, late_ms: f64) -> Line {
        let at_ms = (window as f64 + 1.0) * 1e3 + late_ms;
        // Later windows have an interval, of which the last one holds the mean of 5.
        let (low, high) = match window {
            12 => (Some(5.2), Some(5.8)),
            13 => (Some(4.9), Some(6.1)),
            _ => (None, None),
        };
        let (received, count, mean) = (80, 100.0, 5.5);
        Line::Answer(Answer { partition: 0, window, received, count, mean, low, high, at_ms })
    }

    #[test]
    fn line__as_the_programs_write_it() {
        let parse = |text: &str| serde_json::from_str::<Line>(text).unwrap();
        assert_eq!(parse("\"ready\""), Line::Ready);
        let text = r#"{"answer":{"partition":0,"window":9,"received":80,"count":100.0,"mean":5.5,
            "at_ms":10007.0}}"#;
        assert_eq!(parse(text), answer(9, 7.0));
        let text = r#"{"produced":{"drawn":1,"written":1,"behind_ms_max":2.5}}"#;
        assert_eq!(parse(text), Line::Produced(Produced { behind_ms_max: 2.5 }));
    }

    #[test]
    fn add_answers__of_measured_windows_only() {
        let truth = |window| Line::Truth(Truth { partition: 0, window, count: 100, mean: 5.0 });
        let truths: Vec<Line> = (8..16).map(truth).collect();
        let lines: Vec<Line> = [9, 13, 10, 12].map(|window| answer(window, 7.0)).into();
        let mut outcome = Outcome::new();
        outcome.add_answers(SPAN, &lines, &truths);
        assert_eq!((outcome.windows, outcome.answered), (4, 3));
        assert_eq!(outcome.latency_ms, [7.0, 7.0, 7.0]);
        assert_eq!((outcome.records, outcome.received, outcome.processed), (300, 240, 320));
        assert!((outcome.mean_error - 0.1).abs() < 1e-9 && outcome.count_error < 1e-9);
        assert_eq!(outcome.intervals, (2, 1));
        assert_eq!(outcome.lag_growth, 0.0);
    }

    #[test]
    fn lag_growth__is_the_slope() {
        let lines: Vec<Line> = (10..14).map(|w| answer(w, 100.0 + 250.0 * w as f64)).collect();
        let growth = lag_growth(SPAN, &SPAN.answers(&lines));
        assert!((growth - 0.25).abs() < 1e-9, "{growth}");
        assert_eq!(lag_growth(SPAN, &[]), 0.0);
    }
}
