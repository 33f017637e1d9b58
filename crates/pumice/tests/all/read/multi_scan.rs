//! Several ranges in one scan, in both directions, beside what single ranges show.

use pumice::{
    ColumnFamilyDescriptor, Comparator, Db, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, MemFs, Options, RangeOpt, ReadOptions, Scan, SstFileWriter,
};
use pumice_base::random::Rng;

fn range(start: &str, limit: &str) -> RangeOpt {
    let end = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
    RangeOpt { start: end(start), limit: end(limit) }
}

fn options() -> Options {
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    options
}

#[pumice_test_macros::test]
fn scans_show_what_ranges_show() {
    let db = Db::open(&options(), "/db").unwrap();
    let mut rng = Rng::new(11);
    for round in 0..3 {
        for _ in 0..400 {
            let key = format!("{:03}", rng.uniform(600));
            match rng.uniform(4) {
                0 => db.delete(&key).unwrap(),
                _ => db.put(&key, format!("{round}")).unwrap(),
            }
        }
        if round < 2 {
            db.flush().unwrap();
        }
    }
    let before = db.snapshot();
    db.delete_range("100", "300").unwrap();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut starts: Vec<u64> = (0..1 + rng.uniform(8)).map(|_| rng.uniform(620)).collect();
        starts.sort_unstable();
        starts.dedup();
        // Some overlap, some are empty.
        let ranges: Vec<RangeOpt> = starts
            .iter()
            .map(|start| range(&format!("{start:03}"), &format!("{:03}", start + rng.uniform(99))))
            .collect();
        let options = match seed % 2 {
            0 => ReadOptions::default(),
            _ => ReadOptions::at(&before),
        };
        for reverse in [false, true] {
            let cf = db.default_column_family();
            let scans = db.multi_scan(&options, cf, ranges.clone(), reverse).unwrap();
            let found: Vec<Vec<_>> =
                scans.map(|scan| scan.unwrap().map(|entry| entry.unwrap()).collect()).collect();
            let single = |range: &RangeOpt| {
                let (start, limit) = (range.start.clone().unwrap(), range.limit.clone().unwrap());
                let all = db.range_opt(&options, start..limit).unwrap();
                let mut all: Vec<_> = all.map(|entry| entry.unwrap()).collect();
                if reverse {
                    all.reverse();
                }
                all
            };
            let mut expected: Vec<Vec<_>> = ranges.iter().map(single).collect();
            if reverse {
                expected.reverse();
            }
            assert!(expected.iter().any(|scan| !scan.is_empty()) || seed % 2 == 0, "seed {seed}");
            assert_eq!(found, expected, "seed {seed}");
        }
    }
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn all_ranges_are_of_one_moment() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("c", "1").unwrap();
    let cf = db.default_column_family();
    let ranges = vec![range("", "b"), range("b", "")];
    let mut scans = db.multi_scan(&ReadOptions::default(), cf, ranges, false).unwrap();
    let mut first = scans.next().unwrap().unwrap();
    db.put("b", "2").unwrap();
    db.delete("c").unwrap();
    assert_eq!(first.next().unwrap().unwrap().0, b"a");
    assert!(first.next().is_none());
    let second: Vec<_> = scans.next().unwrap().unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(second, [b"c"]);
    assert!(scans.next().is_none());
    for (ranges, reverse) in [
        (vec![], false),
        (vec![range("b", "c"), range("a", "b")], false),
        (vec![range("b", "c"), range("b", "d")], false),
        (vec![range("a", "b"), range("", "c")], false),
        (vec![range("a", "")], true),
        (vec![range("", "b")], true),
    ] {
        let refused = db.multi_scan(&ReadOptions::default(), cf, ranges, reverse).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    db.close().unwrap();
}

/// A range that is scanned later shows what a cursor of the first moment would.
#[pumice_test_macros::test]
fn later_ranges_keep_the_files_of_the_moment() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "old").unwrap();
    }
    db.flush().unwrap();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/new.sst").unwrap();
    writer.put("b", "new").unwrap();
    writer.finish().unwrap();
    let cf = db.default_column_family();
    let ranges = vec![range("a", "b"), range("b", "c"), range("c", "d")];
    let mut scans = db.multi_scan(&ReadOptions::default(), cf, ranges, false).unwrap();
    let values = |scan: Scan| scan.map(|entry| entry.unwrap().1).collect::<Vec<_>>();
    assert_eq!(values(scans.next().unwrap().unwrap()), [b"old"]);
    let how = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
    let mut arg = IngestExternalFileArg::new(cf, vec!["/new.sst".into()], &how);
    arg.atomic_replace_range = Some(RangeOpt::default());
    db.ingest_external_files(&[arg]).unwrap();
    assert_eq!(db.get("c").unwrap(), None);
    assert_eq!(values(scans.next().unwrap().unwrap()), [b"old"]);
    assert_eq!(values(scans.next().unwrap().unwrap()), [b"old"]);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_secondary_scans_too() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("c", "1").unwrap();
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (second, _) = Db::open_as_secondary(&options.db, "/db", "/second", &families).unwrap();
    let ranges = vec![range("a", "b"), range("c", "d")];
    let cf = second.default_column_family();
    let mut scans = second.multi_scan(&ReadOptions::default(), cf, ranges, false).unwrap();
    assert_eq!(scans.next().unwrap().unwrap().count(), 1);
    db.delete("c").unwrap();
    second.try_catch_up_with_primary().unwrap();
    assert_eq!(scans.next().unwrap().unwrap().count(), 1);
    drop(scans);
    second.close().unwrap();
    db.close().unwrap();
}

/// Bounds have no timestamps, whatever their length.
#[pumice_test_macros::test]
fn ranges_of_keys_with_timestamps() {
    for name in ["leveldb.BytewiseComparator.u64ts", "rocksdb.ReverseBytewiseComparator.u64ts"] {
        let mut options = options();
        options.cf.comparator = Comparator::builtin(name).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let keys = ["a", "aaaaaaaa", "aaaaaaab", "b", "bbbbbbbb", "bbbbbbbbbbbb", "c"];
        for key in keys {
            db.at(1).put(key, "1").unwrap();
            db.at(2).put(key, "2").unwrap();
        }
        db.flush().unwrap();
        let reads =
            ReadOptions { timestamp: Some(1u64.to_le_bytes().into()), ..Default::default() };
        let mut expected = vec![vec!["a"], vec!["aaaaaaaa"], vec!["b", "bbbbbbbb"]];
        let mut ranges =
            vec![range("a", "aa"), range("aaaaaaaa", "aaaaaaab"), range("b", "bbbbbbbbb")];
        if name.contains("Reverse") {
            expected = vec![vec!["bbbbbbbb", "b"], vec!["aaaaaaaa"], vec!["a"]];
            ranges = vec![range("bbbbbbbb", "aaaaaaab"), range("aaaaaaaa", "aa"), range("aa", "")];
            ranges[2].limit = Some(b"A".into());
        }
        let cf = db.default_column_family();
        for reverse in [false, true] {
            let scans = db.multi_scan(&reads, cf, ranges.clone(), reverse).unwrap();
            let key = |entry: pumice::Result<(Vec<u8>, Vec<u8>)>| {
                let (key, value) = entry.unwrap();
                assert_eq!(value, b"1");
                String::from_utf8(key).unwrap()
            };
            let found: Vec<Vec<_>> = scans.map(|scan| scan.unwrap().map(key).collect()).collect();
            let mut expected = expected.clone();
            if reverse {
                expected.reverse();
                expected.iter_mut().for_each(|keys| keys.reverse());
            }
            assert_eq!(found, expected, "{name}, reverse {reverse}");
        }
        let back = ranges.iter().rev().cloned().collect();
        let refused = db.multi_scan(&reads, cf, back, false).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        db.close().unwrap();
    }
}

/// What no range could be read with is refused before the first.
#[pumice_test_macros::test]
fn options_are_refused_at_once() {
    let db = Db::open(&options(), "/db").unwrap();
    let other = Db::open(&options(), "/db").unwrap();
    let snapshot = other.snapshot();
    let scan = |options: &ReadOptions, of: &Db| {
        let scans =
            db.multi_scan(options, of.default_column_family(), vec![range("a", "b")], false);
        scans.err().map(|error| error.kind())
    };
    assert_eq!(scan(&ReadOptions::default(), &db), None);
    let refused = Some(ErrorKind::InvalidArgument);
    assert_eq!(scan(&ReadOptions::at(&snapshot), &db), refused);
    assert_eq!(scan(&ReadOptions::default(), &other), refused);
    assert_eq!(scan(&ReadOptions { tailing: true, ..Default::default() }, &db), refused);
    let timed = ReadOptions { timestamp: Some(vec![0; 8]), ..Default::default() };
    assert_eq!(scan(&timed, &db), refused);
    drop(snapshot);
    db.close().unwrap();
    other.close().unwrap();
}

/// With a range its neighbours' first blocks are read; each block is read once, as without that.
#[pumice_test_macros::test]
fn first_blocks_of_later_ranges_are_read_together() {
    use pumice::perf::{self, PerfLevel, PerfMetric};
    let mut options = options();
    options.cf.table_factory.no_block_cache = true;
    options.cf.table_factory.block_size = 256;
    let db = Db::open(&options, "/db").unwrap();
    for part in 0..2 {
        for n in 0..1000 {
            db.put(format!("{:04}", 2 * n + part), [b'v'; 20]).unwrap();
        }
        db.flush().unwrap();
    }
    let cf = db.default_column_family();
    let ranges: Vec<_> = (0..40)
        .map(|n| range(&format!("{:04}", 50 * n), &format!("{:04}", 50 * n + 1 + n % 30)))
        .collect();
    let reads = || perf::context().get(PerfMetric::BlockReadCount);
    let mut totals = Vec::new();
    for (async_io, reverse) in [(true, false), (false, false), (true, true), (false, true)] {
        perf::set_level(PerfLevel::EnableCount);
        perf::reset();
        let options = ReadOptions { async_io, ..ReadOptions::default() };
        let mut scans = db.multi_scan(&options, cf, ranges.clone(), reverse).unwrap();
        assert_eq!(reads(), 0);
        let first = scans.next().unwrap().unwrap();
        assert_eq!(reads(), 0, "one range is asked for");
        let rest: Vec<_> = scans.map(|scan| scan.unwrap()).collect();
        // A block of each table for each other range, or two where a range begins between blocks.
        let ahead = if async_io { 78..100 } else { 0..1 };
        assert!(ahead.contains(&reads()), "{async_io}: {}", reads());
        let mut keys = Vec::new();
        for scan in [first].into_iter().chain(rest) {
            keys.extend(scan.map(|entry| entry.unwrap().0));
        }
        totals.push((reads(), keys));
        perf::set_level(PerfLevel::Disable);
    }
    assert_eq!(totals[0], totals[1]);
    assert_eq!(totals[2], totals[3]);
    assert_eq!(totals[0].1.len(), (0..40).map(|n| 1 + n % 30).sum::<usize>());
    db.close().unwrap();
}
