//! The plan: from a machine and a budget to experiments with their exact commands.
//!
//! Pure: it looks at nothing but its arguments, so the same machine and budget give the same plan,
//! which is what makes an interrupted report resumable. It says how it was scaled and what was left
//! out.
//!
//! Names: a section has tables, a table has rows, a row has arms, which do the same work in
//! different ways. Arms of a row are run one after the other, every other round backwards.

mod compression;
mod control;
mod core_rows;
mod coroutines;
mod filters;
mod growth;
mod priorities;
mod server;
#[cfg(test)]
mod tests;

pub use control::{SINE_ROW, commanded};

use super::machine::Machine;

/// A part of the report, by the name that `--only` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Parallel compression.
    Compression,
    /// Background work that steers itself.
    Control,
    /// Filters.
    Filters,
    /// Priorities of background threads.
    Priorities,
    /// Fibers.
    Coroutines,
    /// The server.
    Server,
    /// The core table.
    Core,
    /// Cost against size.
    Growth,
}

impl Section {
    /// All, in the order of the page.
    pub const ALL: [Section; 8] = [
        Section::Compression,
        Section::Control,
        Section::Filters,
        Section::Priorities,
        Section::Coroutines,
        Section::Server,
        Section::Core,
        Section::Growth,
    ];

    /// The word of `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Section::Compression => "compression",
            Section::Control => "control",
            Section::Filters => "filters",
            Section::Priorities => "priorities",
            Section::Coroutines => "coroutines",
            Section::Server => "server",
            Section::Core => "core",
            Section::Growth => "growth",
        }
    }
}

/// How long the report may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// About so many seconds.
    Seconds(u64),
    /// As long as it takes.
    Full,
}

impl Budget {
    /// `10m`, `1h`, `30s`, `full`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Budget, String> {
        let wrong = || format!("--budget: '{text}' is no time such as 10m, 1h or full");
        if text == "full" {
            return Ok(Budget::Full);
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
        Ok(Budget::Seconds(number * unit))
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
    /// Rows that only a longer report has are in it.
    pub long: bool,
}

/// Bytes in memory that a report of size 1 needs for its databases.
const MEMORY_NEED: f64 = 1.5e9;
/// Bytes on disk for each million keys of growth, both engines, with what compactions need.
const DISK_NEED: f64 = 0.8e9;
const SHORT_SECONDS: u64 = 600;

impl Scale {
    /// From a budget and a machine; the sentences that say how, and what was left out.
    pub fn of(budget: Budget, machine: &Machine) -> (Scale, Vec<String>) {
        let mut said = Vec::new();
        let (mut size, rounds, mut growth, sine_time, long) = match budget {
            Budget::Seconds(s) if s <= SHORT_SECONDS => {
                (s as f64 / SHORT_SECONDS as f64, 1, vec![1, 2, 4], 0.05, false)
            }
            Budget::Seconds(s) => {
                let size = s as f64 / SHORT_SECONDS as f64 / 3.0;
                (size.clamp(0.5, 3.0), 3, vec![1, 4, 16], 0.1, true)
            }
            Budget::Full => (3.0, 5, vec![1, 4, 16, 64], 0.2, true),
        };
        let room = machine.memory_free.min(machine.memory_bytes / 2) as f64;
        if size * MEMORY_NEED > room {
            size = room / MEMORY_NEED;
            said.push(format!(
                "Databases in memory are smaller than the budget allows, since {:.1} GB are free \
                 for them.",
                room / 1e9
            ));
        }
        let fits = |millions: &u64| *millions as f64 * DISK_NEED < machine.disk_free as f64;
        if let Some(large) = growth.iter().position(|millions| !fits(millions)) {
            let dropped: Vec<String> = growth.drain(large..).map(|m| format!("{m} M")).collect();
            said.push(format!(
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
            long,
        };
        said.insert(
            0,
            format!(
                "{} round{}; keys and operations are {size:.3} times those of the ten-minute \
                 report.",
                rounds,
                if rounds == 1 { "" } else { "s" }
            ),
        );
        (scale, said)
    }

    /// A number of keys or operations, at least 64.
    pub fn count(&self, at_one: u64) -> u64 {
        ((at_one as f64 * self.size) as u64).max(64)
    }

    /// Arms that can be had here.
    fn possible(&self, arms: Vec<Arm>) -> Vec<Arm> {
        let has = |arm: &Arm| match arm.work.engine() {
            Engine::Pumice => true,
            Engine::RocksDb => self.rocksdb,
            Engine::Redis => self.redis,
        };
        arms.into_iter().filter(has).collect()
    }
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Ours.
    Pumice,
    /// The library.
    RocksDb,
    /// redis-server.
    Redis,
}

impl Engine {
    /// Those of db_bench, the peer first.
    pub const BOTH: [Engine; 2] = [Engine::RocksDb, Engine::Pumice];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Pumice => "Pumice",
            Engine::RocksDb => "RocksDB",
            Engine::Redis => "redis-server",
        }
    }
}

/// Where a database lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On tmpfs.
    Memory,
    /// On a disk.
    Disk,
}

/// One db_bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    /// Which engine.
    pub engine: Engine,
    /// Where its database is.
    pub place: Place,
    /// Its folder, below that of the place.
    pub db: String,
    /// The database that is copied there first.
    pub copy_of: Option<String>,
    /// The database stays for the next.
    pub keep: bool,
    /// Pages of the database are dropped from the page cache first.
    pub cold: bool,
    /// The list of benchmarks.
    pub benchmarks: String,
    /// The one that is measured; the last one when empty.
    pub measure: &'static str,
    /// The other flags.
    pub flags: Vec<String>,
    /// Bytes of key and value that an operation writes or reads.
    pub user_bytes: f64,
}

impl Bench {
    /// A benchmark on a database in memory that is made by it and goes afterwards.
    pub fn new(engine: Engine, benchmarks: &str, flags: &str) -> Bench {
        Bench {
            engine,
            place: Place::Memory,
            db: format!("db-{}", engine.name()),
            copy_of: None,
            keep: false,
            cold: false,
            benchmarks: benchmarks.to_string(),
            measure: "",
            flags: flags.split_whitespace().map(str::to_string).collect(),
            user_bytes: 116.0,
        }
    }

    /// With more flags.
    pub fn with(mut self, flags: &str) -> Bench {
        self.flags.extend(flags.split_whitespace().map(str::to_string));
        self
    }

    /// On the disk.
    pub fn on_disk(mut self) -> Bench {
        self.place = Place::Disk;
        self
    }

    /// On the database of that name, which stays.
    pub fn on(mut self, db: &str) -> Bench {
        self.db = format!("{db}-{}", self.engine.name());
        self.keep = true;
        self
    }

    /// On a copy of the database of that name.
    pub fn on_copy(mut self, db: &str) -> Bench {
        self.copy_of = Some(format!("{db}-{}", self.engine.name()));
        self
    }

    /// With the pages of its database dropped first.
    pub fn cold(mut self) -> Bench {
        self.cold = true;
        self
    }

    /// Operations of so many bytes of key and value.
    pub fn of_bytes(mut self, bytes: u64) -> Bench {
        self.user_bytes = bytes as f64;
        self
    }

    /// With another benchmark measured than the last one.
    pub fn measuring(mut self, benchmark: &'static str) -> Bench {
        self.measure = benchmark;
        self
    }

    /// The benchmark whose result counts.
    pub fn measured(&self) -> &str {
        if !self.measure.is_empty() {
            return self.measure;
        }
        let last = self.benchmarks.rsplit(',').next().unwrap_or_default();
        last.split('[').next().unwrap_or_default()
    }
}

/// A server under load.
#[derive(Clone, Debug, PartialEq)]
pub struct Serve {
    /// Whose.
    pub engine: Engine,
    /// Flags of `pumice serve`.
    pub flags: Vec<String>,
    /// `set`, `get`.
    pub test: &'static str,
    /// Connections.
    pub clients: u64,
    /// Keys that there are.
    pub keys: u64,
    /// Of the measured load.
    pub seconds: f64,
}

/// What an arm does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// One db_bench.
    Bench(Bench),
    /// So many of it at once, each on a database of its own.
    Jobs(Bench, usize),
    /// A server and its client.
    Serve(Serve),
}

impl Work {
    /// Whose work it is.
    pub fn engine(&self) -> Engine {
        match self {
            Work::Bench(bench) | Work::Jobs(bench, _) => bench.engine,
            Work::Serve(serve) => serve.engine,
        }
    }
}

/// One way to do the work of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// The arm of the row that ratios are taken to.
    pub peer: Option<String>,
    /// What it does.
    pub work: Work,
}

impl Arm {
    /// An arm with the engine's name; Pumice's is compared with RocksDB's.
    pub fn plain(bench: Bench) -> Arm {
        let peer = (bench.engine == Engine::Pumice).then(|| "RocksDB".to_string());
        Arm { name: bench.engine.name().to_string(), peer, work: Work::Bench(bench) }
    }

    /// An arm with a name, compared with another.
    pub fn named(name: &str, peer: Option<&str>, work: Work) -> Arm {
        Arm { name: name.to_string(), peer: peer.map(str::to_string), work }
    }
}

/// The same work in several ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its place in a plot.
    pub x: f64,
    /// The ways.
    pub arms: Vec<Arm>,
}

/// What a column of a table shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The name of the value.
    pub value: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The value is divided by this.
    pub unit: f64,
    /// Digits behind the point.
    pub digits: usize,
}

/// A column.
pub const fn column(value: &'static str, title: &'static str, unit: f64, digits: usize) -> Column {
    Column { value, title, unit, digits }
}

/// Throughput and CPU, which every table has.
pub const RATE: Column = column("ops_per_sec", "ops/s", 1.0, 0);
/// See [`RATE`].
pub const CPU: Column = column("process_cpu_s", "CPU s", 1.0, 2);

/// A picture of a table: a curve for each arm over the rows' places.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Rows whose names begin with this.
    pub rows: String,
    /// Curves: the panels, one value each.
    pub panels: Vec<Column>,
    /// Below the x axis.
    pub x_title: &'static str,
    /// Steps of the x axis are ratios.
    pub log_x: bool,
    /// Steps of the y axis are ratios.
    pub log_y: bool,
}

/// Rows with the same columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Which section.
    pub section: Section,
    /// Its name in ids.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// What one has to know about it.
    pub note: String,
    /// Databases that are made once.
    pub prepare: Vec<Bench>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Rows build on what the rows before left: a round is made as a whole or not at all.
    pub chained: bool,
    /// What it shows.
    pub columns: Vec<Column>,
    /// Ratios are taken of these.
    pub ratios: Vec<Column>,
    /// Its pictures.
    pub plots: Vec<Plot>,
    /// Seconds of one round at size 1, about.
    pub seconds: f64,
}

impl Table {
    /// A table that shows throughput and CPU.
    pub fn new(section: Section, name: &'static str, title: &str) -> Table {
        Table {
            section,
            name,
            title: title.to_string(),
            note: String::new(),
            prepare: Vec::new(),
            rows: Vec::new(),
            chained: false,
            columns: vec![RATE, CPU],
            ratios: vec![RATE, CPU],
            plots: Vec::new(),
            seconds: 0.0,
        }
    }

    /// The id of an arm's runs.
    pub fn id(&self, row: &Row, arm: &Arm) -> String {
        format!("{}/{}/{}/{}", self.section.name(), self.name, row.name, arm.name)
    }

    /// Runs of one round.
    pub fn runs(&self) -> usize {
        self.rows.iter().map(|row| row.arms.len()).sum()
    }
}

/// The experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How large.
    pub scale: Scale,
    /// What is measured.
    pub tables: Vec<Table>,
    /// How it was scaled.
    pub scaled: Vec<String>,
    /// What is missing and why.
    pub left_out: Vec<String>,
}

impl Plan {
    /// The plan for this budget on this machine.
    pub fn new(budget: Budget, machine: &Machine) -> Plan {
        let (scale, scaled) = Scale::of(budget, machine);
        let mut tables = Vec::new();
        tables.extend(compression::tables(&scale));
        tables.extend(control::tables(&scale));
        tables.extend(filters::tables(&scale));
        tables.extend(priorities::tables(&scale));
        tables.extend(coroutines::tables(&scale));
        tables.extend(server::tables(&scale));
        tables.extend(core_rows::tables(&scale));
        tables.extend(growth::tables(&scale));
        let mut left_out = left_out(&scale);
        for table in &mut tables {
            table.rows.iter_mut().for_each(|row| row.arms = scale.possible(row.arms.split_off(0)));
            table.prepare.retain(|bench| scale.rocksdb || bench.engine != Engine::RocksDb);
        }
        if !scale.rocksdb {
            left_out
                .insert(0, "RocksDB: there is no library (cargo xtask peers, or --engine)".into());
        }
        Plan { scale, tables, scaled, left_out }
    }

    /// Seconds that the tables of these sections take, about.
    pub fn seconds(&self, only: Option<Section>) -> f64 {
        let wanted = self.tables.iter().filter(|table| only.is_none_or(|s| s == table.section));
        let size =
            |table: &Table| if table.section == Section::Control { 1.0 } else { self.scale.size };
        let one = |t: &Table| t.seconds * size(t) + 0.1 * t.runs() as f64;
        wanted.map(one).sum::<f64>() * f64::from(self.scale.rounds)
    }
}

fn left_out(scale: &Scale) -> Vec<String> {
    let mut out = vec![
        "fjall, redb and LevelDB: there is no driver for them".to_string(),
        "a throttled device under the sine: the rate limiter stands for the device \
         (docs/bench/background.py makes real ones)"
            .to_string(),
        "RocksDB's own coroutine reads: its C library has none; its published figures are shown"
            .to_string(),
    ];
    if !scale.redis {
        out.push("redis-server: it is not installed".to_string());
    }
    if !scale.long {
        out.push(
            "zstd level 12, the sine under static and seed_rule and without compaction, \
                  the server on threads, keys beyond 4 M: a budget above 10m has them"
                .to_string(),
        );
    }
    out
}
