//! The plan: from a machine and a time to experiments with their exact commands.
//!
//! Pure: it depends only on its arguments, so the same machine and time give the same plan, and
//! an interrupted report can be resumed. It says how it was scaled and what was left out.
//!
//! Names: a section has tables, a table has rows, a row has arms, which do the same work in
//! different ways. Arms of a row are run one after the other, every other round backwards.

mod compression;
mod control;
mod core_rows;
mod coroutines;
mod engines;
mod filters;
mod growth;
mod limits;
mod priorities;
mod scale;
mod server;
#[cfg(test)]
mod tests;

pub use control::{SINE_ROW, commanded};
pub use core_rows::BASELINE_TABLE;
pub use limits::{BASELINES, Clock, Limit};
pub use scale::{Scale, TimeLimit};

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
    /// Other engines.
    Engines,
    /// Cost against size.
    Growth,
}

impl Section {
    /// All, in the order of the page.
    pub const ALL: [Section; 9] = [
        Section::Compression,
        Section::Control,
        Section::Filters,
        Section::Priorities,
        Section::Coroutines,
        Section::Server,
        Section::Core,
        Section::Engines,
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
            Section::Engines => "engines",
            Section::Growth => "growth",
        }
    }
}

/// The engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Ours.
    Pumice,
    /// The library.
    RocksDb,
    /// redis-server.
    Redis,
    /// The crate fjall.
    Fjall,
    /// The crate redb.
    Redb,
}

impl Engine {
    /// The engines of db_bench that every table has, the peer first.
    pub const BOTH: [Engine; 2] = [Engine::RocksDb, Engine::Pumice];
    /// The engines of db_bench that only the table of other engines has.
    pub const OTHERS: [Engine; 2] = [Engine::Fjall, Engine::Redb];

    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Pumice => "Pumice",
            Engine::RocksDb => "RocksDB",
            Engine::Redis => "redis-server",
            Engine::Fjall => "fjall",
            Engine::Redb => "redb",
        }
    }
}

/// The place of a database.
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
    /// The folder of the database, below that of the place.
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
    /// A benchmark on a database in memory that it makes and that is removed afterwards.
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

    /// Operations of this many bytes of key and value.
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
    /// This many of it at once, each on its own database.
    Jobs(Bench, usize),
    /// A server and its client.
    Serve(Serve),
    /// What memory, codecs and the device can do.
    Baselines,
}

impl Work {
    /// Whose work it is.
    pub fn engine(&self) -> Engine {
        match self {
            Work::Bench(bench) | Work::Jobs(bench, _) => bench.engine,
            Work::Serve(serve) => serve.engine,
            Work::Baselines => Engine::Pumice,
        }
    }
}

/// One way to do the work of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The arm's name.
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
    /// The row's name.
    pub name: String,
    /// The row's place in a plot.
    pub x: f64,
    /// The ways.
    pub arms: Vec<Arm>,
}

/// What a column of a table shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The name of the value.
    pub value: &'static str,
    /// The column's heading.
    pub title: &'static str,
    /// The value is divided by this.
    pub unit: f64,
    /// Digits after the point.
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
    /// The plot's title.
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
    /// The table's name in ids.
    pub name: &'static str,
    /// The table's heading.
    pub title: String,
    /// A note for readers.
    pub note: String,
    /// Databases that are made once.
    pub prepare: Vec<Bench>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Rows build on the databases of earlier rows: a round is run completely or not at all.
    pub chained: bool,
    /// What it shows.
    pub columns: Vec<Column>,
    /// Ratios are taken of these.
    pub ratios: Vec<Column>,
    /// The table's pictures.
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
    /// What no engine can avoid in rows of the core tables.
    pub limits: Vec<Limit>,
    /// How it was scaled.
    pub scaled: Vec<String>,
    /// What is missing and why.
    pub left_out: Vec<String>,
}

impl Plan {
    /// The plan for this time on this machine.
    pub fn new(time: TimeLimit, machine: &Machine) -> Plan {
        let (scale, scaled) = Scale::of(time, machine);
        let mut tables = Vec::new();
        tables.extend(compression::tables(&scale));
        tables.extend(control::tables(&scale));
        tables.extend(filters::tables(&scale));
        tables.extend(priorities::tables(&scale));
        tables.extend(coroutines::tables(&scale));
        tables.extend(server::tables(&scale));
        tables.extend(core_rows::tables(&scale));
        tables.extend(engines::tables(&scale));
        tables.extend(growth::tables(&scale));
        let limits = limits::of(&scale);
        let mut left_out = left_out(&scale);
        for table in &mut tables {
            table.rows.iter_mut().for_each(|row| row.arms = scale.possible(row.arms.split_off(0)));
            table.prepare.retain(|bench| scale.rocksdb || bench.engine != Engine::RocksDb);
        }
        if !scale.rocksdb {
            left_out
                .insert(0, "RocksDB: there is no library (cargo xtask peers, or --engine)".into());
        }
        Plan { scale, tables, limits, scaled, left_out }
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
        "LevelDB: the crate with its sources (leveldb-sys 2.0.9) does not build with gcc"
            .to_string(),
        "a throttled device under the sine: the rate limiter stands for the device \
         (docs/bench/background.py makes real ones)"
            .to_string(),
        "RocksDB's own coroutine reads: its C library has none; its published figures are shown"
            .to_string(),
    ];
    if !scale.others {
        out.push(
            "fjall and redb: this program was built without its cargo feature other-engines"
                .to_string(),
        );
    }
    if !scale.redis {
        out.push("redis-server: it is not installed".to_string());
    }
    if !scale.long {
        out.push(
            "zstd level 12, the sine under static and seed_rule and without compaction, \
                  the server on threads, keys beyond 4 M: a time above 10m has them"
                .to_string(),
        );
    }
    out
}
