//! Two thousand clients at once, with rust-rocksdb. A call blocks its thread, so each client is a
//! thread of the kernel's; two threads would write two at a time.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use rocksdb::{DB, IteratorMode, Options, WriteOptions};

const CLIENTS: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-fibers".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = Arc::new(DB::open(&options, directory)?);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let db = Arc::clone(&db);
            thread::spawn(move || -> Result<usize, rocksdb::Error> {
                let mut durable = WriteOptions::default();
                durable.set_sync(true);
                db.put_opt(client.to_be_bytes(), "hello", &durable)?;
                Ok(db.get(client.to_be_bytes())?.map_or(0, |value| value.len()))
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.join().map_err(|_| "a client panicked")??;
    }
    println!("{CLIENTS} clients on {CLIENTS} threads read {bytes} bytes");
    println!("{} keys", db.iterator(IteratorMode::Start).count());
    Ok(())
}
