//! Draws legends to the right of charts, and wraps text.

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The error of a drawing.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The width of a legend, pixels.
pub(super) const LEGEND: i32 = 196;
const LINE: i32 = 20;
const SAMPLE: (i32, i32) = (8, 36);
/// The lengths of dash and gap of a dashed line, pixels.
pub(super) const DASHES: (i32, i32) = (6, 4);

/// The legend's entry for one line of a chart.
pub(super) struct Entry {
    pub name: String,
    pub color: RGBColor,
    pub is_dashed: bool,
}

/// Draws a legend in a separate area, where it hides no data.
pub(super) fn legend(area: &Area<'_>, top: i32, entries: &[Entry]) -> Result<(), Failure> {
    let mut y = top;
    let mut last = top;
    for Entry { name, color, is_dashed } in entries {
        let (left, right) = SAMPLE;
        let step = if *is_dashed { DASHES.0 + DASHES.1 } else { right - left };
        for from in (left..right).step_by(step as usize) {
            let until = (from + step - if *is_dashed { DASHES.1 } else { 0 }).min(right);
            area.draw(&PathElement::new([(from, y), (until, y)], color.stroke_width(2)))?;
        }
        for (line, below) in
            wrapped(name, LEGEND - right - 16, 12).into_iter().zip((0..).step_by(14))
        {
            area.draw(&Text::new(line, (right + 8, y + below), style(12, HPos::Left)))?;
            last = y + below;
        }
        y = last + LINE;
    }
    Ok(())
}

/// A text style, centered vertically.
pub(crate) fn style(size_px: i32, horizontal: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size_px).into_font().color(&BLACK);
    font.pos(Pos::new(horizontal, VPos::Center))
}

/// Wraps text to a width. Only a single long word may exceed the width. The SVG's viewer chooses
/// the font, so the width is an estimate: 0.55 of the height per character is more than common
/// fonts need.
pub(crate) fn wrapped(text: &str, width_px: i32, size_px: i32) -> Vec<String> {
    let characters_max = (100 * width_px / (55 * size_px).max(1)).max(1) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wrapped__keeps_the_words_and_the_width(
            words in proptest::collection::vec("[a-z]{1,12}", 0..30), width_px in 100i32..600
        ) {
            let lines = wrapped(&words.join(" "), width_px, 10);
            prop_assert_eq!(lines.join(" "), words.join(" "));
            let most = (100 * width_px / 550) as usize;
            prop_assert!(lines.iter().all(|line| line.len() <= most || !line.contains(' ')));
        }
    }
}
