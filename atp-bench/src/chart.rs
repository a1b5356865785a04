//! The parts that all pictures share: their frame as SVG, colors and text styles.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// An error of the drawing library.
pub type Failure = Box<dyn std::error::Error>;

/// The width of a picture in pixels. A page of the book shows it 800 pixels wide.
pub const WIDTH: u32 = 1_000;
/// The size of titles; the library draws a size of 19 as 15 pixels.
const TITLE: i32 = 20;
pub const TEXT: i32 = 18;

// A palette that color-blind readers can tell apart (Okabe and Ito).
pub const BLUE: RGBColor = RGBColor(0, 114, 178);
pub const SKY: RGBColor = RGBColor(86, 180, 233);
pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub const GREEN: RGBColor = RGBColor(0, 130, 95);
pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub const GRAY: RGBColor = RGBColor(130, 130, 130);
/// Lines behind a plot.
pub const LIGHT: RGBColor = RGBColor(225, 225, 225);

/// Draws a picture of this height.
///
/// # Errors
/// The drawing library failed.
pub fn svg(height: u32, draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>) -> Result<String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height.max(1))).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(Failure::from).and_then(|()| draw(&area));
    let drawn = drawn.and_then(|()| Ok(area.present()?));
    drawn.map_err(|error| anyhow!("can't draw the chart: {error}"))?;
    drop(area);
    Ok(text)
}

/// Draws a picture of bands, each below the one before. `bands` are their heights and contents.
///
/// # Errors
/// The drawing library failed.
pub fn svg_of_bands<B>(
    bands: &[(u32, B)],
    draw: impl Fn(&Area<'_>, &B) -> Result<(), Failure>,
) -> Result<String> {
    svg(bands.iter().map(|(height, _)| height).sum(), |area| {
        let mut rest = area.clone();
        for (height, band) in bands {
            let (this, below) = rest.split_vertically(*height);
            rest = below;
            draw(&this, band)?;
        }
        Ok(())
    })
}

/// Writes a text in black. `side` is the side of the text that is at the point.
pub fn write(
    area: &Area<'_>,
    text: impl Into<String>,
    at: (i32, i32),
    side: HPos,
) -> Result<(), Failure> {
    Ok(area.draw(&Text::new(text.into(), at, style(TEXT, &BLACK, side)))?)
}

/// Writes the title of a panel.
pub fn write_title(area: &Area<'_>, text: &str, at: (i32, i32)) -> Result<(), Failure> {
    let bold = TextStyle::from(("sans-serif", TITLE, FontStyle::Bold).into_font());
    let style = bold.pos(Pos::new(HPos::Left, VPos::Top));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

pub fn style(size: i32, color: &RGBColor, horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(color).pos(Pos::new(horizontal, VPos::Top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_of_bands__one_below_the_other() {
        let bands = [(40, "first"), (60, "second")];
        let svg = svg_of_bands(&bands, |area, name| write(area, *name, (0, 8), HPos::Left));
        let svg = svg.unwrap();
        assert!(svg.contains("height=\"100\""), "{svg}");
        assert!(svg.find("first").unwrap() < svg.find("second").unwrap(), "{svg}");
        svg_of_bands::<()>(&[], |_, ()| Ok(())).unwrap();
    }
}
