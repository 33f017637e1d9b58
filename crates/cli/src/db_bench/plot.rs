//! `--plot=FILE.svg`: a run drawn over time, readable on light and on dark ground.
//!
//! Panels, from above: what was written a second and what slowed writes were allowed; what was
//! written in all, and by flushes and compactions; files of L0; bytes that wait for compaction.
//! Behind all of them the moments at which writes were slowed or stopped.
//!
//! Thread safety: pure functions.

use super::monitor::Sample;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const PANEL: f64 = 120.0;
const GAP: f64 = 34.0;
const TOP: f64 = 40.0;
const MEGABYTE: f64 = 1_048_576.0;
/// Operations are added up over so many seconds.
const BUCKET: f64 = 0.5;
const TICKS: usize = 6;

const STYLE: &str = "\
:root{--ground:#fff;--ink:#222;--faint:#ccc;--a:#1f6fb2;--b:#c2571a;--slow:#f3c44b;--stop:#d33}\
@media (prefers-color-scheme:dark){:root{--ground:#16181b;--ink:#ddd;--faint:#444;--a:#6cb6ff;\
--b:#ff9a5c;--slow:#8a6d1c;--stop:#e5484d}}\
rect.ground{fill:var(--ground)}text{fill:var(--ink);font:12px sans-serif}\
line{stroke:var(--faint)}.a{stroke:var(--a)}.b{stroke:var(--b)}\
polyline{fill:none;stroke-width:1.5}.slow{fill:var(--slow);opacity:.35}\
.stop{fill:var(--stop);opacity:.6}";

/// One curve: its class of style and its points, seconds and values.
struct Curve {
    class: &'static str,
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: String,
    curves: Vec<Curve>,
}

/// The picture of a run of `name` whose operations wrote `bytes_each`.
pub fn svg(name: &str, samples: &[Sample], bytes_each: u64) -> String {
    let end = samples.last().map_or(1.0, |sample| sample.seconds).max(0.1);
    let mib = |operations: u64| operations as f64 * bytes_each as f64 / MEGABYTE;
    let over_time = |of: &dyn Fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        samples.iter().map(|sample| (sample.seconds, of(sample))).collect()
    };
    let slowed: Vec<_> = samples.iter().filter(|sample| sample.delayed_rate > 0).collect();
    let allowed = slowed.iter().map(|s| (s.seconds, s.delayed_rate as f64 / MEGABYTE)).collect();
    let one = |title: &str, points| Panel {
        title: title.to_string(),
        curves: vec![Curve { class: "a", points }],
    };
    let written = intervals(samples, &mib);
    let panels = [
        Panel {
            title: format!("{name}: written, MB/s; what slowed writes may (second colour)"),
            curves: vec![
                Curve { class: "b", points: allowed },
                Curve { class: "a", points: written },
            ],
        },
        Panel {
            title: "written in all, MB; by flushes and compactions (second colour)".to_string(),
            curves: vec![
                Curve { class: "b", points: over_time(&|sample| sample.compacted_mb) },
                Curve { class: "a", points: over_time(&|sample| mib(sample.operations)) },
            ],
        },
        one("files in L0", over_time(&|sample| sample.l0_files as f64)),
        one("pending compaction, MB", over_time(&|sample| sample.pending_bytes as f64 / MEGABYTE)),
    ];
    let height = TOP + panels.len() as f64 * (PANEL + GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\"><style>{STYLE}</style>\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
    );
    let x = |seconds: f64| LEFT + seconds / end * (WIDTH - LEFT - 20.0);
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        bands(&mut out, samples, top, &x);
        draw(&mut out, panel, top, &x);
    }
    time_axis(&mut out, end, height - GAP + 16.0, &x);
    out.push_str("</svg>\n");
    out
}

/// Megabytes a second, by buckets of time.
fn intervals(samples: &[Sample], mib: &dyn Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut from = samples.first().copied().unwrap_or_default();
    for sample in samples {
        let seconds = sample.seconds - from.seconds;
        if seconds >= BUCKET {
            points.push((sample.seconds, mib(sample.operations - from.operations) / seconds));
            from = *sample;
        }
    }
    points
}

/// Where writes were slowed or stopped.
fn bands(out: &mut String, samples: &[Sample], top: f64, x: &dyn Fn(f64) -> f64) {
    for pair in samples.windows(2) {
        let class = match &pair[1] {
            sample if sample.stopped => "stop",
            sample if sample.delayed_rate > 0 => "slow",
            _ => continue,
        };
        let (from, to) = (x(pair[0].seconds), x(pair[1].seconds));
        add(
            out,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" \
                 height=\"{PANEL}\"/>",
                to - from
            ),
        );
    }
}

fn draw(out: &mut String, panel: &Panel, top: f64, x: &dyn Fn(f64) -> f64) {
    let values = panel.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let most = values.fold(1e-9, f64::max);
    let y = |value: f64| top + PANEL * (1.0 - value / most);
    let (bottom, right) = (top + PANEL, WIDTH - 20.0);
    for (at, text) in [(top, format!("{most:.4}")), (bottom, "0".to_string())] {
        add(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at}\" y2=\"{at}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(&text),
            ),
        );
    }
    let title = &panel.title;
    add(out, format_args!("<text x=\"{LEFT}\" y=\"{:.0}\">{title}</text>", top - 8.0));
    for curve in &panel.curves {
        let points: Vec<String> =
            curve.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
        let (class, points) = (curve.class, points.join(" "));
        add(out, format_args!("<polyline class=\"{class}\" points=\"{points}\"/>"));
    }
}

/// A number without digits that nobody reads.
fn short(text: &str) -> String {
    let value: f64 = text.parse().unwrap_or(0.0);
    if value >= 100.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn time_axis(out: &mut String, end: f64, y: f64, x: &dyn Fn(f64) -> f64) {
    for tick in 0..=TICKS {
        let seconds = end * tick as f64 / TICKS as f64;
        add(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{seconds:.0} s</text>",
                x(seconds)
            ),
        );
    }
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes all.
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn a_run_is_drawn_with_its_stalls() {
        let sample = |n: u64| Sample {
            seconds: n as f64 / 10.0,
            operations: n * 1000,
            stopped: (10..15).contains(&n),
            delayed_rate: if n < 5 { 1 << 20 } else { 0 },
            l0_files: n / 3,
            pending_bytes: n << 20,
            compacted_mb: n as f64 * 123.0,
        };
        let samples: Vec<Sample> = (0..50).map(sample).collect();
        let svg = svg("fillrandom", &samples, 1024);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 6);
        // In each of four panels: five looks stopped, four slowed (the first stands for no time).
        assert_eq!(svg.matches("class=\"stop\"").count(), 4 * 5);
        assert_eq!(svg.matches("class=\"slow\"").count(), 4 * 4);
        // 10,000 operations a second of 1 KiB.
        assert!(svg.contains(">9.8</text>"), "{svg}");
        assert!(svg.contains(">6027</text>"), "49 times 123 MB: {svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(super::svg("empty", &[], 1).contains("</svg>"));
    }
}
