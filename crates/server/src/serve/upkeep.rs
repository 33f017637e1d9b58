//! Background tasks: syncs every second, recovers from errors of the disk, deletes expired keys and
//! samples the rate of commands.
//!
//! Thread safety: each task is a fiber of its own, or a thread where the engine is not called on
//! fibers; all end with the server.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::fiber::Runtime;
use pumice_port::thread::JoinHandle;
use pumice_port::{thread, time};

use super::Server;
use super::recovery::Recovery;
use crate::session::stats::{Rate, Stats};

/// How often the queue of expired keys is checked, and how many are deleted at a time.
const REAP: Duration = Duration::from_millis(100);
const REAP_KEYS: usize = 1000;

/// Starts the tasks. Does not suspend.
///
/// # Errors
/// An error text: no thread could be started.
pub fn start(server: &Arc<Server>, runtime: &Runtime) -> Result<Vec<JoinHandle<()>>, String> {
    let start = |name, run: fn(&Server)| {
        let own = Arc::clone(server);
        let body = move || run(&own);
        if server.calls_on_loops() {
            return Ok(runtime.spawn(name, body));
        }
        thread::spawn_os(name, body).map_err(|error| error.to_string())
    };
    let mut tasks = vec![start("sync", sync)?, start("reap", reap)?];
    if server.shared.keyspace.engine().pumice().is_some() {
        tasks.push(start("recover", recover)?);
    }
    Ok(tasks)
}

/// `appendfsync everysec`.
fn sync(server: &Server) {
    let keyspace = &server.shared.keyspace;
    let mut synced = 0;
    while !server.is_ending.wait_timeout(Duration::from_secs(1)) {
        let written = keyspace.writes();
        let wanted = server.shared.config.get("appendfsync") == "everysec";
        // A failure is the engine's background error: writers get it, until `recover` succeeds.
        if wanted && written != synced && keyspace.sync().is_ok() {
            synced = written;
        }
    }
}

/// See `recovery`. The last attempt is at the end, so that what is in memory can be saved.
fn recover(server: &Server) {
    let engine = server.shared.keyspace.engine();
    let mut recovery = Recovery::default();
    let mut is_ending = false;
    while !is_ending {
        is_ending = server.is_ending.wait_timeout(recovery.pause());
        if let Some(line) = recovery.look(engine.background_error(), || engine.recover()) {
            // Standard error may have no reader.
            writeln!(std::io::stderr(), "pumice: {line}").ok();
        }
    }
}

fn reap(server: &Server) {
    let mut rate = Rate::default();
    while !server.is_ending.wait_timeout(REAP) {
        let shared = &server.shared;
        let commands = rate.sample(time::now_nanos(), Stats::get(&shared.stats.commands));
        shared.stats.commands_per_second.store(commands, Ordering::Relaxed);
        let now = time::wall_micros() / 1000;
        // Keys that cannot be deleted now are reported again.
        if let Ok(deleted) = shared.keyspace.reap(now, REAP_KEYS, |events| shared.notify(events)) {
            Stats::add(&shared.stats.expired, deleted as u64);
        }
    }
}
