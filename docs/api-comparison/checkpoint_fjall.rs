//! A backup, with fjall. It has no checkpoint and no deletion of a range: a snapshot is copied key
//! by key into a second database, and each key of the range is removed.

use std::path::PathBuf;

use fjall::{Database, KeyspaceCreateOptions, Readable, Result};

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-checkpoint".into());
    let directory = PathBuf::from(directory);
    let backup = directory.join("backup");
    let db = Database::builder(directory.join("db")).open()?;
    let keys = db.keyspace("keys", KeyspaceCreateOptions::default)?;
    for n in 0..1000 {
        keys.insert(format!("key{n}"), "first")?;
    }
    let copy = Database::builder(&backup).open()?;
    let then = copy.keyspace("keys", KeyspaceCreateOptions::default)?;
    let mut ingestion = then.start_ingestion()?;
    for entry in db.snapshot().iter(&keys) {
        let (key, value) = entry.into_inner()?;
        ingestion.write(key, value)?;
    }
    ingestion.finish()?;
    let mut batch = db.batch();
    for entry in keys.range("key0".."key9") {
        batch.remove(&keys, entry.key()?);
    }
    batch.insert(&keys, "key", "second");
    batch.commit()?;
    println!("the database: {} keys", keys.len()?);

    println!("the backup: {} keys", then.len()?);
    drop(then);
    drop(copy);
    Ok(std::fs::remove_dir_all(&backup)?)
}
