//! Loading sorted data, with fjall: an ingestion writes tables of the keyspace at once. There is no
//! file that could be made elsewhere and be taken in later.

use fjall::{Database, KeyspaceCreateOptions, Result};

const ROWS: u32 = 100_000;

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-bulk-load".into());
    let db = Database::builder(directory).open()?;
    let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
    rows.insert(7u32.to_be_bytes(), "written before")?;

    let mut ingestion = rows.start_ingestion()?;
    for row in 0..ROWS {
        ingestion.write(row.to_be_bytes(), format!("row {row}"))?;
    }
    ingestion.finish()?;

    let row = rows.get(7u32.to_be_bytes())?.map(|row| String::from_utf8_lossy(&row).into_owned());
    println!("row 7 is {row:?}");
    println!("{} rows", rows.len()?);
    Ok(())
}
