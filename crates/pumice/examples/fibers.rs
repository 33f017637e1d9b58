//! Two thousand clients at once on two threads: each is a fiber with plain, blocking code, and
//! waits for the disk without keeping a thread. Their synced writes share the syncs.
//!
//! `cargo run --release -p pumice --example fibers [DIRECTORY]`

use std::error::Error;

use pumice::{Db, Runtime, WriteOptions};

const CLIENTS: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-fibers".into());
    let db = Db::builder(directory).create(true).open()?;
    let runtime = Runtime::builder().loops(2).build()?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let db = db.clone();
            runtime.spawn("client", move || -> pumice::Result<usize> {
                let durable = WriteOptions { sync: true, ..WriteOptions::default() };
                db.put_opt(&durable, client.to_be_bytes(), "hello")?;
                Ok(db.get(client.to_be_bytes())?.map_or(0, |value| value.len()))
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.join().map_err(|_| "a client panicked")??;
    }
    println!("{CLIENTS} clients on {} loops read {bytes} bytes", runtime.loops());
    println!("{} keys", db.iter()?.count());
    drop(runtime);
    Ok(db.close()?)
}
