//! Logs of which an open applies what the user's filter lets through.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, memory, options};
use pumice::options::{WalFilter, WalProcessing, WalRecoveryMode};
use pumice::{
    BatchRecord, Db, ErrorKind, Options, TransactionDb, TransactionDbOptions, TransactionOptions,
    WriteBatch,
};
use pumice_env::mem::CrashMode;
use pumice_port::sync::Mutex;

/// Decides about the record with that number, and lets the others through.
struct At {
    record: usize,
    processing: WalProcessing,
    seen: Mutex<Vec<u32>>,
}

impl WalFilter for At {
    fn name(&self) -> &str {
        "At"
    }
    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<u32, u64>,
        ids: &BTreeMap<String, u32>,
    ) {
        assert!(log_numbers.contains_key(&0) && ids["default"] == 0 && self.seen.lock().is_empty());
    }
    fn log_record_found(&self, _: u64, log_file: &Path, record: &[u8]) -> WalProcessing {
        assert_eq!(log_file.parent(), Some(Path::new(DIR)));
        let mut seen = self.seen.lock();
        seen.push(WriteBatch::from_data(record).unwrap().count());
        match seen.len() == self.record {
            true => self.processing.clone(),
            false => WalProcessing::ContinueProcessing,
        }
    }
}

fn batch(keys: &[&str]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    keys.iter().for_each(|key| batch.put(key, "v"));
    batch
}

/// Writes three records and opens again; what is there then, also without the filter.
fn opened(
    record: usize,
    processing: WalProcessing,
    set: impl Fn(&mut Options),
) -> pumice::Result<Vec<Vec<u8>>> {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.avoid_flush_during_recovery = true;
    set(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    for keys in [&["a"][..], &["b", "c"], &["d"]] {
        db.write(&mut batch(keys)).unwrap();
    }
    db.close().unwrap();
    let filter = Arc::new(At { record, processing, seen: Mutex::new(Vec::new()) });
    let mut filtered = options.clone();
    filtered.db.wal_filter = Some(filter.clone());
    let db = Db::open(&filtered, DIR)?;
    let keys = |db: &Db| contents(db).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    let found = keys(&db);
    db.put("z", "later").unwrap();
    db.close().unwrap();
    assert_eq!(filter.seen.lock()[..2], [1, 2]);
    let mut after = keys(&Db::open(&options, DIR).unwrap());
    assert_eq!(after.pop().as_deref(), Some(&b"z"[..]));
    assert_eq!(after, found);
    Ok(found)
}

#[pumice_test_macros::test]
fn an_open_applies_what_the_filter_lets_through() {
    let plain = |_: &mut Options| {};
    let keys = |record, processing| opened(record, processing, plain).unwrap();
    assert_eq!(keys(2, WalProcessing::ContinueProcessing), [b"a", b"b", b"c", b"d"]);
    assert_eq!(keys(2, WalProcessing::IgnoreCurrentRecord), [b"a", b"d"]);
    assert_eq!(keys(3, WalProcessing::IgnoreCurrentRecord), [b"a", b"b", b"c"]);
    assert_eq!(keys(2, WalProcessing::StopReplay), [b"a"]);
    let replace = |keys: &[&str]| WalProcessing::Replace(batch(keys).data().to_vec());
    assert_eq!(keys(2, replace(&["n"])), [b"a", b"d", b"n"]);
    assert_eq!(keys(2, replace(&[])), [b"a", b"d"]);
    let error = opened(2, replace(&["n", "o", "p"]), plain).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let error = opened(2, WalProcessing::Replace(vec![1, 2]), plain).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

/// A record that the filter calls damaged is one to the recovery mode.
#[pumice_test_macros::test]
fn a_damaged_record_is_one_to_the_recovery_mode() {
    let keys = |mode| opened(2, WalProcessing::CorruptedRecord, |o| o.db.wal_recovery_mode = mode);
    assert_eq!(keys(WalRecoveryMode::PointInTime).unwrap(), [b"a"]);
    assert_eq!(keys(WalRecoveryMode::SkipAnyCorrupted).unwrap(), [b"a", b"d"]);
    let error = keys(WalRecoveryMode::AbsoluteConsistency).unwrap_err();
    assert!(error.message().contains("Corruption reported by Wal Filter : At"), "{error}");
    let lax = opened(2, WalProcessing::CorruptedRecord, |o| o.db.paranoid_checks = false);
    assert_eq!(lax.unwrap(), [b"a", b"b", b"c", b"d"]);
}

/// Reads every record, and says of each that cannot be read that it is damaged.
#[derive(Default)]
struct Reader(Mutex<Vec<Vec<u8>>>);

impl WalFilter for Reader {
    fn name(&self) -> &str {
        "Reader"
    }
    fn log_record_found(&self, _: u64, _: &Path, record: &[u8]) -> WalProcessing {
        let Ok(batch) = WriteBatch::from_log(record.to_vec()) else {
            return WalProcessing::CorruptedRecord;
        };
        for record in batch.iter() {
            if let BatchRecord::Entry { key, .. } = record.unwrap() {
                self.0.lock().push(key.to_vec());
            }
        }
        WalProcessing::ContinueProcessing
    }
}

/// A filter reads records of transactions as others; nothing of them is lost.
#[pumice_test_macros::test]
fn a_filter_sees_what_transactions_wrote() {
    let (disk, fs) = memory();
    let mut options = options(&fs);
    options.db.avoid_flush_during_recovery = true;
    let how = TransactionDbOptions::default();
    let db = TransactionDb::open(&options, &how, DIR).unwrap();
    let prepared = |name: &str| {
        let transaction = db.transaction_opt(&SYNC, &TransactionOptions::default());
        transaction.set_name(name).unwrap();
        transaction.put(name, "v").unwrap();
        transaction.prepare().unwrap();
        transaction
    };
    let (committed, waiting) = (prepared("committed"), prepared("waiting"));
    committed.commit().unwrap();
    let filter = Arc::new(Reader::default());
    options.db.file_system = disk.crashed_copy(1, CrashMode::UNSYNCED).shared();
    options.db.wal_filter = Some(filter.clone());
    let after = TransactionDb::open(&options, &how, DIR).unwrap();
    assert_eq!(after.get("committed").unwrap().as_deref(), Some(&b"v"[..]));
    let names: Vec<_> = after.prepared_transactions().iter().map(|t| t.name()).collect();
    assert_eq!(names, [b"waiting"]);
    for name in ["committed", "waiting"] {
        assert!(filter.0.lock().contains(&name.as_bytes().to_vec()), "{name}");
    }
    waiting.rollback().unwrap();
}
