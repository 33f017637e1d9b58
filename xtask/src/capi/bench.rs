//! `cargo xtask capi --bench`: what calls of the C interface take, on our library and on RocksDB's.
//!
//! `crates/capi/benches/c/bench.c` is compiled once and run with each library in turn, by
//! `LD_LIBRARY_PATH`, so that a disturbance meets all of them. A row of the result has the median
//! of the rounds for each library, and how many times as fast ours is; more than 1 is faster, for
//! the rows of memory smaller.
//!
//! | argument | |
//! |---|---|
//! | `--rounds N` | runs with each library, 5 by default |
//! | `--operations N` | calls of a row, 400,000 by default |
//! | `--cpu` | compares processor time, background work included, instead of the clock |
//!
//! The libraries: ours from `target/capi` (`cargo xtask capi`), RocksDB 11.8.1's of Maven, and the
//! one that `cargo xtask peers --native` built, if it is there.
//!
//! Thread safety: one command at a time in a folder of build output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clients::library::{self, check};

/// Rows of the result in the program's order, and the figures of each.
type Figures = BTreeMap<String, Vec<f64>>;

struct Wanted {
    rounds: usize,
    operations: u64,
    is_cpu: bool,
}

struct Side {
    name: &'static str,
    folder: PathBuf,
    figures: Figures,
}

/// Runs the rounds and prints the rows.
pub fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let wanted = parse(args)?;
    let folder = root.join("target/capi-bench");
    library::scratch(&folder)?;
    let own = library::find(root, None)?;
    let program = folder.join("bench");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    compile.arg(root.join("crates/capi/benches/c/bench.c"));
    compile.arg("-I").arg(own.include.join("rocksdb")).arg("-L").arg(&own.lib).arg("-lrocksdb");
    check(&mut compile)?;
    let mut sides = sides(root, &folder, own.lib)?;
    let mut order = Vec::new();
    for round in 1..=wanted.rounds {
        for side in &mut sides {
            let data = folder.join("data");
            library::scratch(&data)?;
            order = round_of(&program, side, &data, wanted.operations)?;
            println!("round {round} of {}: {}", wanted.rounds, side.name);
        }
    }
    print!("{}", table(&order, &sides, wanted.is_cpu));
    Ok(())
}

fn parse(args: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted { rounds: 5, operations: 400_000, is_cpu: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || {
            let text = args.next().ok_or(format!("{arg} has no value"))?;
            text.parse::<u64>().ok().filter(|n| *n > 0).ok_or(format!("{arg} {text}: no number"))
        };
        match *arg {
            "--rounds" => wanted.rounds = value()? as usize,
            "--operations" => wanted.operations = value()?,
            "--cpu" => wanted.is_cpu = true,
            _ => return Err(format!("unknown argument {arg} of --bench")),
        }
    }
    Ok(wanted)
}

/// A folder for each library, in which the loader finds it.
fn sides(root: &Path, folder: &Path, own: PathBuf) -> Result<Vec<Side>, String> {
    let mut sides = vec![Side { name: "Pumice", folder: own, figures: Figures::new() }];
    let peers = [("11.8.1", crate::peers::NEWER_LIBRARY), ("native", crate::native::LIBRARY)];
    for (name, file) in peers {
        let file = root.join(".peers").join(file);
        if !file.is_file() {
            println!("without {name}: there is no {}", file.display());
            continue;
        }
        let place = folder.join(name);
        library::scratch(&place)?;
        for link in ["librocksdb.so", "librocksdb.so.11"] {
            std::os::unix::fs::symlink(&file, place.join(link))
                .map_err(|e| format!("{}: {e}", place.display()))?;
        }
        sides.push(Side { name, folder: place, figures: Figures::new() });
    }
    if sides.len() == 1 {
        return Err("nothing to compare with: cargo xtask peers".to_string());
    }
    Ok(sides)
}

/// One run of the program; its rows in their order.
fn round_of(
    program: &Path,
    side: &mut Side,
    data: &Path,
    operations: u64,
) -> Result<Vec<String>, String> {
    let mut command = Command::new(program);
    command.arg(data).arg(operations.to_string()).env("LD_LIBRARY_PATH", &side.folder);
    let output = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
    fs::remove_dir_all(data).ok();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} on {}: {}\n{errors}", program.display(), side.name, output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut order = Vec::new();
    for line in text.lines() {
        let figure = line.split_once(' ').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        let (name, figure) = figure.ok_or(format!("{}: {line}", program.display()))?;
        side.figures.entry(name.to_string()).or_default().push(figure);
        order.push(name.to_string());
    }
    Ok(order)
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The rows: figures of each side, and how many times each other's is ours.
fn table(order: &[String], sides: &[Side], is_cpu: bool) -> String {
    let unit = if is_cpu { "ns of processor time" } else { "ns" };
    let mut text = format!("{:<28}", format!("row ({unit})"));
    for side in sides {
        text.push_str(&format!("{:>12}", side.name));
    }
    for side in &sides[1..] {
        text.push_str(&format!("{:>12}", format!("/ {}", side.name)));
    }
    text.push('\n');
    let rows =
        order.iter().filter(|row| row.starts_with("memory") || row.ends_with(".cpu") == is_cpu);
    for row in rows {
        let figures: Vec<f64> = sides.iter().map(|side| median(&side.figures[row])).collect();
        text.push_str(&format!("{:<28}", row.trim_end_matches(".cpu")));
        for figure in &figures {
            text.push_str(&format!("{figure:>12.1}"));
        }
        for other in &figures[1..] {
            text.push_str(&format!("{:>12.2}", other / figures[0]));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_and_ratios() {
        let side = |name, figures: &[f64]| Side {
            name,
            folder: PathBuf::new(),
            figures: [("get".to_string(), figures.to_vec()), ("get.cpu".to_string(), vec![1.0])]
                .into(),
        };
        let sides = [side("a", &[90.0, 100.0, 500.0]), side("b", &[250.0, 1.0, 260.0])];
        let order = ["get".to_string(), "get.cpu".to_string()];
        let text = table(&order, &sides, false);
        assert_eq!(text.lines().count(), 2);
        let row: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row, ["get", "100.0", "250.0", "2.50"]);
    }
}
