//! A budget of memory and processors, with fjall. It has no limit of bytes per second, no TTL, and
//! no change of options while the database is open. The size of the journals bounds the memtables.

use std::thread::available_parallelism;

use fjall::{Database, KeyspaceCreateOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-tuning".into());
    let memory_bytes: u64 = 256 << 20;
    let memtable_bytes = memory_bytes / 16;
    println!("max_memtable_size = {memtable_bytes}");
    let db = Database::builder(directory)
        .cache_size(memory_bytes * 3 / 4)
        .max_journaling_size(memory_bytes / 4)
        .worker_threads((available_parallelism()?.get() / 2).max(1))
        .open()?;
    let keys =
        db.keyspace("keys", || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes))?;
    for n in 0..10_000u32 {
        keys.insert(n.to_be_bytes(), [0; 100])?;
    }
    keys.rotate_memtable_and_wait()?;
    println!("{} keys", keys.len()?);
    println!("journals may take {} bytes", memory_bytes / 4);
    Ok(())
}
