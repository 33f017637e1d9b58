//! `--plot=FILE.svg`: a run drawn over time.
//!
//! Panels, from the top: bytes written a second and the rate allowed to slowed writes; total bytes
//! written, and those by flushes and compactions; files of L0; bytes that wait for compaction.
//! Times at which writes were slowed or stopped are shaded in all of them.
//!
//! Thread safety: pure functions.

use super::monitor::Sample;
use crate::plot::{Band, Curve, Figure, Panel, Point};

const MEGABYTE: f64 = 1_048_576.0;
/// Operations are summed over this many seconds.
const BUCKET: f64 = 0.5;
/// The rate allowed to slowed writes is drawn up to this many times the largest that was written.
const CAP_SHOWN: f64 = 1.5;

/// The picture of a run of `name` whose operations wrote `bytes_each`.
pub fn svg(name: &str, samples: &[Sample], bytes_each: u64) -> String {
    Figure { width: 900.0, panel: 120.0, panels: panels(name, samples, bytes_each) }.svg(true)
}

fn panels(name: &str, samples: &[Sample], bytes_each: u64) -> Vec<Panel> {
    let mib = |operations: u64| operations as f64 * bytes_each as f64 / MEGABYTE;
    let over_time = |of: &dyn Fn(&Sample) -> f64| -> Vec<Point> {
        samples.iter().map(|sample| Point::new(sample.seconds, of(sample))).collect()
    };
    let written = intervals(samples, &mib);
    // A cap far above what is written would make that a line at the bottom.
    let most = written.iter().map(|point| point.y).fold(0.0, f64::max);
    let shown = |rate: f64| if most > 0.0 { rate.min(CAP_SHOWN * most) } else { rate };
    let slowed = samples.iter().filter(|sample| sample.delayed_rate > 0);
    let allowed = slowed.map(|s| Point::new(s.seconds, shown(s.delayed_rate as f64 / MEGABYTE)));
    let curve = |name: &str, colour, points| Curve {
        name: name.to_string(),
        colour,
        points,
        ..Curve::default()
    };
    let panel = |title: String, curves| Panel {
        title,
        x_title: "s".to_string(),
        curves,
        bands: bands(samples),
        ..Panel::default()
    };
    let one = |title: &str, points| panel(title.to_string(), vec![curve("", 0, points)]);
    vec![
        panel(
            format!("{name}: MB/s"),
            vec![
                curve("rate allowed to slowed writes", 1, allowed.collect()),
                curve("written", 0, written),
            ],
        ),
        panel(
            "total MB".to_string(),
            vec![
                curve("by flushes and compactions", 1, over_time(&|sample| sample.compacted_mb)),
                curve("written", 0, over_time(&|sample| mib(sample.operations))),
            ],
        ),
        one("files in L0", over_time(&|sample| sample.l0_files as f64)),
        one("pending compaction, MB", over_time(&|sample| sample.pending_bytes as f64 / MEGABYTE)),
    ]
}

/// Megabytes a second, by buckets of time.
fn intervals(samples: &[Sample], mib: &dyn Fn(u64) -> f64) -> Vec<Point> {
    let mut points = Vec::new();
    let mut from = samples.first().copied().unwrap_or_default();
    for sample in samples {
        let seconds = sample.seconds - from.seconds;
        if seconds >= BUCKET {
            let written = mib(sample.operations - from.operations);
            points.push(Point::new(sample.seconds, written / seconds));
            from = *sample;
        }
    }
    points
}

/// Where writes were slowed or stopped.
fn bands(samples: &[Sample]) -> Vec<Band> {
    let band = |pair: &[Sample]| {
        let class = match &pair[1] {
            sample if sample.stopped => "stop",
            sample if sample.delayed_rate > 0 => "slow",
            _ => return None,
        };
        Some(Band { from: pair[0].seconds, to: pair[1].seconds, class })
    };
    samples.windows(2).filter_map(band).collect()
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
            delayed_rate: [1 << 20, 1 << 30][usize::from(n == 3)] * u64::from(n < 5),
            l0_files: n / 3,
            pending_bytes: n << 20,
            compacted_mb: n as f64 * 123.0,
        };
        let samples: Vec<Sample> = (0..50).map(sample).collect();
        let panels = panels("fillrandom", &samples, 1024);
        assert_eq!(panels.len(), 4);
        for panel in &panels {
            // Five samples stopped, four slowed (the first covers no time).
            let of = |class| panel.bands.iter().filter(|band| band.class == class).count();
            assert_eq!((of("stop"), of("slow")), (5, 4));
        }
        // 10,000 operations a second of 1 KiB.
        assert!(panels[0].curves[1].points.iter().all(|p| (p.y - 9.765_625).abs() < 1e-3));
        let allowed = &panels[0].curves[0].points;
        let top = 1.5 * panels[0].curves[1].points.iter().map(|p| p.y).fold(0.0, f64::max);
        assert_eq!((allowed.len(), allowed[2].y, allowed[3].y), (5, 1.0, top));
        assert_eq!(panels[1].curves[0].points[49], Point::new(4.9, 6027.0));
        assert_eq!(
            (panels[2].curves[0].points[49].y, panels[3].curves[0].points[49].y),
            (16.0, 49.0)
        );
        let svg = svg("fillrandom", &samples, 1024);
        // Six curves, and the names of four in legends.
        assert_eq!(svg.matches("<polyline").count(), 6 + 4);
        assert_eq!(svg.matches("class=\"stop\"").count(), 4 * 5);
        assert_eq!(svg.matches("class=\"slow\"").count(), 4 * 4);
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(super::svg("empty", &[], 1).contains("</svg>"));
    }
}
