//! Tests of the plotter: positions of values, axis ticks, contents of a plot.
#![allow(clippy::unwrap_used)]

use super::scale::Mapping;
use super::*;

fn curve(points: &[(f64, f64)]) -> Curve {
    Curve {
        name: "a<b".into(),
        dots: true,
        points: points.iter().map(|(x, y)| Point::new(*x, *y)).collect(),
        ..Curve::default()
    }
}

// Plain #[test]: nothing in this file can wait.
#[test]
fn values_are_mapped_to_pixels() {
    let linear = Mapping::round(Scale::Linear, [3.0, 9.4].into_iter(), (100.0, 0.0));
    assert_eq!((linear.at(0.0), linear.at(10.0), linear.at(5.0)), (100.0, 0.0, 50.0));
    assert_eq!(linear.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    let log = Mapping::round(Scale::Log, [2.0, 150.0].into_iter(), (0.0, 100.0));
    assert_eq!((log.at(2.0), log.at(200.0)), (0.0, 100.0));
    assert!((log.at(20.0) - 50.0).abs() < 1e-9);
    assert_eq!(log.ticks(), [3.0, 10.0, 30.0, 100.0]);
    // What cannot be shown lies at the low end, inside of the picture.
    assert_eq!((log.at(0.0), log.at(f64::NAN)), (0.0, 0.0));
    let none = Mapping::round(Scale::Linear, std::iter::empty(), (0.0, 1.0));
    assert!(none.at(1.0).is_finite() && !none.ticks().is_empty());
    let same = Mapping::tight(Scale::Log, [4.0, 4.0].into_iter(), (0.0, 10.0));
    assert!((same.at(4.0) - 5.0).abs() < 1e-9);
}

// Plain #[test]: see above.
#[test]
fn numbers_are_short() {
    let shown = [0.0, 0.25, 3.0, 12.34, 999.0, 1000.0, 34_500.0, 1_250_000.0, 2e9].map(short);
    assert_eq!(shown, ["0", "0.25", "3", "12.3", "999", "1k", "34.5k", "1.25M", "2G"]);
}

// Plain #[test]: see above.
#[test]
fn a_figure_has_its_curves_names_and_bands() {
    let band = Band { from: 1.0, to: 2.0, class: "stop" };
    let mut spread = curve(&[(1.0, 5.0), (2.0, 8.0)]);
    spread.points[0].high = 6.0;
    let panel = Panel {
        title: "one & two".into(),
        curves: vec![spread, curve(&[(1.0, 1.0)])],
        bands: vec![band],
        ..Panel::default()
    };
    let figure = Figure { width: 460.0, panel: 100.0, panels: vec![panel.clone(), panel] };
    let svg = figure.svg(true);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("one &amp; two"));
    assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    // In each panel two curves, two lines of the legend, one spread.
    assert_eq!(svg.matches("<polyline").count(), 2 * 5);
    assert_eq!(svg.matches("class=\"stop\"").count(), 2);
    assert_eq!(svg.matches("<circle").count(), 2 * 3);
    assert!(!figure.svg(false).contains("<style>"));
}

// Plain #[test]: see above.
#[test]
fn bars_tell_which_side_of_one_is_worse() {
    let bar = |name: &str, value: f64| Bar { name: name.into(), value, low: value, high: value };
    let bars = Bars {
        title: "ratio".into(),
        x_title: String::new(),
        width: 460.0,
        bars: vec![bar("up", 2.5), bar("down", 0.8)],
    };
    let svg = bars.svg(true, false);
    assert_eq!(
        (svg.matches("rect class=\"c0\"").count(), svg.matches("rect class=\"c1\"").count()),
        (1, 1)
    );
    assert!(svg.contains(">2.50<") && svg.contains(">0.80<"));
    let flipped = bars.svg(false, false);
    assert_eq!(flipped.matches("rect class=\"c1\"").count(), 1);
    assert!(flipped.find("c1").unwrap() < flipped.find("c0").unwrap());
}
