//! Plain and cuckoo tables: against a sorted map, refused where a format cannot hold something, and
//! damaged.

use std::sync::Arc;

use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, internal_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, ErrorKind, InternalKeyComparator, Result, ValueType};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, MemFs, WriterOptions};
use pumice_filter::FilterPolicy;
use pumice_table::{
    CuckooFormat, PlainEncoding, PlainFormat, RowTable, Table, TableBuildContext, TableBuilder,
    TableOptions, TableReadContext, TableReadOptions,
};

use crate::model::{Entries, check_gets, check_iteration, check_seeks, entries};
use crate::support;

fn plain(rng: &mut Rng) -> PlainFormat {
    PlainFormat {
        user_key_len: 0,
        bloom_bits_per_key: [0, 10][rng.uniform(2) as usize],
        hash_table_ratio: [0.0, 0.75, 3.0][rng.uniform(3) as usize],
        index_sparseness: rng.uniform(20) as usize,
        encoding_type: [PlainEncoding::Plain, PlainEncoding::Prefix][rng.uniform(2) as usize],
        store_index_in_file: rng.one_in(2),
        full_scan_mode: false,
    }
}

fn cuckoo(rng: &mut Rng) -> CuckooFormat {
    CuckooFormat {
        hash_table_ratio: [0.5, 0.9][rng.uniform(2) as usize],
        max_search_depth: 100,
        cuckoo_block_size: [0, 1, 5][rng.uniform(3) as usize],
        identity_as_first_hash: rng.one_in(3),
        use_module_hash: rng.one_in(2),
    }
}

fn context(rng: &mut Rng, format: RowTable, cmp: &Comparator) -> TableBuildContext {
    let table = TableOptions {
        row_table: Some(format),
        block_cache: rng.one_in(2).then(|| support::cache(1 << (12 + rng.uniform(12)))),
        block_size: [64, 300, 4096][rng.uniform(3) as usize],
        filter_policy: rng.one_in(2).then(|| FilterPolicy::bloom(10.0)),
        cache_index_and_filter_blocks: rng.one_in(3),
        ..TableOptions::default()
    };
    TableBuildContext {
        table: Arc::new(table),
        comparator: InternalKeyComparator::new(cmp.clone()),
        original_file_number: 7,
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        ..TableBuildContext::default()
    }
}

/// Rows of one size, one version of each key; all of sequence 0 if `is_last_level`.
fn rows_of_one_size(rng: &mut Rng, cmp: &Comparator, is_last_level: bool) -> Entries {
    let (key_len, value_len) = (6 + rng.uniform(11) as usize, rng.uniform(60) as usize);
    let wide = rng.one_in(2);
    let mut list = Entries::new();
    for _ in 0..1 + rng.uniform(700) {
        let mut user = rng.bytes(key_len);
        if !wide {
            user[..4].fill(7);
        }
        let deletes = !is_last_level && rng.one_in(5);
        list.push(match (is_last_level, deletes) {
            (true, _) => (internal_key(&user, 0, ValueType::Value), rng.bytes(value_len)),
            (_, true) => (internal_key(&user, 5, ValueType::Deletion), Vec::new()),
            _ => {
                let sequence = rng.uniform(1 << 20);
                (internal_key(&user, sequence, ValueType::Value), rng.bytes(value_len))
            }
        });
    }
    let icmp = InternalKeyComparator::new(cmp.clone());
    list.sort_by(|a, b| icmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    drop_older(&mut list);
    list
}

/// Leaves one version of each key.
fn drop_older(list: &mut Entries) {
    list.dedup_by(|a, b| {
        InternalKey::new(&a.0).user_key().has_bytes_of(InternalKey::new(&b.0).user_key())
    });
}

fn build(context: &TableBuildContext, list: &Entries) -> Vec<u8> {
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    assert_eq!(built.properties.num_entries, list.len() as u64);
    built.bytes
}

/// A table of one of the formats by seed, and what is in it.
fn random_table(seed: u64) -> (TableBuildContext, Entries, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let cmp = if seed % 3 == 2 { Comparator::ReverseBytewise } else { Comparator::Bytewise };
    if rng.one_in(2) {
        let is_last_level = rng.one_in(2);
        let list = rows_of_one_size(&mut rng, &cmp, is_last_level);
        let format = RowTable::Cuckoo(cuckoo(&mut rng));
        let context = context(&mut rng, format, &cmp);
        let bytes = build(&context, &list);
        return (context, list, bytes);
    }
    let mut format = plain(&mut rng);
    let mut list = match rng.one_in(3) {
        true => rows_of_one_size(&mut rng, &cmp, false),
        false => {
            let keys = 1 + rng.uniform(800) as usize;
            entries(&mut rng, &cmp, keys, 4)
        }
    };
    let len = list[0].0.len() - 8;
    if list.iter().all(|(key, _)| key.len() == len + 8) && rng.one_in(2) {
        format.user_key_len = len as u32;
    }
    if rng.one_in(3) {
        // As at the last level, where there is one version of each.
        drop_older(&mut list);
        for (key, _) in &mut list {
            *key = internal_key(InternalKey::new(key).user_key(), 0, ValueType::Value);
        }
    }
    let prefixed = rng.one_in(2);
    if !prefixed {
        format.hash_table_ratio = 0.0;
    }
    let mut context = context(&mut rng, RowTable::Plain(format), &cmp);
    if prefixed {
        context.prefix_extractor = Some(Arc::new(FixedPrefix(3)));
    }
    let bytes = build(&context, &list);
    (context, list, bytes)
}

#[pumice_test_macros::test]
fn random_tables_of_other_formats_read_as_the_map() {
    for seed in 0..120 {
        println!("seed {seed}");
        let (context, list, bytes) = random_table(seed);
        let mut rng = Rng::new(seed);
        let table = support::open(support::read_context(&context), &bytes).unwrap();
        assert_eq!(table.file_size(), bytes.len() as u64);
        assert_eq!(table.properties().original_file_number, 7);
        assert!(table.properties().format_version < 2, "not a block-based table");
        table.verify_checksums().unwrap();
        for fill_cache in [true, false] {
            let readahead_size = [0, 2 << 20, 5000][rng.uniform(3) as usize];
            let ro = TableReadOptions { fill_cache, readahead_size, ..Default::default() };
            check_iteration(&table, &list, &ro);
            check_seeks(&mut rng, &table, &list, &ro);
            check_gets(&mut rng, &table, &list, &ro);
        }
        let mut last = 0;
        for (key, _) in &list {
            let offset = table.approximate_offset_of(InternalKey::new(key)).unwrap();
            assert!(offset >= last, "offsets ascend");
            last = offset;
        }
    }
}

/// A table reads in a family of any format, so that files of several stand in one database.
#[pumice_test_macros::test]
fn the_file_says_in_which_format_it_is() {
    for seed in 0..20 {
        let (context, list, bytes) = random_table(seed);
        let blocks = TableReadContext {
            comparator: context.comparator.clone(),
            ..TableReadContext::default()
        };
        let table = support::open(blocks, &bytes).unwrap();
        check_iteration(&table, &list, &TableReadOptions::default());
        let usual =
            TableBuildContext { table: Arc::new(TableOptions::default()), ..context.clone() };
        let bytes = build(&usual, &list);
        let table = support::open(support::read_context(&context), &bytes).unwrap();
        check_iteration(&table, &list, &TableReadOptions::default());
    }
}

#[pumice_test_macros::test]
fn empty_tables_of_other_formats_read_as_empty() {
    let mut rng = Rng::new(1);
    let formats = [
        RowTable::Plain(PlainFormat { store_index_in_file: true, ..plain(&mut rng) }),
        RowTable::Cuckoo(cuckoo(&mut rng)),
    ];
    for format in formats {
        let mut context = context(&mut rng, format, &Comparator::Bytewise);
        context.prefix_extractor = Some(Arc::new(FixedPrefix(3)));
        let bytes = build(&context, &Entries::new());
        let table = support::open(support::read_context(&context), &bytes).unwrap();
        check_iteration(&table, &Entries::new(), &TableReadOptions::default());
    }
}

/// What a build of these rows ends with.
fn refusal(format: RowTable, rows: &[(Vec<u8>, Vec<u8>)]) -> String {
    let mut rng = Rng::new(1);
    let context = context(&mut rng, format, &Comparator::Bytewise);
    let fs = MemFs::new(1);
    let file = fs.create(std::path::Path::new("/x.sst"), &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 16));
    let mut builder = TableBuilder::new(context, writer).unwrap();
    let added = rows.iter().try_for_each(|(key, value)| builder.add(key, value));
    let done = added.and_then(|()| builder.finish());
    // The error stays.
    if done.is_err() {
        assert_eq!(builder.finish(), done);
    }
    builder.abandon().unwrap();
    done.unwrap_err().message().to_string()
}

#[pumice_test_macros::test]
fn what_a_plain_table_cannot_hold_is_refused_in_rocksdbs_words() {
    let mut rng = Rng::new(3);
    let key = |user: &str, kind| internal_key(user.as_bytes(), 5, kind);
    let range = (key("keykey02", ValueType::RangeDeletion), b"x".to_vec());
    let short = (key("short", ValueType::Value), Vec::new());
    let plain = RowTable::Plain(PlainFormat { user_key_len: 8, ..plain(&mut rng) });
    let cuckoo = CuckooFormat { hash_table_ratio: 0.0, ..cuckoo(&mut rng) };
    for (format, row, words) in [
        (plain, range, "Range deletion unsupported"),
        (plain, short.clone(), "user key of 5 bytes"),
        (RowTable::Cuckoo(cuckoo), short, "ratio"),
    ] {
        let text = refusal(format, &[row]);
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// RocksDB writes such tables without these rows, or fails the flush.
#[pumice_test_macros::test]
fn what_a_cuckoo_table_cannot_hold_makes_it_a_block_based_one() {
    let mut rng = Rng::new(3);
    let value = |user: &str, len: usize| {
        (internal_key(user.as_bytes(), 5, ValueType::Value), vec![b'v'; len])
    };
    let usual = cuckoo(&mut rng);
    let merge = (internal_key(b"keykey02", 5, ValueType::Merge), b"x".to_vec());
    let deletion = (internal_key(b"a", 4, ValueType::Deletion), Vec::new());
    let all_bytes = 0..=255;
    for (format, rows) in [
        (usual, vec![merge]),
        (usual, vec![value("a", 3), value("bc", 3), value("d", 3)]),
        (usual, vec![value("a", 3), value("b", 4)]),
        (usual, vec![value("a", 3), deletion]),
        (
            CuckooFormat { hash_table_ratio: 3.0, ..usual },
            (0..64).map(|n| value(&format!("key{n:02}"), 3)).collect(),
        ),
        (usual, all_bytes.map(|n| (internal_key(&[n][..], 5, ValueType::Value), vec![])).collect()),
    ] {
        let context = context(&mut rng, RowTable::Cuckoo(format), &Comparator::Bytewise);
        let built = support::build(context.clone(), rows.iter().map(|(k, v)| (&k[..], &v[..])));
        assert_eq!(built.properties.num_entries, rows.len() as u64);
        assert!(built.properties.format_version >= 2, "a block-based table");
        let table = support::open(support::read_context(&context), &built.bytes).unwrap();
        table.verify_checksums().unwrap();
        check_iteration(&table, &rows, &TableReadOptions::default());
    }
}

/// The disk fails while the rows are written again: the error comes from that call and from all
/// later ones.
#[pumice_test_macros::test]
fn a_cuckoo_table_that_cannot_become_another_is_an_error() {
    let mut rng = Rng::new(4);
    let format = RowTable::Cuckoo(cuckoo(&mut rng));
    let context = context(&mut rng, format, &Comparator::Bytewise);
    let fs = MemFs::new(1);
    let file = fs.create(std::path::Path::new("/x.sst"), &FileOptions::default()).unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.sst", Fault::Eio));
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 12));
    let mut builder = TableBuilder::new(context, writer).unwrap();
    for n in 0..100u64 {
        let key = internal_key(&n.to_be_bytes()[..], 5, ValueType::Value);
        builder.add(&key, &rng.bytes(1000)).unwrap();
    }
    let other = internal_key(b"longer than the others", 5, ValueType::Value);
    let error = builder.add(&other, b"").and_then(|()| builder.finish()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
    assert_eq!(builder.finish().unwrap_err().kind(), ErrorKind::IoError);
    // What is left in the buffer is lost: the caller removes the file.
    drop(builder.abandon());
}

/// Keys that are too short to be their own hash are hashed, and the table says so: RocksDB's C test
/// writes such tables.
#[pumice_test_macros::test]
fn short_keys_are_not_their_own_first_hash() {
    let mut rng = Rng::new(7);
    for (len, own_hash) in [(7, 0), (8, 1)] {
        let format = CuckooFormat { identity_as_first_hash: true, ..cuckoo(&mut rng) };
        let context = context(&mut rng, RowTable::Cuckoo(format), &Comparator::Bytewise);
        let keys =
            (0..100u64).map(|n| [&[0; 8], &n.to_be_bytes()[..]].concat().split_off(16 - len));
        let list: Entries =
            keys.map(|user| (internal_key(&user, 5, ValueType::Value), user)).collect();
        let bytes = build(&context, &list);
        let table = support::open(support::read_context(&context), &bytes).unwrap();
        let flag = &table.properties().user_collected[&b"rocksdb.cuckoo.hash.identityfirst"[..]];
        assert_eq!(flag[..], [own_hash], "{len}");
        check_gets(&mut rng, &table, &list, &TableReadOptions::default());
    }
}

/// RocksDB opens no plain table without the extractor that it was made with.
#[pumice_test_macros::test]
fn plain_tables_want_their_extractor() {
    let mut rng = Rng::new(5);
    let format = PlainFormat { hash_table_ratio: 0.75, ..plain(&mut rng) };
    let mut context = context(&mut rng, RowTable::Plain(format), &Comparator::Bytewise);
    context.prefix_extractor = Some(Arc::new(FixedPrefix(3)));
    let list = entries(&mut rng, &Comparator::Bytewise, 50, 1);
    let bytes = build(&context, &list);
    let open = |extractor: Option<usize>| {
        let mut context = support::read_context(&context);
        context.prefix_extractor = extractor.map(|n| Arc::new(FixedPrefix(n)) as _);
        support::open(context, &bytes).map(|_| ()).map_err(|error| error.message().to_string())
    };
    assert_eq!(open(Some(3)), Ok(()));
    let missing = "Prefix extractor is missing when opening a PlainTable built using a prefix \
                   extractor";
    assert_eq!(open(None), Err(missing.to_string()));
    let other = "Prefix extractor given doesn't match the one used to build PlainTable";
    assert_eq!(open(Some(4)), Err(other.to_string()));

    context.prefix_extractor = None;
    let bytes = build(&context, &list);
    let error = support::open(support::read_context(&context), &bytes).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let words = "PlainTable requires a prefix extractor enable prefix hash mode.";
    assert_eq!(error.message(), words);
}

/// Reads everything there is in every way.
fn read_all(table: &Arc<Table>, list: &Entries) -> Result<()> {
    let ro = TableReadOptions { total_order_seek: true, ..TableReadOptions::default() };
    let mut iter = table.iter(&ro);
    let rows_max = 4 * list.len() + 1000;
    iter.seek_to_first();
    for _ in 0..rows_max {
        if !iter.valid() {
            break;
        }
        assert!(iter.key().as_bytes().len() >= 8);
        iter.next();
    }
    assert!(!iter.valid(), "more rows than there can be");
    iter.status()?;
    for (key, _) in list.iter().step_by(7) {
        iter.seek(InternalKey::new(key));
        iter.prev();
        iter.status()?;
        table.get(&ro, InternalKey::new(key), &mut |_, _, _| true)?;
    }
    table.verify_checksums()
}

/// No bytes lead to a panic, an endless walk or memory beyond the file's own size.
#[pumice_test_macros::test]
fn damaged_tables_of_other_formats_are_errors_or_read_as_something() {
    let (mut refused, mut read) = (0, 0);
    for seed in 0..60 {
        let (context, list, bytes) = random_table(seed);
        let mut rng = Rng::new(seed);
        for round in 0..60 {
            let mut bytes = bytes.clone();
            let place = match rng.uniform(3) {
                0 => rng.uniform(bytes.len() as u64),
                // The metadata is small.
                1 => bytes.len() as u64 - 1 - rng.uniform(1500.min(bytes.len() as u64 - 1)),
                _ => bytes.len() as u64 - 1 - rng.uniform(60.min(bytes.len() as u64 - 1)),
            } as usize;
            match rng.uniform(4) {
                0 => bytes.truncate(place),
                1 => bytes[place] = [0, 0x7f, 0x80, 0xff][rng.uniform(4) as usize],
                2 => drop(bytes.drain(place / 2..place)),
                _ => bytes[place] ^= 1 << rng.uniform(8),
            }
            println!("seed {seed} round {round}: byte {place}");
            let opened = support::open(support::read_context(&context), &bytes);
            match opened.and_then(|table| read_all(&table, &list)) {
                Ok(()) => read += 1,
                Err(error) => {
                    assert!(!error.message().is_empty());
                    refused += 1;
                }
            }
        }
    }
    println!("{refused} refused, {read} read");
    assert!(refused > 1000 && read > 100);
}
