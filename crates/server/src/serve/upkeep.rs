//! What is done without anybody asking: syncs every second, deletes keys whose time is over.
//!
//! Thread safety: each task is a fiber of its own; both end with the server.

use std::sync::Arc;
use std::time::Duration;

use pumice_port::fiber::Runtime;
use pumice_port::thread::JoinHandle;
use pumice_port::time;

use super::Server;
use crate::session::stats::Stats;

/// How often the queue of expired keys is looked at, and how many are deleted then.
const REAP: Duration = Duration::from_millis(100);
const REAP_KEYS: usize = 1000;

/// Starts the tasks.
pub fn start(server: &Arc<Server>, runtime: &Runtime) -> Vec<JoinHandle<()>> {
    let (syncer, reaper) = (Arc::clone(server), Arc::clone(server));
    vec![runtime.spawn("sync", move || sync(&syncer)), runtime.spawn("reap", move || reap(&reaper))]
}

/// `appendfsync everysec`.
fn sync(server: &Server) {
    let keyspace = &server.shared.keyspace;
    let mut synced = 0;
    while !server.is_ending.wait_timeout(Duration::from_secs(1)) {
        let written = keyspace.writes();
        let wanted = server.shared.config.get("appendfsync") == "everysec";
        // A failure is the engine's background error: writers get it.
        if wanted && written != synced && keyspace.sync().is_ok() {
            synced = written;
        }
    }
}

fn reap(server: &Server) {
    while !server.is_ending.wait_timeout(REAP) {
        let shared = &server.shared;
        let now = time::wall_micros() / 1000;
        // Keys that cannot be deleted now are met again.
        if let Ok(deleted) = shared.keyspace.reap(now, REAP_KEYS, |events| shared.tell(events)) {
            Stats::add(&shared.stats.expired, deleted as u64);
        }
    }
}
