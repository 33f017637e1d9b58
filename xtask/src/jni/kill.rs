//! `--kill N`: a virtual machine that writes is killed N times in each of two modes, and what is
//! there afterwards must be what its writes say (`Kill.java`).
//!
//! Each life checks what the one before it left, says how many writes that were, and goes on. It is
//! killed behind a number of lines that a seed gives, not a time. The last look is RocksDB's.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::harness::{self, Way};
use super::{jars, output};

/// The variable that names another seed.
const SEED: &str = "PUMICE_JNI_SEED";
/// The most lines (of 500 writes) that a life prints before it is killed.
const LINES_MAX: u64 = 12;

/// Kills the JVM `kills` times in each mode.
pub fn run(root: &Path, kills: u64) -> Result<(), String> {
    harness::compile(root)?;
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for mode in ["kafka", "wal"] {
        series(root, mode, kills, seed).map_err(|e| format!("{mode}, {SEED}={seed}: {e}"))?;
    }
    Ok(())
}

/// The classes that a life needs.
fn path(root: &Path) -> Result<Vec<PathBuf>, String> {
    Ok(vec![jars::find(root, jars::NEWEST)?, harness::compile(root)?])
}

fn series(root: &Path, mode: &str, kills: u64, seed: u64) -> Result<(), String> {
    let (database, path) = (harness::work(root, mode)?, path(root)?);
    let mut state = seed;
    let mut told = 0;
    let mut lost = 0;
    for kill in 0..kills {
        let lines = 1 + draw(&mut state) % LINES_MAX;
        let mut command = Way::Property.java(root, &path)?;
        command.args(["Kill", mode]).arg(&database).arg("write");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| format!("java: {e}"))?;
        let life = life(&mut child, lines);
        // The check failed if it ended by itself.
        let (found, done) = life.map_err(|e| format!("life {kill}: {e}"))?;
        check(mode, kill, told, found)?;
        lost += told.saturating_sub(found);
        told = done;
    }
    let mut command = Way::Theirs.java(root, &path)?;
    command.args(["Kill", mode]).arg(&database).arg("check");
    let text = output(&mut command)?;
    let found = number(&text, "found").ok_or(text)?;
    check(mode, kills, told, found)?;
    if found == 0 {
        return Err("nothing was ever there: the kills show nothing".to_string());
    }
    println!(
        "jni: {mode}: {kills} kills, {found} writes at the end, {lost} done again, seed {seed}"
    );
    Ok(())
}

/// With a WAL all that was told is there; a life may have done up to a line more.
fn check(mode: &str, kill: u64, told: u64, found: u64) -> Result<(), String> {
    if mode == "wal" && found < told {
        return Err(format!("life {kill}: {told} writes were done, {found} are there"));
    }
    Ok(())
}

/// One life until it is killed: the writes that it found, and those that it said were done.
fn life(child: &mut Child, lines: u64) -> Result<(u64, u64), String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let mut reader = BufReader::new(stdout).lines();
    let mut next = |name: &str| {
        let line = reader.next().and_then(Result::ok).unwrap_or_default();
        number(&line, name).ok_or_else(|| format!("it ended, or said: {line:?}"))
    };
    let told = next("found").and_then(|found| {
        let mut done = found;
        for _ in 0..lines {
            done = next("done")?;
        }
        Ok((found, done))
    });
    child.kill().and_then(|()| child.wait()).map_err(|e| format!("java: {e}"))?;
    told
}

/// The number behind a word.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].trim().parse().ok()
}

/// The next number of a sequence (splitmix64).
pub fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
