//! What programs may do with the types of the crate besides calling them: send, share, print,
//! compare, clone, convert. Most of it is checked by the compiler: a missing trait is a build
//! error.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};
use std::io;
use std::path::Path;

use crate::common::{DIR, memory, options};
use pumice::backup::{BackupEngine, BackupInfo};
use pumice::options::{FileRules, LoadedOptions};
use pumice::stats::{MetricKind, MetricsPage, StatsLevel};
use pumice::*;

fn shared<T: Debug + Send + Sync + 'static>() {}
fn sent<T: Debug + Send + 'static>() {}
fn shown_and_copied<T: Debug + Clone + Send + Sync + 'static>() {}
fn compared<T: Debug + Clone + PartialEq + Send + Sync + 'static>() {}
fn keyed<T: Debug + Clone + Eq + std::hash::Hash + Send + Sync + 'static>() {}

// Plain #[test]: nothing of it waits.
#[test]
fn types_have_the_common_traits() {
    // Handles.
    shown_and_copied::<Db>();
    shown_and_copied::<DbWithTtl>();
    compared::<Snapshot>();
    shown_and_copied::<DbBuilder>();
    compared::<ColumnFamily>();
    shared::<BackupEngine>();
    shared::<Runtime>();
    shared::<Statistics>();
    shared::<PinnedSlice>();
    shared::<RowCache>();
    shared::<BlockCache>();
    shared::<RateLimiter>();
    shared::<SstFileManager>();
    shared::<WriteBufferManager>();
    shared::<ThreadPools>();
    // Cursors have one owner at a time.
    sent::<DbIterator>();
    sent::<Entries>();
    sent::<TtlIterator>();
    sent::<TtlEntries>();
    sent::<WalIterator>();
    sent::<SstFileWriter>();
    sent::<DbFuture<Result<Option<PinnedSlice>>>>();
    // Data.
    shown_and_copied::<WriteBatch>();
    shown_and_copied::<ColumnFamilyDescriptor>();
    shown_and_copied::<Comparator>();
    compared::<ReadOptions>();
    compared::<Options>();
    compared::<DbOptions>();
    compared::<ColumnFamilyOptions>();
    compared::<BlockBasedTableOptions>();
    compared::<WriteOptions>();
    compared::<FlushOptions>();
    compared::<CompactRangeOptions>();
    compared::<CompactFilesOptions>();
    compared::<WaitForCompactOptions>();
    compared::<IngestExternalFileOptions>();
    compared::<IngestExternalFileArg>();
    compared::<RangeOpt>();
    compared::<ExternalSstFileInfo>();
    compared::<CacheOptions>();
    compared::<CompressionOptions>();
    compared::<RateLimiterOptions>();
    compared::<SstFileManagerOptions>();
    compared::<FileRules>();
    compared::<LoadedOptions>();
    compared::<Budget>();
    compared::<BackupInfo>();
    compared::<LiveFile>();
    compared::<WalFile>();
    compared::<MetricsPage>();
    compared::<StatsLevel>();
    keyed::<MetricKind>();
    keyed::<ErrorKind>();
    keyed::<SubCode>();
    keyed::<Severity>();
    keyed::<CompressionType>();
    compared::<Error>();
}

// Plain #[test]: nothing of it waits.
#[test]
fn errors_are_those_of_rust() {
    fn is_error<T: StdError + Display + Clone + Send + Sync + 'static>() {}
    is_error::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    let none = Path::new("/nowhere/at/all");
    // In a program whose errors are boxed, or `io::Error`.
    let boxed = || -> std::result::Result<(), Box<dyn StdError + Send + Sync>> {
        Db::list_column_families(&DbOptions::default(), none)?;
        Ok(())
    };
    let error = boxed().unwrap_err().downcast::<Error>().unwrap();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    let system = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(system.kind(), io::ErrorKind::NotFound, "{error}");
    let as_io = || -> io::Result<()> {
        Db::list_column_families(&DbOptions::default(), none)?;
        Ok(())
    };
    let outer = as_io().unwrap_err();
    assert_eq!((outer.kind(), outer.to_string()), (io::ErrorKind::NotFound, error.to_string()));
}

#[pumice_test_macros::test]
fn values_and_handles_are_compared_and_shown() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    db.put("k", "v").unwrap();
    assert_eq!(db.get("none"), Ok(None));
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        let value = db.get("k").unwrap().unwrap();
        assert_eq!(value, b"v");
        assert_eq!(value, *b"v");
        assert_eq!(value, &b"v"[..]);
        assert_eq!(value, b"v".to_vec());
        assert_ne!(value, b"w");
        assert_eq!(db.get("k").unwrap(), Some(value));
        assert_eq!(Vec::from(db.get("k").unwrap().unwrap()), b"v");
    }
    let family = db.create_column_family(&ColumnFamilyOptions::default(), "family").unwrap();
    assert_eq!(db.column_family("family"), Some(family.clone()));
    assert_ne!(&family, db.default_column_family());
    // A family of that name and number in another database is another one.
    let (_, other_fs) = memory();
    let other = Db::open(&options(&other_fs), DIR).unwrap();
    assert_ne!(other.create_column_family(&ColumnFamilyOptions::default(), "family"), Ok(family));
    let (one, two) = (db.snapshot(), db.snapshot());
    assert_eq!(ReadOptions::at(&one), ReadOptions::at(&one.clone()));
    assert_ne!(ReadOptions::at(&one), ReadOptions::at(&two));
    assert_ne!(ReadOptions::at(&one), ReadOptions::default());
    drop((one, two));
    assert_eq!(format!("{db:?}"), format!("Db {{ path: {DIR:?}, .. }}"));
    let mut cursor = db.cursor().unwrap();
    cursor.seek_to_first();
    assert!(format!("{cursor:?}").contains("key: Some([107])"), "{cursor:?}");
    drop(cursor);
    other.close().unwrap();
    db.close().unwrap();
}
