//! Debian's sst_dump (RocksDB 7.8.3) must accept what the builder writes: every codec, checksum and
//! format that it supports. Skipped with a message where the tool is missing.
#![allow(clippy::disallowed_methods)]

use std::process::Command;
use std::sync::Arc;

use crate::support;
use pumice_base::ValueType;
use pumice_base::checksum::ChecksumType;
use pumice_base::key::internal_key;
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{TableBuildContext, TableOptions, unique_id_of};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn sst_dump(args: &[&str]) -> Option<String> {
    match Command::new("sst_dump").args(args).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "sst_dump {args:?}: {text}");
            Some(text)
        }
        Err(_) => {
            eprintln!("SKIPPED: sst_dump is not installed");
            None
        }
    }
}

fn entries() -> Entries {
    let mut list = Entries::new();
    for i in 0..2000u64 {
        let user = format!("key{:06}", i / 2 * 3);
        let kind = if i % 7 == 0 { ValueType::Deletion } else { ValueType::Value };
        let value = if kind == ValueType::Deletion { String::new() } else { format!("value{i}") };
        list.push((internal_key(user.as_bytes(), 5000 - i, kind), value.repeat(3).into_bytes()));
    }
    list
}

fn context(format_version: u32, checksum: ChecksumType) -> TableBuildContext {
    let options = TableOptions {
        format_version,
        checksum,
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        ..Default::default()
    };
    TableBuildContext {
        table: Arc::new(options),
        column_family_id: 0,
        column_family_name: "default".into(),
        original_file_number: 9,
        db_id: "11111111-2222-3333-4444-555555555555".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        db_host_id: "host".into(),
        ..Default::default()
    }
}

/// Builds the table in a separate directory and runs every sst_dump command on it.
fn check(name: &str, context: TableBuildContext, list: &Entries, ranges: usize) -> bool {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("000009.sst");
    let built = support::build(context, list.iter().map(|(k, v)| (&k[..], &v[..])));
    std::fs::write(&path, &built.bytes).unwrap();
    let file = format!("--file={}", path.display());
    let Some(text) = sst_dump(&[&file, "--command=check", "--show_properties"]) else {
        return false;
    };
    assert!(text.contains(&format!("# entries: {}", list.len())), "{name}: {text}");
    assert!(text.contains(&format!("# range deletions: {ranges}")), "{name}: {text}");
    assert!(!text.contains("orruption"), "{name}: {text}");
    let text = sst_dump(&[&file, "--command=verify"]).unwrap();
    assert!(text.contains("The file is ok"), "{name}: {text}");
    let text = sst_dump(&[&file, "--command=scan", "--output_hex"]).unwrap();
    let rows = text.lines().filter(|line| line.contains(" => ")).count();
    assert_eq!(rows, list.len() - ranges, "{name}: {text}");
    true
}

#[pumice_test_macros::test]
fn every_codec_checksum_and_old_format_is_accepted() {
    let list = entries();
    let codecs = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
        CompressionType::Zlib,
    ];
    let checksums = [
        ChecksumType::None,
        ChecksumType::Crc32c,
        ChecksumType::XxHash,
        ChecksumType::XxHash64,
        ChecksumType::Xxh3,
    ];
    for compression in codecs {
        for checksum in checksums {
            let context = TableBuildContext { compression, ..context(5, checksum) };
            if !check(&format!("{compression:?} {checksum:?}"), context, &list, 0) {
                return;
            }
        }
    }
    for version in 2..=4 {
        check(&format!("v{version}"), context(version, ChecksumType::Crc32c), &list, 0);
    }
}

#[pumice_test_macros::test]
fn tombstones_alignment_and_properties_are_accepted() {
    let mut list = entries();
    for i in 0..20u64 {
        let start = format!("key{:06}", i * 10);
        let end = format!("key{:06}", i * 10 + 15);
        let start = internal_key(start.as_bytes(), 9000 + i, ValueType::RangeDeletion);
        list.push((start, end.into_bytes()));
    }
    if !check("tombstones", context(5, ChecksumType::Xxh3), &list, 20) {
        return;
    }
    let only: Entries = list.split_off(list.len() - 20);
    check("only tombstones", context(5, ChecksumType::Xxh3), &only, 20);
    let mut aligned = context(5, ChecksumType::Xxh3);
    let options = TableOptions { block_align: true, ..(*aligned.table).clone() };
    aligned.table = Arc::new(options);
    check("aligned", aligned, &list, 0);
}

/// The properties and the raw dump print as sst_dump prints them.
#[pumice_test_macros::test]
fn dumps_print_as_the_tool_prints() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("000009.sst");
    let context = TableBuildContext {
        compression: CompressionType::Snappy,
        ..context(5, ChecksumType::Xxh3)
    };
    let list = entries();
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    std::fs::write(&path, &built.bytes).unwrap();
    let file = format!("--file={}", path.display());
    let Some(text) = sst_dump(&[&file, "--command=none", "--show_properties"]) else { return };
    let table = support::open(support::read_context(&context), &built.bytes).unwrap();
    assert!(unique_id_of(table.properties()).is_some());
    let ours = pumice_table::dump::properties_text(table.properties());
    let theirs = &text[text.find("Table Properties:").unwrap()..];
    // Names that 7.8 does not know count as user-collected there.
    let split = |text: &str| {
        let (known, collected) = text.split_once("Raw user collected properties").unwrap();
        (known.to_string(), collected.lines().map(String::from).collect::<Vec<_>>())
    };
    let ((ours, our_names), (theirs, their_names)) = (split(&ours), split(theirs));
    assert_eq!(ours, theirs);
    assert_eq!(our_names.len(), 7, "{our_names:?}");
    for line in our_names {
        assert!(their_names.contains(&line), "{line}");
    }
    sst_dump(&[&file, "--command=raw"]).unwrap();
    let theirs = std::fs::read(dir.path().join("000009_dump.txt")).unwrap();
    let ours = pumice_table::dump::raw_text(&table, false).unwrap();
    assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
    assert!(ours == theirs);
}
