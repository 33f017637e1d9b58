//! A table: one of the database's, in its MANIFEST, and one that is ingested.
//!
//! Blocks follow one another, so they are found by their checksums; a changed one keeps its length,
//! gets a right checksum again and stays where handles point.

use std::path::Path;
use std::sync::Arc;

use pumice::options::IndexType;
use pumice::{
    CompressionType, Db, FileSystem, FilterPolicy, IngestExternalFileOptions, MemFs, Options,
    ReadOptions, SstFileWriter, WriteOptions,
};
use pumice_base::checksum::{block_checksum, context_checksum};
use pumice_base::random::Rng;
use pumice_env::write_file;
use pumice_table::BLOCK_TRAILER_LEN;
use pumice_table::footer::{FOOTER_LEN, Footer};

use crate::database::{DIR, Files, exam_with_a_lie, files_of, honest_with, options};
use crate::{Outcome, Target, mutate};

const OUTSIDE: &str = "/outside.sst";

pub struct Table {
    files: Files,
}

/// Small uncompressed blocks, so that changes affect their contents.
fn plain(options: &mut Options) {
    options.cf.compression = CompressionType::None;
    options.cf.table_factory.block_size = 256;
    options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
}

/// A table made outside, of a kind by number.
fn outside(kind: u32) -> Vec<u8> {
    let fs = MemFs::new(1).shared();
    let mut options = options(&fs);
    plain(&mut options);
    let table = &mut options.cf.table_factory;
    table.format_version = 5 + kind;
    if kind == 1 {
        table.index_type = IndexType::TwoLevel;
        table.partition_filters = true;
    }
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open(OUTSIDE).unwrap();
    for n in 0..60 {
        let key = format!("key{n:02}");
        match n % 7 {
            0 => writer.delete(key.as_bytes()).unwrap(),
            1 => writer.merge(key.as_bytes(), b"operand").unwrap(),
            _ => writer.put(key.as_bytes(), &[b'v'; 20]).unwrap(),
        }
    }
    writer.delete_range(b"key70", b"key90").unwrap();
    writer.finish().unwrap();
    fs.read_file(Path::new(OUTSIDE)).unwrap()
}

impl Table {
    pub fn new() -> Self {
        Table { files: honest_with(plain) }
    }

    /// The database's table of that length, which no other file can replace.
    fn own(&self, bytes: &[u8]) -> Option<&String> {
        let mut tables = self.files.iter().filter(|(name, _)| name.ends_with(".sst"));
        tables.find(|(_, own)| own.len() == bytes.len()).map(|(name, _)| name)
    }
}

/// The checksum of the block at `at` with its type at the end.
fn checksum(footer: &Footer, at: usize, bytes: &[u8], kind: u8) -> [u8; 4] {
    let context = context_checksum(footer.base_context, at as u64);
    block_checksum(footer.checksum, bytes, kind).wrapping_add(context).to_le_bytes()
}

/// Where blocks begin and end, without their trailers.
fn blocks(footer: &Footer, bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut found, mut begin) = (Vec::new(), 0);
    let mut end = 0;
    while end + BLOCK_TRAILER_LEN <= bytes.len() {
        let trailer = &bytes[end..end + BLOCK_TRAILER_LEN];
        if trailer[1..] == checksum(footer, begin, &bytes[begin..end], trailer[0]) {
            found.push((begin, end));
            (begin, end) = (end + BLOCK_TRAILER_LEN, end + BLOCK_TRAILER_LEN);
        } else {
            end += 1;
        }
    }
    found
}

/// Changes a block in place; its type mostly stays.
fn change_block(block: &mut [u8], others: &[Vec<u8>], rng: &mut Rng) {
    let (len, kind) = (block.len(), block[block.len() - 1]);
    let mut changed = block.to_vec();
    mutate::some(&mut changed, others, rng);
    changed.resize(len, 0);
    if !rng.one_in(8) {
        changed[len - 1] = kind;
    }
    block.copy_from_slice(&changed);
}

impl Target for Table {
    fn honest(&self) -> Vec<Vec<u8>> {
        let own = self.files.iter().filter(|(name, _)| name.ends_with(".sst"));
        let own = own.map(|(_, bytes)| bytes.clone());
        own.chain([outside(0), outside(1)]).collect()
    }

    fn change(&self, mut bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        let body = bytes.len().saturating_sub(FOOTER_LEN);
        let footer = Footer::decode(&bytes[body..], body as u64, "fuzz").ok();
        let Some(footer) = footer.filter(|_| !rng.one_in(12)) else {
            mutate::some(&mut bytes, corpus, rng);
            return bytes;
        };
        let blocks = blocks(&footer, &bytes[..body]);
        for _ in 0..=rng.skewed(1) {
            let Some(&(begin, end)) = blocks.get(rng.uniform(blocks.len() as u64 + 1) as usize)
            else {
                continue;
            };
            change_block(&mut bytes[begin..=end], corpus, rng);
            let sum = checksum(&footer, begin, &bytes[begin..end], bytes[end]);
            bytes[end + 1..end + BLOCK_TRAILER_LEN].copy_from_slice(&sum);
        }
        bytes
    }

    fn enter(&self, bytes: &[u8], rng: &mut Rng) -> Outcome {
        let mut files = self.files.clone();
        if let Some(name) = self.own(bytes) {
            files.insert(name.clone(), bytes.to_vec());
            return exam_with_a_lie(&files, plain);
        }
        match ingest(bytes, rng) {
            Some(files) => exam_with_a_lie(&files, plain),
            None => Outcome::Refused,
        }
    }
}

/// The files of a database that took the table; None if it did not, and stayed as it was.
fn ingest(bytes: &[u8], rng: &mut Rng) -> Option<Files> {
    let fs: Arc<dyn FileSystem> = MemFs::new(7).shared();
    let mut options = options(&fs);
    plain(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    db.put_opt(&WriteOptions::default(), b"key30", b"own").unwrap();
    write_file(&*fs, Path::new(OUTSIDE), bytes, false).unwrap();
    let how = IngestExternalFileOptions {
        verify_checksums_before_ingest: rng.one_in(2),
        ..IngestExternalFileOptions::default()
    };
    let ingested = db.ingest_external_file(&how, &[Path::new(OUTSIDE)]);
    if ingested.is_err() {
        let own = db.get_opt(&ReadOptions::default(), b"key30").unwrap();
        assert_eq!(own.as_deref(), Some(&b"own"[..]), "a refused file changes nothing");
    }
    db.close().unwrap();
    ingested.is_ok().then(|| files_of(&fs))
}
