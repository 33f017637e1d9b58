//! Tables with embedded blobs whose indexes are not what the writer wrote, in blocks whose
//! checksums are right: a reader gives Corruption with file and offset, never another value.
//! Every stored index is bent, by seed.

use std::path::{Path, PathBuf};

use pumice::{BlockCache, CacheOptions, CompressionType, Db, ErrorKind, Options, ReadOptions};
use pumice_base::coding::{Decoder, put_varint64};
use pumice_base::random::Rng;
use pumice_testkit::seed;

use super::embedded::{key, opened, options, shown, try_compact};
use crate::common::Scratch;

/// A database with an ingested table, closed.
struct Bent {
    dir: Scratch,
    options: Options,
    keys: usize,
    path: PathBuf,
    whole: Vec<u8>,
    /// Where indexes are in the file, and what they are.
    indexes: Vec<(usize, Vec<u8>)>,
}

/// The place and length of a record, if that is an index.
fn parse(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let mut input = Decoder::new(bytes.strip_prefix(&[1, 0])?);
    let (offset, size) = (input.varint64()?, input.varint64()?);
    (input.u8()? == 0).then(|| (offset, size, bytes.len() - input.rest().len()))
}

fn index(offset: u64, size: u64) -> Vec<u8> {
    let mut index = vec![1, 0];
    put_varint64(&mut index, offset);
    put_varint64(&mut index, size);
    index.push(0);
    index
}

impl Bent {
    fn new(name: &str, keys: usize) -> Self {
        let dir = Scratch::new("embedded-bent");
        let mut options = options();
        options.cf.blob_cache = Some(BlockCache::new(CacheOptions::new(1 << 20)));
        let db = opened(&options, &dir.0, name);
        let file = db.live_files_metadata().remove(0);
        db.close().unwrap();
        let path = file.directory.join(&file.name[1..]);
        let whole = std::fs::read(&path).unwrap();
        let indexes = (0..whole.len()).filter_map(|at| {
            let (offset, size, len) = parse(&whole[at..])?;
            let is_one = (100..400).contains(&size) && offset < at as u64;
            is_one.then(|| (at, whole[at..at + len].to_vec()))
        });
        let indexes = indexes.collect();
        Bent { dir, options, keys, path, whole, indexes }
    }

    /// Puts other bytes into the table; returns the block that has them.
    fn bend(&self, at: usize, bytes: &[u8]) -> (u64, u64) {
        let mut bent = self.whole.clone();
        bent[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&self.path, &bent).unwrap();
        let db = Db::open(&self.options, &self.dir.0).unwrap();
        let text = db.verify_checksum().unwrap_err().to_string();
        let block = mend(&mut bent, &text);
        drop(db);
        std::fs::write(&self.path, &bent).unwrap();
        block
    }

    /// Reads everything in every way; what is shown is right, and something is refused.
    fn check(&self, what: &str) {
        let name = self.path.file_name().unwrap().to_str().unwrap();
        let named = |error: &pumice::Error| {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {text}");
            assert!(text.contains(name) && text.contains("at offset "), "{what}: {text}");
        };
        let db = Db::open(&self.options, &self.dir.0).unwrap();
        let mut refused = 0;
        for _ in 0..2 {
            // The second time others come from the cache.
            for n in 0..self.keys {
                match db.get(key(n)) {
                    Ok(found) => assert_eq!(found.as_deref(), shown(n).as_deref(), "{what}: {n}"),
                    Err(error) => named(&error),
                }
                let entity = db.get_entity(key(n));
                refused += usize::from(entity.is_err());
                entity.err().iter().for_each(named);
                let unchecked = ReadOptions { verify_checksums: false, ..ReadOptions::default() };
                if let Ok(Some(found)) = db.get_opt(&unchecked, key(n)) {
                    assert!(found.len() <= self.whole.len());
                }
            }
        }
        assert!(refused > 0, "{what}");
        for backward in [false, true] {
            let mut cursor = db.cursor().unwrap();
            let mut all: Vec<usize> = (0..self.keys).filter(|n| shown(*n).is_some()).collect();
            if backward {
                all.reverse();
                cursor.seek_to_last();
            } else {
                cursor.seek_to_first();
            }
            for n in all {
                let Some((found, value)) = cursor.item() else { break };
                assert_eq!((found, Some(value)), (&key(n)[..], shown(n).as_deref()), "{what}");
                if backward { cursor.prev() } else { cursor.next() }
            }
            named(&cursor.status().unwrap_err());
        }
        named(&db.verify_checksum().unwrap_err());
        named(&try_compact(&db).unwrap_err());
    }
}

/// Gives the block of the file that an error names the checksum that it should have; returns where
/// it is.
fn mend(bytes: &mut [u8], text: &str) -> (u64, u64) {
    let number = |before: &str, radix| {
        let rest = &text[text.find(before).unwrap_or_else(|| panic!("{text}")) + before.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap();
        u64::from_str_radix(&rest[..end], radix).unwrap()
    };
    let computed = number("computed = 0x", 16) as u32;
    let (offset, size) = (number("data block at offset ", 10), number(" of ", 10));
    let sum = (offset + size + 1) as usize;
    bytes[sum..sum + 4].copy_from_slice(&computed.to_le_bytes());
    (offset, size)
}

#[pumice_test_macros::test]
fn a_bent_index_shows_no_other_value() {
    for (name, keys) in [("xxh3", 60), ("partitioned", 30)] {
        let bent = Bent::new(name, keys);
        assert_eq!(bent.indexes.len(), if keys == 60 { 40 } else { 20 });
        let mut rng = Rng::new(3);
        let share = seed::share(40) as usize;
        for (at, index) in bent.indexes.iter().take(share) {
            let mut bytes = index.clone();
            let changed = rng.uniform(index.len() as u64) as usize;
            bytes[changed] ^= 1 + rng.uniform(255) as u8;
            bent.bend(*at, &bytes);
            bent.check(&format!("{name}: {index:?} is {bytes:?}"));
        }
    }
}

/// Places that have a block with a right checksum, or a value that was just read.
#[pumice_test_macros::test]
fn an_index_of_something_else_is_refused() {
    let bent = Bent::new("xxh3", 60);
    let mut blocks = 0;
    for (at, old) in &bent.indexes {
        // The block that has the index itself.
        let (offset, size) = bent.bend(*at, &[1, 0, 0x7f, 0x7f, 0][..3]);
        let own = index(offset, size);
        if own.len() == old.len() {
            bent.bend(*at, &own);
            bent.check(&format!("{old:?} is the block {own:?}"));
            blocks += 1;
        }
    }
    assert!(blocks > 0);
    let mut others = 0;
    for ((at, old), (_, other)) in bent.indexes.iter().zip(bent.indexes.iter().rev()) {
        let ((_, size, _), (offset, length, _)) = (parse(old).unwrap(), parse(other).unwrap());
        let mixed = index(offset, size);
        if size != length && mixed.len() == old.len() && others < 8 {
            bent.bend(*at, &mixed);
            bent.check(&format!("{old:?} is {mixed:?}"));
            others += 1;
        }
    }
    assert!(others > 0);
}

/// Flushes `value` as a value of key `forged`, and makes a blob index of it.
fn forge(dir: &Path, options: &Options, value: &[u8]) {
    let db = Db::open(options, dir).unwrap();
    db.put("forged", value).unwrap();
    db.flush().unwrap();
    let file = db.live_files_metadata().into_iter().max_by_key(|file| file.file_number).unwrap();
    db.close().unwrap();
    drop(db);
    let path = file.directory.join(&file.name[1..]);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(value.len()).position(|part| part == value).unwrap();
    assert_eq!(bytes[at - 8], 1);
    bytes[at - 8] = 0x11;
    std::fs::write(&path, &bytes).unwrap();
    let db = Db::open(options, dir).unwrap();
    let text = db.verify_checksum().unwrap_err().to_string();
    mend(&mut bytes, &text);
    drop(db);
    std::fs::write(&path, &bytes).unwrap();
}

/// The form that an index has in memory, with the number of its table, cannot come from a file.
#[pumice_test_macros::test]
fn a_table_cannot_name_another_one() {
    for seals in 0..3 {
        let dir = Scratch::new("embedded-forged");
        let mut options = options();
        options.cf.compression = CompressionType::None;
        let db = opened(&options, &dir.0, "xxh3");
        let number = db.live_files_metadata()[0].file_number;
        assert_eq!(db.get(key(0)).unwrap().as_deref(), shown(0).as_deref());
        db.close().unwrap();
        drop(db);
        let mut forged = index(0, 300);
        if seals > 0 {
            forged.extend_from_slice(&number.to_le_bytes());
        }
        if seals > 1 {
            forged.extend_from_slice(&[0; 8]);
        }
        forge(&dir.0, &options, &forged);
        let db = Db::open(&options, &dir.0).unwrap();
        let error = db.get("forged").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(try_compact(&db).unwrap_err().is_corruption());
        assert_eq!(db.get(key(0)).unwrap().as_deref(), shown(0).as_deref());
        db.close().unwrap();
    }
}
