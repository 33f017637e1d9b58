//! Counters, with fjall. It has no merge operator: a transaction reads, adds and writes. The
//! database with a single writer at a time makes the others wait.

use fjall::{KeyspaceCreateOptions, Readable, Result, SingleWriterTxDatabase};

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-counter".into());
    let db = SingleWriterTxDatabase::builder(directory).open()?;
    let pages = db.keyspace("pages", KeyspaceCreateOptions::default)?;
    let raise = |page: &str, by: u64| {
        pages.update_fetch(page, |old| {
            let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
            let visits = old.map_or(Some(0), |old| number(old)).and_then(|n| n.checked_add(by));
            Some(visits?.to_string().into())
        })
    };
    for page in ["/", "/about", "/", "/prices", "/"] {
        raise(page, 1)?;
    }
    raise("/about", 10)?;
    for entry in db.read_tx().iter(&pages) {
        let (page, visits) = entry.into_inner()?;
        println!("{} {}", String::from_utf8_lossy(&page), String::from_utf8_lossy(&visits));
    }
    Ok(())
}
