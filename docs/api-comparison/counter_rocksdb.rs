//! Counters raised by merges, with rust-rocksdb.

use rocksdb::{DB, Error, IteratorMode, MergeOperands, Options};

fn add(_key: &[u8], existing: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let start = existing.map_or(Some(0), number)?;
    let sum = operands.iter().try_fold(start, |sum, text| sum.checked_add(number(text)?))?;
    Some(sum.to_string().into_bytes())
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-counter".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_merge_operator_associative("add", add);
    let db = DB::open(&options, directory)?;
    for page in ["/", "/about", "/", "/prices", "/"] {
        db.merge(page, "1")?;
    }
    db.merge("/about", "10")?;
    for entry in db.iterator(IteratorMode::Start) {
        let (page, visits) = entry?;
        println!("{} {}", String::from_utf8_lossy(&page), String::from_utf8_lossy(&visits));
    }
    Ok(())
}
