//! The small database that is damaged, as the bytes of its files.

use std::collections::BTreeMap;
use std::path::Path;

use pumice_env::{FileSystem, MemFs, write_file};
use pumice_testkit::{Model, Op, Store};

use super::Outcome;
use crate::stores::Settings;
use crate::stores::pumice::Pumice;

pub const PATH: &str = "/db";
pub const FAMILIES: usize = 2;
const FLUSHED_BATCHES: usize = 24;
const BATCHES: usize = 40;
/// Room for all blocks.
const CACHE_BYTES: usize = 1 << 20;

/// File kinds by a part of their names, and the recovery modes to try each with.
pub const KINDS: &[(&str, &[&str])] = &[
    (".sst", &["kPointInTimeRecovery"]),
    ("MANIFEST-", &["kPointInTimeRecovery"]),
    ("CURRENT", &["kPointInTimeRecovery"]),
    (
        ".log",
        &[
            "kPointInTimeRecovery",
            "kAbsoluteConsistency",
            "kTolerateCorruptedTailRecords",
            "kSkipAnyCorruptedRecords",
        ],
    ),
];

pub fn is_kind(name: &str, kind: &str) -> bool {
    name.contains(kind)
}

pub fn settings() -> Settings {
    let mut settings = Settings::small(FAMILIES).with("disable_auto_compactions", "true");
    settings.table = "block_size=256;filter_policy=bloomfilter:10:false".into();
    settings.families[1].1 = "kLZ4Compression";
    settings.cache_bytes = Some(CACHE_BYTES);
    settings.info_log = false;
    settings
}

/// The files, and the batches that made them.
pub struct Image {
    pub files: BTreeMap<String, Vec<u8>>,
    batches: Vec<Vec<Op>>,
}

impl Image {
    /// Writes the database.
    ///
    /// # Errors
    /// Pumice's.
    pub fn build() -> Result<Self, String> {
        let fs = MemFs::new(1);
        let batches: Vec<Vec<Op>> = (0..BATCHES).map(batch).collect();
        let mut store = Pumice::open_on(fs.shared(), Path::new(PATH), &settings())?;
        for (n, batch) in batches.iter().enumerate() {
            store.write(batch)?;
            if n + 1 == FLUSHED_BATCHES {
                (0..FAMILIES).try_for_each(|cf| store.flush(cf))?;
            }
        }
        store.close()?;
        let mut files = BTreeMap::new();
        for name in fs.list(Path::new(PATH)).map_err(|e| e.to_string())? {
            if name != "LOG" && name != "LOCK" {
                let bytes = fs.read_file(&Path::new(PATH).join(&name));
                files.insert(name, bytes.map_err(|e| e.to_string())?);
            }
        }
        Ok(Image { files, batches })
    }

    /// Which allowed state `found` is.
    ///
    /// # Errors
    /// The answer is none of them: wrong data.
    pub fn classify(&self, found: &Model, mode: &str) -> Result<Outcome, String> {
        let mut state = Model::new(FAMILIES);
        for (n, batch) in self.batches.iter().enumerate() {
            if n >= FLUSHED_BATCHES && &state == found {
                return match mode {
                    "kAbsoluteConsistency" => Err(format!("silently only P({n})")),
                    _ => Ok(Outcome::TailDrop),
                };
            }
            state.apply(batch);
        }
        if &state == found {
            return Ok(Outcome::Same);
        }
        if mode == "kSkipAnyCorruptedRecords" && self.is_union_of_whole_batches(found) {
            return Ok(Outcome::Skipped);
        }
        let counts: Vec<usize> = (0..FAMILIES).map(|cf| found.family(cf).len()).collect();
        let expected: Vec<usize> = (0..FAMILIES).map(|cf| state.family(cf).len()).collect();
        Err(format!("wrong data: {counts:?} keys, expected {expected:?}"))
    }

    /// The flushed state and some of the later batches, each whole. Each batch leaves a mark of its
    /// own in every family, which shows which batches are there.
    fn is_union_of_whole_batches(&self, found: &Model) -> bool {
        let mut state = Model::new(FAMILIES);
        for (n, batch) in self.batches.iter().enumerate() {
            if n < FLUSHED_BATCHES || found.family(0).contains_key(&mark(n)[..]) {
                state.apply(batch);
            }
        }
        &state == found
    }
}

fn mark(n: usize) -> Vec<u8> {
    format!("mark{n:03}").into_bytes()
}

/// A mark in each family, a value that later batches overwrite, a delete, sometimes a range.
fn batch(n: usize) -> Vec<Op> {
    let key = |n: usize| format!("key{:02}", n % 11).into_bytes();
    let mut ops: Vec<Op> = (0..FAMILIES)
        .map(|cf| Op::Put { cf, key: mark(n), value: format!("batch {n}").into_bytes() })
        .collect();
    ops.push(Op::Put { cf: n % 2, key: key(n), value: vec![b'a' + (n % 26) as u8; 30 + n] });
    ops.push(Op::Delete { cf: n % 2, key: key(n + 5) });
    ops.push(Op::Merge { cf: 0, key: b"list".to_vec(), operand: n.to_string().into_bytes() });
    if n % 10 == 9 {
        ops.push(Op::DeleteRange { cf: 1, begin: key(2), end: key(4) });
    }
    ops
}

/// A file system that holds `files`.
pub fn file_system(files: &BTreeMap<String, Vec<u8>>) -> MemFs {
    let fs = MemFs::new(1);
    fs.create_dir_all(Path::new(PATH)).expect("an empty file system takes a folder");
    for (name, bytes) in files {
        let path = Path::new(PATH).join(name);
        write_file(&fs, &path, bytes, true).expect("memory takes a small file");
    }
    fs
}
