//! Runner of text tests, and versions as text.
//!
//! A test file holds commands: a line with name and `key=value` arguments, input lines, a line
//! `----`, the expected output, a blank line. With `REWRITE=1` in the environment the outputs
//! are replaced by the actual ones instead of being compared.
//!
//! A file of a version is `NUMBER SMALLEST..LARGEST [size=N] [seq=LOW-HIGH] [epoch=N] [marked]
//! [busy] [ancester=N] [created=N] [newest=N] [temperature=N]
//! [counts=ENTRIES,DELETIONS,RANGE,KEYBYTES,VALUEBYTES]`; a key is `user@sequence` (a value) or
//! `user@end` (the open end of a range tombstone); numbers take the suffixes K and M. Levels are
//! headed `L0`, `L1`, ...
//!
//! Public because the picker's tests in crate pumice use the same format; nothing else uses it. It
//! reads no file: the tests hand the text in.
#![allow(missing_docs)]
#![allow(clippy::cast_possible_truncation)] // The numbers of a test are what it says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::{
    CompactionPri, CompressionChoice, FileMetaData, FileStats, LeveledOptions, Preclusion, Version,
    VersionBuilder, VersionEdit,
};
use pumice_base::key::{InternalKey, MAX_SEQUENCE, ValueType, internal_key};
use pumice_base::{Comparator, Error, InternalKeyComparator};

/// One command of a test file.
pub struct Command {
    pub name: String,
    pub args: BTreeMap<String, String>,
    pub input: Vec<String>,
}

impl Command {
    pub fn number(&self, name: &str) -> Option<u64> {
        self.args.get(name).map(|text| number(text))
    }
}

/// Runs every command of `text` through `run`. Returns the text with the actual outputs, and the
/// differences.
pub fn run(text: &str, mut run: impl FnMut(&Command) -> String) -> (String, String) {
    let mut rewritten = String::new();
    let mut failures = String::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            writeln!(rewritten, "{line}").expect("test text is well-formed");
            continue;
        }
        let mut words = line.split_whitespace();
        let name = words.next().expect("test text is well-formed").to_string();
        let args = words
            .map(|w| match w.split_once('=') {
                Some((key, value)) => (key.to_string(), value.to_string()),
                None => (w.to_string(), String::new()),
            })
            .collect();
        writeln!(rewritten, "{line}").expect("test text is well-formed");
        let mut input = Vec::new();
        for (_, line) in lines.by_ref().take_while(|(_, l)| *l != "----") {
            writeln!(rewritten, "{line}").expect("test text is well-formed");
            input.push(line.to_string());
        }
        let mut expected = String::new();
        while let Some((_, line)) = lines.next_if(|(_, l)| !l.is_empty()) {
            writeln!(expected, "{line}").expect("test text is well-formed");
        }
        let mut actual = run(&Command { name, args, input });
        if !actual.ends_with('\n') {
            actual.push('\n');
        }
        write!(rewritten, "----\n{actual}").expect("test text is well-formed");
        if actual != expected {
            write!(failures, "\nline {}: {line}\nexpected:\n{expected}actual:\n{actual}", at + 1)
                .expect("test text is well-formed");
        }
    }
    (rewritten, failures)
}

pub fn number(text: &str) -> u64 {
    let (digits, factor) = match text.strip_suffix(['K', 'M']) {
        Some(digits) if text.ends_with('K') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (text, 1),
    };
    digits.parse::<u64>().unwrap_or_else(|_| panic!("not a number: {text}")) * factor
}

fn key(text: &str) -> Vec<u8> {
    let (user, seq) = text.split_once('@').unwrap_or((text, "1"));
    match seq {
        "end" => internal_key(user.as_bytes(), MAX_SEQUENCE, ValueType::RangeDeletion),
        seq => internal_key(user.as_bytes(), number(seq), ValueType::Value),
    }
}

pub fn show_key(ikey: &[u8]) -> String {
    let user = String::from_utf8_lossy(InternalKey::new(ikey).user_key().as_bytes()).into_owned();
    match InternalKey::new(ikey).sequence_and_type() {
        (MAX_SEQUENCE, _) => format!("{user}@end"),
        (1, _) => user,
        (seq, _) => format!("{user}@{seq}"),
    }
}

/// Parses one file line.
pub fn parse_file(line: &str) -> FileMetaData {
    let mut words = line.split_whitespace();
    let mut file = FileMetaData {
        number: number(words.next().expect("test text is well-formed")),
        ..Default::default()
    };
    let (smallest, largest) = words
        .next()
        .expect("test text is well-formed")
        .split_once("..")
        .expect("test text is well-formed");
    (file.smallest, file.largest) = (key(smallest), key(largest));
    file.file_size = 100;
    (file.smallest_seq, file.largest_seq) = (1, 1);
    file.epoch_number = file.number;
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "size" => file.file_size = number(value),
            "epoch" => file.epoch_number = number(value),
            "seq" => {
                let (low, high) = value.split_once('-').expect("test text is well-formed");
                (file.smallest_seq, file.largest_seq) = (number(low), number(high));
            }
            "marked" => file.marked_for_compaction = true,
            "busy" => file.set_being_compacted(true),
            "ancester" => file.oldest_ancester_time = number(value),
            "created" => file.file_creation_time = number(value),
            "temperature" => file.temperature = number(value) as u8,
            "newest" => {
                let newest_key_time = number(value);
                file.stats = FileStats { newest_key_time, ..FileStats::default() }.into();
            }
            "range_deletion" => file.compensated_range_deletion_size = number(value),
            "blob" => file.oldest_blob_file_number = number(value),
            "counts" => {
                let n: Vec<u64> = value.split(',').map(number).collect();
                file.stats = FileStats {
                    num_entries: n[0],
                    num_deletions: n[1],
                    num_range_deletions: n[2],
                    raw_key_size: n[3],
                    raw_value_size: n[4],
                    newest_key_time: 0,
                }
                .into();
            }
            _ => panic!("unknown attribute {name} in: {line}"),
        }
    }
    file
}

/// One file as one line.
pub fn show_file(file: &FileMetaData) -> String {
    let mut out = format!("{} {}..", file.number, show_key(&file.smallest));
    write!(out, "{} size={}", show_key(&file.largest), file.file_size)
        .expect("test text is well-formed");
    if (file.smallest_seq, file.largest_seq) != (1, 1) {
        write!(out, " seq={}-{}", file.smallest_seq, file.largest_seq)
            .expect("test text is well-formed");
    }
    if file.epoch_number != file.number {
        write!(out, " epoch={}", file.epoch_number).expect("test text is well-formed");
    }
    if file.compensated_size() != file.file_size {
        write!(out, " compensated={}", file.compensated_size()).expect("test text is well-formed");
    }
    if file.is_being_compacted() {
        out.push_str(" busy");
    }
    out
}

pub fn show_version(version: &Version) -> String {
    let mut out = String::new();
    for level in version.levels().iter().filter(|l| !l.is_empty()) {
        writeln!(out, "L{}", level.number()).expect("test text is well-formed");
        level
            .files()
            .iter()
            .for_each(|f| writeln!(out, "  {}", show_file(f)).expect("test text is well-formed"));
    }
    if out.is_empty() { "empty".into() } else { out }
}

pub fn comparator(name: Option<&String>) -> InternalKeyComparator {
    InternalKeyComparator::new(match name.map(String::as_str) {
        Some("reverse") => Comparator::ReverseBytewise,
        _ => Comparator::Bytewise,
    })
}

/// Builds the version that the input of `command` describes.
pub fn define(command: &Command) -> Result<Arc<Version>, Error> {
    let levels = command.number("levels").unwrap_or(7) as usize;
    let base = Version::empty(comparator(command.args.get("cmp")), levels);
    let mut edit = VersionEdit::default();
    let mut level = 0;
    for line in &command.input {
        match line.strip_prefix('L') {
            Some(n) => level = number(n) as usize,
            None => edit.add_file(level, Arc::new(parse_file(line))),
        }
    }
    let mut builder = VersionBuilder::new(base);
    builder.apply(&edit)?;
    builder.build()
}

/// Tree options from arguments, by RocksDB's names.
pub fn leveled_options(command: &Command) -> LeveledOptions {
    let mut options = LeveledOptions {
        level0_file_num_compaction_trigger: 4,
        max_bytes_for_level_base: 1000,
        max_bytes_for_level_multiplier: 10.0,
        max_bytes_for_level_multiplier_additional: Vec::new(),
        level_compaction_dynamic_level_bytes: true,
        target_file_size_base: 100,
        target_file_size_multiplier: 1,
        max_compaction_bytes: 0,
        compaction_pri: CompactionPri::MinOverlappingRatio,
        compression: CompressionChoice::default(),
        reserved_last_level: false,
        partition_prefix: None,
        path_sizes: Vec::new(),
        preclusion: Preclusion::Off,
    };
    for (name, value) in &command.args {
        match name.as_str() {
            "trigger" => options.level0_file_num_compaction_trigger = number(value) as usize,
            "base" => options.max_bytes_for_level_base = number(value),
            "multiplier" => {
                options.max_bytes_for_level_multiplier =
                    value.parse().expect("test text is well-formed")
            }
            "additional" => {
                options.max_bytes_for_level_multiplier_additional =
                    value.split(',').map(|n| number(n) as u32).collect();
            }
            "static" => options.level_compaction_dynamic_level_bytes = false,
            "target" => options.target_file_size_base = number(value),
            "target_multiplier" => options.target_file_size_multiplier = number(value) as u32,
            "preclude" => {
                options.preclusion = match value.as_str() {
                    "universal" => Preclusion::Universal,
                    _ => Preclusion::Leveled,
                };
            }
            "limit" => options.max_compaction_bytes = number(value),
            "bottommost" => options.compression.bottommost = Some(number(value) as u8),
            "pri" => {
                options.compaction_pri = match value.as_str() {
                    "size" => CompactionPri::ByCompensatedSize,
                    "largest_seq" => CompactionPri::OldestLargestSeqFirst,
                    "smallest_seq" => CompactionPri::OldestSmallestSeqFirst,
                    "round_robin" => CompactionPri::RoundRobin,
                    _ => CompactionPri::MinOverlappingRatio,
                };
            }
            _ => {}
        }
    }
    options
}
