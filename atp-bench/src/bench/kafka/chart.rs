//! The picture, as SVG.

use anyhow::Result;

use super::scheme::Scheme;

/// A panel: the schemes of one table.
pub struct Panel {
    pub title: String,
    pub bars: Vec<Bar>,
    /// The 99th percentile of exact requests alone.
    pub alone_ms: Option<f64>,
}

/// A scheme's results.
pub struct Bar {
    pub scheme: Option<Scheme>,
    pub msr: Option<f64>,
    pub latency_ms: Option<f64>,
    pub falls_behind: bool,
    pub exact_ms: Option<f64>,
}

/// Draws the panels.
pub fn svg(panels: &[Panel]) -> Result<String> {
    let _ = panels;
    anyhow::bail!("not yet")
}
