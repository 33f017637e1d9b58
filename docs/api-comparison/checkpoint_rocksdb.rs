//! A backup by checkpoint, with rust-rocksdb.

use std::path::PathBuf;

use rocksdb::{DB, Error, IteratorMode, Options, WriteBatch, checkpoint::Checkpoint};

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-checkpoint".into());
    let directory = PathBuf::from(directory);
    let backup = directory.join("backup");
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, directory.join("db"))?;
    for n in 0..1000 {
        db.put(format!("key{n}"), "first")?;
    }
    Checkpoint::new(&db)?.create_checkpoint(&backup)?;
    let mut batch = WriteBatch::default();
    batch.delete_range("key0", "key9");
    batch.put("key", "second");
    db.write(batch)?;
    println!("the database: {} keys", db.iterator(IteratorMode::Start).count());

    let then = DB::open_for_read_only(&Options::default(), &backup, false)?;
    println!("the backup: {} keys", then.iterator(IteratorMode::Start).count());
    drop(then);
    drop(db);
    DB::destroy(&Options::default(), &backup)
}
