//! Colors and text styles of all pictures.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub type Failure = Box<dyn std::error::Error>;

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

pub fn style(size: i32, color: &RGBColor, horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(color).pos(Pos::new(horizontal, VPos::Top))
}

pub fn title() -> TextStyle<'static> {
    TextStyle::from(("sans-serif", TITLE, FontStyle::Bold).into_font())
        .pos(Pos::new(HPos::Left, VPos::Top))
}
