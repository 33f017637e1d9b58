//! Opening a database as its OPTIONS file says, with rust-rocksdb.

use rocksdb::{Cache, DB, Env, Error, IteratorMode, Options};

fn main() -> Result<(), Error> {
    let Some(directory) = std::env::args_os().nth(1) else {
        println!("usage: from_rocksdb DIRECTORY");
        return Ok(());
    };
    let names = DB::list_cf(&Options::default(), &directory)?;
    println!("column families: {}", names.join(" "));

    let load =
        || Options::load_latest(&directory, Env::new()?, true, Cache::new_lru_cache(8 << 20));
    let (options, families) = load()?;
    let db = DB::open_cf_descriptors_read_only(&options, &directory, families, false)?;
    for name in &names {
        let Some(family) = db.cf_handle(name) else { continue };
        let mut keys = 0;
        for entry in db.iterator_cf(family, IteratorMode::Start) {
            entry?;
            keys += 1;
        }
        println!("{name}: {keys} keys");
    }
    drop(db);

    let (options, families) = load()?;
    let db = DB::open_cf_descriptors(&options, &directory, families)?;
    db.put("moved", "yes")?;
    db.flush()?;
    println!("moved: {:?}", db.get("moved")?.map(|value| value.len()));
    Ok(())
}
