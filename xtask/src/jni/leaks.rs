//! `--test leaks`: opens and closes, iterators and batches without end: the memory of the process
//! stays where it is, and no thread is left but those of the environment's pools (`Leaks.java`).
//!
//! What grows behind the first half is judged: by then allocators and caches have what they keep.
//!
//! Thread safety: one caller, one process at a time.

use std::path::Path;

use super::harness::{self, Way};
use super::{jars, output};

/// What is repeated, and how often.
pub type Series = [(&'static str, u64); 3];

/// All of it.
pub const FULL: Series = [("opens", 10_000), ("iterators", 1_000_000), ("batches", 1_000_000)];
/// What is run with the project's own tests.
pub const QUICK: Series = [("opens", 400), ("iterators", 100_000), ("batches", 100_000)];

/// The most that memory may grow in the second half of a series: what allocators and the compiler
/// of the virtual machine take.
const GROWN_KIB_MAX: i64 = 12 << 10;

/// Runs each series with our library.
pub fn run(root: &Path, series: Series) -> Result<(), String> {
    let path = [jars::find(root, jars::NEWEST)?, harness::compile(root)?];
    for (what, count) in series {
        let work = harness::work(root, "leaks")?;
        let mut command = Way::Property.java(root, &path)?;
        // One heap of one size, touched before, and few arenas: what grows is ours.
        command.env("MALLOC_ARENA_MAX", "2").arg("-Xms64m").arg("-Xmx64m");
        command.args(["-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=16m"]);
        let text = output(command.arg("Leaks").arg(&work).arg(what).arg(count.to_string()))?;
        let number = |word: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(word))?;
            line.split_whitespace().next()?.parse::<i64>().ok()
        };
        let (grown, threads) = number("grown").zip(number("threads")).ok_or(text.clone())?;
        println!("jni: leaks: {count} {what}: {grown} KiB more at the end, {threads} threads left");
        if grown > GROWN_KIB_MAX || threads != 0 {
            return Err(format!("{what} leave something: at most {GROWN_KIB_MAX} KiB\n{text}"));
        }
    }
    Ok(())
}
