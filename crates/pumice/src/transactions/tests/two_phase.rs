//! Two-phase commit: names and states, what the next open finds, and crashes at every step.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;

use super::*;
use crate::locks::TransactionState;
use crate::{ColumnFamily, ColumnFamilyDescriptor, Db, Result, WriteBatch};

fn synced() -> WriteOptions {
    WriteOptions { sync: true, ..WriteOptions::default() }
}

/// RocksDB's texts.
#[pumice_test_macros::test]
fn names_and_states() {
    let db = locking();
    let one = begin(&db, &at_once());
    let unnamed = "Invalid argument: Cannot prepare a transaction that has not been named.";
    assert_eq!(text(one.prepare()), unnamed);
    for name in [String::new(), "x".repeat(513)] {
        let length = "Invalid argument: Transaction name length must be between 1 and 512 chars.";
        assert_eq!(text(one.set_name(&name)), length);
    }
    one.set_name("one").unwrap();
    let named = "Invalid argument: Transaction has already been named.";
    assert_eq!(text(one.set_name("other")), named);
    let two = begin(&db, &at_once());
    assert_eq!(text(two.set_name("one")), "Invalid argument: Duplicate txn name one");
    one.put("k", "1").unwrap();
    one.prepare().unwrap();
    assert_eq!(one.state(), TransactionState::Prepared);
    let prepared = "Invalid argument: Transaction has already been prepared.";
    assert_eq!(text(one.prepare()), prepared);
    one.put("l", "1").unwrap();
    let late = "Invalid argument: Transaction is beyond state for naming.";
    assert_eq!(text(one.set_name("late")), late);
    let beyond = "Invalid argument: Transaction is beyond state for rollback.";
    one.set_save_point();
    assert_eq!(text(one.rollback_to_save_point()), beyond);
    assert_eq!(text(two.put("k", "2")), TIMEOUT, "its locks stay");
    assert!(db.get("k").unwrap().is_none());
    let names = |db: &TransactionDb| -> Vec<Vec<u8>> {
        db.prepared_transactions().iter().map(Transaction::name).collect()
    };
    assert_eq!(names(&db), [b"one"]);
    assert!(db.transaction_by_name("one").is_some());
    one.commit().unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"1");
    assert_eq!(db.get("l").unwrap().unwrap(), b"1", "written after the prepare");
    assert_eq!((names(&db), db.held_locks()), (Vec::new(), Vec::new()));
    let committed = "Invalid argument: Transaction has already been committed.";
    assert_eq!((text(one.prepare()), one.name()), (committed.to_string(), b"one".to_vec()));
    two.set_name("one").unwrap();
    two.put("k", "2").unwrap();
    two.prepare().unwrap();
    two.rollback().unwrap();
    assert_eq!(two.state(), TransactionState::RolledBack);
    let gone = "Invalid argument: Transaction has already been rolledback.";
    assert_eq!((text(two.commit()), text(two.prepare())), (gone.to_string(), gone.to_string()));
    let three = db.transaction();
    three.set_name("one").unwrap();
    drop((one, two));
    assert!(db.transaction_by_name("one").is_some(), "it is the third's now");
    assert_eq!(db.get("k").unwrap().unwrap(), b"1");
    let checks = optimistic();
    let third = checks.transaction();
    assert_eq!(
        text(third.set_name("n")),
        "Invalid argument: Optimistic transactions cannot be named."
    );
    assert_eq!(
        text(third.prepare()),
        "Invalid argument: Two phase commit not supported for optimistic transactions."
    );
}

/// Updates beside the transaction come with its commit, before its own, and only with one that was
/// prepared; after a crash too.
#[pumice_test_macros::test]
fn updates_beside_a_transaction() {
    let fs = MemFs::new(1);
    let (db, _) = opened(&fs).unwrap();
    let mut beside = WriteBatch::new();
    beside.put("beside", "1");
    beside.put("both", "beside");
    let one = begin(&db, &at_once());
    one.put("both", "own").unwrap();
    one.set_commit_time_batch(&beside).unwrap();
    assert_eq!(one.log_number(), 0);
    let lost = "Invalid argument: Commit-time batch contains values that will not be committed.";
    assert_eq!(text(one.commit()), lost, "it was not prepared");
    one.rollback().unwrap();
    one.put("own", "1").unwrap();
    one.commit().unwrap();
    let two = begin(&db, &at_once());
    two.set_name("two").unwrap();
    two.put("both", "own").unwrap();
    two.prepare().unwrap();
    assert!(two.log_number() > 0);
    two.set_commit_time_batch(&beside).unwrap();
    assert_eq!(db.get("beside").unwrap(), None);
    two.commit().unwrap();
    for db in [db, opened(&fs.crashed_copy(1, CrashMode::PROCESS)).unwrap().0] {
        assert_eq!(db.get("beside").unwrap().unwrap(), b"1");
        assert_eq!(db.get("both").unwrap().unwrap(), b"own");
    }
}

/// A prepared transaction does not expire, and its name is free again when it is dropped.
#[pumice_test_macros::test]
fn prepared_ones_do_not_expire() {
    let db = locking();
    let short = TransactionOptions { expiration: 5000, ..at_once() };
    let one = begin(&db, &short);
    one.set_name("n").unwrap();
    one.put("k", "1").unwrap();
    one.prepare().unwrap();
    pumice_port::thread::sleep(std::time::Duration::from_millis(5100));
    let two = begin(&db, &at_once());
    assert_eq!(text(two.put("k", "2")), TIMEOUT);
    one.commit().unwrap();
    two.put("k", "2").unwrap();
    two.set_name("n").unwrap();
    drop(two);
    begin(&db, &at_once()).set_name("n").unwrap();
}

/// The state of a transaction of the script, as far as answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its prepare was not answered.
    Asked,
    Prepared,
    /// Its commit was not answered.
    Committing,
    Committed,
    /// Its rollback was not answered.
    Ending,
    Gone,
}

fn opened(fs: &MemFs) -> Result<(TransactionDb, Vec<ColumnFamily>)> {
    let mut options = options();
    options.db.file_system = fs.shared();
    options.db.create_missing_column_families = true;
    let family = |name: &str| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let families = [family("default"), family("other")];
    TransactionDb::open_cf(&options.db, &TransactionDbOptions::default(), "/db", &families)
}

/// What transaction `n` writes, in two families.
fn write(transaction: &Transaction, other: &ColumnFamily, n: usize) -> Result<()> {
    transaction.put(format!("a{n}"), format!("{n}"))?;
    transaction.put_cf(other, format!("b{n}"), format!("{n}"))?;
    transaction.delete("base")
}

/// Runs drawn steps until one fails, and notes what is known of each transaction.
fn run(fs: &MemFs, seed: u64, known: &mut BTreeMap<usize, Known>) -> Result<()> {
    let mut random = Rng::new(seed);
    let (db, families) = opened(fs)?;
    let unlocked = TransactionOptions { skip_concurrency_control: true, ..at_once() };
    let mut open: BTreeMap<usize, Transaction> = BTreeMap::new();
    for n in 0..14 {
        let pick = random.uniform(open.len().max(1) as u64) as usize;
        let picked = open.keys().nth(pick).copied();
        match (random.uniform(8), picked) {
            (0..=2, _) => {
                let transaction = db.transaction_opt(&synced(), &unlocked);
                write(&transaction, &families[1], n)?;
                transaction.set_name(format!("t{n:02}"))?;
                known.insert(n, Known::Asked);
                transaction.prepare()?;
                known.insert(n, Known::Prepared);
                open.insert(n, transaction);
            }
            (3, Some(picked)) => {
                known.insert(picked, Known::Committing);
                open[&picked].commit()?;
                known.insert(picked, Known::Committed);
                open.remove(&picked);
            }
            (4, Some(picked)) => {
                known.insert(picked, Known::Ending);
                open[&picked].rollback()?;
                known.insert(picked, Known::Gone);
                open.remove(&picked);
            }
            (5, _) => db.put("plain", format!("{n}"))?,
            (6, _) => db.db().flush_cf(&families[random.uniform(2) as usize])?,
            _ => db.db().flush_all()?,
        }
    }
    db.db().close()
}

/// What the next open must find.
fn check(fs: &MemFs, known: &BTreeMap<usize, Known>, what: &str) {
    let (db, families) = opened(fs).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = db.prepared_transactions();
    let names: Vec<Vec<u8>> = found.iter().map(Transaction::name).collect();
    let is_prepared = |n: &usize| names.contains(&format!("t{n:02}").into_bytes());
    let shows = |n: &usize| {
        let a = db.get(format!("a{n}")).unwrap();
        let b = db.get_cf(&families[1], format!("b{n}")).unwrap();
        assert_eq!(a.is_some(), b.is_some(), "{what}: t{n:02} in part");
        assert!(a.is_none_or(|value| value == format!("{n}").as_bytes()));
        b.is_some()
    };
    for (n, known) in known {
        let state = (is_prepared(n), shows(n));
        let allowed: &[(bool, bool)] = match known {
            Known::Asked | Known::Ending => &[(true, false), (false, false)],
            Known::Prepared => &[(true, false)],
            Known::Committing => &[(true, false), (false, true)],
            Known::Committed => &[(false, true)],
            Known::Gone => &[(false, false)],
        };
        assert!(allowed.contains(&state), "{what}: t{n:02} is {state:?}, was {known:?}");
    }
    for name in &names {
        let n: usize = std::str::from_utf8(&name[1..]).unwrap().parse().unwrap();
        assert!(known.contains_key(&n), "{what}: {name:?} came out of nowhere");
    }
    // Each can be ended, and then stays ended.
    for (at, transaction) in found.iter().enumerate() {
        match at % 2 {
            0 => transaction.commit().unwrap(),
            _ => transaction.rollback().unwrap(),
        }
    }
    drop(found);
    let shown: Vec<bool> = known.keys().map(shows).collect();
    db.db().close().unwrap();
    drop((db, families));
    let (db, families) = opened(fs).unwrap();
    assert!(db.prepared_transactions().is_empty(), "{what}");
    for (n, was) in known.keys().zip(shown) {
        let a = db.get(format!("a{n}")).unwrap();
        let b = db.get_cf(&families[1], format!("b{n}")).unwrap();
        assert_eq!((a.is_some(), b.is_some()), (was, was), "{what}: t{n:02} later");
    }
    db.db().close().unwrap();
}

/// The power is cut, or the process killed, at every change of files of a drawn script of prepares,
/// commits, rollbacks, flushes and closes.
#[pumice_test_macros::test]
fn crashes_at_every_step() {
    for seed in 0..2 {
        let mut at = 0;
        loop {
            let fs = MemFs::new(seed);
            opened(&fs).unwrap().0.db().close().unwrap();
            let before = fs.change_count();
            fs.halt_after(at);
            let mut known = BTreeMap::new();
            let ended = run(&fs, seed, &mut known);
            let halted = fs.change_count() > before + at;
            fs.clear_faults();
            for mode in [CrashMode::UNSYNCED, CrashMode::PROCESS, CrashMode::MIXED] {
                let copy = fs.crashed_copy(seed, mode);
                check(&copy, &known, &format!("seed {seed}, change {at}, {mode:?}"));
            }
            if ended.is_ok() && !halted {
                break;
            }
            at += 1;
        }
        assert!(at > 20, "only {at} changes: the script does too little");
    }
}

/// A commit without a sync is in a table; the log that had it is lost, and the section before it
/// stays for another transaction.
#[pumice_test_macros::test]
fn a_flushed_commit_is_not_prepared_again() {
    let fs = MemFs::new(1);
    let open = |fs: &MemFs| {
        let mut options = options();
        options.db.file_system = fs.shared();
        TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap()
    };
    let db = open(&fs);
    let prepared = |name: &str, write: &WriteOptions| {
        let transaction = db.transaction_opt(write, &at_once());
        transaction.set_name(name).unwrap();
        transaction.put(name, name).unwrap();
        transaction.prepare().unwrap();
        transaction
    };
    let committed = prepared("committed", &WriteOptions::default());
    let waiting = prepared("waiting", &synced());
    committed.commit().unwrap();
    db.db().flush().unwrap();
    let after = open(&fs.crashed_copy(1, CrashMode::UNSYNCED));
    let names: Vec<_> = after.prepared_transactions().iter().map(Transaction::name).collect();
    assert_eq!(names, [b"waiting"]);
    assert!(after.get("committed").unwrap().is_some());
    waiting.rollback().unwrap();
}

/// The crash of an open that finds prepared transactions loses none.
#[pumice_test_macros::test]
fn crashes_of_opens() {
    let fs = MemFs::new(1);
    let mut known = BTreeMap::new();
    {
        let (db, families) = opened(&fs).unwrap();
        for n in 0..3 {
            let transaction = db.transaction_opt(&synced(), &at_once());
            transaction.put(format!("a{n}"), format!("{n}")).unwrap();
            transaction.put_cf(&families[1], format!("b{n}"), format!("{n}")).unwrap();
            transaction.set_name(format!("t{n:02}")).unwrap();
            transaction.prepare().unwrap();
            known.insert(n, Known::Prepared);
            db.db().flush_all().unwrap();
            db.put("plain", "x").unwrap();
        }
        db.db().close().unwrap();
    }
    let mut at = 0;
    loop {
        let copy = fs.crashed_copy(1, CrashMode::PROCESS);
        copy.halt_after(at);
        let ended = opened(&copy).and_then(|(db, _)| db.db().close());
        copy.clear_faults();
        for mode in [CrashMode::UNSYNCED, CrashMode::MIXED] {
            let left = copy.crashed_copy(at, mode);
            check(&left, &known, &format!("change {at} of an open, {mode:?}"));
        }
        if ended.is_ok() {
            break;
        }
        at += 1;
    }
    assert!(at > 5, "only {at} changes of an open");
}

/// A plain open refuses a database with something prepared, and loses nothing.
#[pumice_test_macros::test]
fn plain_opens_refuse_prepared_transactions() {
    for flush in [false, true] {
        let fs = MemFs::new(2);
        let (db, families) = opened(&fs).unwrap();
        let one = db.transaction_opt(&synced(), &at_once());
        one.set_name("n").unwrap();
        write(&one, &families[1], 7).unwrap();
        one.prepare().unwrap();
        if flush {
            db.put("plain", "x").unwrap();
            db.db().flush_all().unwrap();
        }
        db.db().close().unwrap();
        drop((db, families, one));
        let mut options = options();
        options.db.file_system = fs.shared();
        let family = |name: &str| ColumnFamilyDescriptor::new(name, options.cf.clone());
        let all = [family("default"), family("other")];
        let error = Db::open_cf(&options.db, "/db", &all).unwrap_err();
        assert!(error.to_string().contains("Open with TransactionDB"), "{error}");
        let (db, families) = opened(&fs).unwrap();
        let found = db.prepared_transactions();
        assert_eq!(found.len(), 1);
        // Its keys are not locked, as in RocksDB.
        db.put("a7", "other").unwrap();
        found[0].commit().unwrap();
        assert_eq!(db.get("a7").unwrap().unwrap(), b"7");
        db.db().close().unwrap();
        drop((db, families, found));
        let (plain, _) = Db::open_cf(&options.db, "/db", &all).unwrap();
        assert_eq!(plain.get("a7").unwrap().unwrap(), b"7");
        plain.close().unwrap();
    }
}

/// A log that only a prepared transaction needs stays, and goes with it.
#[pumice_test_macros::test]
fn logs_stay_for_prepared_transactions() {
    let fs = MemFs::new(5);
    let logs = || {
        let names = fs.shared().list("/db".as_ref()).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    let (db, _families) = opened(&fs).unwrap();
    let one = db.transaction_opt(&synced(), &at_once());
    one.set_name("n").unwrap();
    one.put("k", "1").unwrap();
    one.prepare().unwrap();
    for n in 0..3 {
        db.put("plain", format!("{n}")).unwrap();
        db.db().flush_all().unwrap();
    }
    assert!(logs() > 1, "{}", logs());
    one.commit().unwrap();
    db.put("plain", "last").unwrap();
    db.db().flush_all().unwrap();
    // Files that are not needed any more are deleted by whoever comes to it.
    for _ in 0..2000 {
        if logs() == 1 {
            break;
        }
        pumice_port::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(logs(), 1);
    db.db().close().unwrap();
}

/// Who follows the log gets the commit of a prepared transaction as a batch like any other, which
/// ends no section of the same name elsewhere.
#[pumice_test_macros::test]
fn commits_can_be_written_elsewhere() {
    let (source, target) = (locking(), locking());
    let theirs = target.transaction();
    theirs.set_name("n").unwrap();
    theirs.put("own", "1").unwrap();
    theirs.prepare().unwrap();
    let one = source.transaction();
    one.set_name("n").unwrap();
    one.put("k", "1").unwrap();
    one.delete("l").unwrap();
    one.prepare().unwrap();
    one.commit().unwrap();
    let mut log = source.db().get_updates_since(1).unwrap();
    let mut written = 0;
    while let Some((_, mut batch)) = log.next().transpose().unwrap() {
        if let Err(error) = batch.status() {
            assert_eq!(error.kind(), crate::ErrorKind::NotSupported, "{error}");
            continue; // The section.
        }
        let mut copy = crate::WriteBatch::from_data(batch.data()).unwrap();
        target.db().write(&mut copy).unwrap();
        target.db().write(&mut batch).unwrap();
        written += batch.count();
    }
    assert_eq!(written, 2);
    assert_eq!(target.get("k").unwrap().unwrap(), b"1");
    drop(theirs);
    target.db().close().unwrap();
}

/// A notice comes back once, when the snapshot was taken; save points keep it with the wish.
#[pumice_test_macros::test]
fn the_notice_of_a_snapshot() {
    let db = locking();
    let one = begin(&db, &at_once());
    let told = || one.take_snapshot_notice().map(|it| *it.downcast::<&str>().unwrap());
    let ask = |text: &'static str| one.set_snapshot_on_next_operation_with(Arc::new(text));
    ask("a");
    assert_eq!(told(), None);
    one.put("k", "1").unwrap();
    assert_eq!((told(), told()), (Some("a"), None));
    // Asked for after the save point: gone with it.
    one.set_save_point();
    ask("b");
    one.rollback_to_save_point().unwrap();
    one.put("k", "2").unwrap();
    assert_eq!(told(), None);
    // Asked for before: told twice.
    ask("c");
    one.set_save_point();
    one.put("k", "3").unwrap();
    assert_eq!(told(), Some("c"));
    one.rollback_to_save_point().unwrap();
    one.put("k", "4").unwrap();
    assert_eq!(told(), Some("c"));
    for other in [Transaction::set_snapshot, Transaction::clear_snapshot] {
        ask("d");
        other(&one);
        one.put("k", "5").unwrap();
        assert_eq!(told(), None);
    }
    ask("e");
    one.set_snapshot_on_next_operation();
    one.put("k", "6").unwrap();
    assert!(one.snapshot().is_some() && told().is_none());
}
