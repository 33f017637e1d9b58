//! Loading sorted data: a table file made outside the database and ingested whole, which writes
//! each byte once; no log, no memtable, no compaction.
//!
//! `cargo run --release -p pumice --example bulk_load [DIRECTORY]`

use pumice::{Db, IngestExternalFileOptions, Options, Result, SstFileWriter};

const ROWS: u32 = 100_000;

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-bulk-load".into());
    let db = Db::builder(&directory).create(true).open()?;
    db.put(7u32.to_be_bytes(), "written before")?;

    let file = std::path::Path::new(&directory).join("rows.sst");
    let mut writer = SstFileWriter::new(&Options::default())?;
    writer.open(&file)?;
    for row in 0..ROWS {
        // In ascending order of keys, each once.
        writer.put(row.to_be_bytes(), format!("row {row}"))?;
    }
    let made = writer.finish()?;
    println!("{} entries in {}", made.num_entries, if made.file_size > 0 { "a file" } else { "-" });

    // Moved instead of copied; what it holds is newer than what was there.
    let moved = IngestExternalFileOptions { move_files: true, ..Default::default() };
    db.ingest_external_file(&moved, &[&file])?;
    let row = db.get(7u32.to_be_bytes())?.map(|row| String::from_utf8_lossy(&row).into_owned());
    println!("row 7 is {row:?}");
    println!("{} rows", db.iter()?.count());
    db.close()
}
