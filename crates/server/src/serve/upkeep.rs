//! Background tasks: syncs every second, recovers from errors of the disk, deletes expired keys and
//! what is left of collections that are gone, gives space back, and samples the rate of commands.
//!
//! Thread safety: each task is a fiber of its own, or a thread where the engine is not called on
//! fibers; all end with the server.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::fiber::{Runtime, maybe_yield};
use pumice_port::thread::JoinHandle;
use pumice_port::{thread, time};

use super::Server;
use super::recovery::Recovery;
use crate::keyspace::database;
use crate::keyspace::space::Space;
use crate::keyspace::txn::Event;
use crate::session::stats::{Rate, Stats};

/// How often the queue of expired keys is checked, and how many are deleted at a time.
const REAP: Duration = Duration::from_millis(100);
const REAP_KEYS: usize = 1000;
/// Keys that are examined at a time, and how long a round may take, as in Redis a quarter.
const EXPIRE_KEYS: usize = 5000;
const EXPIRE_NANOS: u64 = 25_000_000;
/// Rounds from one look at collections that are gone to the next, and until few are swept as well.
const SWEEP_ROUNDS: u64 = 10;
const SWEEP_ROUNDS_MOST: u64 = 200;
/// From one look at what could be given back to the next.
const SPACE: Duration = Duration::from_secs(5);

/// The tasks that end with the server, and the one that ends when the engine is closed.
type Tasks = (Vec<JoinHandle<()>>, JoinHandle<()>);

/// Starts the tasks. Does not suspend.
///
/// # Errors
/// An error text: no thread could be started.
pub fn start(server: &Arc<Server>, runtime: &Runtime) -> Result<Tasks, String> {
    let start = |name, run: fn(&Server)| {
        let own = Arc::clone(server);
        let body = move || run(&own);
        if server.calls_on_loops() {
            return Ok(runtime.spawn(name, body));
        }
        thread::spawn_os(name, body).map_err(|error| error.to_string())
    };
    let tasks = vec![start("sync", sync)?, start("reap", reap)?, start("recover", recover)?];
    Ok((tasks, start("space", give_back)?))
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
    let db = server.shared.keyspace.db();
    let mut recovery = Recovery::default();
    let mut is_ending = false;
    while !is_ending {
        is_ending = server.is_ending.wait_timeout(recovery.pause());
        if let Some(line) = recovery.look(db.background_error(), || database::recover(db)) {
            // Standard error may have no reader.
            writeln!(std::io::stderr(), "pumice: {line}").ok();
        }
    }
}

fn reap(server: &Server) {
    let mut rates: [Rate; 3] = Default::default();
    let mut rounds = 0_u64;
    while !server.is_ending.wait_timeout(REAP) {
        let shared = &server.shared;
        let stats = &shared.stats;
        for (rate, (counter, lately)) in rates.iter_mut().zip([
            (&stats.commands, &stats.commands_per_second),
            (&stats.received, &stats.received_per_second),
            (&stats.sent, &stats.sent_per_second),
        ]) {
            let now = rate.sample(time::now_nanos(), Stats::get(counter));
            lately.store(now, Ordering::Relaxed);
        }
        let began = time::now_micros();
        expire(server);
        Stats::add(&stats.expire_micros, time::now_micros().saturating_sub(began));
        rounds += 1;
        if rounds.is_multiple_of(SWEEP_ROUNDS) {
            // What fails is done again by the next one.
            shared.keyspace.sweep(rounds.is_multiple_of(SWEEP_ROUNDS_MOST)).ok();
        }
    }
}

/// Gives space back while nobody writes. A task of its own: a step takes as long as a compaction.
fn give_back(server: &Server) {
    let mut space = Space::default();
    while !server.is_ending.wait_timeout(SPACE) {
        // What failed is done at another look, or the engine says so to those who write.
        space.look(&server.shared.keyspace).ok();
    }
}

/// Deletes keys that have expired, for at most a quarter of a round.
fn expire(server: &Server) {
    let shared = &server.shared;
    let deleted = |count: usize| Stats::add(&shared.stats.expired, count as u64);
    let notify = |events: &[Event]| shared.notify(events);
    let begin = time::now_nanos();
    let now = || time::wall_micros() / 1000;
    // Keys that cannot be deleted now are found again.
    if let Ok(count) = shared.keyspace.reap(now(), REAP_KEYS, notify) {
        deleted(count);
    }
    loop {
        let Ok(round) = shared.keyspace.expire(now(), EXPIRE_KEYS, notify) else { return };
        deleted(round.deleted);
        let is_over = time::now_nanos().saturating_sub(begin) > EXPIRE_NANOS;
        Stats::add(&shared.stats.expire_cut_off, u64::from(round.is_behind && is_over));
        if !round.is_behind || is_over || server.is_ending.is_set() {
            return;
        }
        maybe_yield();
    }
}
