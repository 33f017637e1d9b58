//! Commands about the server as a whole: time, checkpoints, shutdown.
//!
//! Thread safety: see the module above.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use pumice::{Db, Options};
use pumice_port::os;

use super::args::upper;
use super::{
    ADMIN, ALLOW_BUSY, Access, Call, DANGEROUS, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI,
    NOSCRIPT, Row, STALE,
};
use crate::keyspace::{Failure, Outcome};

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("server", name, arity, flags, since, summary, run).access(Access::Glance)
}

const SAVES: u32 = ADMIN | NOSCRIPT | NO_ASYNC_LOADING;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("bgsave", -1, SAVES, "1.0.0", "Makes a checkpoint of the data.", bgsave),
    row(
        "lastsave",
        1,
        LOADING | STALE | FAST,
        "1.0.0",
        "Returns the time of the last SAVE.",
        lastsave,
    )
    .categories(&["admin", DANGEROUS]),
    row("save", 1, SAVES | NO_MULTI, "1.0.0", "Makes a checkpoint of the data.", save),
    row(
        "shutdown",
        -1,
        ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY,
        "1.0.0",
        "Ends the server; everything written is kept.",
        shutdown,
    ),
    row(
        "time",
        1,
        LOADING | STALE | FAST,
        "2.6.0",
        "Returns the time in seconds and microseconds.",
        time,
    ),
];

fn time(call: &mut Call<'_, '_>) -> Outcome<()> {
    let micros = pumice_port::time::wall_micros();
    call.out.array(2);
    call.out.bulk((micros / 1_000_000).to_string().as_bytes());
    call.out.bulk((micros % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// A checkpoint next to the data, named by the time; older ones than `checkpoints-kept` go. INFO
/// says whether the last one failed.
fn checkpoint(call: &Call<'_, '_>) -> Outcome<()> {
    let (stats, began) = (&call.shared.stats, pumice_port::time::now_micros());
    let writes = call.shared.keyspace.writes();
    let made = make_checkpoint(call);
    stats.save_failed.store(made.is_err(), Ordering::Relaxed);
    let millis = pumice_port::time::now_micros().saturating_sub(began) / 1000;
    stats.save_millis.store(millis, Ordering::Relaxed);
    if made.is_ok() {
        stats.saves.fetch_add(1, Ordering::Relaxed);
        stats.saved_writes.store(writes, Ordering::Relaxed);
    }
    made
}

fn make_checkpoint(call: &Call<'_, '_>) -> Outcome<()> {
    let db = call.shared.keyspace.db();
    let micros = pumice_port::time::wall_micros();
    let mut path = db.path().as_os_str().to_os_string();
    path.push(format!("-checkpoint-{micros}"));
    db.checkpoint(&path)?;
    call.shared.stats.saved_seconds.store(micros / 1_000_000, Ordering::Relaxed);
    let kept = call.shared.config.number("checkpoints-kept") as usize;
    if kept > 0
        && let Err(error) = remove_checkpoints(db.path(), kept)
    {
        // The new one is there. Standard error may have no reader.
        let text = format!("pumice: an old checkpoint could not be removed: {error}");
        writeln!(std::io::stderr(), "{text}").ok();
    }
    Ok(())
}

/// Removes the checkpoints of the data at `path` but the newest ones: databases whose names say
/// that this server has made them. One that somebody has open stays.
fn remove_checkpoints(path: &Path, kept: usize) -> pumice::Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let beside = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let start = format!("{name}-checkpoint-");
    let names =
        os::read_dir(beside).map_err(|error| pumice::Error::io("readdir", beside, &error))?;
    let made = |name: String| Some((name.strip_prefix(&start)?.parse::<u64>().ok()?, name));
    let mut found: Vec<(u64, String)> = names.into_iter().filter_map(made).collect();
    found.sort_unstable();
    found.truncate(found.len().saturating_sub(kept));
    let mut first = Ok(());
    for (_, name) in found {
        let removed = Db::destroy(&Options::default(), beside.join(name));
        first = first.and(removed);
    }
    first
}

fn save(call: &mut Call<'_, '_>) -> Outcome<()> {
    checkpoint(call)?;
    call.out.ok();
    Ok(())
}

fn bgsave(call: &mut Call<'_, '_>) -> Outcome<()> {
    match &call.args[1..] {
        [] => {}
        [word] if upper(word) == b"SCHEDULE" => {}
        _ => return Err(Failure::SYNTAX),
    }
    checkpoint(call)?;
    call.out.simple("Background saving started");
    Ok(())
}

fn lastsave(call: &mut Call<'_, '_>) -> Outcome<()> {
    let stats = &call.shared.stats;
    let saved = stats.saved_seconds.load(Ordering::Relaxed);
    let started = stats.started_millis.load(Ordering::Relaxed) / 1000;
    call.out.integer(if saved == 0 { started } else { saved } as i64);
    Ok(())
}

fn shutdown(call: &mut Call<'_, '_>) -> Outcome<()> {
    for word in &call.args[1..] {
        if !matches!(upper(word).as_slice(), b"NOSAVE" | b"SAVE" | b"NOW" | b"FORCE") {
            return Err(Failure::SYNTAX);
        }
    }
    call.shared.wants_end.store(true, Ordering::Release);
    call.session.closes = true;
    Ok(())
}
