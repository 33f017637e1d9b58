//! `compact0` and `compact1`.
//!
//! Thread safety: one task; background work of the database may go on.

use super::engine::{BenchDb, Result};

/// `compact0` and `compact1`. An automatic compaction may take the files in between: then it is
/// awaited and the files are listed again, a few times.
pub fn compact_level<D: BenchDb>(db: &D, from: usize) -> Result<()> {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        let Err(error) = try_compact_level(db, from) else { return Ok(()) };
        eprintln!("{error}");
        db.wait_for_compaction()?;
    }
    try_compact_level(db, from)
}

/// The files of a level into the next one that has some. With dynamic levels the first one below
/// level 0 need not be 1.
fn try_compact_level<D: BenchDb>(db: &D, from: usize) -> Result<()> {
    let files = db.table_files()?;
    let level = match from {
        0 => Some(0),
        _ => files.iter().map(|file| file.level).filter(|level| *level > 0).min(),
    };
    let here: Vec<_> = files.iter().filter(|file| Some(file.level) == level).collect();
    let (Some(level), false) = (level, here.is_empty()) else {
        println!("compact{from} found 0 files to compact");
        return Ok(());
    };
    let below = files.iter().map(|file| file.level).filter(|other| *other > level).min();
    let Some(below) = below else {
        println!("compact{from} found no data beyond L{level}");
        return Ok(());
    };
    println!("compact{from} found {} files to compact from L{level} to L{below}", here.len());
    let names: Vec<String> = here.iter().map(|file| file.name.clone()).collect();
    db.compact_files(&names, below)
        .map_err(|error| format!("compact{from} CompactFiles failed: {error}"))
}
