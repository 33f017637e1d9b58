//! Ratios as bars on a logarithmic axis: to the right of 1 is more, to the left is less.
//!
//! Thread safety: pure functions.

use super::scale::{Mapping, Scale, short};
use super::{LETTER, add, frame, text};

const ROW: f64 = 20.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;

/// One ratio with its spread.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it is the ratio of.
    pub name: String,
    /// The ratio, above 0.
    pub value: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// A picture of ratios.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above it.
    pub title: String,
    /// Below the axis.
    pub x_title: String,
    /// Width in pixels.
    pub width: f64,
    /// From above to below.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// The picture; with its own style when it stands `alone`. Bars on the wrong side of 1 have the
    /// second colour; `more_is_better` says which side that is.
    pub fn svg(&self, more_is_better: bool, alone: bool) -> String {
        let mut out = String::new();
        text(&mut out, (4.0, 20.0), "title", "start", &self.title);
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * (LETTER + 0.5) + 12.0).min(self.width * 0.55);
        let right = self.width - 42.0;
        let bottom = TOP + 6.0 + ROW * self.bars.len() as f64;
        let values = self.bars.iter().flat_map(|bar| [bar.low, bar.high, bar.value]);
        let x = Mapping::round(Scale::Log, values.chain([0.9, 2.2]), (left, right));
        for tick in x.ticks() {
            let at = x.at(tick);
            let class = if (tick - 1.0).abs() < 1e-9 { "one" } else { "" };
            add(
                &mut out,
                format_args!(
                    "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" \
                     y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
                    TOP + 4.0
                ),
            );
            text(&mut out, (at, bottom + 14.0), "soft", "middle", &short(tick));
        }
        for (number, bar) in self.bars.iter().enumerate() {
            let top = TOP + 8.0 + ROW * number as f64;
            one(&mut out, bar, &x, (left, top), (bar.value >= 1.0) == more_is_better);
        }
        text(&mut out, ((left + right) / 2.0, bottom + 30.0), "soft", "middle", &self.x_title);
        frame(self.width, bottom + BOTTOM, &out, alone)
    }
}

fn one(out: &mut String, bar: &Bar, x: &Mapping, (left, top): (f64, f64), good: bool) {
    text(out, (left - 8.0, top + 11.0), "", "end", &bar.name);
    let (from, to) = (x.at(1.0).min(x.at(bar.value)), x.at(1.0).max(x.at(bar.value)));
    let colour = if good { 0 } else { 1 };
    add(
        out,
        format_args!(
            "<rect class=\"c{colour}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"9\"/>",
            top + 2.0,
            (to - from).max(1.0)
        ),
    );
    let middle = top + 6.5;
    if bar.low < bar.high {
        add(
            out,
            format_args!(
                "<line class=\"one\" x1=\"{:.1}\" x2=\"{:.1}\" \
                 y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>",
                x.at(bar.low),
                x.at(bar.high)
            ),
        );
    }
    let end = x.at(bar.value).max(x.at(bar.high)).max(x.at(1.0));
    text(out, (end + 5.0, top + 11.0), "soft", "start", &format!("{:.2}", bar.value));
}
