//! A backup while the database is in use: a checkpoint is a directory of its own, made of links to
//! the same table files, and a database like any other.
//!
//! `cargo run --release -p pumice --example checkpoint [DIRECTORY]`

use std::path::PathBuf;

use pumice::{Db, Result};

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-checkpoint".into());
    let directory = PathBuf::from(directory);
    let backup = directory.join("backup");
    let db = Db::builder(directory.join("db")).create(true).open()?;
    for n in 0..1000 {
        db.put(format!("key{n}"), "first")?;
    }
    db.checkpoint(&backup)?;
    db.delete_range("key0", "key9")?;
    db.put("key", "second")?;
    println!("the database: {} keys", db.iter()?.count());

    // Opened for reading it stays as it is. To restore it, copy it, or open it and continue there.
    let then = Db::builder(&backup).read_only().open()?;
    println!("the backup: {} keys", then.iter()?.count());
    drop(then);
    db.close()?;
    // Several backups in one place, each sharing files with the one before: `pumice::backup`.
    Db::destroy(&Default::default(), &backup)
}
