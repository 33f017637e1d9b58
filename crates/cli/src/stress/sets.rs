//! Sets of options, dealt from the option rows to one child after the other.
//!
//! Each value of each row is a card. The cards are shuffled and dealt, a few to each child, until
//! all are used up, then shuffled again: after enough children every value of every row has been
//! killed, whatever the seed. The options that [`store`](super::store) draws at each open, and
//! those that would change what is expected of the database, are not dealt.
//!
//! Thread safety: plain data. Not here: whether the values of a set go together. The engine
//! refuses those that do not, before it changes a file.

use super::store;
use pumice::options::row::{OptionRow, RowKind, set_by_name};
use pumice::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, OptionSet};
use pumice_base::random::Rng;

/// An option and its value.
pub type Setting = (String, String);

/// Options that this test can not take, and why.
pub const REFUSED: &[(&str, &str)] = &[
    ("best_efforts_recovery", "it does not recover the logs"),
    ("comparator", "the test's keys are in the order of their bytes"),
    ("compaction_options_fifo", "FIFO must not delete what the test expects"),
    ("create_if_missing", "the test creates its database once"),
    ("create_missing_column_families", "the test creates its families once"),
    ("error_if_exists", "every open but the first finds a database"),
    ("manual_wal_flush", "a killed process takes what it has not written with it"),
    ("merge_operator", "each family of the test has its own"),
    ("table_factory", "its members are options here"),
    ("ttl", "FIFO must not delete what the test expects"),
    ("wal_dir", "an open without it would not find the logs"),
];

/// Options that are taken but not dealt, and why.
const NOT_DEALT: &[(&str, &str)] = &[
    ("compaction_options_universal", "drawn with the style"),
    ("compaction_style", "drawn for each family"),
    ("db_log_dir", "a directory that nobody removes"),
    ("fail_if_no_udi_on_open", "tables of earlier opens lack the index"),
    ("num_levels", "fewer than the files lie on are refused"),
    ("rate_limiter", "drawn as an object"),
    ("sst_file_manager", "drawn as an object"),
    ("use_direct_io_for_flush_and_compaction", "not every file system has it"),
    ("use_direct_reads", "not every file system has it"),
    ("use_udi_as_primary_index", "tables of earlier opens lack the index"),
];

/// Values of options whose rows do not say which are sensible here.
const VALUES: &[(&str, &[&str])] = &[
    ("WAL_size_limit_MB", &["0", "1"]),
    ("WAL_ttl_seconds", &["0", "1"]),
    ("blob_compression_type", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
    ("blob_garbage_collection_force_threshold", &["0.5", "1"]),
    ("block_protection_bytes_per_key", &["0", "1", "8"]),
    ("bottommost_compression", &["kDisableCompressionOption", "kNoCompression", "kZSTD"]),
    ("bottommost_compression_opts", &["{enabled=true;max_dict_bytes=4096;}", "{enabled=false;}"]),
    (
        "cache_usage_options",
        &[
            "{}",
            "{FilterConstruction=kEnabled;BlockBasedTableReader=kEnabled;FileMetadata=kEnabled;}",
        ],
    ),
    ("checksum", &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
    (
        "compression_manager",
        &["nullptr", "BuiltinV2", "RoundRobinManager", "AutoSkipCompressorManager"],
    ),
    ("compression_per_level", &["", "kNoCompression:kLZ4Compression:kZSTD"]),
    ("daily_offpeak_time_utc", &["", "00:00-23:59"]),
    ("db_host_id", &["__hostname__", "h"]),
    ("db_write_buffer_size", &["0", "65536", "1048576"]),
    ("delayed_write_rate", &["0", "65536", "16777216"]),
    ("file_checksum_gen_factory", &["nullptr", "FileChecksumGenCrc32cFactory"]),
    ("log_file_time_to_roll", &["0", "1"]),
    ("max_bytes_for_level_multiplier_additional", &["1:1:1:1:1:1:1", "2:1:3:1:1:1:1"]),
    ("max_log_file_size", &["0", "65536"]),
    ("max_manifest_file_size", &["4096", "65536", "1073741824"]),
    ("max_total_wal_size", &["0", "65536", "1048576"]),
    ("memtable_factory", &["skip_list", "skip_list:16", "vector"]),
    ("memtable_max_range_deletions", &["0", "1", "16"]),
    ("memtable_protection_bytes_per_key", &["0", "1", "8"]),
    ("merge_operator_failure_scope", &["kDefault", "kTryMerge", "kMustMerge"]),
    (
        "metadata_cache_options",
        &["{}", "{unpartitioned_pinning=kAll;partition_pinning=kFlushedAndSimilar;}"],
    ),
    ("periodic_compaction_seconds", &["0", "1", "18446744073709551614"]),
    ("read_triggered_compaction_threshold", &["0", "0.001"]),
    ("recycle_log_file_num", &["0", "1", "3"]),
    ("sst_partitioner_factory", &["nullptr", "{id=SstPartitionerFixedPrefixFactory;length=2;}"]),
    ("stats_dump_period_sec", &["0", "1"]),
    ("stats_persist_period_sec", &["0", "1"]),
    ("uniform_cv_threshold", &["-1", "0.5"]),
    ("user_defined_index_factory", &["nullptr", "trie_index"]),
    ("wal_compression", &["kNoCompression", "kZSTD"]),
    // Others refuse what a kill leaves at the end of a log, or pass over more than that.
    ("wal_recovery_mode", &["kPointInTimeRecovery", "kTolerateCorruptedTailRecords"]),
];

/// All cards.
pub fn cards() -> Vec<Setting> {
    let mut cards = Vec::new();
    add::<DbOptions>(&mut cards);
    add::<ColumnFamilyOptions>(&mut cards);
    add::<BlockBasedTableOptions>(&mut cards);
    cards
}

fn add<S: OptionSet>(cards: &mut Vec<Setting>) {
    let is_in = |list: &[(&str, &str)], name| list.iter().any(|(other, _)| *other == name);
    for row in S::rows().iter().filter(|row| matches!(row.kind, RowKind::Field { .. })) {
        let is_out = is_in(REFUSED, row.name) || is_in(NOT_DEALT, row.name);
        if !is_out && !store::draws(row.name) {
            cards.extend(values(row).into_iter().map(|value| (row.name.to_string(), value)));
        }
    }
}

/// Values of a row: those of [`VALUES`], or what its default suggests and it accepts.
fn values<S: OptionSet>(row: &'static OptionRow<S>) -> Vec<String> {
    if let Some((_, values)) = VALUES.iter().find(|(name, _)| *name == row.name) {
        return values.iter().map(|value| value.to_string()).collect();
    }
    let default = row.get(&S::default());
    let set = |value: &str| set_by_name(&mut S::default(), row.name, value);
    let candidates: Vec<String> = if default == "true" || default == "false" {
        vec!["true".into(), "false".into()]
    } else if let Ok(number) = default.parse::<i64>() {
        let numbers = match number {
            0 => [0, 16, 1 << 16, 1 << 20],
            ..0 => [number, 1, 2, 4],
            _ => [number / 4, number / 2, number, number.saturating_mul(2)],
        };
        numbers.iter().map(i64::to_string).collect()
    } else if let Ok(number) = default.parse::<f64>() {
        [number / 2.0, number, number * 2.0].iter().map(f64::to_string).collect()
    } else {
        // The refusal lists the names.
        let refusal = set("no such value").err().map(|error| error.to_string()).unwrap_or_default();
        let names = refusal.split_once("one of ").and_then(|(_, list)| list.split_once(", found"));
        names.map(|(list, _)| list.split(", ").map(str::to_string).collect()).unwrap_or_default()
    };
    let mut values: Vec<String> =
        candidates.into_iter().filter(|value| set(value).is_ok()).collect();
    values.dedup();
    values
}

/// The cards, dealt one after the other.
pub struct Deck {
    cards: Vec<Setting>,
    /// Settings that are not dealt yet.
    left: Vec<Setting>,
    /// How many have been dealt.
    pub dealt: usize,
}

impl Deck {
    /// All cards, without those of the options in `given`.
    pub fn new(given: &[Setting]) -> Self {
        let mut cards = cards();
        cards.retain(|(name, _)| !given.iter().any(|(other, _)| other == name));
        Deck { cards, left: Vec::new(), dealt: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// A set of up to `count` options.
    pub fn deal(&mut self, count: usize, rng: &mut Rng) -> Vec<Setting> {
        let mut set: Vec<Setting> = Vec::new();
        for _ in 0..count {
            if self.left.is_empty() {
                self.left.clone_from(&self.cards);
                for at in (1..self.left.len()).rev() {
                    self.left.swap(at, rng.uniform(at as u64 + 1) as usize);
                }
            }
            // Of two values of one option the second waits for the next set.
            let at = self.left.iter().rposition(|(name, _)| set.iter().all(|(n, _)| n != name));
            let Some(at) = at else { break };
            set.push(self.left.remove(at));
            self.dealt += 1;
        }
        set
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    fn names<S: OptionSet>() -> impl Iterator<Item = &'static str> {
        let rows = S::rows().iter().filter(|row| matches!(row.kind, RowKind::Field { .. }));
        rows.map(|row| row.name)
    }

    #[pumice_test_macros::test]
    fn every_row_is_dealt_drawn_or_left_out_for_a_reason() {
        let cards = cards();
        let rows: Vec<&str> = names::<DbOptions>()
            .chain(names::<ColumnFamilyOptions>())
            .chain(names::<BlockBasedTableOptions>())
            .collect();
        let left_out: Vec<&str> = REFUSED.iter().chain(NOT_DEALT).map(|(name, _)| *name).collect();
        for name in &rows {
            let values = cards.iter().filter(|(card, _)| card == name).count();
            let is_out = left_out.contains(name) || store::draws(name);
            assert_eq!(values < 2, is_out, "{name} has {values} values");
        }
        for name in left_out.iter().chain(VALUES.iter().map(|(name, _)| name)) {
            assert!(rows.contains(name), "{name} is no row");
        }
    }

    #[pumice_test_macros::test]
    fn every_card_is_dealt_once_before_one_comes_again() {
        let (mut deck, mut rng) = (Deck::new(&[]), Rng::new(7));
        let mut seen = BTreeSet::new();
        while deck.dealt + 8 <= deck.len() {
            let set = deck.deal(8, &mut rng);
            let names: BTreeSet<&String> = set.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), 8, "{set:?}");
            assert!(set.into_iter().all(|card| seen.insert(card)));
        }
        let given = [("paranoid_checks".to_string(), "true".to_string())];
        assert_eq!(Deck::new(&given).len(), deck.len() - 2);
    }

    /// Some draw of the others goes with each: a vector takes one writer at a time, `block_align`
    /// no compression.
    #[pumice_test_macros::test]
    fn every_card_opens() {
        let path = std::env::temp_dir().join(format!("pumice-sets-{}", pumice_port::os::pid()));
        let mut rng = Rng::new(1);
        for card in cards() {
            let set = [card];
            let opened = (0..50).find_map(|_| store::open(&path, &mut rng, &set).ok());
            opened.unwrap_or_else(|| panic!("{set:?} never opens")).db.close().unwrap();
        }
        crate::folder::remove(&path);
    }
}
