//! Filters that RocksDB 10.10.1 wrote, byte for byte.
//!
//! `golden/filters.txt` has a line for each case: policy, format version, input, number of keys,
//! length of the filter and `hash64` of it, and the bytes themselves of short ones. One test
//! compares our filters with it. The other lets RocksDB write them again, where its library is
//! installed (`cargo xtask peers`), and compares those; with `PUMICE_WRITE_GOLDEN=1` it writes the
//! file instead. With `optimize_filters_for_memory` bytes are not comparable, since RocksDB's
//! depend on its allocator and on earlier filters; there the false-positive rates are compared.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // Files of RocksDB, outside the engine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pumice_base::coding::{get_varint32, get_varint64};
use pumice_base::hash::hash64;
use pumice_filter::{FilterBuildSettings, FilterPolicy, FilterReader};
use pumice_peer::{Options, Peer, SstFileWriter};

const GOLDEN: &str = include_str!("golden/filters.txt");
const POLICIES: [&str; 11] = [
    "bloomfilter:10",
    "bloomfilter:9.9",
    "bloomfilter:2",
    "bloomfilter:15.5",
    "bloomfilter:27",
    "ribbonfilter:10",
    "ribbonfilter:9.9",
    "ribbonfilter:15.5",
    "ribbonfilter:1.2",
    "ribbonfilter:27",
    "ribbonfilter:60",
];
const COUNTS: [usize; 7] = [1, 2, 100, 400, 1000, 3000, 100_000];
/// Shorter filters are in the golden file whole.
const SHORT: usize = 150;
const PREFIX_LEN: usize = 6;
const CONTENTS: [&str; 3] = ["whole", "prefix", "both"];

struct Case {
    policy: &'static str,
    format_version: u32,
    contents: &'static str,
    count: usize,
}

impl Case {
    fn settings(&self, optimize_for_memory: bool) -> FilterBuildSettings {
        let format_version = self.format_version;
        FilterBuildSettings { optimize_for_memory, ..FilterBuildSettings::new(format_version) }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in POLICIES {
        for format_version in [4, 5] {
            for contents in CONTENTS {
                if contents != "both" && !policy.ends_with(":10") {
                    continue;
                }
                cases.extend(COUNTS.map(|count| Case { policy, format_version, contents, count }));
            }
        }
    }
    cases
}

/// Ascending keys: of each prefix some, now and then the prefix itself and a key that is too short
/// to have one.
fn keys(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let of_prefix = |prefix: usize| {
        let short = prefix.is_multiple_of(10).then(|| format!("p{:04}", prefix / 10));
        let alone = prefix.is_multiple_of(3).then(|| format!("p{prefix:05}"));
        let long = (0..7 + prefix % 5).map(move |i| format!("p{prefix:05}k{:06}", i * 31));
        short.into_iter().chain(alone).chain(long).map(String::into_bytes)
    };
    (0..).flat_map(of_prefix).take(count)
}

fn prefix(key: &[u8]) -> Option<&[u8]> {
    key.get(..PREFIX_LEN)
}

/// Our filter, built in batches.
fn ours(case: &Case, settings: &FilterBuildSettings) -> Vec<u8> {
    let policy = FilterPolicy::parse(case.policy).unwrap().unwrap();
    let mut builder = policy.builder(settings).unwrap();
    let keys: Vec<_> = keys(case.count).collect();
    for block in keys.chunks(77) {
        let block = block.iter().map(Vec::as_slice);
        match case.contents {
            "whole" => builder.add_keys(block),
            "prefix" => builder.add_keys(block.filter_map(prefix)),
            _ => builder.add_keys_and_alts(block.map(|key| (key, prefix(key)))),
        }
    }
    let filter = builder.finish().unwrap();
    let reader = FilterReader::new(&filter);
    if case.contents != "prefix" {
        assert!(keys.iter().all(|key| reader.may_match(&filter, key)));
    }
    filter
}

fn line(case: &Case, filter: &[u8]) -> String {
    let Case { policy, format_version, contents, count } = case;
    let mut line = format!(
        "{policy} {format_version} {contents} {count} {} {:016x}",
        filter.len(),
        hash64(filter)
    );
    if filter.len() < SHORT {
        line.push(' ');
        filter.iter().for_each(|byte| write!(line, "{byte:02x}").unwrap());
    }
    line
}

#[test]
fn ours_equal_rocksdbs() {
    let cases = cases();
    assert_eq!(GOLDEN.lines().count(), cases.len());
    for (case, golden) in cases.iter().zip(GOLDEN.lines()) {
        assert_eq!(line(case, &ours(case, &case.settings(false))), golden);
    }
}

#[test]
fn golden_file_is_what_rocksdb_writes() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("filter.sst");
    let mut lines = String::new();
    for case in cases() {
        writeln!(lines, "{}", line(&case, &theirs(&peer, &case, false, &file))).unwrap();
    }
    if std::env::var_os("PUMICE_WRITE_GOLDEN").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/filters.txt");
        std::fs::write(PathBuf::from(place), lines).unwrap();
    } else {
        assert_eq!(lines, GOLDEN);
    }
}

/// Share of absent keys that pass.
fn false_positive_rate(filter: &[u8]) -> f64 {
    const ABSENT: u32 = 10_000;
    let reader = FilterReader::new(filter);
    let passes = |i: &u32| reader.may_match(filter, format!("absent{i}").as_bytes());
    f64::from((0..ABSENT).filter(passes).count() as u32) / f64::from(ABSENT)
}

#[test]
fn rates_equal_rocksdbs_on_average() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("filter.sst");
    for policy in ["bloomfilter:10", "ribbonfilter:10"] {
        let (mut our_sum, mut their_sum) = (0.0, 0.0);
        // Many filters: each of ours differs from the rate by a third at most.
        for count in (1000..9000).step_by(17) {
            let case = Case { policy, format_version: 5, contents: "whole", count };
            our_sum += false_positive_rate(&ours(&case, &case.settings(true)));
            their_sum += false_positive_rate(&theirs(&peer, &case, true, &file));
        }
        let ratio = our_sum / their_sum;
        println!("{policy}: {ratio:.3} of RocksDB's rate");
        assert!((0.95..1.05).contains(&ratio), "{policy}: {ratio}");
    }
}

/// RocksDB's filter; empty if it wrote none.
fn theirs(peer: &Peer, case: &Case, optimize_for_memory: bool, file: &Path) -> Vec<u8> {
    let mut options = Options::new(peer);
    let table = format!(
        "filter_policy={};format_version={};whole_key_filtering={};\
         optimize_filters_for_memory={optimize_for_memory}",
        case.policy,
        case.format_version,
        case.contents != "prefix"
    );
    options.set_table(&table).unwrap();
    options.set("compression", "kNoCompression").unwrap();
    if case.contents != "whole" {
        options.set("prefix_extractor", &format!("fixed:{PREFIX_LEN}")).unwrap();
    }
    let mut writer = SstFileWriter::new(&options);
    writer.open(file).unwrap();
    for key in keys(case.count) {
        writer.put(&key, b"").unwrap();
    }
    writer.finish().unwrap();
    filter_of(&std::fs::read(file).unwrap())
}

/// The full filter of a table of format 2 to 5, found through footer and metaindex.
fn filter_of(table: &[u8]) -> Vec<u8> {
    // Checksum type, two handles, padding, version and magic number.
    let footer = &table[table.len() - 53..];
    let block = block_at(table, &footer[1..]);
    let restarts = u32::from_le_bytes(*block.last_chunk().unwrap()) as usize;
    let mut entries = &block[..block.len() - 4 - 4 * restarts];
    while !entries.is_empty() {
        let lengths: [usize; 3] = std::array::from_fn(|_| {
            let (length, read) = get_varint32(entries).unwrap();
            entries = &entries[read..];
            length as usize
        });
        let [shared, rest, value_len] = lengths;
        assert_eq!(shared, 0, "the metaindex has a restart point at each key");
        let (name, value) = entries.split_at(rest);
        if name == b"fullfilter.rocksdb.BuiltinBloomFilter" {
            return block_at(table, value).to_vec();
        }
        entries = &value[value_len..];
    }
    Vec::new()
}

/// The uncompressed block that an encoded handle names.
fn block_at<'a>(table: &'a [u8], handle: &[u8]) -> &'a [u8] {
    let (offset, read) = get_varint64(handle).unwrap();
    let (size, _) = get_varint64(&handle[read..]).unwrap();
    let (start, end) = (offset as usize, (offset + size) as usize);
    assert_eq!(table[end], 0, "the block is compressed");
    &table[start..end]
}
