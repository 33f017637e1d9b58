//! Tuning with three knobs: memory, share of the processors, bytes per second of the device. They
//! set the hundred others, which can still be looked at and changed one by one.
//!
//! `cargo run --release -p pumice --example tuning [DIRECTORY]`

use pumice::{Budget, Db, Result};

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-tuning".into());
    let budget = Budget {
        memory_bytes: 256 << 20, // Blocks, memtables, indexes and filters together.
        cpu_share: 0.5,          // Flushes and compactions leave the other half.
        device_bytes_per_sec: 100 << 20, // What they read and write at most.
    };
    let options = budget.options()?;
    for name in ["write_buffer_size", "max_bytes_for_level_base", "rate_limiter", "table_factory"] {
        let value = options.get(name)?;
        println!("{name} = {}", value.get(..40).unwrap_or(&value));
    }
    let db = Db::builder(directory).options(options).create(true).set("ttl", "86400").open()?;
    for n in 0..10_000u32 {
        db.put(n.to_be_bytes(), [0; 100])?;
    }
    db.flush()?;
    db.set_options(&[("level0_file_num_compaction_trigger", "8")])?; // While it is open.
    println!("{} keys", db.iter()?.count());
    println!("memtables may take {} bytes", budget.memory_bytes / 4);
    db.close()
}
