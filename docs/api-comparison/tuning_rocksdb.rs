//! A budget of memory, processors and device, with rust-rocksdb. Nothing derives the options from
//! it: they are set one by one. There is no way to read most of them back.

use std::thread::available_parallelism;

use rocksdb::{BlockBasedOptions, Cache, DB, IteratorMode, Options, WriteBufferManager};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-tuning".into());
    let memory_bytes = 256 << 20;
    let write_buffer_size = memory_bytes / 16;
    let cache = Cache::new_lru_cache(memory_bytes);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let memtables =
        WriteBufferManager::new_write_buffer_manager_with_cache(memory_bytes / 4, false, cache);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_manager(&memtables);
    options.set_write_buffer_size(write_buffer_size);
    options.set_max_bytes_for_level_base(4 * write_buffer_size as u64);
    options.increase_parallelism((available_parallelism()?.get() / 2).max(2) as i32);
    options.set_ratelimiter(100 << 20, 100_000, 10);
    options.set_ttl(86400);
    println!("write_buffer_size = {write_buffer_size}");
    let db = DB::open(&options, directory)?;
    for n in 0..10_000u32 {
        db.put(n.to_be_bytes(), [0; 100])?;
    }
    db.flush()?;
    db.set_options(&[("level0_file_num_compaction_trigger", "8")])?;
    println!("{} keys", db.iterator(IteratorMode::Start).count());
    println!("memtables may take {} bytes", memtables.get_buffer_size());
    Ok(())
}
