//! Keys that separators, shared prefixes and hashes might stumble over: of few different bytes,
//! zeros and 0xff among them, long, prefixes of each other. Tables of each engine are ingested by
//! the other, which finds all of them, walks over them both ways and seeks between them.
//!
//! Skipped with a message where the library is missing.

use std::path::Path;

use pumice_base::random::Rng;
use pumice_base::{Comparator, UserKey};
use pumice_peer as theirs;
use pumice_peer::Peer;

use super::peer;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Bytes of which keys are made.
const BYTES: [u8; 6] = [0, 1, b'a', b'b', 0xfe, 0xff];

fn random_key(rng: &mut Rng, long: &[u8]) -> Vec<u8> {
    let len = match rng.uniform(10) {
        0 => 1 + rng.uniform(2),
        1 => 120 + rng.uniform(20),
        _ => 1 + rng.uniform(9),
    };
    let mut key: Vec<u8> = if rng.one_in(3) { long.to_vec() } else { Vec::new() };
    key.extend((0..len).map(|_| BYTES[rng.uniform(6) as usize]));
    key
}

fn entries(rng: &mut Rng, order: &Comparator) -> Entries {
    let long: Vec<u8> = (0..rng.uniform(400)).map(|_| BYTES[rng.uniform(6) as usize]).collect();
    let mut keys: Vec<_> = (0..1 + rng.uniform(1500)).map(|_| random_key(rng, &long)).collect();
    keys.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
    keys.dedup();
    let value = |rng: &mut Rng| {
        let len = if rng.one_in(100) { rng.uniform(40_000) } else { rng.uniform(40) };
        rng.bytes(len as usize)
    };
    keys.into_iter().map(|key| (key, value(rng))).collect()
}

/// Settings of a column family and of its tables.
fn settings(rng: &mut Rng, reverse: bool) -> (String, String) {
    let mut one = |values: &[&str]| values[rng.uniform(values.len() as u64) as usize].to_string();
    let codec = one(&["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"]);
    let index = one(&["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"]);
    let mut table = format!("index_type={index}");
    for (name, values) in [
        ("partition_filters", &["true", "false"][..]),
        ("decouple_partitioned_filters", &["true", "true", "false"]),
        ("metadata_block_size", &["64", "300", "4096"]),
        ("block_size", &["1", "100", "700", "4096", "70000"]),
        ("block_restart_interval", &["1", "2", "16", "100"]),
        ("index_block_restart_interval", &["1", "3", "16"]),
        ("format_version", &["2", "3", "4", "5", "6", "7"]),
        ("data_block_index_type", &["kDataBlockBinaryAndHash", "kDataBlockBinarySearch"]),
        (
            "index_shortening",
            &["kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"],
        ),
        ("filter_policy", &["nullptr", "bloomfilter:10", "ribbonfilter:10:-1"]),
        ("whole_key_filtering", &["true", "true", "false"]),
        ("use_delta_encoding", &["true", "true", "false"]),
        ("checksum", &["kXXH3", "kCRC32c", "kxxHash64"]),
    ] {
        let value = one(values);
        // RocksDB does not check this and crashes without the index.
        if name != "partition_filters" || index == "kTwoLevelIndexSearch" {
            table += &format!(";{name}={value}");
        }
    }
    let mut family = format!("compression={codec}");
    if reverse {
        family += ";comparator=rocksdb.ReverseBytewiseComparator";
    }
    let prefix = one(&["", ";prefix_extractor=fixed:2", ";prefix_extractor=capped:3"]);
    // Only byte order keeps the keys of a capped prefix together.
    if !(reverse && prefix.contains("capped")) {
        family += &prefix;
    }
    (family, table)
}

/// What a reader answers: all entries, forward and backward, what seeks and gets find.
#[derive(PartialEq, Eq)]
struct Answers {
    forward: Entries,
    backward: Entries,
    seeks: Vec<[Option<Vec<u8>>; 2]>,
    /// Seeks that are to stay within the prefix of their target; none where a key has no prefix.
    scoped: Vec<[Option<Vec<u8>>; 2]>,
    gets: Vec<Option<Vec<u8>>>,
}

/// The bytes of prefixes if every one of the keys has one, which RocksDB takes for granted.
fn prefix_len(family: &str, list: &Entries) -> Option<usize> {
    let shortest = list.iter().map(|(key, _)| key.len()).min()?;
    match (family.contains("fixed:2"), family.contains("capped:3")) {
        (true, _) => (shortest >= 2).then_some(2),
        (_, capped) => capped.then_some(3),
    }
}

/// Where `target` is a key, its prefix of at most `len` bytes.
fn prefix(key: &[u8], len: usize) -> &[u8] {
    &key[..key.len().min(len)]
}

fn expected(
    list: &Entries,
    targets: &[Vec<u8>],
    scoped: &[Vec<u8>],
    prefix_len: usize,
    order: &Comparator,
) -> Answers {
    let seek = |target: &Vec<u8>| {
        let at = list.partition_point(|(key, _)| {
            order.compare(UserKey::new(key), UserKey::new(target)).is_lt()
        });
        let behind = list.partition_point(|(key, _)| {
            order.compare(UserKey::new(key), UserKey::new(target)).is_le()
        });
        let key = |i: usize| list.get(i).map(|(key, _)| key.clone());
        [key(at), behind.checked_sub(1).and_then(key)]
    };
    let within = |target: &Vec<u8>| {
        let same = |key: &Vec<u8>| prefix(key, prefix_len) == prefix(target, prefix_len);
        seek(target).map(|key| key.filter(same))
    };
    let get = |target: &Vec<u8>| {
        list.iter().find(|(key, _)| key == target).map(|(_, value)| value.clone())
    };
    Answers {
        forward: list.clone(),
        backward: list.iter().rev().cloned().collect(),
        seeks: targets.iter().map(seek).collect(),
        scoped: scoped.iter().map(within).collect(),
        gets: targets.iter().map(get).collect(),
    }
}

/// The answers of iterators and of gets; a macro, since those of the two engines have the same
/// methods and no common type.
macro_rules! ask {
    ($iter:expr, $targets:expr, $prefixed:expr, $scoped:expr, $get:expr) => {{
        let mut iter = $iter;
        let (mut forward, mut backward) = (Entries::new(), Entries::new());
        iter.seek_to_first();
        while iter.valid() {
            forward.push((
                Option::<&[u8]>::from(iter.key()).unwrap().to_vec(),
                Option::<&[u8]>::from(iter.value()).unwrap().to_vec(),
            ));
            iter.next();
        }
        iter.status().unwrap();
        iter.seek_to_last();
        while iter.valid() {
            backward.push((
                Option::<&[u8]>::from(iter.key()).unwrap().to_vec(),
                Option::<&[u8]>::from(iter.value()).unwrap().to_vec(),
            ));
            iter.prev();
        }
        iter.status().unwrap();
        let mut found = [Vec::new(), Vec::new()];
        for (mut iter, targets, found) in [iter, $prefixed]
            .into_iter()
            .zip([$targets, $scoped])
            .zip(&mut found)
            .map(|((i, t), f)| (i, t, f))
        {
            for target in targets {
                iter.seek(target);
                let at = iter.valid().then(|| Option::<&[u8]>::from(iter.key()).unwrap().to_vec());
                iter.seek_for_prev(target);
                found.push([
                    at,
                    iter.valid().then(|| Option::<&[u8]>::from(iter.key()).unwrap().to_vec()),
                ]);
                iter.status().unwrap();
            }
        }
        let [seeks, scoped] = found;
        Answers { forward, backward, seeks, scoped, gets: $targets.iter().map($get).collect() }
    }};
}

fn theirs_options(peer: &Peer, (family, table): &(String, String)) -> theirs::Options {
    let mut options = theirs::Options::new(peer);
    options
        .set_many("create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true")
        .unwrap();
    options.set_many(family).unwrap();
    options.set_table(table).unwrap();
    options
}

fn our_options((family, table): &(String, String)) -> pumice::Options {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.set_from_text(family).unwrap();
    options.set("table_factory", &format!("{{{table}}}")).unwrap();
    options
}

fn read_by_theirs(
    peer: &Peer,
    options: &theirs::Options,
    dir: &Path,
    targets: &[Vec<u8>],
    scoped: &[Vec<u8>],
) -> Answers {
    let db = theirs::Db::open(options, &dir.join("theirs")).unwrap();
    let cf = db.default_column_family().clone();
    db.ingest(&cf, &[&dir.join("ours.sst")], false).unwrap();
    // Seeks are to find the neighbours, whatever their prefix.
    let total = theirs::ReadSettings { total_order_seek: true, ..Default::default() };
    let ro = theirs::ReadOptions::new(peer, &total);
    let get = |key: &Vec<u8>| {
        let mut value = Vec::new();
        db.get(&ro, &cf, key, &mut value).unwrap().then_some(value)
    };
    let same = theirs::ReadSettings { prefix_same_as_start: true, ..Default::default() };
    let same = theirs::ReadOptions::new(peer, &same);
    ask!(db.iter(&ro, &cf), targets, db.iter(&same, &cf), scoped, get)
}

fn read_by_us(
    options: &pumice::Options,
    dir: &Path,
    targets: &[Vec<u8>],
    scoped: &[Vec<u8>],
) -> Answers {
    let db = pumice::Db::open(options, dir.join("ours")).unwrap();
    db.ingest_external_file(&Default::default(), &[dir.join("theirs.sst")]).unwrap();
    db.verify_checksum().unwrap();
    let ro = pumice::ReadOptions { total_order_seek: true, ..Default::default() };
    let get = |key: &Vec<u8>| db.get_opt(&ro, key).unwrap().map(|value| value.to_vec());
    let same = pumice::ReadOptions { prefix_same_as_start: true, ..Default::default() };
    let answers =
        ask!(db.cursor_opt(&ro).unwrap(), targets, db.cursor_opt(&same).unwrap(), scoped, get);
    db.close().unwrap();
    answers
}

/// How many seeks the prefix of their target cut short.
fn run(peer: &Peer, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let reverse = rng.one_in(3);
    let order = if reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
    let mut list = entries(&mut rng, &order);
    let settings = settings(&mut rng, reverse);
    if rng.one_in(2) {
        list.retain(|(key, _)| key.len() >= 2);
        if list.is_empty() {
            list.push((b"ab".to_vec(), b"alone".to_vec()));
        }
    }
    println!("seed {seed}: {} keys, {settings:?}", list.len());
    let mut targets: Vec<Vec<u8>> = (0..300).map(|_| random_key(&mut rng, &list[0].0)).collect();
    for _ in 0..300 {
        let mut key = list[rng.uniform(list.len() as u64) as usize].0.clone();
        match rng.uniform(4) {
            0 => {}
            1 => key.push(BYTES[rng.uniform(6) as usize]),
            2 => drop(key.pop()),
            _ => *key.last_mut().unwrap() = BYTES[rng.uniform(6) as usize],
        }
        targets.push(key);
    }
    let len = prefix_len(&settings.0, &list);
    let fixed = settings.0.contains("fixed");
    let scoped: Vec<_> = match len {
        Some(len) => targets.iter().filter(|key| !fixed || key.len() >= len).cloned().collect(),
        None => Vec::new(),
    };
    let want = expected(&list, &targets, &scoped, len.unwrap_or(0), &order);
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (mine, yours) = (our_options(&settings), theirs_options(peer, &settings));
    let mut ours = pumice::SstFileWriter::new(&mine).unwrap();
    ours.open(dir.path().join("ours.sst")).unwrap();
    let mut writer = theirs::SstFileWriter::new(&yours);
    writer.open(&dir.path().join("theirs.sst")).unwrap();
    for (key, value) in &list {
        ours.put(key, value).unwrap();
        writer.put(key, value).unwrap();
    }
    ours.finish().unwrap();
    writer.finish().unwrap();
    let answers = [
        read_by_theirs(peer, &yours, dir.path(), &targets, &scoped),
        read_by_us(&mine, dir.path(), &targets, &scoped),
    ];
    for (who, got) in ["RocksDB reads ours", "we read RocksDB's"].iter().zip(answers) {
        assert!(got.forward == want.forward, "seed {seed}: {who} forward");
        assert!(got.backward == want.backward, "seed {seed}: {who} backward");
        for (i, target) in targets.iter().enumerate() {
            assert_eq!(got.gets[i], want.gets[i], "seed {seed}: {who}: get {target:?}");
            assert_eq!(got.seeks[i], want.seeks[i], "seed {seed}: {who}: seek {target:?}");
        }
        for (i, target) in scoped.iter().enumerate() {
            assert_eq!(got.scoped[i], want.scoped[i], "seed {seed}: {who}: by prefix {target:?}");
        }
    }
    let seeks = scoped.iter().zip(&want.scoped).filter(|(_, found)| found[0].is_none());
    seeks
        .filter(|(target, _)| {
            order.compare(UserKey::new(target), UserKey::new(&list[list.len() - 1].0)).is_le()
        })
        .count()
}

#[pumice_test_macros::test]
fn odd_keys_go_both_ways() {
    let Some(peer) = peer() else { return };
    let count = std::env::var("PUMICE_ODD_KEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let cut: usize = (0..count).map(|seed| run(&peer, seed)).sum();
    assert!(cut > 1000, "prefixes are hardly asked for: {cut}");
}
