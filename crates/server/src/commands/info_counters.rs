//! INFO's sections Persistence and Stats.
//!
//! The log is what the AOF is for Redis, and a checkpoint what an RDB file is; nothing is rewritten
//! or saved by a forked process.
//!
//! Thread safety: see the module above.

use std::sync::atomic::Ordering;

use super::info::{Text, field};
use crate::session::Shared;
use crate::session::stats::Stats;

fn fields<const N: usize>(text: &mut Text, rows: [(&str, i64); N]) {
    rows.iter().for_each(|(name, value)| field(text, name, value));
}

/// See the module's head.
pub fn persistence(shared: &Shared, _: u64, text: &mut Text) {
    let stats = &shared.stats;
    let ok = |is_bad: bool| if is_bad { "err" } else { "ok" };
    let saves = Stats::get(&stats.saves);
    let changes = shared.keyspace.writes().saturating_sub(Stats::get(&stats.saved_writes));
    let took = if saves > 0 { Stats::get(&stats.save_millis) as i64 / 1000 } else { -1 };
    let saved = match Stats::get(&stats.saved_seconds) {
        0 => Stats::get(&stats.started_millis) / 1000,
        seconds => seconds,
    };
    fields(text, [("loading", 0), ("async_loading", 0)]);
    fields(text, [("current_cow_peak", 0), ("current_cow_size", 0), ("current_cow_size_age", 0)]);
    field(text, "current_fork_perc", "0.00");
    fields(text, [("current_save_keys_processed", 0), ("current_save_keys_total", 0)]);
    field(text, "rdb_changes_since_last_save", changes);
    // BGSAVE has ended when it replies.
    field(text, "rdb_bgsave_in_progress", 0);
    field(text, "rdb_last_save_time", saved);
    field(text, "rdb_last_bgsave_status", ok(stats.save_failed.load(Ordering::Relaxed)));
    field(text, "rdb_last_bgsave_time_sec", took);
    field(text, "rdb_current_bgsave_time_sec", -1);
    field(text, "rdb_saves", saves);
    fields(text, [("rdb_last_cow_size", 0), ("rdb_last_load_keys_expired", 0)]);
    field(text, "rdb_last_load_keys_loaded", 0);
    field(text, "aof_enabled", 1);
    fields(text, [("aof_rewrite_in_progress", 0), ("aof_rewrite_scheduled", 0)]);
    fields(text, [("aof_last_rewrite_time_sec", -1), ("aof_current_rewrite_time_sec", -1)]);
    field(text, "aof_last_bgrewrite_status", "ok");
    fields(text, [("aof_rewrites", 0), ("aof_rewrites_consecutive_failures", 0)]);
    field(text, "aof_last_write_status", ok(shared.keyspace.db().background_error().is_some()));
    field(text, "aof_last_cow_size", 0);
    fields(text, [("module_fork_in_progress", 0), ("module_fork_last_cow_size", 0)]);
    let logs = shared.keyspace.db().wal_files().unwrap_or_default();
    let bytes: u64 = logs.iter().map(|log| log.size_file_bytes).sum();
    field(text, "aof_current_size", bytes);
    fields(text, [("aof_base_size", 0), ("aof_pending_rewrite", 0), ("aof_buffer_length", 0)]);
    fields(text, [("aof_pending_bio_fsync", 0), ("aof_delayed_fsync", 0)]);
    field(text, "appendfsync", shared.config.get("appendfsync"));
}

/// See the module's head.
pub fn stats(shared: &Shared, _: u64, text: &mut Text) {
    let (stats, get) = (&shared.stats, Stats::get);
    let clients = shared.clients.list();
    let receives: u64 = clients.iter().map(|client| get(&client.buffers.receives)).sum();
    let sends: u64 = clients.iter().map(|client| get(&client.buffers.sends)).sum();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    field(text, "total_connections_received", get(&stats.connections));
    field(text, "total_commands_processed", get(&stats.commands));
    field(text, "instantaneous_ops_per_sec", get(&stats.commands_per_second));
    field(text, "total_net_input_bytes", get(&stats.received));
    field(text, "total_net_output_bytes", get(&stats.sent));
    fields(text, [("total_net_repl_input_bytes", 0), ("total_net_repl_output_bytes", 0)]);
    field(text, "instantaneous_input_kbps", kilobytes(get(&stats.received_per_second)));
    field(text, "instantaneous_output_kbps", kilobytes(get(&stats.sent_per_second)));
    field(text, "instantaneous_input_repl_kbps", kilobytes(0));
    field(text, "instantaneous_output_repl_kbps", kilobytes(0));
    field(text, "rejected_connections", get(&stats.refused));
    fields(text, [("sync_full", 0), ("sync_partial_ok", 0), ("sync_partial_err", 0)]);
    field(text, "expired_keys", get(&stats.expired));
    field(text, "expired_stale_perc", "0.00");
    field(text, "expired_time_cap_reached_count", get(&stats.expire_cut_off));
    field(text, "expire_cycle_cpu_milliseconds", get(&stats.expire_micros) / 1000);
    // Nothing is evicted from a disk.
    field(text, "evicted_keys", 0);
    field(text, "evicted_clients", get(&shared.clients.evicted));
    fields(text, [("total_eviction_exceeded_time", 0), ("current_eviction_exceeded_time", 0)]);
    field(text, "keyspace_hits", get(&stats.hits));
    field(text, "keyspace_misses", get(&stats.misses));
    field(text, "pubsub_channels", shared.channels.count());
    field(text, "pubsub_patterns", shared.channels.patterns());
    fields(text, [("pubsubshard_channels", 0), ("latest_fork_usec", 0), ("total_forks", 0)]);
    fields(text, [("migrate_cached_sockets", 0), ("slave_expires_tracked_keys", 0)]);
    fields(text, [("active_defrag_hits", 0), ("active_defrag_misses", 0)]);
    fields(text, [("active_defrag_key_hits", 0), ("active_defrag_key_misses", 0)]);
    fields(text, [("total_active_defrag_time", 0), ("current_active_defrag_time", 0)]);
    fields(text, [("tracking_total_keys", 0), ("tracking_total_items", 0)]);
    fields(text, [("tracking_total_prefixes", 0), ("unexpected_error_replies", 0)]);
    field(text, "total_error_replies", get(&stats.errors));
    field(text, "dump_payload_sanitizations", 0);
    field(text, "total_reads_processed", get(&stats.receives) + receives);
    field(text, "total_writes_processed", get(&stats.sends) + sends);
    fields(text, [("io_threaded_reads_processed", 0), ("io_threaded_writes_processed", 0)]);
    fields(text, [("reply_buffer_shrinks", 0), ("reply_buffer_expands", 0)]);
    field(text, "panicked_commands", get(&stats.panics));
}
