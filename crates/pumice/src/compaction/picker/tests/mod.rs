//! The picker on trees given as text, and inside a random simulated tree.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod fifo_model;
mod simulation;

use std::fmt::Write as _;
use std::sync::Arc;

use pumice_base::UserKey;
use pumice_compress::CompressionType;
use pumice_env::Temperature;
use pumice_manifest::testing as text;
use pumice_manifest::{
    FileMarks, FileMetaData, LevelScores, LevelTargets, LeveledOptions, MarkRules, Offpeak,
    Version, VersionBuilder, VersionEdit,
};

use super::{
    CompactionPick, FifoMerges, FifoRules, ManualPick, ManualRange, PickContext, PriorityCache,
    Reach, Registered, RunningCompactions, UniversalRules, pick, pick_range,
};

use crate::options::FileTemperatureAge;

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/compaction/picker/tests/testdata");

fn list(files: &[Arc<FileMetaData>]) -> String {
    files.iter().fold(String::new(), |out, f| format!("{out} {}", f.number))
}

fn show(pick: &CompactionPick) -> String {
    let mut out = format!("{} L{}", pick.reason.name(), pick.start_level);
    write!(out, " -> L{}", pick.output_level).unwrap();
    if pick.score > 0.0 {
        write!(out, " score={:.2}", pick.score).unwrap();
    }
    let marks = [
        (pick.is_trivial_move, "move"),
        (pick.is_deletion, "delete"),
        (pick.bottommost, "bottommost"),
        (pick.outputs.compression == Some(CompressionType::None), "uncompressed"),
    ];
    for (on, word) in marks {
        if on {
            write!(out, " {word}").unwrap();
        }
    }
    if let Some(temperature) = pick.outputs.temperature {
        write!(out, " {}", temperature.name()).unwrap();
    }
    for input in &pick.inputs {
        write!(out, "\n  L{}:{}", input.level, list(&input.files)).unwrap();
    }
    if let Some(output) = &pick.outputs.proximal {
        let range = output.range.range();
        let end = |key: Option<UserKey<'_>>| {
            String::from_utf8_lossy(key.unwrap().as_bytes()).into_owned()
        };
        let (begin, end) = (end(range.begin), end(range.end));
        let (level, kept) = (output.range.level, output.kept_through);
        write!(out, "\n  newer than {kept} at L{level} in {begin}..{end}").unwrap();
    }
    if !pick.grandparents.is_empty() {
        write!(out, "\n  grandparents:{}", list(&pick.grandparents)).unwrap();
    }
    let (target, max) = (pick.target_output_file_size, pick.max_output_file_size);
    if target != u64::MAX && !pick.is_deletion {
        write!(out, "\n  outputs of {target}, at most {max}").unwrap();
    }
    if let Some(cursor) = &pick.next_cursor {
        write!(out, "\n  cursor {}", text::show_key(cursor)).unwrap();
    }
    out
}

/// One column family as the engine would hold it.
struct Tree {
    version: Arc<Version>,
    running: RunningCompactions,
    cache: PriorityCache,
    registered: Vec<Registered>,
}

impl Tree {
    fn new() -> Self {
        Tree {
            version: Version::empty(text::comparator(None), 7),
            running: RunningCompactions::default(),
            cache: PriorityCache::default(),
            registered: Vec::new(),
        }
    }

    fn register(&mut self, command: &text::Command, pick: &CompactionPick) {
        if command.args.contains_key("run") {
            self.registered.push(self.running.register(pick, self.version.comparator()));
        }
    }

    fn pick(&mut self, command: &text::Command) -> String {
        let options = text::leveled_options(command);
        let targets = LevelTargets::compute(&self.version, &options);
        let files = self.running.files();
        let scores = LevelScores::compute(&self.version, &targets, &options, files);
        let rules = MarkRules {
            reclaim_seconds: None,
            keeps_times: false,
            preclude: 0,
            blob_garbage: None,
            reads_per_byte: 0.0,
            oldest_snapshot: command.number("snapshot").unwrap_or(0),
            now: command.number("now").unwrap_or(0),
            bottommost_delay: 0,
            ttl: command.number("ttl").unwrap_or(0),
            periodic: command.number("periodic").unwrap_or(0),
            offpeak: Offpeak::default(),
            allow_ingest_behind: false,
        };
        let marks = FileMarks::compute(&self.version, &rules);
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &options,
            running: &self.running,
            young: None,
        };
        let reach = match |name| command.args.contains_key(name) {
            has if has("upper") => Reach::Upper,
            has if has("merges") => Reach::Merges,
            _ => Reach::All,
        };
        match pick(&ctx, &scores, &marks, &mut self.cache, reach) {
            Some(pick) => {
                self.register(command, &pick);
                show(&pick)
            }
            None => "nothing".into(),
        }
    }

    fn manual(&mut self, command: &text::Command) -> String {
        let options = text::leveled_options(command);
        let targets = LevelTargets::compute(&self.version, &options);
        let bytes = |name| command.args.get(name).map(|text: &String| text.as_bytes());
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &options,
            running: &self.running,
            young: None,
        };
        let range = ManualRange {
            input_level: command.number("level").unwrap() as usize,
            output_level: command.number("to").map(|n| n as usize),
            begin: bytes("begin"),
            end: bytes("end"),
            ignore_from_file: command.number("ignore_from").unwrap_or(u64::MAX),
            forbid_move: command.args.contains_key("forbid_move"),
            path_id: 0,
        };
        match pick_range(&ctx, &range) {
            ManualPick::Nothing => "nothing".into(),
            ManualPick::Conflict => "conflict".into(),
            ManualPick::Pick { pick, resume_at } => {
                self.register(command, &pick);
                let rest = resume_at.map(|key| String::from_utf8(key).unwrap());
                let rest = rest.map(|key| format!("\n  then from {key}")).unwrap_or_default();
                show(&pick) + &rest
            }
        }
    }

    fn fifo(&mut self, command: &text::Command) -> String {
        let options = text::leveled_options(command);
        let targets = LevelTargets::compute(&self.version, &options);
        let rules = FifoRules {
            max_bytes: command.number("max").unwrap(),
            ttl_seconds: command.number("ttl").unwrap_or(0),
            counts_blobs: command.args.contains_key("blobs"),
            merges: match command.number("merge_below") {
                Some(bytes) => FifoMerges::Newest(bytes),
                None if command.args.contains_key("tiers") => FifoMerges::Tiers,
                None => FifoMerges::Never,
            },
            merge_trigger: options.level0_file_num_compaction_trigger,
            temperatures: ages(command),
        };
        let now = command.number("now").unwrap_or(0);
        let score = rules.scores(&self.version, &self.running, now).score(0);
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &options,
            running: &self.running,
            young: None,
        };
        let picked = match rules.pick(&ctx, now) {
            Some(pick) => {
                self.register(command, &pick);
                show(&pick)
            }
            None => "nothing".into(),
        };
        let at = rules.expires_at(&self.version, || now);
        let at = at.map(|at| format!(" again at {at}")).filter(|_| !rules.temperatures.is_empty());
        format!("score={score:.2}{}\n{picked}", at.unwrap_or_default())
    }

    fn universal(&mut self, command: &text::Command) -> String {
        let mut options = text::leveled_options(command);
        options.level_compaction_dynamic_level_bytes = false;
        options.reserved_last_level = command.args.contains_key("behind");
        let targets = LevelTargets::compute(&self.version, &options);
        let rules = universal_rules(command, &options);
        let score = rules.scores(&self.version, &self.running).score(0);
        let marked_by = MarkRules {
            reclaim_seconds: None,
            keeps_times: false,
            preclude: 0,
            blob_garbage: None,
            reads_per_byte: 0.0,
            oldest_snapshot: 0,
            now: command.number("now").unwrap_or(0),
            bottommost_delay: 0,
            ttl: 0,
            periodic: command.number("periodic").unwrap_or(0),
            offpeak: Offpeak::default(),
            allow_ingest_behind: false,
        };
        let marks = FileMarks::compute(&self.version, &marked_by).without_levels();
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &options,
            running: &self.running,
            young: None,
        };
        let picked = match command.args.contains_key("all") {
            false => rules.pick(&ctx, &marks),
            true => match rules.pick_all(&ctx, 0) {
                ManualPick::Nothing => return "nothing".into(),
                ManualPick::Conflict => return "conflict".into(),
                ManualPick::Pick { pick, resume_at: None } => Some(*pick),
                ManualPick::Pick { .. } => panic!("it is done at once"),
            },
        };
        let picked = match picked {
            Some(pick) => {
                self.register(command, &pick);
                show(&pick)
            }
            None => "nothing".into(),
        };
        format!("runs={} score={score:.2}\n{picked}", UniversalRules::runs(&self.version))
    }

    fn run(&mut self, command: &text::Command) -> String {
        match command.name.as_str() {
            "define" => {
                *self = Tree { version: text::define(command).unwrap(), ..Tree::new() };
                text::show_version(&self.version)
            }
            "cursor" => {
                let mut edit = VersionEdit::default();
                let line = format!("1 {}..z", command.input[1]);
                let key = text::parse_file(&line).smallest;
                edit.compact_cursors.push((text::number(&command.input[0]) as usize, key));
                let mut builder = VersionBuilder::new(self.version.clone());
                builder.apply(&edit).unwrap();
                self.version = builder.build().unwrap();
                "ok".into()
            }
            "pick" => self.pick(command),
            "manual" => self.manual(command),
            "fifo" => self.fifo(command),
            "universal" => self.universal(command),
            "finish" => {
                self.registered.drain(..).for_each(|one| self.running.unregister(one));
                "ok".into()
            }
            other => panic!("unknown command {other}"),
        }
    }
}

/// `ages=10:8,20:12`: from 10 seconds on temperature 8, from 20 on 12.
fn ages(command: &text::Command) -> Vec<FileTemperatureAge> {
    let Some(list) = command.args.get("ages") else { return Vec::new() };
    let one = |(age, byte): (&str, &str)| FileTemperatureAge {
        age: text::number(age),
        temperature: Temperature::of_byte(text::number(byte) as u8),
    };
    list.split(',').map(|pair| one(pair.split_once(':').unwrap())).collect()
}

fn universal_rules(command: &text::Command, options: &LeveledOptions) -> UniversalRules {
    let number = |name, standard| command.number(name).unwrap_or(standard);
    UniversalRules {
        trigger: options.level0_file_num_compaction_trigger,
        stop_writes_trigger: number("stop", 36) as usize,
        size_ratio: number("ratio", 1) as u32,
        min_merge_width: 2,
        max_merge_width: u32::MAX,
        max_size_amplification_percent: number("amplification", 200) as u32,
        compression_size_percent: number("compressed", u64::MAX) as i32,
        max_read_amp: -1,
        similar_size: false,
        allow_trivial_move: command.args.contains_key("move"),
        incremental: command.args.contains_key("incremental"),
        write_buffer_size: 100,
        max_compaction_bytes: options.compaction_limit(),
    }
}

#[pumice_test_macros::test]
fn picker_text() {
    for name in ["level0", "levels", "marks", "manual", "fifo", "universal"] {
        let mut tree = Tree::new();
        let path = format!("{TESTDATA}/{name}.txt");
        let input = std::fs::read_to_string(&path).unwrap();
        let (rewritten, failures) = text::run(&input, |command| tree.run(command));
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, rewritten).unwrap();
        } else {
            assert!(failures.is_empty(), "{path}{failures}");
        }
    }
}
