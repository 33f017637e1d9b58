//! Loading sorted data by a table file, with rust-rocksdb.

use rocksdb::{DB, Error, IngestExternalFileOptions, IteratorMode, Options, SstFileWriter};

const ROWS: u32 = 100_000;

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-bulk-load".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, &directory)?;
    db.put(7u32.to_be_bytes(), "written before")?;

    let file = std::path::Path::new(&directory).join("rows.sst");
    let mut writer = SstFileWriter::create(&options);
    writer.open(&file)?;
    for row in 0..ROWS {
        writer.put(row.to_be_bytes(), format!("row {row}"))?;
    }
    writer.finish()?;
    println!("{ROWS} entries in {}", if writer.file_size() > 0 { "a file" } else { "-" });

    let mut moved = IngestExternalFileOptions::default();
    moved.set_move_files(true);
    db.ingest_external_file_opts(&moved, vec![&file])?;
    let row = db.get(7u32.to_be_bytes())?.map(|row| String::from_utf8_lossy(&row).into_owned());
    println!("row 7 is {row:?}");
    println!("{} rows", db.iterator(IteratorMode::Start).count());
    Ok(())
}
