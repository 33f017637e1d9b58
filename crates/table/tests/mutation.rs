//! Planted bugs inside tables: a small case for each, which must fail when its bug is turned on.
//! Among them are both halves of the boundary rule of filter partitions.
//!
//! Without `--cfg pumice_planted` the cases are ordinary tests. With it each one also runs with its
//! bug turned on and must fail then. One test, because there is one switch for the process.
//!
//! Some bugs are in the builder and the reader alike: only RocksDB, through its C library, finds
//! them. Where it is missing those cases pass with a message, and are not required to fail.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

#[path = "support/prefixed.rs"]
mod prefixed;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use prefixed::{LAYOUTS, Layout, UpToColon, at, build, check_seek, context, open, with_options};
use pumice_base::extension::{FixedPrefix, builtin_slice_transform};
use pumice_base::key::{MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::planted::{self, Bug};
use pumice_base::{InternalKey, ValueType};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_filter::FilterPolicy;
use pumice_peer::{Db, Options, Peer, ReadOptions, ReadSettings};
use pumice_port::helpers::HelperPool;
use pumice_table::{
    DataBlockIndexType, IndexType, Table, TableBuildContext, TableOptions, TableReadContext,
    TableReadOptions,
};

/// Panics if something is wrong.
type Case = fn();

const CASES: [(Bug, Case); 17] = [
    (Bug::ClosingPrefixDropped, a_seek_finds_the_first_key_behind_its_partition),
    (Bug::OpeningPrefixDropped, a_backward_seek_finds_the_last_key_before_its_partition),
    (Bug::LastFilterPartitionMissed, a_backward_seek_from_behind_the_last_key_finds_it),
    (Bug::FilterCutOffByOne, keys_on_both_sides_of_a_cut_are_in_the_filter),
    (Bug::SharedCutForgetsHash, a_prefix_that_is_the_key_before_is_in_the_filter),
    (Bug::PrefixesAskedForKeys, filters_of_prefixes_let_their_keys_through),
    (Bug::ForeignPrefixAsked, a_foreign_prefix_is_not_asked_for),
    (Bug::LegacyLinesOffByOne, older_filters_let_their_keys_through),
    (Bug::RibbonFirstSeed, ribbon_filters_let_their_keys_through),
    (Bug::FirstKeyOfNextBlock, first_keys_hide_no_key),
    (Bug::HandleDeltaFromRestart, differences_lead_to_every_block),
    (Bug::HashIndexLosesLastBlock, rocksdb_finds_every_key_by_hash),
    (Bug::BucketCollisionLost, collisions_hide_no_key),
    (Bug::DictionaryForIndex, rocksdb_reads_an_index_beside_a_dictionary),
    (Bug::ChecksumWithoutPlace, blocks_that_change_places_are_found),
    (Bug::GlobalSeqnoNotCompared, an_ingested_file_is_newer_than_older_snapshots),
    (Bug::CodecDamagesBlock, verified_blocks_are_what_they_were),
];

/// Keys whose first three bytes are theirs alone.
fn users() -> Vec<Vec<u8>> {
    (0..600).map(|i| format!("{i:03}key").into_bytes()).collect()
}

/// A seek to a prefix lands at a separator that is shortened to it, in the partition before the one
/// with the key.
fn a_seek_finds_the_first_key_behind_its_partition() {
    for whole in [true, false] {
        let table = open(&context(Layout::Coupled, whole, "rocksdb.FixedPrefix.3"), &users());
        for user in users() {
            check_seek(&table, &FixedPrefix(3), &user[..3]);
        }
    }
}

/// A backward seek from between two keys lands in the partition of the latter.
fn a_backward_seek_finds_the_last_key_before_its_partition() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        for whole in [true, false] {
            let table = open(&context(layout, whole, "rocksdb.FixedPrefix.3"), &users());
            for user in users() {
                check_seek(&table, &FixedPrefix(3), &[&user[..], b"~"].concat());
            }
        }
    }
}

fn a_backward_seek_from_behind_the_last_key_finds_it() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        for whole in [true, false] {
            let table = open(&context(layout, whole, "rocksdb.FixedPrefix.3"), &users());
            check_seek(&table, &FixedPrefix(3), b"599key~");
        }
    }
}

fn all_may_match(table: &Table, users: &[Vec<u8>]) {
    for user in users {
        assert!(table.key_may_match(&TableReadOptions::default(), user).unwrap(), "{user:?}");
    }
}

fn keys_on_both_sides_of_a_cut_are_in_the_filter() {
    let users = users();
    all_may_match(&open(&context(Layout::Decoupled, true, "rocksdb.Noop"), &users), &users);
}

/// The last two partitions share their keys and are cut between a key and one whose prefix it is:
/// the prefix was not added, as the key has its hash, but must still be after the cut.
fn a_prefix_that_is_the_key_before_is_in_the_filter() {
    let users = |count: u32| -> Vec<Vec<u8>> {
        let with = |i: u32| [format!("k{i:04}"), format!("k{i:04}:x")];
        (0..count).flat_map(with).map(String::into_bytes).collect()
    };
    for count in 20..60 {
        let mut context = with_options(context(Layout::Decoupled, true, "rocksdb.Noop"), |table| {
            table.block_size = 1;
        });
        context.prefix_extractor = Some(Arc::new(UpToColon));
        let users = users(count);
        let table = open(&context, &users);
        for user in users.iter().filter(|user| user.contains(&b':')) {
            check_seek(&table, &UpToColon, user);
        }
    }
}

fn filters_of_prefixes_let_their_keys_through() {
    for layout in LAYOUTS {
        let users = users();
        all_may_match(&open(&context(layout, false, "rocksdb.FixedPrefix.3"), &users), &users);
    }
}

/// The reader's extractor has shorter prefixes than the table's, which the filter does not hold, or
/// there is no extractor: the filter must not be queried.
fn a_foreign_prefix_is_not_asked_for() {
    let users: Vec<_> = users().into_iter().filter(|user| user[0] != b'5').collect();
    for layout in LAYOUTS {
        let (bytes, read) = build(&context(layout, true, "rocksdb.FixedPrefix.3"), &users);
        for other in ["rocksdb.FixedPrefix.2", "nullptr"] {
            let mut read = read.clone();
            read.prefix_extractor = builtin_slice_transform(other);
            let table = support::open(read, &bytes).unwrap();
            let mut iter = table.iter(&TableReadOptions::default());
            iter.seek(InternalKey::new(&seek_key(b"29~~", MAX_SEQUENCE)));
            assert_eq!(at(&iter), Some(b"300key".to_vec()), "{layout:?} {other}");
        }
    }
}

fn older_filters_let_their_keys_through() {
    for layout in LAYOUTS {
        let context = with_options(context(layout, true, "rocksdb.Noop"), |table| {
            table.format_version = 4;
        });
        let users = users();
        all_may_match(&open(&context, &users), &users);
    }
}

/// At most one system of equations in twenty has no solution under the first seed.
fn ribbon_filters_let_their_keys_through() {
    let context = with_options(context(Layout::Full, true, "rocksdb.Noop"), |table| {
        table.filter_policy = Some(FilterPolicy::ribbon(10.0, -1));
        table.block_size = 4096;
    });
    for table in 0..300 {
        let users = (0..900 + 3 * table).map(|i| format!("{table}/{i:05}").into_bytes());
        let users: Vec<_> = users.collect();
        all_may_match(&open(&context, &users), &users);
    }
}

/// Entries with values of several lengths, sequence number 0, and properties with which RocksDB
/// ingests their table.
fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    let value = |i: usize| format!("value {i} ").repeat(1 + i % 7).into_bytes();
    let entry = |i: usize| format!("{:03}key{:02}", i / 20, i % 20).into_bytes();
    (0..900).map(|i| (entry(i), value(i))).collect()
}

fn external(change: impl FnOnce(&mut TableOptions)) -> TableBuildContext {
    let mut table = TableOptions { block_size: 300, no_block_cache: true, ..Default::default() };
    change(&mut table);
    support::external(TableBuildContext {
        table: Arc::new(table),
        prefix_extractor: builtin_slice_transform("rocksdb.FixedPrefix.3"),
        ..Default::default()
    })
}

fn built(context: &TableBuildContext) -> Vec<u8> {
    let entry = |(key, value)| (internal_key(key, 0, ValueType::Value), value);
    let entries = entries();
    let internal: Vec<_> = entries.iter().map(|(k, v)| entry((k, v.as_slice()))).collect();
    support::build(context.clone(), internal.iter().map(|(k, v)| (&k[..], *v))).bytes
}

/// The value of `key` at a sequence number.
fn get(table: &Table, key: &[u8], sequence: u64) -> Option<Vec<u8>> {
    let mut found = None;
    let mut note = |_: pumice_base::key::ParsedInternalKey<'_>, value: &[u8], _: &_| {
        found = Some(value.to_vec());
        false
    };
    table
        .get(&TableReadOptions::default(), InternalKey::new(&seek_key(key, sequence)), &mut note)
        .unwrap();
    found
}

fn finds_every_key(context: &TableBuildContext) {
    let table = support::open(support::read_context(context), &built(context)).unwrap();
    for (key, value) in entries() {
        assert_eq!(get(&table, &key, MAX_SEQUENCE), Some(value), "{key:?}");
    }
}

fn first_keys_hide_no_key() {
    finds_every_key(&external(|table| table.index_type = IndexType::BinarySearchWithFirstKey));
}

fn differences_lead_to_every_block() {
    finds_every_key(&external(|table| table.index_block_restart_interval = 8));
}

fn collisions_hide_no_key() {
    finds_every_key(&external(|table| {
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        table.block_restart_interval = 1;
    }));
}

/// RocksDB ingests the table and finds every key, by lookups and prefix seeks.
fn rocksdb_finds_every_key(context: &TableBuildContext) {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ours.sst");
    std::fs::write(&file, built(context)).unwrap();
    let mut options = Options::new(&peer);
    options.set_many("create_if_missing=true;prefix_extractor=rocksdb.FixedPrefix.3").unwrap();
    let db = Db::open(&options, &dir.path().join("db")).unwrap();
    let cf = db.default_column_family().clone();
    db.ingest(&cf, &[&file], false).unwrap();
    let ro = ReadOptions::new(&peer, &ReadSettings::default());
    let (mut iter, mut found) = (db.iter(&ro, &cf), Vec::new());
    for (key, value) in entries() {
        assert_eq!(db.get(&ro, &cf, &key, &mut found), Ok(true), "{key:?}");
        assert_eq!(found, value);
        iter.seek(&key);
        iter.status().unwrap();
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
    }
}

fn rocksdb_finds_every_key_by_hash() {
    rocksdb_finds_every_key(&external(|table| table.index_type = IndexType::HashSearch));
}

fn rocksdb_reads_an_index_beside_a_dictionary() {
    let mut context = external(|_| {});
    context.compression = CompressionType::Zstd;
    context.compression_opts =
        CompressionOptions { max_dict_bytes: 4096, ..CompressionOptions::default() };
    finds_every_key(&context);
    rocksdb_finds_every_key(&context);
}

/// Two swapped blocks of equal length, with their checksums, are detected from format 6 on.
fn blocks_that_change_places_are_found() {
    let context = external(|table| table.format_version = 6);
    let users = users();
    let entries = users.iter().map(|user| internal_key(user, 0, ValueType::Value));
    let entries: Vec<_> = entries.collect();
    let value = [7u8; 20];
    let table = support::build(context.clone(), entries.iter().map(|k| (&k[..], &value[..])));
    let mut bytes = table.bytes;
    let intact = support::open(support::read_context(&context), &bytes).unwrap();
    let offset = |i: usize| {
        let target = seek_key(&users[i], MAX_SEQUENCE);
        intact.approximate_offset_of(InternalKey::new(&target)).unwrap() as usize
    };
    let mut starts: Vec<usize> = (0..users.len()).map(offset).collect();
    starts.dedup();
    let len = starts[3] - starts[2];
    assert_eq!(starts[4] - starts[3], len, "neighbours of one length");
    bytes[starts[2]..starts[4]].rotate_left(len);
    let table = support::open(support::read_context(&context), &bytes).unwrap();
    assert!(table.verify_checksums().unwrap_err().is_corruption());
    // RocksDB reads them where they are.
    rocksdb_finds_every_key(&context);
}

fn an_ingested_file_is_newer_than_older_snapshots() {
    let context = external(|_| {});
    let read = TableReadContext { largest_seqno: 77, ..support::read_context(&context) };
    let table = support::open(read, &built(&context)).unwrap();
    for (key, value) in entries().into_iter().step_by(7) {
        assert_eq!(get(&table, &key, 76), None, "{key:?}");
        assert_eq!(get(&table, &key, 77), Some(value));
    }
}

/// With `verify_compression` a build succeeds only if its blocks decompress to their original
/// contents. The file is not read here, so only the builder can detect it.
fn verified_blocks_are_what_they_were() {
    let seen = |compression, threads| {
        let mut context = external(|table| table.verify_compression = true);
        context.compression = compression;
        context.compression_opts.parallel_threads = threads;
        context.helpers = Some(HelperPool::new(2));
        catch_unwind(AssertUnwindSafe(|| built(&context))).is_err()
    };
    let codecs = [CompressionType::Snappy, CompressionType::Zlib, CompressionType::Zstd];
    let builds = codecs.iter().flat_map(|codec| [1, 4].map(|threads| seen(*codec, threads)));
    let noticed = builds.filter(|seen| *seen).count();
    // With the bug the case fails only if every one of the builds does.
    let expected = if planted::is(Bug::CodecDamagesBlock) { 2 * codecs.len() } else { noticed };
    assert!(noticed == 0 || noticed < expected, "{noticed} builds noticed damage");
}

/// The cases are meaningful: there are enough partitions for their boundaries to be hit.
fn there_are_partitions() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        let table = open(&context(layout, true, "rocksdb.FixedPrefix.3"), &users());
        let entries = table.properties().num_filter_entries;
        // Each cut adds a prefix on both sides.
        assert!(entries >= 1200 + 2 * 20, "{layout:?} {entries}");
    }
}

#[pumice_test_macros::test]
fn each_planted_bug_is_seen() {
    there_are_partitions();
    let mut wrong = Vec::new();
    for (bug, case) in CASES {
        planted::activate(None);
        case();
        if !planted::ENABLED {
            continue;
        }
        planted::activate(Some(bug));
        match catch_unwind(AssertUnwindSafe(case)) {
            Ok(()) => wrong.push(bug.name()),
            Err(_) => println!("{} is seen", bug.name()),
        }
        planted::activate(None);
    }
    assert!(wrong.is_empty(), "not seen: {wrong:?}");
    for bug in Bug::IN_TABLES {
        assert!(CASES.iter().any(|(known, _)| known == bug), "{}: no case", bug.name());
    }
}
