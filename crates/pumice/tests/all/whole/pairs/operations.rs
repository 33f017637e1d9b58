//! The operations, each as one task performs it, and the errors they may get while others run.

use pumice::backup::BackupEngine;
use pumice::{
    CompactFilesOptions, CompactRangeOptions, Db, ErrorKind, FileSystem, FlushOptions,
    IngestExternalFileArg, IngestExternalFileOptions, RangeOpt, ReadOptions, Result,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{thread, time};

use super::stage::{DIR, KEYS, OLD, Stage, force, key};

/// How often an option is changed, so that one change meets another's.
const OWN_CHANGES: u32 = 40;
const STEP_NANOS: u64 = 20_000_000;

/// See the module head.
pub struct Operation {
    pub name: &'static str,
    pub run: fn(&Stage, usize) -> Result<()>,
}

/// The write after each operation.
pub static PROBE: Operation = Operation { name: "probe", run: |_, _| Ok(()) };

/// All of them.
pub static OPERATIONS: &[Operation] = &[
    Operation { name: "write", run: write },
    Operation { name: "write_unlogged", run: write_unlogged },
    Operation { name: "delete_range", run: delete_range },
    Operation { name: "get", run: get },
    Operation { name: "multi_get", run: multi_get },
    Operation { name: "iterate", run: iterate },
    Operation { name: "cursor", run: cursor },
    Operation { name: "snapshot", run: snapshot },
    Operation { name: "properties", run: properties },
    Operation { name: "flush", run: flush },
    Operation { name: "flush_without_wait", run: flush_without_wait },
    Operation { name: "flush_wal", run: flush_wal },
    Operation { name: "compact_range", run: compact_range },
    Operation { name: "compact_exclusive", run: compact_exclusive },
    Operation { name: "change_level", run: change_level },
    Operation { name: "wait_for_compact", run: wait_for_compact },
    Operation { name: "set_options", run: set_options },
    Operation { name: "set_db_options", run: set_db_options },
    Operation { name: "create_family", run: create_family },
    Operation { name: "drop_family", run: drop_family },
    Operation { name: "checkpoint", run: checkpoint },
    Operation { name: "backup", run: backup },
    Operation { name: "pause", run: pause },
    Operation { name: "keep_files", run: keep_files },
    Operation { name: "ingest", run: ingest },
    Operation { name: "ingest_behind", run: ingest_behind },
    Operation { name: "ingest_replacing", run: ingest_replacing },
    Operation { name: "delete_files", run: delete_files },
    Operation { name: "suggest_compact", run: suggest_compact },
    Operation { name: "compact_files", run: compact_files },
    Operation { name: "verify_checksum", run: verify_checksum },
    Operation { name: "follow", run: follow },
    Operation { name: "open_read_only", run: open_read_only },
    Operation { name: "fail_and_resume", run: fail_and_resume },
    Operation { name: "close", run: close },
    Operation { name: "close_paused", run: close_paused },
    Operation { name: "last_handle", run: last_handle },
];

/// Whether `operation` of `pair` may fail so.
pub fn excused(operation: &Operation, pair: [&Operation; 2], error: &pumice::Error) -> bool {
    let text = error.to_string();
    let any = |names: &[&str]| pair.iter().any(|one| names.contains(&one.name));
    let says = |texts: &[&str]| texts.iter().any(|t| text.contains(t));
    let closing = error.kind() == ErrorKind::ShutdownInProgress || says(&["closing", "closed"]);
    let copies = ["checkpoint", "backup"].contains(&operation.name);
    if any(&["close", "close_paused", "last_handle"]) && (closing || copies) {
        return !error.is_corruption();
    }
    if any(&["fail_and_resume"])
        && !error.is_corruption()
        && says(&["IO error", "recover", "Recovery in progress"])
    {
        return true;
    }
    let dropped = error.kind() == ErrorKind::ColumnFamilyDropped || says(&["dropped"]);
    if any(&["drop_family"]) && dropped {
        return true;
    }
    match operation.name {
        "compact_range" | "compact_exclusive" | "change_level"
            if any(&["pause", "close_paused"]) =>
        {
            says(&["Manual compaction paused"])
        }
        "change_level" => says(&["Levels between source and target are not empty"]),
        // The files may be deleted, moved or in a compaction before the call gets to them.
        "compact_files" => {
            error.kind() == ErrorKind::Aborted
                || says(&["does not exist", "at least one file", "Cannot compact file to up level"])
                || error.kind() == ErrorKind::Incomplete && any(&["pause", "close_paused"])
        }
        "ingest_replacing" => says(&["partially overlaps", "pending compaction"]),
        _ => false,
    }
}

fn logged(sync: bool) -> WriteOptions {
    WriteOptions { sync, ..WriteOptions::default() }
}

/// Batches over two families, synced and not.
fn write(stage: &Stage, who: usize) -> Result<()> {
    let (db, other) = (stage.db(who), stage.family("other"));
    for n in 0..3 {
        let key = format!("w{who}{n}");
        let mut batch = WriteBatch::new();
        batch.put(key.as_bytes(), b"w");
        batch.put_cf(other.id(), key.as_bytes(), b"w");
        for family in ["default", "other"] {
            stage.may_become(family, key.as_bytes(), None);
            stage.may_become(family, key.as_bytes(), Some("w"));
        }
        db.write_opt(&logged(n == 1), &mut batch)?;
        for family in ["default", "other"] {
            stage.became(family, key.as_bytes(), Some("w"), "");
        }
    }
    Ok(())
}

/// Writes without a log are flushed at the end; until then they use much memory.
fn write_unlogged(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("s{who}"))?;
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    let filler = vec![b'f'; 6 << 10];
    for n in 0..8 {
        db.put_opt(&unlogged, format!("f{who}{n}").as_bytes(), &filler)?;
    }
    let key = format!("u{who}");
    stage.may_become("default", key.as_bytes(), None);
    stage.may_become("default", key.as_bytes(), Some("u"));
    db.put_opt(&unlogged, key.as_bytes(), b"u")?;
    stage.became("default", key.as_bytes(), Some("u"), "");
    put_mark(stage, &db, &format!("t{who}"))
}

fn delete_range(stage: &Stage, who: usize) -> Result<()> {
    let (begin, end) = (10 + 5 * who as u32, 15 + 5 * who as u32);
    (begin..end).for_each(|n| stage.may_become("default", &key(n), None));
    let (begin_key, end_key) = (key(begin), key(end));
    stage.db(who).delete_range_opt(&logged(true), &begin_key, &end_key)?;
    (begin..end).for_each(|n| stage.became("default", &key(n), None, OLD));
    Ok(())
}

/// Reads of keys that no operation changes.
fn get(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    for n in [KEYS - 1, KEYS - 2] {
        let found = db.get_opt(&ReadOptions::default(), &key(n))?;
        assert_eq!(found.as_deref(), Some(OLD.as_bytes()));
    }
    Ok(())
}

fn multi_get(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let keys: Vec<_> = (KEYS - 8..KEYS).map(key).collect();
    for found in db.multi_get_opt(&ReadOptions::default(), &keys) {
        assert_eq!(found?.as_deref(), Some(OLD.as_bytes()));
    }
    let families = [db.default_column_family(), stage.family("other")];
    let keys: Vec<_> = families.into_iter().map(|family| (family, &keys[0][..])).collect();
    for found in db.multi_get_cf_opt(&ReadOptions::default(), &keys) {
        assert_eq!(found?.as_deref(), Some(OLD.as_bytes()));
    }
    Ok(())
}

fn count(cursor: &mut pumice::DbIterator) -> Result<usize> {
    let (mut count, mut last) = (0, Vec::new());
    cursor.seek_to_first();
    while cursor.valid() {
        assert!(cursor.key().unwrap() > &last[..], "keys in order");
        last = cursor.key().unwrap().to_vec();
        count += usize::from(last.starts_with(b"k"));
        cursor.next();
    }
    cursor.status()?;
    Ok(count)
}

fn iterate(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let found = count(&mut db.cursor_opt(&ReadOptions::default())?)?;
    assert!((KEYS as usize - 20..=KEYS as usize).contains(&found), "{found} keys");
    Ok(())
}

/// Reads on through a cursor from before, with no handle.
fn cursor(stage: &Stage, who: usize) -> Result<()> {
    let mut cursor = stage.cursors[who].lock().take().unwrap();
    stage.forget(who);
    assert_eq!(count(&mut cursor)?, KEYS as usize);
    cursor.seek_to_last();
    assert_eq!((cursor.key().unwrap(), cursor.value().unwrap()), (&b"memory"[..], OLD.as_bytes()));
    Ok(())
}

fn snapshot(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let reads = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    let first = count(&mut db.cursor_opt(&reads)?)?;
    let one = db.get_opt(&reads, &key(0))?.map(|value| value.to_vec());
    thread::yield_now();
    assert_eq!(count(&mut db.cursor_opt(&reads)?)?, first, "a snapshot changed");
    assert_eq!(db.get_opt(&reads, &key(0))?.map(|value| value.to_vec()), one, "a snapshot changed");
    Ok(())
}

fn properties(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    for name in ["rocksdb.stats", "rocksdb.levelstats", "rocksdb.num-live-versions"] {
        assert!(db.property(name).is_some());
    }
    assert!(!db.live_files_metadata().is_empty());
    db.approximate_sizes(&[(&key(0), &key(9))])?;
    get(stage, who)
}

fn flush(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("x{who}"))?;
    db.flush_all_opt(&FlushOptions::default())
}

fn put_mark(stage: &Stage, db: &Db, mark: &str) -> Result<()> {
    stage.may_become("default", mark.as_bytes(), None);
    stage.may_become("default", mark.as_bytes(), Some("m"));
    db.put_opt(&logged(false), mark.as_bytes(), b"m")?;
    stage.became("default", mark.as_bytes(), Some("m"), "");
    Ok(())
}

fn flush_without_wait(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("y{who}"))?;
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() })
}

fn flush_wal(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("z{who}"))?;
    db.flush_wal(false)?;
    db.sync_wal()
}

fn compact_range(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    db.compact_range(&force(), None, None)?;
    db.compact_range_cf(&force(), stage.family("doomed"), None, None)
}

fn compact_exclusive(stage: &Stage, who: usize) -> Result<()> {
    let how = CompactRangeOptions { exclusive_manual_compaction: true, ..force() };
    let db = stage.db(who);
    db.compact_range_cf(&how, stage.family("other"), Some(&key(3)), Some(&key(30)))?;
    db.compact_range(&how, None, None)
}

fn change_level(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    for target_level in [[4, 1], [2, 5]][who] {
        let how = CompactRangeOptions { change_level: true, target_level, ..force() };
        db.compact_range(&how, None, None)?;
    }
    let how = CompactRangeOptions { change_level: true, ..CompactRangeOptions::default() };
    db.compact_range_cf(&how, stage.family("replaced"), None, None)
}

fn wait_for_compact(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("v{who}"))?;
    db.wait_for_compact(&WaitForCompactOptions { flush: true, ..Default::default() })
}

fn set_options(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let bytes = ["40000", "50000"][who];
    let changes = [("write_buffer_size", bytes), ("level0_file_num_compaction_trigger", "2")];
    db.set_options(&changes)?;
    db.set_options_cf(stage.family("doomed"), &[("paranoid_file_checks", "true")])
        .or_else(|error| if error.to_string().contains("dropped") { Err(error) } else { Ok(()) })
}

/// Sets some options that both change, and one of its own, which must have the last value set.
fn set_db_options(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let jobs = ["3", "5"][who];
    db.set_db_options(&[("max_background_jobs", jobs), ("max_open_files", "8")])?;
    let own = ["max_total_wal_size", "wal_bytes_per_sync"][who];
    for n in 1..=OWN_CHANGES {
        let value = (1_000_000 + n).to_string();
        db.set_db_options(&[(own, &value)])?;
        stage.is_set(own, &value);
        // Both at the same moments.
        let nanos = STEP_NANOS - time::now_nanos() % STEP_NANOS;
        thread::sleep(std::time::Duration::from_nanos(nanos));
    }
    Ok(())
}

fn create_family(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let name = format!("new{who}");
    stage.set_present(&name, None);
    let family = db.create_column_family(&stage.options.cf, &name)?;
    stage.set_present(&name, Some(true));
    stage.may_become(&name, b"n", None);
    stage.may_become(&name, b"n", Some("n"));
    db.put_cf_opt(&logged(true), &family, b"n", b"n")?;
    stage.became(&name, b"n", Some("n"), "");
    Ok(())
}

fn drop_family(stage: &Stage, who: usize) -> Result<()> {
    stage.set_present("doomed", None);
    stage.db(who).drop_column_family(stage.family("doomed"))?;
    stage.set_present("doomed", Some(false));
    Ok(())
}

fn checkpoint(stage: &Stage, who: usize) -> Result<()> {
    let path = format!("/copy{who}");
    stage.db(who).checkpoint(&path)?;
    stage.has_checkpoint(path.into());
    Ok(())
}

/// Two backups, with a flush and without, that share tables.
fn backup(stage: &Stage, who: usize) -> Result<()> {
    let engine = BackupEngine::open(stage.fs.shared(), format!("/backups{who}"))?;
    let db = stage.db(who);
    for flush in [true, false] {
        let id = engine.create_backup(&db, flush, b"")?;
        let path = format!("/restored{who}-{id}");
        engine.restore_backup(id, &path, &path)?;
        stage.has_checkpoint(path.into());
    }
    Ok(())
}

fn pause(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    db.pause_background_work();
    thread::sleep(std::time::Duration::from_millis(20));
    get(stage, who)?;
    db.continue_background_work()
}

fn keep_files(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    db.disable_file_deletions();
    thread::sleep(std::time::Duration::from_millis(20));
    let names: Vec<_> = db.live_files_metadata().into_iter().map(|file| file.name).collect();
    let read = get(stage, who);
    for name in names {
        let path = format!("{DIR}/{}", name.trim_start_matches('/'));
        assert!(stage.fs.exists(path.as_ref())?, "{name} was to be kept");
    }
    db.enable_file_deletions();
    read
}

/// Overwrites old values.
fn ingest(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let value = format!("i{who}");
    let path = stage.table(&format!("i{who}.sst"), 0..8, &value);
    (0..8).for_each(|n| stage.may_become("default", &key(n), Some(&value)));
    db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])?;
    (0..8).for_each(|n| stage.became("default", &key(n), Some(&value), OLD));
    for n in 0..8 {
        let found = db.get_opt(&ReadOptions::default(), &key(n))?;
        assert!(found.is_some_and(|found| found.starts_with(b"i")), "an old value is back");
    }
    Ok(())
}

/// New keys, and keys that are there, whose values win.
fn ingest_behind(stage: &Stage, who: usize) -> Result<()> {
    let (db, from) = (stage.db(who), KEYS - 1 + 5 * who as u32);
    let path = stage.table(&format!("b{who}.sst"), from + who as u32..from + 5, "b");
    let new: Vec<_> = (KEYS.max(from + who as u32)..from + 5).map(key).collect();
    for key in &new {
        stage.forget_old("behind", key);
        stage.may_become("behind", key, Some("b"));
    }
    let how = IngestExternalFileOptions { ingest_behind: true, ..Default::default() };
    db.ingest_external_file_cf(&how, stage.family("behind"), &[path])?;
    new.iter().for_each(|key| stage.settle("behind", key, "b"));
    Ok(())
}

/// A file replaces all of a family.
fn ingest_replacing(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let value = format!("r{who}");
    let path = stage.table(&format!("r{who}.sst"), 0..KEYS, &value);
    (0..KEYS).for_each(|n| stage.may_become("replaced", &key(n), Some(&value)));
    let how = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
    let mut arg = IngestExternalFileArg::new(stage.family("replaced"), vec![path], &how);
    arg.atomic_replace_range = Some(RangeOpt::default());
    db.ingest_external_files(&[arg])?;
    (0..KEYS).for_each(|n| stage.became("replaced", &key(n), Some(&value), OLD));
    Ok(())
}

/// Whole files of a family are deleted: its keys may be seen or not, and nothing else changes.
fn delete_files(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    (0..KEYS).for_each(|n| stage.may_become("replaced", &key(n), None));
    let (low, high) = (key(20 * who as u32), key(20 * who as u32 + 19));
    let family = stage.family("replaced");
    db.delete_files_in_ranges_cf(family, &[(Some(&low), Some(&high))], true)?;
    db.delete_files_in_ranges_cf(family, &[(None, None)], false)
}

fn suggest_compact(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("g{who}"))?;
    db.flush_opt(&FlushOptions::default())?;
    db.suggest_compact_range(None, None)?;
    db.suggest_compact_range_cf(stage.family("other"), Some(&key(5)), Some(&key(30)))
}

/// All files of two families, into a level of each task's own.
fn compact_files(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("h{who}"))?;
    db.flush_opt(&FlushOptions::default())?;
    for family in [db.default_column_family(), stage.family("other")] {
        let files = db.live_files_metadata();
        let names = files.iter().filter(|file| file.column_family_name == family.name());
        let names: Vec<&str> = names.map(|file| file.name.as_str()).collect();
        db.compact_files_cf(&CompactFilesOptions::default(), family, &names, 3 + who as i32)?;
    }
    Ok(())
}

/// Reads the logs. A write may have skipped them, and a log may be deleted meanwhile.
fn follow(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    let from = db.latest_sequence_number().saturating_sub(8);
    let may_be = |error: &pumice::Error| {
        error.is_not_found() || error.kind() == ErrorKind::TryAgain // Another log was begun.
    };
    let mut updates = match db.get_updates_since(from) {
        Err(error) if may_be(&error) => return Ok(()),
        updates => updates?,
    };
    let mut behind = 0;
    for item in &mut updates {
        let Ok((sequence, batch)) = item else { break };
        assert!(sequence >= behind, "batches come in order");
        behind = sequence + u64::from(batch.count());
        assert!(behind > from && behind <= db.latest_sequence_number() + 1);
    }
    for log in db.wal_files()? {
        assert!(log.size_file_bytes > 0 && log.start_sequence > 0, "{log:?}");
    }
    match updates.status() {
        Err(error) if may_be(&error) => Ok(()),
        status => status,
    }
}

fn verify_checksum(stage: &Stage, who: usize) -> Result<()> {
    stage.db(who).verify_checksum()
}

/// What it finds may be half gone or half written; it must leave all as it is.
fn open_read_only(stage: &Stage, who: usize) -> Result<()> {
    let _writer = stage.db(who);
    let default = pumice::ColumnFamilyDescriptor::new("default", stage.options.cf.clone());
    if let Ok((reader, _)) = Db::open_read_only(&stage.options.db, DIR, &[default], false) {
        drop(reader.get_opt(&ReadOptions::default(), &key(KEYS - 1)));
        drop(reader.close());
    }
    Ok(())
}

/// The log fails once; unacknowledged writes may be there or not.
fn fail_and_resume(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    stage.fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    let failed = put_mark(stage, &db, &format!("q{who}")).and_then(|()| db.sync_wal());
    if failed.is_ok() {
        return Ok(());
    }
    db.resume()
}

fn close(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    put_mark(stage, &db, &format!("c{who}"))?;
    db.close()
}

/// Saves unlogged writes, although nothing else would flush them.
fn close_paused(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    db.pause_background_work();
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    let key = format!("p{who}");
    stage.may_become("default", key.as_bytes(), None);
    stage.may_become("default", key.as_bytes(), Some("u"));
    let put = db.put_opt(&unlogged, key.as_bytes(), b"u");
    // Calls wait on a database that is left paused.
    db.close()?;
    put?;
    stage.became("default", key.as_bytes(), Some("u"), "");
    Ok(())
}

/// Drops the handle with work under way; the last one closes.
fn last_handle(stage: &Stage, who: usize) -> Result<()> {
    let db = stage.db(who);
    write_unlogged(stage, who)?;
    db.flush_opt(&FlushOptions {
        wait: false,
        allow_write_stall: true,
        ..FlushOptions::default()
    })?;
    put_mark(stage, &db, &format!("l{who}"))?;
    drop(db);
    stage.forget(who);
    Ok(())
}
