//! How large everything is: from a time and a machine.
//!
//! Pure.

use super::{Arm, Engine};
use crate::report::machine::Machine;

/// How long the report may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// About this many seconds.
    Seconds(u64),
    /// As long as it takes.
    Full,
}

impl TimeLimit {
    /// `10m`, `1h`, `30s`, `full`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<TimeLimit, String> {
        let wrong = || format!("--time: '{text}' is not a time such as 10m, 1h or full");
        if text == "full" {
            return Ok(TimeLimit::Full);
        }
        let unit = match text.chars().last() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            _ => return Err(wrong()),
        };
        let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        if number == 0 || number > 1_000_000 {
            return Err(wrong());
        }
        Ok(TimeLimit::Seconds(number * unit))
    }
}

/// How large everything is.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Keys and operations, as a share of those of the short report.
    pub size: f64,
    /// Rounds of each row.
    pub rounds: u32,
    /// Millions of keys of the growth rows, before `size` where that is below 1.
    pub growth: Vec<u64>,
    /// Time of the sine, as a share of the original's.
    pub sine_time: f64,
    /// Processors.
    pub cpus: usize,
    /// There is a RocksDB library.
    pub rocksdb: bool,
    /// There is a redis-server.
    pub redis: bool,
    /// The other engines are in this program.
    pub others: bool,
    /// Rows that only a longer report has are in it.
    pub long: bool,
}

/// Bytes in memory that a report of size 1 needs for its databases.
const MEMORY_NEED: f64 = 1.5e9;
/// Bytes on disk for each million keys of growth, both engines, with what compactions need.
const DISK_NEED: f64 = 0.8e9;
const SHORT_SECONDS: u64 = 600;

impl Scale {
    /// From a time and a machine; the sentences that say how, and what was left out.
    pub fn of(time: TimeLimit, machine: &Machine) -> (Scale, Vec<String>) {
        let mut notes = Vec::new();
        let (mut size, rounds, mut growth, sine_time, long) = match time {
            TimeLimit::Seconds(s) if s <= SHORT_SECONDS => {
                (s as f64 / SHORT_SECONDS as f64, 1, vec![1, 2, 4], 0.05, false)
            }
            TimeLimit::Seconds(s) => {
                let size = s as f64 / SHORT_SECONDS as f64 / 3.0;
                (size.clamp(0.5, 3.0), 3, vec![1, 4, 16], 0.1, true)
            }
            TimeLimit::Full => (3.0, 5, vec![1, 4, 16, 64], 0.2, true),
        };
        let room = machine.memory_free.min(machine.memory_bytes / 2) as f64;
        if size * MEMORY_NEED > room {
            size = room / MEMORY_NEED;
            notes.push(format!(
                "Databases in memory are smaller than the time allows, since {:.1} GB are free \
                 for them.",
                room / 1e9
            ));
        }
        let fits = |millions: &u64| *millions as f64 * DISK_NEED < machine.disk_free as f64;
        if let Some(large) = growth.iter().position(|millions| !fits(millions)) {
            let dropped: Vec<String> = growth.drain(large..).map(|m| format!("{m} M")).collect();
            notes.push(format!(
                "Growth leaves out {} keys: {:.0} GB are free on the disk.",
                dropped.join(", "),
                machine.disk_free as f64 / 1e9
            ));
        }
        let scale = Scale {
            size,
            rounds,
            growth,
            sine_time,
            cpus: machine.cpus,
            rocksdb: machine.peer.is_some(),
            redis: machine.redis.is_some(),
            others: machine.other_engines,
            long,
        };
        notes.insert(
            0,
            format!(
                "{} round{}; keys and operations are {size:.3} times those of the ten-minute \
                 report.",
                rounds,
                if rounds == 1 { "" } else { "s" }
            ),
        );
        (scale, notes)
    }

    /// A number of keys or operations, at least 64.
    pub fn count(&self, at_one: u64) -> u64 {
        ((at_one as f64 * self.size) as u64).max(64)
    }

    /// Arms that are possible here.
    pub(super) fn possible(&self, arms: Vec<Arm>) -> Vec<Arm> {
        let has = |arm: &Arm| match arm.work.engine() {
            Engine::Pumice => true,
            Engine::RocksDb => self.rocksdb,
            Engine::Redis => self.redis,
            Engine::Fjall | Engine::Redb => self.others,
        };
        arms.into_iter().filter(has).collect()
    }
}
