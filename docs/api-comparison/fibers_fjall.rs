//! Two thousand clients at once, with fjall. A call blocks its thread, so each client is a thread
//! of the kernel's; each syncs the journal by itself.

use std::error::Error;
use std::thread;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

const CLIENTS: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-fibers".into());
    let db = Database::builder(directory).open()?;
    let keys = db.keyspace("keys", KeyspaceCreateOptions::default)?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (db, keys) = (db.clone(), keys.clone());
            thread::spawn(move || -> fjall::Result<usize> {
                keys.insert(client.to_be_bytes(), "hello")?;
                db.persist(PersistMode::SyncData)?;
                Ok(keys.get(client.to_be_bytes())?.map_or(0, |value| value.len()))
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.join().map_err(|_| "a client panicked")??;
    }
    println!("{CLIENTS} clients on {CLIENTS} threads read {bytes} bytes");
    println!("{} keys", keys.len()?);
    Ok(())
}
