//! Checkpoints and ingestion where files cannot be linked: between two real file systems, and on
//! one that has no links. Files are copied, and both sides are whole.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use crate::common::{self, contents, fill, flush};
use pumice::{Db, IngestExternalFileOptions, Options, SstFileWriter};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

/// A directory on each of two file systems, removed with the value. None where there is but one.
struct Disks([PathBuf; 2]);

impl Disks {
    fn find(name: &str) -> Option<Disks> {
        use std::os::unix::fs::MetadataExt;
        let roots = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        let device = |path: &Path| std::fs::metadata(path).ok().map(|data| data.dev());
        if device(&roots[0])? == device(&roots[1])? {
            return None;
        }
        let name = format!("pumice-disks-{name}-{}", std::process::id());
        let dirs = roots.map(|root| root.join(&name));
        for dir in &dirs {
            std::fs::create_dir_all(dir).ok()?;
        }
        Some(Disks(dirs))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.0.iter().for_each(|dir| drop(std::fs::remove_dir_all(dir)));
    }
}

fn disks(name: &str) -> Option<Disks> {
    let found = Disks::find(name);
    if found.is_none() {
        eprintln!("SKIPPED: /dev/shm and the directory for temporary files are one file system");
    }
    found
}

fn external(options: &Options, path: &Path, keys: std::ops::Range<usize>) {
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(path).unwrap();
    keys.for_each(|n| writer.put(&common::key(n), b"external").unwrap());
    writer.finish().unwrap();
}

/// Checkpoints `db` to `copy` and ingests files of `outside` in each way; `crossing`: links fail.
fn cross(options: &Options, db: &Db, copy: &Path, outside: &Path, crossing: bool) {
    fill(db, 0..100, "own");
    flush(db);
    fill(db, 100..150, "logged");
    db.checkpoint(copy).unwrap();
    let of_the_copy = Db::open(options, copy).unwrap();
    assert_eq!(contents(&of_the_copy), contents(db));
    // Nothing is shared: the copy is written to, and the original not.
    fill(&of_the_copy, 0..10, "of the copy");
    flush(&of_the_copy);
    of_the_copy.close().unwrap();
    assert!(contents(db).iter().all(|(_, value)| value != b"of the copy"));

    for (round, (links, moves, falls_back)) in [
        (false, false, false),
        (true, false, true),
        (false, true, true),
        (true, false, false),
        (false, true, false),
    ]
    .into_iter()
    .enumerate()
    {
        let file = outside.join(format!("{round}.sst"));
        let keys = 1000 * (round + 1)..1000 * (round + 1) + 10;
        external(options, &file, keys);
        let how = IngestExternalFileOptions {
            link_files: links,
            move_files: moves,
            failed_move_fall_back_to_copy: falls_back,
            ..Default::default()
        };
        let before = contents(db).len();
        let result = db.ingest_external_file(&how, &[&file]);
        let refused = crossing && (links || moves) && !falls_back;
        assert_eq!(result.is_err(), refused, "round {round}: {result:?}");
        assert_eq!(contents(db).len(), before + if refused { 0 } else { 10 });
        // A file that was moved is gone, a refused or copied one is not.
        let fs = &options.db.file_system;
        assert_eq!(fs.exists(&file).unwrap(), !moves || refused, "round {round}");
    }
    db.verify_checksum().unwrap();
}

#[pumice_test_macros::test]
fn files_cross_between_two_file_systems() {
    let Some(disks) = disks("cross") else { return };
    for (home, away) in [(0, 1), (1, 0)] {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        let of = format!("of-{home}");
        let [home, away] = [home, away].map(|at| disks.0[at].join(&of));
        std::fs::create_dir_all(&away).unwrap();
        let db = Db::open(&options, &home).unwrap();
        cross(&options, &db, &away.join("copy"), &away, true);
        let all = contents(&db);
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, &home).unwrap();
        assert_eq!(contents(&db), all);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn files_are_copied_where_there_are_no_links() {
    let (memory, fs) = common::memory();
    memory.add_fault(FaultRule::always(FaultOp::Link, "*", Fault::Unsupported));
    let options = common::options(&fs);
    fs.create_dir_all(Path::new("/in")).unwrap();
    let db = Db::open(&options, common::DIR).unwrap();
    cross(&options, &db, Path::new("/copy"), Path::new("/in"), true);
    let all = contents(&db);
    db.close().unwrap();
    drop(db);
    assert_eq!(contents(&Db::open(&options, common::DIR).unwrap()), all);
}
