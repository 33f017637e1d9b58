//! Results that are not what they say: the compaction is done by the database, and nothing of them
//! is left.

use std::path::Path;
use std::sync::Arc;

use pumice::options::CompactionServiceJobStatus as Status;
use pumice::{FileOptions, FileSystem, OpenAndCompactOptions, open_and_compact};

use super::{compact, contents, fill, served, tables};

type Damage = fn(&dyn FileSystem, &Path);

fn table_in(fs: &dyn FileSystem, output: &Path) -> std::path::PathBuf {
    let names = fs.list(output).unwrap();
    output.join(names.iter().find(|name| name.ends_with(".sst")).unwrap())
}

fn change(fs: &dyn FileSystem, file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs.read_file(file).unwrap();
    change(&mut bytes);
    let mut new = fs.create(file, &FileOptions::default()).unwrap();
    new.append(&bytes).unwrap();
    new.close().unwrap();
}

#[pumice_test_macros::test]
fn damaged_tables_are_not_installed() {
    let damages: [(&str, Damage); 4] = [
        ("missing", |fs, output| fs.remove(&table_in(fs, output)).unwrap()),
        ("cut", |fs, output| {
            change(fs, &table_in(fs, output), |bytes| bytes.truncate(bytes.len() / 2));
        }),
        ("longer", |fs, output| {
            change(fs, &table_in(fs, output), |bytes| bytes.push(0));
        }),
        ("a broken footer", |fs, output| {
            change(fs, &table_in(fs, output), |bytes| {
                let end = bytes.len();
                bytes[end - 8..].fill(0x55);
            });
        }),
    ];
    for (what, damage) in damages {
        let (db, service, options) = served(|_| ());
        fill(&db, 500);
        let before = contents(&db);
        let fs = Arc::clone(&options.db.file_system);
        *service.spoil.lock() = Some(Box::new(move |output, result| {
            damage(&*fs, output);
            (Status::Success, result)
        }));
        compact(&db).unwrap();
        assert_eq!(*service.installed.lock(), [Status::Failure], "{what}");
        assert_eq!(contents(&db), before, "{what}");
        db.verify_checksum().unwrap();
        crate::common::eventually("the table is deleted", || {
            let (there, live) = tables(&db, &options);
            there == live
        });
        db.close().unwrap();
    }
}

/// With a checksum in the result any change of the table is found.
#[pumice_test_macros::test]
fn checksums_are_compared() {
    let (db, service, options) = served(|options| {
        options.set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory").unwrap();
    });
    fill(&db, 500);
    let before = contents(&db);
    let fs = Arc::clone(&options.db.file_system);
    *service.spoil.lock() = Some(Box::new(move |output, result| {
        change(&*fs, &table_in(&*fs, output), |bytes| bytes[100] ^= 1);
        (Status::Success, result)
    }));
    compact(&db).unwrap();
    assert_eq!(*service.installed.lock(), [Status::Failure]);
    assert_eq!(contents(&db), before);
    *service.spoil.lock() = None;
    fill(&db, 500);
    compact(&db).unwrap();
    assert_eq!((service.successes(), service.failures()), (1, Vec::new()));
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}

/// What cannot be read as a result.
#[pumice_test_macros::test]
fn nonsense_is_no_result() {
    for nonsense in [&b""[..], b"\x01\0\0\0output_files={", b"\x02\0\0\0a=1;", b"words"] {
        let (db, service, _) = served(|_| ());
        fill(&db, 100);
        let before = contents(&db);
        *service.spoil.lock() = Some(Box::new(move |_, _| (Status::Success, nonsense.to_vec())));
        compact(&db).unwrap();
        assert_eq!(*service.installed.lock(), [Status::Failure]);
        assert_eq!(contents(&db), before);
        db.close().unwrap();
    }
}

/// A worker refuses what is not the database's.
#[pumice_test_macros::test]
fn inputs_are_checked() {
    let (db, service, _) = served(|_| ());
    fill(&db, 100);
    *service.takes.lock() = Status::UseLocal;
    let input = {
        compact(&db).unwrap();
        service.jobs.lock().values().next().unwrap().1.clone()
    };
    let run = |path: &str, input: &[u8]| {
        let options = OpenAndCompactOptions::default();
        open_and_compact(&options, path, "/late", input, &service.over).unwrap_err()
    };
    // The inputs are gone.
    let error = run("/db", &input);
    assert!(error.message().contains("does not exist"), "{error}");
    assert_eq!(run("/db", b"1234").message(), "Invalid CompactionServiceInput string");
    assert!(run("/nowhere", &input).kind() != pumice::ErrorKind::Corruption);
    db.close().unwrap();
}
