//! Moving from RocksDB: the files are the same, so a database of RocksDB's opens as it is, with the
//! options in its OPTIONS file, and RocksDB opens it again afterwards.
//!
//! `cargo run --release -p pumice --example from_rocksdb -- DIRECTORY`
//!
//! What the RocksDB program supplied as code (comparators, merge operators, prefix extractors,
//! compaction filters) has to be supplied here too, under the same name.

use pumice::{Db, DbOptions, Result};

fn main() -> Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        println!("usage: from_rocksdb DIRECTORY");
        return Ok(());
    };
    let families = Db::list_column_families(&DbOptions::default(), &directory)?;
    println!("column families: {}", families.join(" "));

    // First for reading: nothing is changed, whatever happens.
    let db = Db::builder(&directory).read_only().open_latest()?;
    for name in &families {
        let Some(family) = db.column_family(name) else { continue };
        let mut keys = 0;
        for entry in db.iter_cf(&family)? {
            entry?; // Damage is an error here.
            keys += 1;
        }
        println!("{name}: {keys} keys");
    }
    drop(db);

    // Then for writing. What this build cannot do is an error with the option's name.
    let db = Db::builder(&directory).open_latest()?;
    let skipped = &db.options().skipped_options;
    println!("options without effect here: {skipped:?}");
    db.put("moved", "yes")?;
    db.flush()?;
    println!("moved: {:?}", db.get("moved")?.map(|value| value.len()));
    db.close()
}
