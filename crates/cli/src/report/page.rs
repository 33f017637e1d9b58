//! The page: one HTML file with everything in it, readable on a telephone, light and dark.
//!
//! Thread safety: pure functions. It computes nothing but medians, spreads, ratios and their means;
//! every figure comes from the raw data next to it.

use super::data::{Data, Summary};
use super::limits::Distance;
use super::machine::Machine;
use super::originals::{self, Original};
use super::plan::{Arm, Clock, Column, Engine, Plan, Row, Section, Table};
use super::{figures, limits, overview, run, words};
use crate::plot::{STYLE, escaped};
use pumice_port::time::local_time;
use std::collections::BTreeSet;
use std::fmt::Write;

const CSS: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}main{max-width:1440px;margin:0 auto;padding:0 16px 60px}\
h1{font-size:26px;margin:24px 0 4px}h2{font-size:21px;margin:44px 0 6px;padding-top:10px;\
border-top:1px solid var(--faint)}h3{font-size:16px;margin:26px 0 4px}\
p{margin:6px 0;max-width:80ch}\
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:12px 0}a{color:var(--c0)}\
.soft,small{color:var(--soft)}.warn{border-left:3px solid var(--c1);padding-left:10px}\
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));\
gap:18px 26px;margin:12px 0}figure{margin:0;min-width:0}figure svg{width:100%;height:auto;\
display:block;max-width:520px}figcaption{font-size:13.5px;line-height:1.4;margin-top:2px}\
.scroll{overflow-x:auto;margin:8px 0}table{border-collapse:collapse;font-size:13.5px}\
th,td{padding:3px 10px 3px 0;text-align:right;white-space:nowrap;vertical-align:top;\
font-variant-numeric:tabular-nums}th{color:var(--soft);font-weight:500;\
white-space:normal;min-width:58px;max-width:120px;vertical-align:bottom}th.l,td.l{text-align:left}\
tr.first>*{border-top:1px solid var(--faint)}td.l.row{white-space:normal;min-width:110px}\
.bad{color:var(--c1);font-weight:600}.good{color:var(--c2)}details{margin:8px 0}\
summary{cursor:pointer;color:var(--c0)}code,pre{font:12px/1.5 ui-monospace,monospace}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:6px 0}li{max-width:90ch}";

/// What the page is made of.
pub struct Page<'a> {
    /// What was to be measured.
    pub plan: &'a Plan,
    /// Where.
    pub machine: &'a Machine,
    /// What was measured.
    pub data: &'a Data,
    /// What failed.
    pub failures: &'a [String],
    /// The command that makes it again.
    pub command: &'a str,
    /// The commit, if it is known.
    pub commit: &'a str,
}

impl Page<'_> {
    /// The HTML.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>Pumice compared with RocksDB</title>\
             <style>{STYLE}{CSS}</style></head>\n<body><main>\n"
        );
        self.head(&mut out);
        self.overview(&mut out);
        for section in Section::ALL {
            self.section(&mut out, section);
        }
        out.push_str("</main></body></html>\n");
        out
    }

    fn head(&self, out: &mut String) {
        let (machine, scale) = (self.machine, &self.plan.scale);
        let peer = machine
            .peer
            .as_ref()
            .map_or("no RocksDB".to_string(), |peer| format!("RocksDB {}", peer.version));
        add(out, format_args!("<h1>Pumice compared with {}</h1>\n", escaped(&peer)));
        let lines = [
            format!(
                "{} processors ({}), {:.0} GB of memory, Linux {}, disk: {}.",
                machine.cpus,
                machine.model,
                machine.memory_bytes as f64 / 1e9,
                machine.kernel,
                machine.disk
            ),
            format!(
                "{}, commit {}{}; {}.",
                self.programs(),
                self.commit,
                machine.redis.as_ref().map_or(String::new(), |v| format!("; redis-server {v}")),
                self.dates()
            ),
        ];
        lines
            .iter()
            .for_each(|line| add(out, format_args!("<p class=\"soft\">{}</p>\n", escaped(line))));
        self.first_charts(out);
        for note in machine.peer.iter().flat_map(|peer| peer.handicaps()) {
            add(out, format_args!("<p class=\"warn\">{}</p>\n", escaped(&note)));
        }
        if scale.rounds == 1 {
            out.push_str(
                "<p class=\"warn\">One round: there is no spread, so differences below about a \
                 quarter say nothing.</p>\n",
            );
        }
        add(out, format_args!("<pre>{}</pre>\n<nav>", escaped(self.command)));
        for section in Section::ALL {
            let name = section.name();
            add(out, format_args!("<a href=\"#{name}\">{}</a>", heading(section)));
        }
        out.push_str(
            "</nav>\n<details><summary>How it was measured, and what was left out</summary><ul>\n",
        );
        let rules = [
            "The same driver, keys, values and clocks for both engines; arms of a row follow each \
             other, every other round backwards; no run is left out, and the best of several is \
             never taken.",
            "A figure is the median of the rounds, with the least and the most after it; ± is \
             half of the 95 % confidence interval of the mean; ≈ marks a spread above a quarter \
             of the median.",
            "CPU s is user and system time of the whole process, opening and closing included; \
             ratios are taken round by round and stand after \"×\".",
            "↑ marks a column in which more is better, ↓ one in which less is; ratios above 1 \
             are wins in the first and losses in the second.",
            "MEMORY is a folder on tmpfs, DISK one on the disk named above, LIBRARY the library.",
        ];
        let notes = rules.iter().map(|rule| (*rule).to_string()).chain(self.plan.scaled.clone());
        notes.for_each(|text| add(out, format_args!("<li>{}</li>\n", escaped(&text))));
        for text in &self.plan.left_out {
            add(out, format_args!("<li>Left out: {}.</li>\n", escaped(text)));
        }
        for text in self.failures {
            add(out, format_args!("<li class=\"bad\">Failed: {}</li>\n", escaped(text)));
        }
        out.push_str("</ul></details>\n");
    }

    /// A line for each table: which engine is ahead.
    fn overview(&self, out: &mut String) {
        let lines = overview::of(self.plan, self.data);
        if lines.is_empty() {
            return;
        }
        out.push_str(
            "<h2 id=\"overview\">Pumice over RocksDB</h2>\n<p class=\"soft\">Geometric means of \
             the ratios of each table below, and how many of them are losses.</p>\n\
             <div class=\"scroll\"><table><tr><th class=\"l\">table</th>\
             <th class=\"l\">ratio of</th><th>rows</th><th>mean</th><th>losses</th>\
             <th>CPU, mean ↓</th><th>losses</th></tr>\n",
        );
        for line in &lines {
            let (section, title) = (line.section.name(), escaped(&line.title));
            let (measure, count) = (headed(line.measure, line.value), line.first.count);
            add(
                out,
                format_args!(
                    "<tr class=\"first\"><td class=\"l row\">\
                     <a href=\"#{section}\">{title}</a></td>\
                     <td class=\"l\">{measure}</td><td>{count}</td>{}{}</tr>\n",
                    means_cells(Some(line.first)),
                    means_cells(line.cpu)
                ),
            );
        }
        out.push_str("</table></div>\n");
    }

    /// The charts of the core tables, which say most: in the first screen.
    fn first_charts(&self, out: &mut String) {
        let core = self.plan.tables.iter().filter(|table| table.section == Section::Core);
        let charts: Vec<_> = core
            .filter_map(|table| figures::of(self.plan, table, self.data).into_iter().next())
            .collect();
        if charts.is_empty() {
            return;
        }
        out.push_str("<div class=\"figures\">\n");
        for chart in charts {
            add(out, format_args!("<figure>{}</figure>\n", chart.inside));
        }
        out.push_str("</div>\n");
    }

    /// What was measured, which need not be the program that draws the page.
    fn programs(&self) -> String {
        let all = self.data.all().filter_map(|run| run.build.split(';').next());
        let all: BTreeSet<&str> = all.collect();
        match all.is_empty() {
            true => self.machine.program.clone(),
            false => all.into_iter().collect::<Vec<_>>().join(", "),
        }
    }

    fn dates(&self) -> String {
        let day = |seconds: u64| {
            let time = local_time(seconds);
            format!("{}-{:02}-{:02}", time.year, time.month, time.day)
        };
        let times = || self.data.all().map(|run| run.at).filter(|at| *at > 0);
        match (times().min(), times().max()) {
            (Some(first), Some(last)) if day(first) != day(last) => {
                format!("{} to {}", day(first), day(last))
            }
            (_, Some(last)) => day(last),
            _ => "nothing has been run".to_string(),
        }
    }

    fn section(&self, out: &mut String, section: Section) {
        let name = section.name();
        add(out, format_args!("<h2 id=\"{name}\">{}</h2>\n", heading(section)));
        let (text, tables) = originals::of(section);
        add(out, format_args!("<p>{}</p>\n", escaped(text)));
        for original in tables {
            published(out, original);
        }
        for table in self.plan.tables.iter().filter(|table| table.section == section) {
            self.table(out, table);
        }
        if section == Section::Core {
            self.distances(out);
        }
    }

    /// What no engine can avoid, and what was taken.
    fn distances(&self, out: &mut String) {
        let all = limits::of(self.plan, self.data);
        let Some(sentence) = limits::sentence(&all) else { return };
        out.push_str("<h3 id=\"limits\">Distance to the limit</h3>\n");
        let note = "What no engine can avoid for an operation, from the baselines above, and the \
                    share that it is of the CPU (of the time that passes, where it waits for the \
                    device) that an operation took, the driver's own work included. Checksums, \
                    comparisons and background work are not in the limit, so rows compare with \
                    each other and none reaches 100 %; a share above that says that the baseline \
                    was disturbed.";
        add(out, format_args!("<p class=\"soft\">{note}</p>\n<p>{}</p>\n", escaped(&sentence)));
        out.push_str("<div class=\"scroll\"><table><tr><th class=\"l\">row</th><th>limit, us</th>");
        for engine in Engine::BOTH {
            add(out, format_args!("<th>{}, us</th><th>share</th>", engine.name()));
        }
        out.push_str("<th class=\"l\">of</th><th class=\"l\">cannot be avoided</th></tr>\n");
        for one in &all {
            distance(out, one);
        }
        out.push_str("</table></div>\n");
    }

    fn table(&self, out: &mut String, table: &Table) {
        let measured = |row: &Row, arm: &Arm| self.data.runs(&table.id(row, arm)).next().is_some();
        add(out, format_args!("<h3>{}</h3>\n", escaped(&table.title)));
        if !table.note.is_empty() {
            add(out, format_args!("<p class=\"soft\">{}</p>\n", escaped(&table.note)));
        }
        if !table.rows.iter().any(|row| row.arms.iter().any(|arm| measured(row, arm))) {
            let name = table.section.name();
            add(out, format_args!("<p class=\"warn\">Not run: --only {name} runs it.</p>\n"));
            return;
        }
        let pictures = figures::of(self.plan, table, self.data);
        if !pictures.is_empty() {
            out.push_str("<div class=\"figures\">\n");
            for picture in pictures {
                let sentence = marked(&picture.sentence);
                add(
                    out,
                    format_args!(
                        "<figure>{}<figcaption>{sentence}</figcaption></figure>\n",
                        picture.inside
                    ),
                );
            }
            out.push_str("</div>\n");
        }
        self.numbers(out, table);
        self.commands(out, table);
    }

    fn numbers(&self, out: &mut String, table: &Table) {
        out.push_str(
            "<div class=\"scroll\"><table><tr><th class=\"l\">row</th><th class=\"l\"></th>",
        );
        let (columns, ratios) =
            (self.measured(table, &table.columns), self.measured(table, &table.ratios));
        for column in &columns {
            add(out, format_args!("<th>{}</th>", headed(column.title, column.value)));
        }
        for column in &ratios {
            let title = format!("{} ×", column.title);
            add(out, format_args!("<th>{}</th>", headed(&title, column.value)));
        }
        out.push_str("</tr>\n");
        for row in &table.rows {
            for (number, arm) in row.arms.iter().enumerate() {
                let (class, name) = match number {
                    0 => (" class=\"first\"", row_name(row)),
                    _ => ("", String::new()),
                };
                let arm_name = escaped(&arm.name);
                add(out, format_args!("<tr{class}>{name}<td class=\"l\">{arm_name}</td>"));
                let id = table.id(row, arm);
                for column in &columns {
                    out.push_str(&cell(self.data.summary(&id, column.value), column));
                }
                for column in &ratios {
                    let peer = row.arms.iter().find(|other| Some(&other.name) == arm.peer.as_ref());
                    let ratio =
                        peer.and_then(|p| self.data.ratio(&id, &table.id(row, p), column.value));
                    out.push_str(&ratio_cell(ratio, column));
                }
                out.push_str("</tr>\n");
            }
        }
        out.push_str("</table></div>\n");
    }

    /// Those of the columns that have a value: runs of an earlier program may lack some.
    fn measured(&self, table: &Table, columns: &[Column]) -> Vec<Column> {
        let ids = || table.rows.iter().flat_map(|row| row.arms.iter().map(|a| table.id(row, a)));
        let is_there =
            |column: &&Column| ids().any(|id| self.data.summary(&id, column.value).is_some());
        columns.iter().filter(is_there).copied().collect()
    }

    fn commands(&self, out: &mut String, table: &Table) {
        out.push_str("<details><summary>Commands</summary>\n");
        for bench in &table.prepare {
            let work = super::plan::Work::Bench(bench.clone());
            add(out, format_args!("<pre>{}</pre>\n", escaped(&run::command(&work, 1))));
        }
        for row in &table.rows {
            for arm in &row.arms {
                let command = run::command(&arm.work, 1);
                add(
                    out,
                    format_args!(
                        "<pre># {}, {}\n{}</pre>\n",
                        escaped(&row.name),
                        escaped(&arm.name),
                        escaped(&command)
                    ),
                );
            }
        }
        out.push_str("</details>\n");
    }
}

/// A line of the distances.
fn distance(out: &mut String, one: &Distance) {
    let micros = |number: f64| match number {
        small if small < 1.0 => number_text(small, 3),
        middle if middle < 100.0 => number_text(middle, 2),
        large => number_text(large, 0),
    };
    let (row, floor) = (escaped(&one.row), micros(one.floor));
    add(out, format_args!("<tr class=\"first\"><td class=\"l row\">{row}</td><td>{floor}</td>"));
    for (took, share) in one.took.iter().zip(one.shares()) {
        let took = took.map_or(String::new(), micros);
        let share = share.map_or(String::new(), limits::percent);
        add(out, format_args!("<td>{took}</td><td>{share}</td>"));
    }
    let clock = if one.clock == Clock::Wall { "time" } else { "CPU" };
    let costs = escaped(&one.costs);
    add(out, format_args!("<td class=\"l\">{clock}</td><td class=\"l\">{costs}</td></tr>\n"));
}

/// The mean and the losses.
fn means_cells(means: Option<overview::Means>) -> String {
    let Some(means) = means else { return "<td></td><td></td>".to_string() };
    let class = if means.losses > 0 { "bad" } else { "good" };
    format!("<td>{:.2}</td><td class=\"{class}\">{}</td>", means.mean, means.losses)
}

/// The head of a column, with the direction that is better.
fn headed(title: &str, value: &str) -> String {
    let mark = if words::more_is_better(value) { '↑' } else { '↓' };
    format!("{} {mark}", escaped(title))
}

/// The cell next to all arms of a row.
fn row_name(row: &Row) -> String {
    let (arms, name) = (row.arms.len(), escaped(&row.name));
    format!("<td class=\"l row\" rowspan=\"{arms}\">{name}</td>")
}

fn heading(section: Section) -> &'static str {
    match section {
        Section::Compression => "Parallel compression",
        Section::Control => "Background work that steers itself",
        Section::Filters => "Filters",
        Section::Priorities => "Priorities",
        Section::Coroutines => "Fibers",
        Section::Server => "The server",
        Section::Core => "Core",
        Section::Engines => "Other engines",
        Section::Growth => "Growth",
    }
}

/// A sentence with its losses set off.
fn marked(sentence: &str) -> String {
    escaped(sentence).replace("LOSES", "<b class=\"bad\">loses</b>")
}

fn published(out: &mut String, original: &Original) {
    add(
        out,
        format_args!(
            "<details><summary>As published: {}</summary><div class=\"scroll\"><table>",
            escaped(original.title)
        ),
    );
    for (number, line) in original.lines.lines().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        for (place, text) in line.split('|').enumerate() {
            let class = if place == 0 { " class=\"l\"" } else { "" };
            add(out, format_args!("<{tag}{class}>{}</{tag}>", escaped(text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
}

fn cell(summary: Option<Summary>, column: &Column) -> String {
    let Some(summary) = summary else { return "<td></td>".to_string() };
    let show = |number: f64| number_text(number / column.unit, column.digits);
    let noisy = if summary.is_noisy() { "≈ " } else { "" };
    let spread = match summary.count {
        1 => String::new(),
        _ => format!(
            " <small>{}–{}, ±{}</small>",
            show(summary.low),
            show(summary.high),
            show(summary.half_interval)
        ),
    };
    format!("<td>{noisy}{}{spread}</td>", show(summary.median))
}

fn ratio_cell(ratio: Option<Summary>, column: &Column) -> String {
    let Some(ratio) = ratio else { return "<td></td>".to_string() };
    let class = if words::is_loss(column.value, ratio.median) { "bad" } else { "good" };
    let spread = match ratio.count {
        1 => String::new(),
        _ => format!(
            " <small>{:.2}–{:.2}, ±{:.2}</small>",
            ratio.low, ratio.high, ratio.half_interval
        ),
    };
    let noisy = if ratio.is_noisy() { "≈ " } else { "" };
    format!("<td class=\"{class}\">{noisy}{:.2}{spread}</td>", ratio.median)
}

/// `1,234,567` or `1.25`.
fn number_text(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if place > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes all.
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plan::{CPU, RATE};

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn cells_have_spread_noise_and_losses() {
        assert_eq!(number_text(1_234_567.4, 0), "1,234,567");
        assert_eq!(
            (number_text(999.0, 0), number_text(-1000.25, 2)),
            ("999".into(), "-1,000.25".into())
        );
        assert_eq!(cell(Summary::of(&[1500.0]), &RATE), "<td>1,500</td>");
        let noisy = cell(Summary::of(&[1000.0, 2000.0]), &RATE);
        assert!(noisy.starts_with("<td>≈ 1,500 <small>1,000–2,000, ±"), "{noisy}");
        assert_eq!(cell(None, &RATE), "<td></td>");
        assert!(ratio_cell(Summary::of(&[0.9]), &RATE).contains("bad"));
        assert!(ratio_cell(Summary::of(&[0.9]), &CPU).contains("good"));
        assert_eq!(
            (headed("a&b", "ops_per_sec"), headed("CPU", "process_cpu_s")),
            ("a&amp;b ↑".into(), "CPU ↓".into())
        );
        assert_eq!(marked("a < b LOSES"), "a &lt; b <b class=\"bad\">loses</b>");
    }

    // Plain #[test]: see above.
    #[test]
    fn published_tables_are_whole() {
        for section in Section::ALL {
            for original in originals::of(section).1 {
                let cells = |line: &str| line.split('|').count();
                let first = original.lines.lines().next().map(cells);
                let equal = original.lines.lines().all(|line| Some(cells(line)) == first);
                assert!(equal, "{}", original.title);
            }
        }
    }
}
