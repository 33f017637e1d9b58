//! The plots of a table, each with a sentence that describes it.
//!
//! Thread safety: pure functions.

use super::data::{Data, Summary};
use super::plan::{Arm, Column, Engine, Plan, Plot, RATE, SINE_ROW, Section, Table};
use super::words;
use crate::plot::{Bar, Bars, Curve, Figure, Panel, Point, Scale};

/// Width of all pictures; narrow enough to be read on a telephone.
const WIDTH: f64 = 460.0;
const PANEL: f64 = 150.0;

/// A picture with its sentence.
pub struct Picture {
    /// The name of its file, without an ending.
    pub name: String,
    /// As SVG inside of a page.
    pub inside: String,
    /// As SVG that stands alone.
    pub alone: String,
    /// What to see.
    pub sentence: String,
}

/// All pictures of a table for which there are data.
pub fn of(plan: &Plan, table: &Table, data: &Data) -> Vec<Picture> {
    let mut pictures: Vec<Picture> =
        table.plots.iter().flat_map(|plot| draw(table, data, plot)).collect();
    match table.section {
        Section::Control => pictures.extend(sine(plan, table, data)),
        Section::Priorities => pictures.extend(percentiles(table, data)),
        Section::Engines => pictures.extend(others(table, data)),
        Section::Coroutines if table.plots.is_empty() => pictures.extend(fibers(table, data)),
        _ => {}
    }
    let base = format!("{}-{}", table.section.name(), table.name);
    for (number, picture) in pictures.iter_mut().enumerate() {
        picture.name = format!("{base}-{}", number + 1);
    }
    pictures
}

fn picture(figure: &Figure, sentence: String) -> Picture {
    let (inside, alone) = (figure.svg(false), figure.svg(true));
    Picture { name: String::new(), inside, alone, sentence }
}

/// Colour by engine, dashes by the arm's number among those of its engine.
fn look(arms: &[&Arm], arm: &Arm) -> (usize, usize) {
    let engine = arm.work.engine();
    let colour = match engine {
        Engine::Pumice => 0,
        Engine::RocksDb => 1,
        Engine::Redis | Engine::Fjall => 2,
        Engine::Redb => 3,
    };
    let same = arms.iter().filter(|other| other.work.engine() == engine);
    (colour, same.take_while(|other| other.name != arm.name).count())
}

/// Arms of these rows, each name once.
fn arms_of<'t>(table: &'t Table, prefix: &str) -> Vec<&'t Arm> {
    let mut arms: Vec<&Arm> = Vec::new();
    for row in table.rows.iter().filter(|row| row.name.starts_with(prefix)) {
        for arm in &row.arms {
            if !arms.iter().any(|other| other.name == arm.name) {
                arms.push(arm);
            }
        }
    }
    arms
}

fn draw(table: &Table, data: &Data, plot: &Plot) -> Vec<Picture> {
    if plot.x_title.is_empty() {
        return plot.panels.iter().filter_map(|value| bars(table, data, plot, value)).collect();
    }
    let arms = arms_of(table, &plot.rows);
    let panels: Vec<Panel> = plot
        .panels
        .iter()
        .map(|value| Panel {
            title: format!("{}: {}", plot.title, value.title),
            x_title: plot.x_title.to_string(),
            x_scale: if plot.log_x { Scale::Log } else { Scale::Linear },
            y_scale: if plot.log_y { Scale::Log } else { Scale::Linear },
            curves: arms.iter().map(|arm| curve(table, data, plot, (&arms, arm), value)).collect(),
            ..Panel::default()
        })
        .collect();
    if panels.iter().all(|panel| panel.curves.iter().all(|curve| curve.points.is_empty())) {
        return Vec::new();
    }
    let mut sentences: Vec<String> = plot
        .panels
        .iter()
        .filter_map(|value| {
            words::compare(&words::against(table, data, &plot.rows, value.value), value)
        })
        .collect();
    if table.section == Section::Compression && table.name != "jobs" {
        let names = ["RocksDB", "Pumice", "Pumice, explicit helpers"];
        sentences.extend(words::scaling(table, data, &plot.rows, &names));
    }
    // Pairs that are not peers, and that a reader looks for.
    for pair in [("Pumice", "redis-server"), ("Pumice, fibers", "Pumice, threads")] {
        sentences.extend(plot.panels.iter().filter_map(|value| {
            let found = words::between(table, data, &plot.rows, pair, value.value);
            words::compare(&found, value)
        }));
    }
    let figure = Figure { width: WIDTH, panel: PANEL, panels };
    vec![picture(&figure, sentences.join(" "))]
}

fn curve(
    table: &Table,
    data: &Data,
    plot: &Plot,
    (arms, arm): (&[&Arm], &Arm),
    value: &Column,
) -> Curve {
    let (colour, dash) = look(arms, arm);
    let rows = table.rows.iter().filter(|row| row.name.starts_with(&plot.rows));
    let points = rows.filter_map(|row| {
        let arm = row.arms.iter().find(|other| other.name == arm.name)?;
        let Summary { median, low, high, .. } = data.summary(&table.id(row, arm), value.value)?;
        let [y, low, high] = [median, low, high].map(|number| number / value.unit);
        Some(Point { x: row.x, y, low, high })
    });
    Curve { name: arm.name.clone(), colour, dash, dots: true, points: points.collect() }
}

fn bars(table: &Table, data: &Data, plot: &Plot, value: &Column) -> Option<Picture> {
    let found = words::against(table, data, &plot.rows, value.value);
    ratio_bars(&plot.title, &found, "RocksDB", value)
}

/// Pumice over each of the others.
fn others(table: &Table, data: &Data) -> Vec<Picture> {
    let peers = [Engine::RocksDb].into_iter().chain(Engine::OTHERS).map(Engine::name);
    let one = |peer| {
        let found = words::between(table, data, "", (Engine::Pumice.name(), peer), RATE.value);
        ratio_bars("Operations", &found, peer, &RATE)
    };
    peers.filter_map(one).collect()
}

/// What fibers make of what threads do.
fn fibers(table: &Table, data: &Data) -> Option<Picture> {
    let pair = ("Pumice, fibers", "Pumice, threads");
    let found = words::between(table, data, "", pair, RATE.value);
    ratio_bars("Workloads", &found, pair.1, &RATE)
}

fn ratio_bars(
    title: &str,
    found: &[words::Against],
    peer: &str,
    value: &Column,
) -> Option<Picture> {
    let sentence = words::compare(found, value)?;
    let bar = |one: &words::Against| Bar {
        name: one.row.clone(),
        value: one.ratio.median,
        low: one.ratio.low,
        high: one.ratio.high,
    };
    let bars = Bars {
        title: format!("{title}: {}, {} over {peer}", value.title, found[0].arm),
        x_title: match words::more_is_better(value.value) {
            true => format!("times {peer}'s; right of 1 is better"),
            false => format!("times {peer}'s; left of 1 is better"),
        },
        width: WIDTH,
        bars: found.iter().map(bar).collect(),
    };
    let better = words::more_is_better(value.value);
    let (inside, alone) = (bars.svg(better, false), bars.svg(better, true));
    Some(Picture { name: String::new(), inside, alone, sentence })
}

/// The sine: what was written, L0 and debt over time; pairs of arms that are compared.
fn sine(plan: &Plan, table: &Table, data: &Data) -> Vec<Picture> {
    let Some(row) = table.rows.iter().find(|row| row.name == SINE_ROW) else { return Vec::new() };
    let mut groups: Vec<Vec<&Arm>> = Vec::new();
    for arm in &row.arms {
        let of_peer = |group: &&mut Vec<&Arm>| Some(&group[0].name) == arm.peer.as_ref();
        match groups.iter_mut().find(of_peer) {
            Some(group) => group.push(arm),
            None => groups.push(vec![arm]),
        }
    }
    groups.iter().filter_map(|group| sine_picture(plan, table, data, group)).collect()
}

fn sine_picture(plan: &Plan, table: &Table, data: &Data, arms: &[&Arm]) -> Option<Picture> {
    let row = &table.rows[0];
    let first = |arm: &Arm| data.runs(&table.id(row, arm)).next();
    let end = arms.iter().filter_map(|arm| first(arm)?.series.rows.last()?.first().copied());
    let end = end.fold(0.0, f64::max);
    if end == 0.0 {
        return None;
    }
    let over_time = |column: &'static str| -> Vec<Curve> {
        let of = |arm: &&Arm| {
            let (colour, dash) = look(arms, arm);
            let points = first(arm).map(|run| run.series.points("seconds", column));
            let points = points.unwrap_or_default().into_iter().map(|(x, y)| Point::new(x, y));
            Curve { name: arm.name.clone(), colour, dash, dots: false, points: points.collect() }
        };
        arms.iter().map(of).collect()
    };
    let steps = 400;
    let asked = (0..=steps).map(|n| {
        let at = end * f64::from(n) / f64::from(steps);
        Point::new(at, super::plan::commanded(at, plan.scale.sine_time) / 1e6)
    });
    let mut written = over_time("mb_per_sec");
    written.insert(
        0,
        Curve { name: "asked for".into(), colour: 3, points: asked.collect(), ..Curve::default() },
    );
    let panel = |title: &str, curves| Panel {
        title: title.to_string(),
        x_title: "s".to_string(),
        curves,
        ..Panel::default()
    };
    let panels = vec![
        panel("Written, MB/s", written),
        panel("Files in L0", over_time("l0_files")),
        panel("Bytes that wait for compaction, MB", over_time("pending_mb")),
    ];
    let sentences = arms.iter().filter_map(|arm| {
        let of = |value: &str| Some(data.summary(&table.id(row, arm), value)?.median);
        Some(format!(
            "{} is off by {:.1} MB/s (RMSE), at worst writes {:.2} of what was asked for, and is \
             stopped for {:.1} s",
            arm.name,
            of("rmse_mb")?,
            of("worst")?,
            of("stopped_s").unwrap_or(0.0)
        ))
    });
    let mut sentence = format!("{}.", sentences.collect::<Vec<_>>().join("; "));
    let found = words::against(table, data, "", "rmse_mb");
    let lost = |one: &&words::Against| {
        arms.iter().any(|arm| arm.name == one.arm) && words::is_loss("rmse_mb", one.ratio.median)
    };
    for one in found.iter().filter(lost) {
        sentence.push_str(&format!(" {} LOSES to {}.", one.arm, one.peer));
    }
    Some(picture(&Figure { width: WIDTH, panel: 110.0, panels }, sentence))
}

/// Latencies by percentile.
fn percentiles(table: &Table, data: &Data) -> Option<Picture> {
    const NAMES: [&str; 5] = ["p50", "p75", "p99", "p99.9", "p99.99"];
    let row = table.rows.first()?;
    let arms: Vec<&Arm> = row.arms.iter().collect();
    let of = |arm: &&Arm| {
        let (colour, dash) = look(&arms, arm);
        let point = |(place, name): (usize, &&str)| {
            let summary = data.summary(&table.id(row, arm), &format!("{name}_us"))?;
            Some(Point { x: place as f64, y: summary.median, low: summary.low, high: summary.high })
        };
        let points = NAMES.iter().enumerate().filter_map(point).collect();
        Curve { name: arm.name.clone(), colour, dash, dots: true, points }
    };
    let curves: Vec<Curve> = arms.iter().map(of).collect();
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return None;
    }
    let panel = Panel {
        title: "Microseconds of a read, by percentile".to_string(),
        x_names: NAMES.map(str::to_string).into(),
        y_scale: Scale::Log,
        curves,
        ..Panel::default()
    };
    let mut sentences = Vec::new();
    for engine in ["RocksDB", "Pumice"] {
        let id = |suffix: &str| {
            format!("{}/{}/{}/{engine}{suffix}", table.section.name(), table.name, row.name)
        };
        let of = |value: &str| data.ratio(&id(", lowered"), &id(""), value);
        if let (Some(middle), Some(tail)) = (of("p50_us"), of("p99.9_us")) {
            sentences.push(format!(
                "Lowering multiplies {engine}'s p50 by {:.2} and its p99.9 by {:.2}",
                middle.median, tail.median
            ));
        }
    }
    let mut sentence = format!("{}.", sentences.join("; "));
    let column = super::plan::column("p99_us", "p99", 1.0, 0);
    let found = words::against(table, data, "", "p99_us");
    sentence.extend(words::compare(&found, &column).map(|text| format!(" {text}")));
    Some(picture(&Figure { width: WIDTH, panel: 220.0, panels: vec![panel] }, sentence))
}
