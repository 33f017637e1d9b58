//! MANIFESTs that RocksDB wrote, as files under testdata.
//!
//! `rocksdb-7.8.3-*`: by Debian's db_bench and ldb, with what `ldb manifest_dump --verbose --hex`
//! printed (public unique ids removed). `rocksdb-10.10.1-*`: by the release's C library, with
//! base level, pending bytes and scores it reported under many options (`*.scores`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use pumice_base::checksum::{crc32c, mask_crc};
use pumice_base::{Comparator, InternalKeyComparator};
use pumice_manifest::{LevelScores, LevelTargets, Version, VersionBuilder, VersionEdit};

use pumice_manifest::testing::{self as text, Command};

/// The logical records of a log in 32 KiB blocks of `crc(4) length(2) type(1) payload`.
fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut current = Vec::new();
    for block in file.chunks(32 << 10) {
        let mut rest = block;
        while rest.len() >= 7 {
            let length = usize::from(u16::from_le_bytes([rest[4], rest[5]]));
            let kind = rest[6];
            let (record, tail) = rest.split_at(7 + length);
            let stored = u32::from_le_bytes(record[..4].try_into().unwrap());
            assert_eq!(stored, mask_crc(crc32c(&record[6..])));
            current.extend_from_slice(&record[7..]);
            if kind == 1 || kind == 4 {
                records.push(std::mem::take(&mut current));
            }
            rest = tail;
        }
    }
    records
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/testdata/{name}")).unwrap()
}

fn edits(name: &str) -> Vec<VersionEdit> {
    records(&read(name)).iter().map(|r| VersionEdit::decode(r).unwrap()).collect()
}

/// The versions of all column families after all edits.
fn replay(edits: &[VersionEdit]) -> BTreeMap<u32, Arc<Version>> {
    let mut builders = BTreeMap::new();
    for edit in edits {
        let id = edit.column_family;
        if edit.drop_column_family {
            builders.remove(&id);
            continue;
        }
        let icmp = InternalKeyComparator::new(Comparator::Bytewise);
        let new = || VersionBuilder::new(Version::empty(icmp, 7));
        builders.entry(id).or_insert_with(new).apply(edit).unwrap();
    }
    builders.into_iter().map(|(id, builder)| (id, builder.build().unwrap())).collect()
}

/// Our dump without fields that 7.8.3 does not know.
fn dump_like_7_8(edits: &[VersionEdit]) -> String {
    edits.iter().fold(String::new(), |mut out, edit| {
        for line in edit.debug_string(true).lines() {
            let line = line.split(" tail size:").next().unwrap();
            writeln!(out, "{}", line.replace(" epoch_number:0", "")).unwrap();
        }
        out
    })
}

#[test]
fn dumps_like_ldb() {
    for name in ["rocksdb-7.8.3-blobs", "rocksdb-7.8.3-drop"] {
        let edits = edits(&format!("{name}.manifest"));
        let expected = String::from_utf8(read(&format!("{name}.dump"))).unwrap();
        assert_eq!(dump_like_7_8(&edits), expected, "{name}");
        replay(&edits);
    }
}

#[test]
fn encodes_what_10_10_wrote_byte_for_byte() {
    let names = ["static", "dynamic", "families"];
    let mut files = 0;
    for name in names {
        for record in records(&read(&format!("rocksdb-10.10.1-{name}.manifest"))) {
            let edit = VersionEdit::decode(&record).unwrap();
            assert_eq!(edit.encode(), record, "{}", edit.debug_string(true));
            files += edit.new_files.len();
        }
    }
    assert!(files > 1000, "{files}");
}

#[test]
fn replays_column_families() {
    let versions = replay(&edits("rocksdb-10.10.1-families.manifest"));
    let counts: Vec<usize> = versions.values().map(|v| v.num_files()).collect();
    assert_eq!(versions.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(counts[0], 12);
    assert!(counts[1] > 0);
    assert_eq!(versions[&0].num_level_files(6), 12);
}

#[test]
fn levels_and_scores_agree_with_10_10() {
    for name in ["static", "dynamic"] {
        let versions = replay(&edits(&format!("rocksdb-10.10.1-{name}.manifest")));
        let version = &versions[&0];
        let text = String::from_utf8(read(&format!("rocksdb-10.10.1-{name}.scores"))).unwrap();
        assert!(text.lines().count() > 90);
        for line in text.lines() {
            let words = line.split(' ').map(|w| w.split_once('=').unwrap_or((w, "")));
            let args = words.map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let command = Command { name: String::new(), args, input: Vec::new() };
            let options = text::leveled_options(&command);
            let targets = LevelTargets::compute(version, &options);
            let scores = LevelScores::compute(version, &targets, &options, []);
            assert_eq!(Some(targets.base_level as u64), command.number("base_level"), "{line}");
            let pending = Some(scores.estimated_compaction_needed_bytes);
            assert_eq!(pending, command.number("pending"), "{line}");
            for level in 0..7 {
                let Some(expected) = command.args.get(&format!("L{level}")) else { continue };
                let expected: f64 = expected.parse().unwrap();
                let score = scores.score(level);
                assert!((score - expected).abs() < 0.0501, "{line}: L{level} {score}");
            }
        }
    }
}
