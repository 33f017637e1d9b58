//! The databases: the options of their owner, what it stored, and what the tools may do.
//!
//! Each holds keys in two tables and in a log; `other` is a second family, with the options of
//! [`Made::other`]. The owner's own files are in the directory, too.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use crate::run::Given;
use pumice_peer::{ColumnFamily, Db, Options, Peer, WriteBatch, WriteOptions, WriteSettings};

/// What a tool may do with a database.
#[derive(Clone, Copy, Debug)]
pub enum May {
    /// Every command works.
    Work,
    /// Every command is refused with this word, before a byte has changed.
    Refuse(&'static str),
    /// Some commands work, others fail with this word; nothing is lost either way.
    Either(&'static str),
    /// As `Either`; RocksDB would lose what its tables cannot hold, so the tool reads the database.
    ReadHere(&'static str),
    /// Not run: nothing in the directory shows what differs.
    Untold,
}

/// A database's making. Keys are `(family, key)` in the contents.
pub struct Made {
    pub name: &'static str,
    /// Options of the database and of the family `default`.
    pub text: &'static str,
    /// Options of the family `other`.
    pub other: &'static str,
    /// Options that have no text form.
    pub own: fn(&mut Options, &Path),
    /// Stores more than the common keys, in one step before each table and one for the log.
    pub fill: fn(&Owner<'_>, usize),
    /// Timestamps are written with the keys of these families.
    pub timed: &'static [&'static str],
    /// With the OPTIONS file, without one, and with the request not to load it.
    pub may: [May; 3],
}

pub type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// An owner at work.
pub struct Owner<'a> {
    pub peer: &'a Peer,
    pub db: Db,
    pub wo: WriteOptions,
    pub families: [ColumnFamily; 2],
}

/// Steps of filling: two tables and a log.
const STEPS: usize = 3;

impl Made {
    /// The owner's options: for the database and `default`, and for `other`.
    pub fn options(&self, peer: &Peer, path: &Path) -> [Options; 2] {
        let common = "create_if_missing=true;create_missing_column_families=true;\
                      disable_auto_compactions=true;";
        [self.text, self.other].map(|text| {
            let mut options = Options::new(peer);
            options.set_many(common).unwrap();
            if !text.is_empty() {
                options.set_many(text).unwrap_or_else(|error| panic!("{}: {error}", self.name));
            }
            (self.own)(&mut options, path);
            options
        })
    }

    /// The MANIFEST gives what the unread options would: the order is one that is built in.
    pub fn by_manifest(&self, given: Given) -> bool {
        given != Given::Options && self.name == "reverse"
    }

    /// Makes the database at `path`.
    pub fn make(&self, peer: &Peer, path: &Path) {
        let [options, other] = self.options(peer, path);
        let families = [("default", &options), ("other", &other)];
        let (db, handles) = Db::open_cf(&options, path, &families, false).unwrap();
        let wo = WriteOptions::new(peer, &WriteSettings::default());
        let families = handles.try_into().unwrap_or_else(|_| unreachable!());
        let owner = Owner { peer, db, wo, families };
        for step in 0..STEPS {
            for (name, family) in ["default", "other"].iter().zip(&owner.families) {
                for key in (step..20).step_by(STEPS) {
                    let (key, value) = (format!("k{key:02}"), format!("v{step}-{key:02}"));
                    let value = value.repeat(20);
                    if self.timed.contains(name) {
                        let (now, at) = (step as u64 + 1, value.as_bytes());
                        let time = now.to_le_bytes();
                        owner.db.put_at(&owner.wo, family, key.as_bytes(), &time, at).unwrap();
                    } else {
                        owner.db.put(&owner.wo, family, key.as_bytes(), value.as_bytes()).unwrap();
                    }
                }
            }
            (self.fill)(&owner, step);
            if step + 1 < STEPS {
                owner.families.iter().for_each(|family| owner.db.flush(family).unwrap());
            }
        }
        drop(owner);
        std::fs::write(path.join("notes.txt"), "the owner's").unwrap();
        std::fs::create_dir_all(path.join("kept")).unwrap();
        std::fs::write(path.join("kept/000007.sst"), "the owner's").unwrap();
    }
}

/// Without special options.
pub const PLAIN: Made = Made {
    name: "plain",
    text: "",
    other: "",
    own: |_, _| {},
    fill: |_, _| {},
    timed: &[],
    may: [May::Work; 3],
};

fn sum(existing: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    let number = |text: &[u8]| std::str::from_utf8(text).unwrap().parse::<u64>().unwrap();
    let all = existing.into_iter().chain(operands.iter().copied());
    all.map(number).sum::<u64>().to_string().into_bytes()
}

/// By the last byte first.
fn backwards(left: &[u8], right: &[u8]) -> Ordering {
    left.iter().rev().cmp(right.iter().rev())
}

fn merge_text(owner: &Owner<'_>, _: usize) {
    owner.families.iter().for_each(|family| {
        owner.db.merge(&owner.wo, family, b"counter", b"7").unwrap();
    });
}

fn merge_number(owner: &Owner<'_>, _: usize) {
    let seven = 7u64.to_le_bytes();
    owner.families.iter().for_each(|family| {
        owner.db.merge(&owner.wo, family, b"counter", &seven).unwrap();
    });
}

/// A value of columns, written as RocksDB's batch has it: the C library has no call for it.
fn entity(owner: &Owner<'_>, step: usize) {
    // No sequence number yet, one record.
    let mut data = vec![0; 12];
    data[8] = 1;
    // An entity: its key; 8 bytes: version 1, one column of a name and 3 bytes of value.
    data.extend_from_slice(b"\x16\x02e");
    data.push(b'0' + step as u8);
    data.extend_from_slice(b"\x08\x01\x01\x01c\x03abc");
    owner.db.write(&owner.wo, &WriteBatch::from_data(owner.peer, &data)).unwrap();
}

/// All of them.
pub const ALL: &[Made] = &[
    PLAIN,
    Made { name: "universal", text: "compaction_style=kCompactionStyleUniversal", ..PLAIN },
    Made { name: "universal-other", other: "compaction_style=kCompactionStyleUniversal", ..PLAIN },
    Made { name: "fifo", text: "compaction_style=kCompactionStyleFIFO;max_open_files=-1", ..PLAIN },
    Made {
        name: "style-none",
        text: "compaction_style=kCompactionStyleNone",
        may: [May::Refuse("kCompactionStyleNone"), May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "levels",
        text: "num_levels=12;level_compaction_dynamic_level_bytes=false",
        ..PLAIN
    },
    Made {
        name: "uint64add",
        text: "merge_operator=uint64add",
        other: "merge_operator=uint64add",
        fill: merge_number,
        may: [May::Work, May::Either("merge_operator"), May::Either("merge_operator")],
        ..PLAIN
    },
    Made {
        name: "own-operator",
        own: |o, _| o.set_own_merge_operator("owners.Sums", sum).unwrap(),
        fill: merge_text,
        may: [
            May::Refuse("owners.Sums"),
            May::Either("merge_operator"),
            May::Either("merge_operator"),
        ],
        ..PLAIN
    },
    Made {
        name: "reverse",
        text: "comparator=rocksdb.ReverseBytewiseComparator",
        may: [
            May::Either("end key comes before"),
            May::Refuse("ReverseBytewise"),
            May::Refuse("ReverseBytewise"),
        ],
        ..PLAIN
    },
    Made {
        name: "own-comparator",
        own: |o, _| o.set_own_comparator("owners.Backwards", backwards).unwrap(),
        may: [
            May::Refuse("owners.Backwards"),
            May::Refuse("owners.Backwards"),
            May::Refuse("owners.Backwards"),
        ],
        ..PLAIN
    },
    Made {
        name: "timestamps",
        text: "comparator=leveldb.BytewiseComparator.u64ts",
        timed: &["default"],
        // Nothing is written at a time.
        may: [May::Either("imestamp"), May::Either("imestamp"), May::Either("imestamp")],
        ..PLAIN
    },
    Made {
        name: "timestamps-other",
        other: "comparator=leveldb.BytewiseComparator.u64ts",
        timed: &["other"],
        may: [May::Either("imestamp"), May::Either("imestamp"), May::Either("imestamp")],
        ..PLAIN
    },
    Made {
        name: "timestamps-unkept",
        text: "comparator=leveldb.BytewiseComparator.u64ts;persist_user_defined_timestamps=false;\
               allow_concurrent_memtable_write=false",
        timed: &["default"],
        may: [May::Either("imestamp"), May::Either("imestamp"), May::Either("imestamp")],
        ..PLAIN
    },
    Made {
        name: "blob",
        text: "enable_blob_files=true;min_blob_size=0",
        // Exports, imports and ingestions do not carry them.
        may: [May::Either("blob files"), May::Either("blob files"), May::Either("blob files")],
        ..PLAIN
    },
    Made {
        name: "blob-other",
        other: "enable_blob_files=true;min_blob_size=0",
        // A repair does not keep them.
        may: [May::Either("blob files"), May::Either("blob files"), May::Either("blob files")],
        ..PLAIN
    },
    Made {
        name: "wal-ttl",
        text: "WAL_ttl_seconds=3600",
        may: [May::Work, May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "wal-size",
        text: "WAL_size_limit_MB=7",
        may: [May::Work, May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "wal-compressed",
        text: "wal_compression=kZSTD",
        may: [May::Work, May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "wal-recycled",
        text: "recycle_log_file_num=4",
        // `load --disable_wal`, as RocksDB's.
        may: [May::Either("recycle_log_file_num"), May::Work, May::Work],
        ..PLAIN
    },
    Made { name: "wal-tracked", text: "track_and_verify_wals_in_manifest=true", ..PLAIN },
    Made { name: "wal-verified", text: "track_and_verify_wals=true", ..PLAIN },
    Made { name: "two-phases", text: "allow_2pc=true", ..PLAIN },
    Made { name: "two-queues", text: "two_write_queues=true", ..PLAIN },
    Made { name: "unordered", text: "unordered_write=true", ..PLAIN },
    Made { name: "stats-kept", text: "persist_stats_to_disk=true", ..PLAIN },
    Made {
        name: "atomic",
        text: "atomic_flush=true",
        may: [May::Work, May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "in-place",
        text: "inplace_update_support=true;allow_concurrent_memtable_write=false",
        may: [May::Work, May::Work, May::Work],
        ..PLAIN
    },
    Made {
        name: "times",
        text: "preserve_internal_time_seconds=3600",
        other: "preserve_internal_time_seconds=60",
        ..PLAIN
    },
    Made {
        name: "young-apart",
        text: "preserve_internal_time_seconds=3600;preclude_last_level_data_seconds=600",
        ..PLAIN
    },
    Made { name: "entities", fill: entity, ..PLAIN },
    Made {
        name: "wal-dir",
        own: |o, path| o.set("wal_dir", path.join("logs").to_str().unwrap()).unwrap(),
        may: [May::Work, May::Untold, May::Untold],
        ..PLAIN
    },
    Made {
        name: "hash-memtable",
        text: "memtable_factory=hash_skiplist;prefix_extractor=fixed:2;\
               allow_concurrent_memtable_write=false",
        ..PLAIN
    },
    Made {
        name: "plain-table",
        text: "table_factory=PlainTable;prefix_extractor=fixed:2",
        may: [May::Either("support"), May::Refuse("PlainTable"), May::Refuse("PlainTable")],
        ..PLAIN
    },
    Made {
        name: "cuckoo",
        text: "table_factory=CuckooTable;allow_mmap_reads=true",
        // Values of another size: RocksDB's flushes leave them out.
        may: [May::ReadHere("support"), May::Refuse("CuckooTable"), May::Refuse("CuckooTable")],
        ..PLAIN
    },
    Made {
        name: "hash-index",
        text: "prefix_extractor=fixed:2;block_based_table_factory={index_type=kHashSearch}",
        ..PLAIN
    },
];
