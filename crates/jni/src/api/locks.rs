//! Who holds and who waits for keys of a database whose transactions lock.

use jni_sys::jvalue;
use pumice::{Error, TransactionDb};
use pumice_binding::database::Database;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::maps;
use crate::objects::OpenTransaction;

fn locking(db: &Database) -> Result<&TransactionDb> {
    let none = || Error::invalid_argument("the database has no transactions that lock");
    Ok(db.locking_db().ok_or_else(none)?)
}

fn ids<'a>(env: Env<'a>, ids: &[u64]) -> Result<Object<'a>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.cast_signed()).collect();
    env.new_longs(&ids)
}

fn text<'a>(env: Env<'a>, key: &[u8]) -> Result<Object<'a>> {
    env.new_text(&String::from_utf8_lossy(key))
}

/// Java: TransactionDB.getLockStatusData
pub fn held<'a>(env: Env<'a>, db: &Database) -> Result<Object<'a>> {
    // Java's map has one lock of a column family, the last that is put.
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for lock in locking(db)?.held_locks() {
        let family = jvalue { j: i64::from(lock.column_family) };
        let family = env.construct("java/lang/Long", "(J)V", &[family])?;
        let (key, holders) = (text(env, &lock.key)?, ids(env, &lock.holders)?);
        let arguments =
            [jvalue { l: key.raw() }, jvalue { l: holders.raw() }, jvalue { z: lock.exclusive }];
        const CLASS: &str = "org/rocksdb/TransactionDB$KeyLockInfo";
        let info = env.construct(CLASS, "(Ljava/lang/String;[JZ)V", &arguments)?;
        maps::put(env, map, family, info)?;
        for object in [family, key, holders, info] {
            env.forget(object);
        }
    }
    Ok(map)
}

/// Java: TransactionDB.setDeadlockInfoBufferSize
pub fn set_deadlocks(_env: Env<'_>, db: &Database, most: i32) -> Result<()> {
    locking(db)?.set_max_num_deadlocks(usize::try_from(most).unwrap_or(0));
    Ok(())
}

/// Java: TransactionDB.getDeadlockInfoBuffer
pub fn deadlocks<'a>(env: Env<'a>, db: &Database) -> Result<Object<'a>> {
    const PATH: &str = "org/rocksdb/TransactionDB$DeadlockPath";
    const INFO: &str = "org/rocksdb/TransactionDB$DeadlockInfo";
    let found = locking(db)?.deadlocks();
    let paths = env.new_objects(PATH, found.len())?;
    for (at, deadlock) in found.iter().enumerate() {
        let waits = env.new_objects(INFO, deadlock.waits.len())?;
        for (step, wait) in deadlock.waits.iter().enumerate() {
            let key = text(env, &wait.key)?;
            let arguments = [
                jvalue { j: wait.id.cast_signed() },
                jvalue { j: i64::from(wait.column_family) },
                jvalue { l: key.raw() },
                jvalue { z: wait.exclusive },
            ];
            let info = env.construct(INFO, "(JJLjava/lang/String;Z)V", &arguments)?;
            env.set_element(waits, step, info)?;
            env.forget(key);
            env.forget(info);
        }
        let arguments = [jvalue { l: waits.raw() }, jvalue { z: deadlock.limit_exceeded }];
        let signature = "([Lorg/rocksdb/TransactionDB$DeadlockInfo;Z)V";
        let path = env.construct(PATH, signature, &arguments)?;
        env.set_element(paths, at, path)?;
        env.forget(waits);
        env.forget(path);
    }
    Ok(paths)
}

/// Java: Transaction.isDeadlockDetect
pub fn detects(_env: Env<'_>, it: &OpenTransaction) -> Result<bool> {
    Ok(it.deadlock_detect)
}

/// Java: Transaction.getWaitingTxns
pub fn waits<'a>(env: Env<'a>, it: &OpenTransaction) -> Result<Object<'a>> {
    // One that is checked at its commit waits for none.
    let waiting = it.database.locking_db().map(TransactionDb::waiting).unwrap_or_default();
    let wait = waiting.into_iter().find(|wait| wait.id == it.id);
    let (family, key, holders) = wait
        .map_or((0, Vec::new(), Vec::new()), |wait| (wait.column_family, wait.key, wait.holders));
    let arguments = [
        jvalue { j: i64::from(family) },
        jvalue { l: text(env, &key)?.raw() },
        jvalue { l: ids(env, &holders)?.raw() },
    ];
    const CLASS: &str = "org/rocksdb/Transaction$WaitingTransactions";
    env.construct(CLASS, "(JLjava/lang/String;[J)V", &arguments)
}
