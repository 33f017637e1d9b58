//! Properties rewritten one by one, under right checksums: numbers that are absurd, cut off or
//! missing, names that are unknown or a MiB long.
//!
//! Most properties only inform. Whatever those say, the table gives the answers of the honest one
//! or an error. Of those that say how to read, a lie may change answers, as RocksDB has it too;
//! what remains is what every hostile table has to keep (`exam`).

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pumice_base::key::{InternalKey, MAX_SEQUENCE, seek_key};
use pumice_base::random::Rng;
use pumice_table::properties::{
    DECOUPLED_FILTERS, EMBEDDED_BLOBS, EXTERNAL_VERSION, GLOBAL_SEQNO, INDEX_TYPE,
    PREFIX_FILTERING, WHOLE_KEY_FILTERING,
};
use pumice_table::{TableReadOptions, dump};
use pumice_testkit::seed;

use crate::anatomy::{Anatomy, Properties};
use crate::exam::examine;
use crate::forge::varint;
use crate::kinds::{self, Entries, Honest};
use crate::{ALONE, CACHINGS, MEMORY_MAX, seeds, support, within_memory};

/// Changed tables.
const SEEDS: u64 = 800;

/// Properties that say how the table is to be read.
const GUIDING: [&str; 13] = [
    INDEX_TYPE,
    WHOLE_KEY_FILTERING,
    PREFIX_FILTERING,
    DECOUPLED_FILTERS,
    EXTERNAL_VERSION,
    GLOBAL_SEQNO,
    EMBEDDED_BLOBS,
    "rocksdb.comparator",
    "rocksdb.compression",
    "rocksdb.index.key.is.user.key",
    "rocksdb.index.value.is.delta.encoded",
    "rocksdb.prefix.extractor.name",
    "rocksdb.user.defined.timestamps.persisted",
];

/// Properties that a table has only in some cases.
const OTHERS: [&str; 9] = [
    "rocksdb.data.block.restart.interval",
    "rocksdb.file.creation.time",
    "rocksdb.index.block.restart.interval",
    "rocksdb.newest.key.time",
    "rocksdb.sample_for_compression.fast.data.size",
    "rocksdb.sample_for_compression.slow.data.size",
    "rocksdb.seqno.time.map",
    "rocksdb.column.family.name",
    "no.such.property",
];

/// What a property may be changed to; None removes it.
fn lies() -> Vec<Option<Vec<u8>>> {
    let numbers = [0, 1, 2, 3, 127, 1 << 31, u64::from(u32::MAX), 1 << 32, MAX_SEQUENCE, 1 << 63];
    let mut lies: Vec<Vec<u8>> = numbers.into_iter().map(varint).collect();
    lies.extend([u64::MAX, u64::MAX - 1, i64::MAX as u64].map(varint));
    lies.extend((0..4u32).map(|number| number.to_le_bytes().to_vec()));
    lies.extend([vec![0xff; 4], vec![0; 8], vec![0xff; 8], vec![9, 0, 0, 0, 0, 0, 0, 0]]);
    // Varints that are cut off, too large, or followed by something.
    lies.extend([vec![], vec![0x80], vec![0x80; 9], vec![0xff; 10], vec![0xff; 11], vec![1, 1]]);
    let texts = [
        "0",
        "1",
        "nullptr",
        "leveldb.BytewiseComparator",
        "rocksdb.ReverseBytewiseComparator",
        "some.Order",
        "rocksdb.FixedPrefix",
        "rocksdb.FixedPrefix.0",
        "rocksdb.FixedPrefix.3",
        "rocksdb.FixedPrefix.18446744073709551615",
        "rocksdb.FixedPrefix.99999999999999999999",
        "rocksdb.CappedPrefix.18446744073709551615",
        "rocksdb.CappedPrefix.-1",
        "fixed:4",
        "rocksdb.Noop",
        "ZSTD",
        "NoCompression",
        "Xpress",
        "Unheard",
        ";",
        ";ff;",
        ";07;",
        "; \u{e9}\u{e9}\u{e9};",
        "a\nb\0c",
    ];
    lies.extend(texts.map(|text| text.as_bytes().to_vec()));
    lies.extend([vec![0xff, 0xfe, 0x80], vec![b'x'; 1 << 20]]);
    lies.into_iter().map(Some).chain([None]).collect()
}

/// All entries, and all versions of each key.
type Answers = (Entries, Vec<Vec<Vec<u8>>>);

fn answers(honest: &Honest, bytes: &[u8]) -> pumice_base::Result<Answers> {
    let table = support::open(honest.read.clone(), bytes)?;
    let options = TableReadOptions::default();
    let (mut entries, mut iter) = (Entries::new(), table.iter(&options));
    iter.seek_to_first();
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status()?;
    let mut found = Vec::new();
    for (key, _) in &honest.entries {
        let mut values = Vec::new();
        table.get(
            &options,
            InternalKey::new(&seek_key(InternalKey::new(key).user_key(), MAX_SEQUENCE)),
            &mut |_, value, _| {
                values.push(value.to_vec());
                true
            },
        )?;
        found.push(values);
    }
    Ok((entries, found))
}

/// What is printed of a property is as long as the property, in other characters.
fn print(honest: &Honest, bytes: &[u8]) {
    let Ok(table) = support::open(honest.read.clone(), bytes) else { return };
    let lines = dump::property_lines(table.properties());
    let more = dump::newer_properties_text(table.properties());
    assert!(lines.len() + more.len() <= 3 * bytes.len() + (4 << 10));
}

/// An honest table with what it shows.
struct Subject {
    honest: Honest,
    anatomy: Anatomy,
    answers: Answers,
}

/// Changes one to three properties of a table; returns whether they only inform, and what they are.
fn lie(properties: &mut Properties, names: &[Vec<u8>], rng: &mut Rng) -> (bool, String) {
    let (lies, mut informs, mut told) = (lies(), true, String::new());
    for _ in 0..1 + rng.skewed(1) {
        let name = &names[rng.uniform(names.len() as u64) as usize];
        informs &= !GUIDING.iter().any(|guiding| guiding.as_bytes() == name);
        let value = &lies[rng.uniform(lies.len() as u64) as usize];
        let shown = value.as_ref().map(|value| &value[..value.len().min(40)]);
        told += &format!("{} = {shown:02x?}; ", String::from_utf8_lossy(name));
        match value {
            Some(value) => drop(properties.insert(name.clone(), value.clone())),
            None => drop(properties.remove(name)),
        }
    }
    (informs, told)
}

#[pumice_test_macros::test]
fn every_property_may_lie() {
    let _alone = ALONE.lock();
    let subject = |honest: Honest| Subject {
        anatomy: Anatomy::of(&honest),
        answers: answers(&honest, &honest.bytes).unwrap(),
        honest,
    };
    let subjects: Vec<Subject> = kinds::all().into_iter().map(subject).collect();
    let stored = subjects.iter().flat_map(|s| s.anatomy.properties.keys().cloned());
    let others = OTHERS.iter().chain(&GUIDING).map(|name| name.as_bytes().to_vec());
    let names: Vec<Vec<u8>> = stored.chain(others).collect::<BTreeSet<_>>().into_iter().collect();
    let (mut refused, mut answered, mut failed) = (0, 0, Vec::new());
    for seed in seeds(SEEDS) {
        let mut rng = Rng::new(seed);
        let subject = &subjects[rng.uniform(subjects.len() as u64) as usize];
        let honest = &subject.honest;
        let mut properties = subject.anatomy.properties.clone();
        let (informs, told) = lie(&mut properties, &names, &mut rng);
        let bytes = subject.anatomy.with_properties(&honest.bytes, &properties);
        let caching = CACHINGS[rng.uniform(3) as usize];
        let exam = || {
            within_memory("exam", MEMORY_MAX, || examine(honest, &bytes, caching, &mut rng));
            print(honest, &bytes);
            let got = answers(honest, &bytes).ok();
            let right = got.as_ref().is_none_or(|got| *got == subject.answers);
            assert!(right || !informs, "other answers");
            got.is_some()
        };
        match catch_unwind(AssertUnwindSafe(exam)) {
            Ok(true) => answered += 1,
            Ok(false) => refused += 1,
            Err(_) => {
                println!("seed {seed}, {} {caching:?}: {told}", honest.name);
                failed.push(seed);
            }
        }
    }
    println!("{refused} refused, {answered} answered");
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(seed::wanted().is_some() || refused > 0 && answered > 0);
}
