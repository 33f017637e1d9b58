//! Pictures as SVG: curves over an axis, several panels below each other, and bars of ratios.
//!
//! One plotter for `db_bench --plot` and `pumice report`. Colours are CSS variables, so a plot is
//! readable on light and dark backgrounds: [`STYLE`] defines them, once for a page, or inside a
//! standalone plot.
//!
//! Thread safety: pure functions. It only draws: the caller computes medians, limits and stalls.

mod bars;
mod scale;
#[cfg(test)]
mod tests;

pub use bars::{Bar, Bars};
pub use scale::{Scale, short};

use scale::Mapping;
use std::fmt::Write;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TITLE: f64 = 22.0;
const LEGEND_LINE: f64 = 17.0;
const X_LABELS: f64 = 20.0;
const X_TITLE: f64 = 16.0;
/// Width of a letter, about.
const LETTER: f64 = 6.3;
/// Colours that curves have in turn.
pub const COLOURS: usize = 6;

/// The colours and lines of all pictures.
pub const STYLE: &str = "\
:root{--ground:#fff;--ink:#222;--soft:#666;--faint:#ddd;--c0:#1f6fb2;--c1:#c2571a;--c2:#2a8a4a;\
--c3:#8a4fb0;--c4:#7a7414;--c5:#b0305a;--slow:#f3c44b;--stop:#d33}\
@media (prefers-color-scheme:dark){:root{--ground:#16181b;--ink:#ddd;--soft:#9aa0a6;\
--faint:#3a3d42;\
--c0:#6cb6ff;--c1:#ff9a5c;--c2:#6fd08c;--c3:#c79bff;--c4:#d6cf5a;--c5:#ff7aa2;--slow:#8a6d1c;\
--stop:#e5484d}}\
svg .ground{fill:var(--ground)}svg text{fill:var(--ink);font:12px system-ui,sans-serif}\
svg text.soft{fill:var(--soft)}svg text.title{font-weight:600}svg line{stroke:var(--faint)}\
svg line.one{stroke:var(--ink)}svg polyline{fill:none;stroke-width:2}\
svg .dash1{stroke-dasharray:6 4}svg .dash2{stroke-dasharray:1.5 3.5}\
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}\
.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}circle.c0,rect.c0{fill:var(--c0)}\
circle.c1,rect.c1{fill:var(--c1)}circle.c2,rect.c2{fill:var(--c2)}circle.c3,rect.c3{fill:var(--c3)}\
circle.c4,rect.c4{fill:var(--c4)}circle.c5,rect.c5{fill:var(--c5)}\
.slow{fill:var(--slow);opacity:.35}.stop{fill:var(--stop);opacity:.6}";

/// A point with what lay between the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where on the x axis.
    pub x: f64,
    /// The value that the curve goes through.
    pub y: f64,
    /// The least; `y` when there is one value only.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Point {
    /// A point without a spread.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, low: y, high: y }
    }
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The curve's name in the legend; none when empty.
    pub name: String,
    /// The curve's colour, below [`COLOURS`].
    pub colour: usize,
    /// 0 for a line, 1 for dashes, 2 for points.
    pub dash: usize,
    /// Drawn with a dot at each point.
    pub dots: bool,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A stretch of the x axis that is marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// The band's CSS class: `slow` or `stop`.
    pub class: &'static str,
}

/// Curves over one axis.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Below the x axis; nothing when empty.
    pub x_title: String,
    /// Names of x = 0, 1, 2, ..; numbers when empty.
    pub x_names: Vec<String>,
    /// Steps of the x axis.
    pub x_scale: Scale,
    /// Steps of the y axis.
    pub y_scale: Scale,
    /// The curves; later ones lie above earlier ones.
    pub curves: Vec<Curve>,
    /// Marked stretches.
    pub bands: Vec<Band>,
}

/// A picture: panels from above to below.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Width in pixels.
    pub width: f64,
    /// Height of the drawn part of a panel.
    pub panel: f64,
    /// The panels.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// The picture; with its own style when it stands `alone`.
    pub fn svg(&self, alone: bool) -> String {
        let mut body = String::new();
        let mut top = 6.0;
        for panel in &self.panels {
            top = self.draw(&mut body, panel, top);
        }
        frame(self.width, top, &body, alone)
    }

    /// Draws a panel below `top`; its bottom.
    fn draw(&self, out: &mut String, panel: &Panel, top: f64) -> f64 {
        text(out, (4.0, top + 14.0), "title", "start", &panel.title);
        let mut inner = top + TITLE;
        inner += self.legend(out, panel, inner);
        let area =
            Area { left: LEFT, right: self.width - RIGHT, top: inner, bottom: inner + self.panel };
        let (x, y) = (panel.x(&area), panel.y(&area));
        for band in &panel.bands {
            let (from, to) = (x.at(band.from), x.at(band.to));
            add(
                out,
                format_args!(
                    "<rect class=\"{}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                     height=\"{:.1}\"/>",
                    band.class,
                    area.top,
                    to - from,
                    self.panel
                ),
            );
        }
        area.grid(out, &y);
        panel.x_labels(out, &area, &x);
        panel.curves.iter().for_each(|curve| draw_curve(out, curve, &x, &y));
        let mut bottom = area.bottom + X_LABELS;
        if !panel.x_title.is_empty() {
            let middle = (area.left + area.right) / 2.0;
            text(out, (middle, bottom + 11.0), "soft", "middle", &panel.x_title);
            bottom += X_TITLE;
        }
        bottom + 6.0
    }

    /// Names of the curves; the height that they take.
    fn legend(&self, out: &mut String, panel: &Panel, top: f64) -> f64 {
        let (mut x, mut line) = (4.0, 0.0);
        let mut any = false;
        for curve in panel.curves.iter().filter(|curve| !curve.name.is_empty()) {
            let width = 30.0 + curve.name.chars().count() as f64 * LETTER;
            if any && x + width > self.width {
                (x, line) = (4.0, line + LEGEND_LINE);
            }
            any = true;
            let y = top + line + 8.0;
            let class = curve.class();
            add(
                out,
                format_args!(
                    "<polyline class=\"{class}\" points=\"{x:.1},{y:.1} {:.1},{y:.1}\"/>",
                    x + 18.0
                ),
            );
            text(out, (x + 23.0, y + 4.0), "", "start", &curve.name);
            x += width + 8.0;
        }
        if any { line + LEGEND_LINE + 8.0 } else { 4.0 }
    }
}

/// Where curves are drawn.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn grid(&self, out: &mut String, y: &Mapping) {
        let (left, right) = (self.left, self.right);
        for tick in y.ticks() {
            let at = y.at(tick);
            add(
                out,
                format_args!("<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"),
            );
            text(out, (left - 6.0, at + 4.0), "soft", "end", &short(tick));
        }
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }

    fn x(&self, area: &Area) -> Mapping {
        let names = self.x_names.len();
        if names > 0 {
            return Mapping::fixed((-0.4, names as f64 - 0.6), (area.left, area.right));
        }
        let values = self.points().map(|point| point.x);
        Mapping::tight(self.x_scale, values, (area.left, area.right))
    }

    fn y(&self, area: &Area) -> Mapping {
        let values = self.points().flat_map(|point| [point.y, point.low, point.high]);
        Mapping::round(self.y_scale, values, (area.bottom, area.top))
    }

    fn x_labels(&self, out: &mut String, area: &Area, x: &Mapping) {
        let y = area.bottom + 15.0;
        for (number, name) in self.x_names.iter().enumerate() {
            text(out, (x.at(number as f64), y), "soft", "middle", name);
        }
        if self.x_names.is_empty() {
            let mut xs: Vec<f64> = self.points().map(|point| point.x).collect();
            xs.sort_by(f64::total_cmp);
            xs.dedup();
            // Few places are named themselves; a label needs its room.
            let own = xs.len() <= 12 && self.curves.iter().all(|curve| curve.dots);
            let mut last = f64::MIN;
            for tick in if own { xs } else { x.ticks() } {
                let label = short(tick);
                let half = label.len() as f64 * LETTER / 2.0;
                if x.at(tick) - half > last + 4.0 {
                    text(out, (x.at(tick), y), "soft", "middle", &label);
                    last = x.at(tick) + half;
                }
            }
        }
    }
}

impl Curve {
    fn class(&self) -> String {
        let dash = ["", " dash1", " dash2"][self.dash % 3];
        format!("c{}{dash}", self.colour % COLOURS)
    }
}

fn draw_curve(out: &mut String, curve: &Curve, x: &Mapping, y: &Mapping) {
    let class = curve.class();
    let points: Vec<String> =
        curve.points.iter().map(|p| format!("{:.1},{:.1}", x.at(p.x), y.at(p.y))).collect();
    add(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")));
    for point in &curve.points {
        let (at, from, to) = (x.at(point.x), y.at(point.low), y.at(point.high));
        if point.low < point.high {
            add(
                out,
                format_args!(
                    "<polyline class=\"{class}\" points=\"{at:.1},{from:.1} {at:.1},{to:.1}\"/>"
                ),
            );
        }
        if curve.dots {
            let colour = curve.colour % COLOURS;
            add(
                out,
                format_args!(
                    "<circle class=\"c{colour}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    y.at(point.y)
                ),
            );
        }
    }
}

/// A picture of that size around `body`.
fn frame(width: f64, height: f64, body: &str, alone: bool) -> String {
    let style = if alone { format!("<style>{STYLE}</style>") } else { String::new() };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">{style}\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>{body}</svg>\n"
    )
}

fn text(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, content: &str) {
    let content = escaped(content);
    add(
        out,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">\
             {content}</text>"
        ),
    );
}

/// Text as HTML and SVG have it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes all.
    out.write_fmt(text).unwrap_or_default();
}
