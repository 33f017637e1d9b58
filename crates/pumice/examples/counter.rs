//! Counters that many writers increment at once: merges instead of reading, adding and writing.
//!
//! `cargo run --release -p pumice --example counter [DIRECTORY]`

use pumice::{Db, Result};

/// Adds numbers in decimal. Operands are added to each other in the same way, so that a thousand
/// visits take the space of one after a flush.
fn add(_key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let start = existing.map_or(Some(0), number)?;
    let sum = operands.iter().try_fold(start, |sum, text| sum.checked_add(number(text)?))?;
    Some(sum.to_string().into_bytes())
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-counter".into());
    let db = Db::builder(directory)
        .create(true)
        .configure(|options| options.cf.set_merge_operator_associative("add", add))
        .open()?;
    for page in ["/", "/about", "/", "/prices", "/"] {
        db.merge(page, "1")?;
    }
    db.merge("/about", "10")?;
    for entry in db.iter()? {
        let (page, visits) = entry?;
        println!("{} {}", String::from_utf8_lossy(&page), String::from_utf8_lossy(&visits));
    }
    db.close()
}
