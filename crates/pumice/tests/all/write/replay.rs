//! Logs that are larger than memtables become tables while they are replayed, of several column
//! families, beside the replay.

use std::collections::BTreeMap;

use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ErrorKind, LiveFile, MemFs, Options,
    WriteBatch,
};
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_testkit::seed;

use crate::common::{DIR, memory, names, options};

const FAMILIES: usize = 3;
const OPERATIONS: usize = 2500;

/// What a family should have.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn small(fs: &MemFs, write_buffer: usize) -> Options {
    let mut options = options(&fs.shared());
    options.cf.disable_auto_compactions = true;
    options.cf.write_buffer_size = write_buffer;
    options.db.create_missing_column_families = true;
    options
}

fn descriptors(options: &ColumnFamilyOptions) -> Vec<ColumnFamilyDescriptor> {
    let names = ["default", "one", "two"];
    names.iter().map(|name| ColumnFamilyDescriptor::new(*name, options.clone())).collect()
}

/// A database whose whole content is in its log, as a killed process leaves it.
fn in_its_log(seed: u64) -> (MemFs, Vec<Model>) {
    let (fs, _) = memory();
    let options = small(&fs, 64 << 20);
    let (db, handles) = Db::open_cf(&options.db, DIR, &descriptors(&options.cf)).unwrap();
    let mut models = vec![Model::new(); FAMILIES];
    let mut rng = Rng::new(seed);
    for _ in 0..OPERATIONS {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + rng.uniform(3) {
            // Most of it goes to one family, so that the others are full later or never.
            let family = (rng.uniform(8) as usize).saturating_sub(8 - FAMILIES);
            let (cf, model) = (&handles[family], &mut models[family]);
            let key = format!("{:05}", rng.uniform(3000)).into_bytes();
            match rng.uniform(40) {
                0..=5 => {
                    batch.delete_cf(cf, &key);
                    model.remove(&key);
                }
                6 => {
                    let mut end = key.clone();
                    end.push(b'z');
                    end[3] = b'9';
                    batch.delete_range_cf(cf, &key, &end);
                    model.retain(|k, _| *k < key || *k >= end);
                }
                _ => {
                    let value = vec![rng.uniform(256) as u8; 40 + rng.uniform(60) as usize];
                    batch.put_cf(cf, &key, &value);
                    model.insert(key, value);
                }
            }
        }
        db.write(&mut batch).unwrap();
    }
    let left = fs.crashed_copy(1, CrashMode::PROCESS);
    db.close().unwrap();
    (left, models)
}

/// The seed of a run, printed.
fn seed(test: &str, usual: u64) -> u64 {
    let seed = seed::wanted().unwrap_or(usual);
    println!("{}", seed::replay_hint(test, seed));
    seed
}

/// Opens it, compares, and returns the files of the first family.
fn check(options: &Options, models: &[Model]) -> Vec<LiveFile> {
    let (db, handles) = Db::open_cf(&options.db, DIR, &descriptors(&options.cf)).unwrap();
    for (cf, model) in handles.iter().zip(models) {
        let mut cursor = db.cursor_cf(cf).unwrap();
        cursor.seek_to_first();
        for (key, value) in model {
            assert_eq!(cursor.key(), Some(&key[..]));
            assert_eq!(cursor.value(), Some(&value[..]));
            assert_eq!(db.get_cf(cf, key).unwrap().as_deref(), Some(&value[..]));
            cursor.next();
        }
        assert!(!cursor.valid());
        cursor.status().unwrap();
    }
    let files = db.live_files_metadata();
    db.close().unwrap();
    files.into_iter().filter(|file| file.column_family_name == "default").collect()
}

#[pumice_test_macros::test]
fn full_memtables_become_tables_in_their_order() {
    let (fs, models) = in_its_log(seed("full_memtables_become_tables_in_their_order", 1));
    // Data may stay in memory: these memtables are not those of a plain recovery.
    let mut kept = small(&fs.crashed_copy(1, CrashMode::PROCESS), 64 << 20);
    kept.db.avoid_flush_during_recovery = true;
    assert_eq!(check(&kept, &models).len(), 0);
    let mut flushed = small(&fs.crashed_copy(1, CrashMode::PROCESS), 32 << 10);
    flushed.db.avoid_flush_during_recovery = true;
    assert!(check(&flushed, &models).len() > 3);

    let options = small(&fs, 32 << 10);
    let mut files = check(&options, &models);
    assert!(files.len() > 3, "{} files", files.len());
    files.sort_by_key(|file| file.file_number);
    for pair in files.windows(2) {
        assert!(pair[0].largest_seq < pair[1].smallest_seq, "{pair:?}");
        assert!(pair[0].epoch_number < pair[1].epoch_number, "{pair:?}");
    }
    // Nothing of the log is needed any more.
    assert_eq!(check(&options, &models), files_by_number_down(files));
}

fn files_by_number_down(mut files: Vec<LiveFile>) -> Vec<LiveFile> {
    files.sort_by_key(|file| std::cmp::Reverse(file.file_number));
    files
}

/// Whatever table cannot be written, and at whatever moment: the open fails with that error, leaves
/// no file behind, and the next one finds everything.
#[pumice_test_macros::test]
fn a_table_that_cannot_be_written_fails_the_open() {
    let (fs, models) = in_its_log(seed("a_table_that_cannot_be_written_fails_the_open", 2));
    let mut failed = 0;
    for op in [FaultOp::Create, FaultOp::Write, FaultOp::Sync] {
        for skip in 0.. {
            let fs = fs.crashed_copy(1, CrashMode::PROCESS);
            let options = small(&fs, 32 << 10);
            let before = names(&fs.shared(), DIR);
            fs.add_fault(FaultRule::once(op, "*.sst", skip, Fault::Eio));
            let opened = Db::open_cf(&options.db, DIR, &descriptors(&options.cf));
            fs.clear_faults();
            let Err(error) = opened else { break };
            failed += 1;
            assert!(error.kind() == ErrorKind::IoError, "{error}");
            let after = names(&fs.shared(), DIR);
            let tables = after.iter().filter(|name| name.ends_with(".sst")).count();
            assert_eq!(tables, 0, "{before:?} {after:?}");
            assert!(check(&options, &models).len() > 3);
        }
    }
    assert!(failed > 10, "{failed}");
}
