//! What databases of the suites look like: random options that make much happen with little work.

use pumice_base::random::Rng;
use pumice_testkit::oracle::Logging;

use super::world::Plan;
use crate::stores::Settings;

/// A database of any kind.
pub fn random(rng: &mut Rng) -> Plan {
    let families = 1 + rng.uniform(3) as usize;
    let logging = match rng.uniform(6) {
        0 => Logging::Off,
        1 => Logging::ManualFlush,
        _ => Logging::Wal,
    };
    let mut plan = small(families, logging);
    plan.order_family = rng.uniform(families as u64) as usize;
    plan.keys = 5 + rng.uniform(60);
    plan.value_bytes_max = if rng.one_in(4) { 3000 } else { 60 };
    plan.info_log = rng.one_in(8);
    let settings = &mut plan.settings;
    let mut maybe = |one_in: u64, name: &'static str, value: &str| {
        if rng.one_in(one_in) {
            *settings = settings.clone().with(name, value);
        }
    };
    maybe(3, "max_total_wal_size", "20000");
    maybe(4, "avoid_flush_during_recovery", "true");
    maybe(4, "max_manifest_file_size", "500");
    maybe(4, "max_background_jobs", "4");
    maybe(5, "max_subcompactions", "3");
    maybe(5, "write_buffer_size", "4096");
    maybe(6, "max_write_buffer_number", "4");
    maybe(8, "use_fsync", "true");
    maybe(8, "max_open_files", "12");
    maybe(8, "level_compaction_dynamic_level_bytes", "false");
    if !rng.one_in(4) {
        // Every life opens several times, and most of that would be the making of block caches.
        plan.settings.table.push_str(";no_block_cache=true");
    }
    plan
}

/// A plain small database.
pub fn small(families: usize, logging: Logging) -> Plan {
    let mut settings = Settings::small(families)
        .with("write_buffer_size", "16384")
        .with("arena_block_size", "4096")
        .with("level0_file_num_compaction_trigger", "2")
        // The task that waits for the age of files has tests of its own.
        .with("ttl", "0");
    if logging == Logging::ManualFlush {
        settings = settings.with("manual_wal_flush", "true");
    }
    settings.disable_wal = logging == Logging::Off;
    Plan {
        families,
        logging,
        order_family: 0,
        keys: 20,
        key_prefix: String::new(),
        value_bytes_max: 60,
        settings,
        info_log: false,
        behind: false,
    }
}

/// Gives a plan keys of several hundred bytes.
pub fn lengthen_keys(plan: &mut Plan) {
    plan.key_prefix = "x".repeat(600);
}
