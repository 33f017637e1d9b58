//! Results that read well and are wrong: nothing of them is installed, the database compacts
//! itself, stays writable, and has all its tables at the next open.

use std::sync::Arc;

use pumice::options::CompactionServiceJobStatus as Status;
use pumice::{Db, ErrorKind, OpenAndCompactOptions, open_and_compact};

use pumice_port::sync::Mutex;

use super::{Service, compact, contents, fill, served, tables};
use crate::common::DIR;

type Change = fn(String) -> String;

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02X}")).collect()
}

/// `text` with the value of each field of that name replaced.
fn set(text: &str, name: &str, value: &str) -> String {
    let name = format!("{name}=");
    let mut parts = text.split(&name);
    let mut changed = parts.next().unwrap().to_string();
    let mut count = 0;
    for part in parts {
        changed += &format!("{name}{value};{}", part.split_once(';').unwrap().1);
        count += 1;
    }
    assert!(count > 0, "{name} is in {text}");
    changed
}

/// Compacts with results that `change` makes wrong.
fn distrusted(what: &str, change: Change) {
    let (db, service, options) = served(|_| ());
    fill(&db, 300);
    let before = contents(&db);
    *service.spoil.lock() = Some(Box::new(move |_, result| {
        let text = String::from_utf8(result[4..].to_vec()).unwrap();
        (Status::Success, [&result[..4], change(text).as_bytes()].concat())
    }));
    compact(&db).unwrap();
    assert_eq!(service.failures(), Vec::<String>::new(), "{what}");
    assert_eq!(*service.installed.lock(), [Status::Failure], "{what}");
    check(what, db, &before, &options);
}

/// The database has all, takes writes, and opens again.
fn check(what: &str, db: Db, before: &[(Vec<u8>, Vec<u8>)], options: &pumice::Options) {
    assert_eq!(contents(&db), before, "{what}");
    db.put("a later key", "").unwrap_or_else(|error| panic!("{what}: {error}"));
    db.delete("a later key").unwrap();
    db.verify_checksum().unwrap();
    crate::common::eventually("unknown tables are deleted", || {
        let (there, live) = tables(&db, options);
        there == live
    });
    db.close().unwrap();
    drop(db);
    let mut local = options.clone();
    local.db.compaction_service = None;
    let db = Db::open(&local, DIR).unwrap();
    assert_eq!(contents(&db), before, "{what}");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn incomplete_results() {
    distrusted("no field", |_| "a=1;".to_string());
    distrusted("the status only", |text| text.split_inclusive(';').take(4).collect::<String>());
    distrusted("no tables", |text| {
        let (start, tables) = text.split_once("output_files=").unwrap();
        format!("{start}output_files=;{}", &tables[tables.find("output_level=").unwrap()..])
    });
    distrusted("a count of no table", |text| set(&text, "num_output_files", "0"));
    distrusted("no count of no tables", |text| {
        let (start, tables) = text.split_once("output_files=").unwrap();
        let rest = &tables[tables.find("output_level=").unwrap()..];
        let rest = set(&set(rest, "num_output_files", "0"), "num_output_records", "0");
        let rest = rest.replace("has_accurate_num_input_records=true;", "");
        format!("{start}output_files=;{rest}")
    });
}

#[pumice_test_macros::test]
fn counts_levels_and_owners() {
    distrusted("entries", |text| text.replace(";num_input_records=", ";num_input_records=1"));
    distrusted("level", |text| {
        let at = text.rfind("output_level=").unwrap();
        text[..at].to_string() + &set(&text[at..], "output_level", "3")
    });
    distrusted("last sequence number", |text| set(&text, "largest_seqno", "1000000"));
    distrusted("sequence numbers", |text| set(&text, "smallest_seqno", "1000000"));
    distrusted("bounds", |text| {
        let end = hex("zzz") + "0101000000000000";
        set(&text, "largest_internal_key", &end)
    });
    distrusted("unique id", |text| set(&text, "unique_id", "7:8"));
}

/// A live table keeps its name.
#[pumice_test_macros::test]
fn tables_of_the_database_are_not_moved() {
    distrusted("the database's directory", |text| set(&text, "output_path", &hex("/db")));
    distrusted("in other words", |text| set(&text, "output_path", &hex("/db/./")));
    for which in [0, 1] {
        let (db, service, options) = served(|_| ());
        fill(&db, 300);
        let before = contents(&db);
        let live = tables(&db, &options).1;
        let name = live[which].clone();
        *service.spoil.lock() = Some(Box::new(move |_, result| {
            let text = String::from_utf8(result[4..].to_vec()).unwrap();
            let text = set(&text, "output_path", &hex("/db"));
            let (start, rest) = text.split_once("file_name=").unwrap();
            let rest = rest.split_once(';').unwrap().1;
            let text = format!("{start}file_name={};{rest}", hex(&name));
            (Status::Success, [&result[..4], text.as_bytes()].concat())
        }));
        compact(&db).unwrap();
        assert_eq!(*service.installed.lock(), [Status::Failure]);
        check("a live table", db, &before, &options);
    }
}

/// A worker would take the numbers of tables that the database is about to write.
#[pumice_test_macros::test]
fn a_worker_does_not_write_into_the_database() {
    let (db, service, options) = served(|options| {
        options.db.wal_dir = "/logs".into();
        options.cf.cf_paths = vec![pumice::options::DbPath::new("/tables", 1 << 40)];
    });
    fill(&db, 100);
    *service.takes.lock() = Status::Failure;
    compact(&db).unwrap_err();
    let input = service.jobs.lock().values().next().unwrap().1.clone();
    let before: Vec<_> = [DIR, "/logs", "/tables"]
        .map(|dir| options.db.file_system.list(dir.as_ref()).unwrap())
        .into();
    for output in [DIR, "/db/", "/logs", "/tables/."] {
        let canceled = OpenAndCompactOptions::default();
        let error = open_and_compact(&canceled, DIR, output, &input, &service.over).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("cannot take outputs"), "{error}");
    }
    let after: Vec<_> = [DIR, "/logs", "/tables"]
        .map(|dir| options.db.file_system.list(dir.as_ref()).unwrap())
        .into();
    assert_eq!(after, before);
    db.close().unwrap();
}

/// What is wrong with a worker is not wrong with the database.
#[pumice_test_macros::test]
fn errors_of_workers_do_not_stop_writes() {
    for (status, code) in [(Status::Failure, 2), (Status::Success, 2), (Status::Success, 5)] {
        let (db, service, options) = served(|_| ());
        fill(&db, 300);
        let before = contents(&db);
        *service.spoil.lock() = Some(Box::new(move |_, _| {
            let text = format!("status={{code={code};subcode=0;severity=4;message=6261;}};");
            (status, [b"\x01\0\0\0", text.as_bytes()].concat())
        }));
        let error = compact(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
        assert!(error.message().contains("ba"), "{error}");
        *service.spoil.lock() = None;
        check("an error", db, &before, &options);
    }
}

/// Two databases that are alike, with one service: the result of the other one's job fits but for
/// the identity.
#[pumice_test_macros::test]
fn results_of_other_databases() {
    let (db, service, options) = served(|_| ());
    let mut alike = options.clone();
    let second = Service::new(&options);
    alike.db.compaction_service = Some(Arc::clone(&second) as _);
    let other = Db::open(&alike, "/other").unwrap();
    fill(&db, 300);
    fill(&other, 300);
    let before = contents(&db);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    *second.spoil.lock() = Some(Box::new(move |_, result| {
        *keep.lock() = result;
        (Status::UseLocal, Vec::new())
    }));
    *service.spoil.lock() = Some(Box::new(move |_, _| (Status::Success, kept.lock().clone())));
    compact(&other).unwrap();
    other.close().unwrap();
    compact(&db).unwrap();
    assert_eq!(*service.installed.lock(), [Status::Failure]);
    check("another database's", db, &before, &options);
}
