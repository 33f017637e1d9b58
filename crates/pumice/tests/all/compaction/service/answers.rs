//! Each answer of a service, and what the database makes of it.

use std::sync::atomic::Ordering;

use pumice::options::CompactionServiceJobStatus as Status;
use pumice::{CompactionReason, ErrorKind};

use super::{compact, contents, fill, served};

#[pumice_test_macros::test]
fn a_service_compacts() {
    let (db, service, _) = served(|_| ());
    fill(&db, 2000);
    let view = db.snapshot();
    fill(&db, 2000);
    db.delete("key000009").unwrap();
    db.flush().unwrap();
    let (before, seen) = (contents(&db), db.get("key000001").unwrap());
    compact(&db).unwrap();
    assert_eq!(service.failures(), Vec::<String>::new());
    assert!(service.successes() >= 1);
    assert_eq!(contents(&db), before);
    assert_eq!(db.get("key000001").unwrap(), seen);
    let read = pumice::ReadOptions { snapshot: Some(view), ..Default::default() };
    assert!(db.get_opt(&read, "key000009").unwrap().is_some(), "versions of snapshots are kept");
    let info = service.seen.lock()[0].clone();
    assert_eq!((&info.cf_name[..], info.cf_id), ("default", 0));
    assert_eq!(info.compaction_reason, CompactionReason::ManualCompaction);
    assert!(info.is_manual_compaction && info.bottommost_level && info.is_full_compaction);
    assert_eq!((info.base_input_level, info.priority), (0, 1));
    assert_eq!(db.live_files_metadata().iter().filter(|file| file.level == 0).count(), 0);
    db.verify_checksum().unwrap();
    db.close().unwrap();
    assert!(service.canceled_all.load(Ordering::Relaxed) >= 1);
}

#[pumice_test_macros::test]
fn parts_are_compacted_one_by_one() {
    let (db, service, _) = served(|options| {
        options.db.max_subcompactions = 3;
        options.cf.target_file_size_base = 8 << 10;
    });
    for base in [0, 1000, 500, 1500] {
        (0..800).for_each(|n| db.put(format!("key{:06}", base + n), [n as u8; 50]).unwrap());
        db.flush().unwrap();
    }
    let before = contents(&db);
    compact(&db).unwrap();
    assert!(service.seen.lock().len() >= 2);
    let seen = service.seen.lock().len();
    assert_eq!(service.successes(), seen);
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_service_may_decline() {
    let (db, service, _) = served(|_| ());
    fill(&db, 300);
    let before = contents(&db);
    *service.takes.lock() = Status::UseLocal;
    compact(&db).unwrap();
    fill(&db, 300);
    *service.takes.lock() = Status::Success;
    *service.spoil.lock() = Some(Box::new(|_, _| (Status::UseLocal, Vec::new())));
    compact(&db).unwrap();
    assert_eq!((service.seen.lock().len(), service.installed.lock().len()), (2, 0));
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn failures_end_the_compaction_and_lose_nothing() {
    let (db, service, _) = served(|_| ());
    fill(&db, 300);
    let before = contents(&db);
    let end = |kind: ErrorKind, text: &str| {
        let error = compact(&db).unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, text));
        db.resume().unwrap();
        assert_eq!(contents(&db), before);
    };
    *service.takes.lock() = Status::Failure;
    end(ErrorKind::Incomplete, "CompactionService failed to schedule a remote compaction job.");
    *service.takes.lock() = Status::Aborted;
    end(ErrorKind::Aborted, "Scheduling a remote compaction job was aborted");
    *service.takes.lock() = Status::Success;
    *service.spoil.lock() = Some(Box::new(|_, _| (Status::Aborted, Vec::new())));
    end(ErrorKind::Aborted, "Waiting a remote compaction job was aborted");
    *service.spoil.lock() = Some(Box::new(|_, result| (Status::Failure, result)));
    end(
        ErrorKind::Incomplete,
        "CompactionService failed to run the compaction job (even though the internal status is \
         okay).",
    );
    *service.spoil.lock() = Some(Box::new(|_, _| (Status::Failure, b"?".to_vec())));
    end(
        ErrorKind::Incomplete,
        "CompactionService failed to run the compaction job (and no valid result is returned).",
    );
    *service.spoil.lock() = None;
    compact(&db).unwrap();
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_worker_is_cancelled() {
    let flag = pumice::CancelFlag::default();
    let (_, fs) = crate::common::memory();
    let mut options = crate::common::options(&fs);
    options.cf.disable_auto_compactions = true;
    let service = super::Service::new(&options);
    let mut service = std::sync::Arc::into_inner(service).unwrap();
    service.canceled.canceled = Some(flag.clone());
    let service = std::sync::Arc::new(service);
    options.db.compaction_service = Some(std::sync::Arc::clone(&service) as _);
    let db = pumice::Db::open(&options, crate::common::DIR).unwrap();
    fill(&db, 5000);
    let before = contents(&db);
    flag.set(true);
    assert_eq!(compact(&db).unwrap_err().kind(), ErrorKind::Incomplete);
    let error = service.errors.lock().pop().unwrap();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    let left = fs.list("/".as_ref()).unwrap();
    let output = left.iter().find(|name| name.starts_with("out-")).unwrap();
    let left = fs.list(format!("/{output}").as_ref()).unwrap();
    assert!(left.iter().all(|name| !name.ends_with(".sst")), "{left:?}");
    flag.set(false);
    db.resume().unwrap();
    compact(&db).unwrap();
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}
