//! The picture, as SVG: a panel for each load, with a line for each scheme and MSR. Points on two
//! logarithmic scales show the latency of answers and the times of exact requests.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scheme::Scheme;
use crate::chart::{
    self, Area, BLUE, Failure, GRAY, LIGHT, ORANGE, VERMILION, svg_of_bands, write_title,
};

const LINE: i32 = 24;
/// The title of a panel, the names of the scales, and a flag.
const HEAD: i32 = 84;
/// The numbers of the scales, and a gap.
const FOOT: i32 = 44;
const LABEL: i32 = 16;
const POINT: i32 = 5;
const LATENCY: Scale = Scale { from: 180, to: 440, from_ms: 1.0, to_ms: 10_000.0 };
const EXACT: Scale = Scale { from: 520, to: 700, from_ms: 1.0, to_ms: 1_000.0 };
/// The bars of goodput.
const GOODPUT: (i32, i32) = (790, 930);

/// A panel: the schemes of one table.
pub struct Panel {
    pub title: String,
    pub marks: Vec<Mark>,
    /// The 99th percentile of exact requests alone.
    pub alone_ms: Option<f64>,
}

/// A scheme's results.
pub struct Mark {
    pub scheme: Scheme,
    /// MSR or accepted error, in words.
    pub sampling: Option<String>,
    /// The median; `None` if the scheme doesn't keep up.
    pub latency_ms: Option<f64>,
    pub keeps_up: bool,
    /// The 99th percentile.
    pub exact_ms: Option<f64>,
    /// The median.
    pub goodput_mbit_per_s: Option<f64>,
}

/// A logarithmic scale, from one pixel to another.
struct Scale {
    from: i32,
    to: i32,
    from_ms: f64,
    to_ms: f64,
}

/// Draws the panels.
///
/// # Errors
/// The drawing library failed.
pub fn svg(panels: &[Panel]) -> Result<String> {
    let bands: Vec<(u32, &Panel)> = panels.iter().map(|panel| (panel.height(), panel)).collect();
    svg_of_bands(&bands, |area, panel| panel.draw(area))
}

impl Panel {
    fn height(&self) -> u32 {
        (HEAD + LINE * self.marks.len() as i32 + FOOT) as u32
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let below = HEAD + LINE * self.marks.len() as i32;
        let write = |text: &str, x: i32, y: i32, side: HPos| chart::write(area, text, (x, y), side);
        write_title(area, &self.title, (LABEL, 8))?;
        write("window's end to answer, median", LATENCY.from, 36, HPos::Left)?;
        write("exact requests, p99", EXACT.from, 36, HPos::Left)?;
        write("goodput, Mbit/s", GOODPUT.0, 36, HPos::Left)?;
        let goodputs = self.marks.iter().filter_map(|mark| mark.goodput_mbit_per_s);
        let goodput_max = goodputs.fold(f64::MIN_POSITIVE, f64::max);
        for scale in [&LATENCY, &EXACT] {
            for tick_ms in scale.ticks() {
                let x = scale.place(tick_ms);
                area.draw(&PathElement::new(vec![(x, HEAD - 4), (x, below)], LIGHT))?;
                write(&in_words(tick_ms), x, below + 4, HPos::Center)?;
            }
        }
        if let Some(alone_ms) = self.alone_ms {
            let x = EXACT.place(alone_ms);
            let pole = vec![(x, HEAD - 20), (x, below)];
            area.draw(&PathElement::new(pole, GRAY.stroke_width(2)))?;
            write("alone", x + 4, HEAD - 24, HPos::Left)?;
        }
        for (number, mark) in (0..).zip(&self.marks) {
            let y = HEAD + LINE * number + LINE / 2;
            let top = y - 7;
            write(&mark.label(), LABEL, top, HPos::Left)?;
            let point = |scale: &Scale, ms: f64| -> Result<(), Failure> {
                let x = scale.place(ms);
                area.draw(&Circle::new((x, y), POINT, mark.color().filled()))?;
                write(&in_words(ms), x + POINT + 4, top, HPos::Left)
            };
            if let Some(ms) = mark.latency_ms {
                point(&LATENCY, ms)?;
            } else if !mark.keeps_up {
                write("doesn't keep up", LATENCY.to + 30, top, HPos::Right)?;
            }
            if let Some(ms) = mark.exact_ms {
                point(&EXACT, ms)?;
            }
            if let Some(goodput) = mark.goodput_mbit_per_s {
                let width = f64::from(GOODPUT.1 - GOODPUT.0) * goodput / goodput_max;
                let to = GOODPUT.0 + width as i32;
                let bar = [(GOODPUT.0, y - 7), (to, y + 7)];
                area.draw(&Rectangle::new(bar, mark.color().filled()))?;
                write(&format!("{goodput:.0}"), to + 6, top, HPos::Left)?;
            }
        }
        Ok(())
    }
}

impl Mark {
    fn label(&self) -> String {
        let sampling = self.sampling.as_ref().map_or_else(String::new, |text| format!(", {text}"));
        format!("{}{sampling}", self.scheme.name())
    }

    fn color(&self) -> RGBColor {
        match self.scheme {
            Scheme::Atp => BLUE,
            Scheme::TcpFull => VERMILION,
            Scheme::TcpSample => ORANGE,
        }
    }
}

impl Scale {
    fn place(&self, ms: f64) -> i32 {
        let decades = |ms: f64| (ms / self.from_ms).log10();
        let share = decades(ms.clamp(self.from_ms, self.to_ms)) / decades(self.to_ms);
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let to_ms = self.to_ms;
        std::iter::successors(Some(self.from_ms), |ms| Some(10.0 * ms))
            .take_while(move |&ms| ms <= to_ms)
    }
}

fn in_words(ms: f64) -> String {
    match ms {
        ..10.0 if ms.fract() > 0.0 => format!("{ms:.1} ms"),
        ..1_000.0 => format!("{ms:.0} ms"),
        _ if (ms / 1e3).fract() < 0.005 => format!("{:.0} s", ms / 1e3),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place__is_logarithmic_and_stays_inside() {
        let at = |ms| LATENCY.place(ms);
        assert_eq!([at(1.0), at(10_000.0)], [LATENCY.from, LATENCY.to]);
        assert_eq!(at(100.0), i32::midpoint(LATENCY.from, LATENCY.to));
        assert_eq!([at(0.0), at(1e9)], [LATENCY.from, LATENCY.to]);
        assert_eq!(LATENCY.ticks().count(), 5);
    }

    #[test]
    fn in_words__few_digits() {
        let words = [1.0, 7.26, 416.3, 1_000.0, 1_669.0].map(in_words);
        assert_eq!(words, ["1 ms", "7.3 ms", "416 ms", "1 s", "1.7 s"]);
    }

    #[test]
    fn svg__names_every_scheme() {
        let mark = |scheme, sampling: Option<&str>, latency_ms: Option<f64>| Mark {
            scheme,
            sampling: sampling.map(str::to_owned),
            latency_ms,
            keeps_up: latency_ms.is_some(),
            exact_ms: Some(20.0),
            goodput_mbit_per_s: Some(72.0),
        };
        let marks = vec![
            mark(Scheme::Atp, Some("MSR 0.8"), Some(416.0)),
            mark(Scheme::TcpFull, None, None),
        ];
        let panel = Panel { title: "a load".to_owned(), marks, alone_ms: Some(6.8) };
        let svg = svg(&[panel]).unwrap();
        for text in
            ["a load", "atp, MSR 0.8", "416 ms", "tcp-full", "keep up", "20 ms", "alone", "72"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
