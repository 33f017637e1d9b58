//! `WriteBatch::from_data`: accepted bytes can be written and are recovered from the log.

use pumice::{
    BatchRecord, ColumnFamilyDescriptor, Db, MemFs, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_base::ValueType;
use pumice_base::coding::put_fixed32;
use pumice_base::random::Rng;

use crate::database::{DIR, options};
use crate::{Outcome, Target, mutate};

pub struct Batch;

/// Every kind of record, in both families and in one that is made later.
pub fn full() -> WriteBatch {
    let mut batch = WriteBatch::new();
    for cf in [0, 1, 2] {
        batch.put_cf(cf, b"key", b"value");
        batch.put_cf(cf, b"long", &[b'v'; 300]);
        batch.delete_cf(cf, b"gone");
        batch.single_delete_cf(cf, b"once");
        batch.merge_cf(cf, b"all", b"operand");
        batch.delete_range_cf(cf, b"from", b"to");
        batch.put_log_data(b"a note");
    }
    batch
}

/// Sets the count to the number of records, as far as they can be read.
pub fn recount(bytes: &mut [u8]) {
    let counted = |bytes: &[u8]| {
        let entry = |record: &BatchRecord<'_>| matches!(record, BatchRecord::Entry { .. });
        let mut with = bytes.to_vec();
        for count in 0..64u32 {
            with[8..12].copy_from_slice(&count.to_le_bytes());
            if let Ok(batch) = WriteBatch::from_data(&with) {
                assert_eq!(
                    batch.iter().filter(|r| r.as_ref().is_ok_and(entry)).count(),
                    count as usize
                );
                return Some(count);
            }
        }
        None
    };
    if bytes.len() >= 12
        && let Some(count) = counted(bytes)
    {
        let mut fixed = Vec::new();
        put_fixed32(&mut fixed, count);
        bytes[8..12].copy_from_slice(&fixed);
    }
}

impl Target for Batch {
    fn honest(&self) -> Vec<Vec<u8>> {
        let mut small = WriteBatch::new();
        small.put(b"k", b"v");
        vec![full().data().to_vec(), small.data().to_vec(), WriteBatch::new().data().to_vec()]
    }

    /// Records of transactions after a put: a database could not be opened with them in its log.
    fn crafted(&self) -> Vec<Vec<u8>> {
        let mut put = WriteBatch::new();
        put.put(b"k", b"v");
        let behind = |tag: ValueType, xid: &[u8]| [put.data(), &[tag as u8], xid].concat();
        vec![
            behind(ValueType::BeginPrepareXid, b""),
            behind(ValueType::EndPrepareXid, b"\x03xid"),
            behind(ValueType::CommitXid, b"\x03xid"),
            behind(ValueType::RollbackXid, b"\x03xid"),
            behind(ValueType::BeginUnprepareXid, b""),
        ]
    }

    fn change(&self, mut bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        mutate::some(&mut bytes, corpus, rng);
        if !rng.one_in(4) {
            recount(&mut bytes);
        }
        bytes
    }

    fn enter(&self, bytes: &[u8], rng: &mut Rng) -> Outcome {
        let Ok(mut batch) = WriteBatch::from_data(bytes) else { return Outcome::Refused };
        assert_eq!(batch.data(), bytes);
        assert!(batch.iter().all(|record| record.is_ok()));
        let mut twice = WriteBatch::new();
        twice.append(&batch);
        twice.status().unwrap();
        assert_eq!(twice.data()[8..], bytes[8..]);
        let fs = MemFs::new(7).shared();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        let write = WriteOptions {
            ignore_missing_column_families: !rng.one_in(3),
            ..WriteOptions::default()
        };
        let written = db.write_opt(&write, &mut batch).is_ok();
        let show = |db: &Db| {
            let all = ["default", "other", "later"].map(|name| {
                let cf = db.column_family(name).unwrap();
                let mut iter = db.cursor_cf_opt(&ReadOptions::default(), &cf).unwrap();
                let mut all = Vec::new();
                iter.seek_to_first();
                while iter.valid() {
                    all.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
                    iter.next();
                }
                iter.status().unwrap();
                all
            });
            (all, db.latest_sequence_number())
        };
        assert!(written || db.latest_sequence_number() == 0, "a refused batch leaves nothing");
        let later = db.create_column_family(&options.cf, "later").unwrap();
        assert_eq!(later.id(), 2);
        db.put_opt(&write, b"more", b"1").unwrap();
        let before = show(&db);
        drop((other, later));
        db.close().unwrap();
        drop(db);
        let families = ["default", "other", "later"]
            .map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
        assert!(show(&db) == before, "the log gives what was written");
        drop(handles);
        db.close().unwrap();
        Outcome::Taken
    }
}
