//! Several ranges in one scan, in both directions, beside what single ranges show.

use pumice::{Db, ErrorKind, MemFs, Options, RangeOpt, ReadOptions};
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
