//! A command from its arguments to its reply: checks, locks, transaction, write. No sockets.
//!
//! | step | refused with |
//! |---|---|
//! | the command exists, and its subcommand | `ERR unknown command`, `ERR unknown subcommand` |
//! | its number of arguments fits | `ERR wrong number of arguments` |
//! | the client is allowed to | `NOAUTH`, `ERR Can't execute` while it listens |
//! | between MULTI and EXEC it is queued | `EXECABORT` if one of the queued was refused |
//! | locks are taken, it runs, what it wrote is written in one batch | its own errors, `MISCONF` |
//!
//! Invariants:
//! 1. An error of the engine leaves no reply of success: the output since the command began is
//!    discarded.
//! 2. A command of a transaction that is refused leaves nothing behind, though EXEC goes on.
//! 3. Watchers and waiters are notified under the locks of the keys.
//!
//! Thread safety: belongs to the connection's task. Suspends.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_port::time;

use super::set_run::execute_one;
use crate::commands::args::quoting;
use crate::commands::permits::{self, When};
use crate::commands::{
    self, Access, Call, FAST, NO_AUTH, NO_MULTI, READONLY, Row, SKIP_SLOWLOG, args,
};
use crate::keyspace::encoding::Head;
use crate::keyspace::locks::Held;
use crate::keyspace::txn::{Event, Txn};
use crate::keyspace::{Failure, Keyspace, Outcome, Sets};
use crate::protocol::{KeysAhead, Reply};
use crate::session::slowlog::Measured;
use crate::session::stats::Stats;
use crate::session::waiters::Served;
use crate::session::{Multi, QUEUE_BYTES, Session, Shared};

/// Bytes of arguments that an error reply quotes.
const SHOWN: usize = 128;

fn unknown_command(args: &[&[u8]]) -> Vec<u8> {
    let mut shown = Vec::new();
    for arg in &args[1..] {
        if shown.len() >= SHOWN {
            break;
        }
        let room = SHOWN - shown.len();
        shown.extend(quoting("'", &arg[..arg.len().min(room)], "' "));
    }
    let name = &args[0][..args[0].len().min(SHOWN)];
    quoting("ERR unknown command '", name, "', with args beginning with: ")
        .into_iter()
        .chain(shown)
        .collect()
}

fn find_row(args: &[&[u8]]) -> Result<&'static Row, Vec<u8>> {
    let row = commands::find(args[0]).ok_or_else(|| unknown_command(args))?;
    if row.subcommands.is_empty() || args.len() < 2 {
        return Ok(row);
    }
    commands::subcommand(row, args[1]).ok_or_else(|| {
        let word = &args[1][..args[1].len().min(SHOWN)];
        let upper = row.name.to_ascii_uppercase();
        quoting("ERR unknown subcommand '", word, &format!("'. Try {upper} HELP."))
    })
}

/// Texts of failures, for clients.
pub(super) fn error_text(failure: &Failure) -> Cow<'_, [u8]> {
    match failure {
        Failure::Error(text) => Cow::Borrowed(text),
        Failure::Storage(error) => {
            Cow::Owned(format!("MISCONF Errors writing to the AOF file: {error}").into_bytes())
        }
    }
}

/// Replies with an error.
pub(super) fn fail(shared: &Shared, out: &mut Reply, text: &[u8]) {
    Stats::add(&shared.stats.errors, 1);
    shared.calls.error(text);
    out.error(text);
}

/// Commands of a pipeline whose keys are looked up together.
const KEYS_WARMED: usize = 16;

/// Prefetches the data that the commands in `input` read, so that their CPU cache misses overlap.
/// Called before each command, but acts only once in `KEYS_WARMED` calls.
pub fn look_ahead(shared: &Shared, session: &mut Session, input: &[u8]) {
    session.seen_ahead = session.seen_ahead.saturating_sub(1);
    if session.seen_ahead == 0 {
        let keys = KeysAhead(input).take(KEYS_WARMED);
        session.seen_ahead = shared.keyspace.warm(session.db, keys);
    }
}

/// Executes the command in `args`, at least one. Suspends.
pub fn execute(shared: &Shared, session: &mut Session, out: &mut Reply, args: &[&[u8]], now: u64) {
    let began = time::now_micros();
    Stats::add(&shared.stats.commands, 1);
    session.written = None;
    session.client.active_millis.store(now, Ordering::Relaxed);
    let checked = match commands::find(args[0]) {
        // The usual case needs no event name.
        Some(row) if row.subcommands.is_empty() && row.takes(args.len()) => Ok(row),
        _ => match find_row(args) {
            Ok(row) if row.takes(args.len()) => Ok(row),
            Ok(row) => Err((Some(row), wrong_arity(row))),
            Err(text) => Err((None, text)),
        },
    };
    let may = |row| match may_run(shared, session, out, row, args, now) {
        Ok(()) => Ok(row),
        Err(text) => Err((Some(row), text.into_bytes())),
    };
    let row = match checked.and_then(may) {
        Ok(row) => row,
        Err((row, text)) => return refuse(shared, session, out, row, &text),
    };
    *session.client.command.lock() = row.full_name;
    if session.multi.is_some() {
        match row.name {
            "exec" => {
                exec(shared, session, out, row, now);
                measure(shared, session, row, args, (taken(session, began), now));
                return;
            }
            "multi" | "discard" | "watch" | "quit" | "reset" => {}
            _ => {
                queue(shared, session, out, row, args);
                return;
            }
        }
    }
    single(shared, session, out, row, args, (began, now))
}

fn wrong_arity(row: &Row) -> Vec<u8> {
    format!("ERR wrong number of arguments for '{}' command", row.full_name).into_bytes()
}

/// A command that is not even begun makes the EXEC of its transaction fail; an EXEC ends it.
#[cold]
fn refuse(shared: &Shared, session: &mut Session, out: &mut Reply, row: Option<&Row>, text: &[u8]) {
    if let Some(row) = row {
        shared.calls.refused(row.id);
    }
    if row.is_none_or(|row| row.name != "exec") {
        if let Some(multi) = &mut session.multi {
            multi.is_broken = true;
        }
        return fail(shared, out, text);
    }
    session.multi = None;
    session.client.queued.store(u64::MAX, Ordering::Relaxed);
    shared.watches.unwatch(&mut session.watched);
    let why = text.strip_prefix(b"ERR ").unwrap_or(text);
    fail(shared, out, &quoting("EXECABORT Transaction discarded because of: ", why, ""));
}

/// Whether the client may run it now.
fn may_run(
    shared: &Shared,
    session: &mut Session,
    out: &Reply,
    row: &Row,
    args: &[&[u8]],
    now: u64,
) -> Result<(), String> {
    if !session.is_authenticated {
        session.is_authenticated = shared.acl.is_open();
        if !session.is_authenticated && !row.is(NO_AUTH) {
            return Err("NOAUTH Authentication required.".to_string());
        }
    }
    permits::check(shared, session, row, args, now, When::Now)?;
    let listens = session.subscriptions() > 0 && !out.resp3;
    let while_listening =
        matches!(row.name, "ping" | "quit" | "reset") || row.name.ends_with("subscribe");
    if listens && !while_listening {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            row.name
        ));
    }
    if session.multi.is_some() && row.is(NO_MULTI) {
        return Err("ERR Command not allowed inside a transaction".to_string());
    }
    Ok(())
}

fn queue(shared: &Shared, session: &mut Session, out: &mut Reply, row: &Row, args: &[&[u8]]) {
    let Some(multi) = &mut session.multi else { return };
    debug_assert!(row.takes(args.len()), "checked before");
    multi.bytes += args.iter().map(|arg| arg.len() + 32).sum::<usize>();
    if multi.bytes > QUEUE_BYTES {
        multi.is_broken = true;
        multi.queue.clear();
        fail(shared, out, b"ERR the transaction is too large");
        return;
    }
    session.client.buffers.queued.store(multi.bytes as u64, Ordering::Relaxed);
    multi.queue.push(args.iter().map(|arg| arg.to_vec()).collect());
    session.client.queued.store(multi.queue.len() as u64, Ordering::Relaxed);
    out.simple("QUEUED");
}

fn locks<'k>(shared: &'k Shared, row: &Row, args: &[&[u8]]) -> Option<Held<'k>> {
    let locks = &shared.keyspace.locks;
    match row.access {
        Access::Glance | Access::View => None,
        Access::WriteAll => Some(locks.all()),
        Access::Write | Access::WriteOneMoment => {
            if row.keys == commands::Keys::Range(1, 1, 1) {
                let held = locks.one(args[1]);
                // Under the lock no client can begin to wait for it.
                if !shared.waiters.any_for(args[1]) {
                    return Some(held);
                }
            } else if shared.waiters.is_empty() {
                let held = locks.many(row.keys_of(args).into_iter());
                if shared.waiters.is_empty() {
                    return Some(held);
                }
            }
            Some(with_targets(shared, row.keys_of(args)))
        }
    }
}

/// The locks of keys and of those that elements may be moved to when the keys are written.
fn with_targets<'k>(shared: &'k Shared, keys: Vec<&[u8]>) -> Held<'k> {
    let own: Vec<Vec<u8>> = keys.into_iter().map(<[u8]>::to_vec).collect();
    let targets = || {
        let mut all = own.clone();
        shared.waiters.add_targets(&mut all);
        all
    };
    let mut wanted = targets();
    loop {
        let held = shared.keyspace.locks.many(wanted.iter().map(Vec::as_slice));
        // Under the locks no client can begin to wait for these keys.
        let now = targets();
        // The command's own keys come first, the same each time.
        let known: BTreeSet<&[u8]> = wanted[own.len()..].iter().map(Vec::as_slice).collect();
        if now[own.len()..].iter().all(|key| known.contains(key.as_slice())) {
            return held;
        }
        drop(held);
        wanted = now;
    }
}

/// Carries a command out.
fn run_row(row: &Row, call: &mut Call<'_, '_>) -> Outcome<()> {
    call.txn.begin_command();
    (row.run)(call)
}

/// Microseconds that the command which began at that time has taken.
fn taken(session: &Session, began: u64) -> u64 {
    let ended = session.written.map(|written| written.micros);
    ended.unwrap_or_else(time::now_micros).saturating_sub(began)
}

/// Records a command that took this many microseconds.
fn measure(
    shared: &Shared,
    session: &Session,
    row: &Row,
    args: &[&[u8]],
    (micros, now): (u64, u64),
) {
    shared.calls.called(row.id, micros, 1);
    note_if_slow(shared, session, row, args, (micros, now));
}

/// The log of slow commands gets it, if it is one.
pub(super) fn note_if_slow(
    shared: &Shared,
    session: &Session,
    row: &Row,
    args: &[&[u8]],
    (micros, now): (u64, u64),
) {
    if !shared.slow.is_slow(micros) {
        return;
    }
    let command = Measured {
        args,
        is_fast: row.is(FAST),
        is_logged: !row.is(SKIP_SLOWLOG),
        micros,
        seconds: now / 1000,
    };
    let client = &session.client;
    shared.slow.measured(&command, |address, name| {
        address.push_str(&client.address);
        name.extend_from_slice(&client.name.lock());
    });
}

fn begin(keyspace: &Keyspace, access: Access, db: u8, now: u64) -> Outcome<Txn<'_>> {
    Ok(match access {
        Access::Glance => Txn::glance(keyspace, db, now),
        // A single key is read atomically anyway, unless it has elements.
        Access::View => Txn::view(keyspace, db, now)?,
        Access::Write | Access::WriteAll => Txn::write(keyspace, db, now),
        Access::WriteOneMoment => Txn::write_at_one_moment(keyspace, db, now)?,
    })
}

/// A command outside a transaction, which began then on the monotonic clock.
fn single(
    shared: &Shared,
    session: &mut Session,
    out: &mut Reply,
    row: &Row,
    args: &[&[u8]],
    (began, now): (u64, u64),
) {
    let mark = out.len();
    let keyspace = &shared.keyspace;
    let mut held = locks(shared, row, args);
    let is_done = match row.plain_pair(args) {
        Some(pair) => execute_one(shared, session, out, pair, now, &mut held),
        None => Ok(false),
    };
    if !matches!(is_done, Ok(true)) {
        out.truncate(mark);
    }
    if held.is_none() && matches!(is_done, Ok(false)) {
        held = locks(shared, row, args);
    }
    let version = keyspace.databases_version();
    let mut run = |access, out: &mut Reply| {
        begin(keyspace, access, session.db, now).and_then(|mut txn| {
            let mut call = Call { args, txn: &mut txn, out, session, shared, in_exec: false };
            run_row(row, &mut call)?;
            if out.is_full() {
                return Err(Failure::TOO_LARGE);
            }
            finish(shared, session, &mut txn, &mut held)
        })
    };
    let mut result = match is_done {
        Ok(true) => Ok(()),
        Ok(false) => run(row.access, out),
        Err(failure) => Err(failure),
    };
    let reads_once = row.access == Access::Glance && row.is(READONLY);
    if reads_once && (version.is_none() || version != keyspace.databases_version()) {
        // Without locks or a snapshot the key may have been another database's.
        out.truncate(mark);
        result = run(Access::View, out);
    }
    if let Some(wish) = session.wish.take().filter(|_| result.is_ok()) {
        let waiter = shared.waiters.add(wish, session.db, out.resp3);
        *session.client.waiter.lock() = Some(Arc::clone(&waiter));
        session.waiter = Some(waiter);
    }
    drop(held);
    measure(shared, session, row, args, (taken(session, began), now));
    if let Err(failure) = result {
        out.truncate(mark);
        shared.calls.failed(row.id);
        fail(shared, out, &error_text(&failure));
    }
}

/// Serves clients that wait for what was written, writes, and notifies watchers and subscribers.
/// Runs under the locks, which it may release.
fn finish(
    shared: &Shared,
    session: &mut Session,
    txn: &mut Txn<'_>,
    held: &mut Option<Held<'_>>,
) -> Outcome<()> {
    // A command with the lock of only one key serves no waiter, see `locks`; a command that is
    // going to block on keys keeps their locks until that is known.
    if session.is_last && session.wish.is_none() {
        let durable = shared.hot.syncs_always.load(Ordering::Acquire);
        let notify = |events: &[Event], sets: Sets<'_>| notify_group(shared, events, sets);
        session.written = shared.keyspace.write_together(txn, held, durable, notify)?;
        if session.written.is_some() {
            return Ok(());
        }
    }
    let mut served = Served::default();
    if txn.may_write() && !shared.waiters.is_empty() {
        serve_waiters(shared, session, txn, &mut served)?;
    }
    let flushed = txn.take_flushed();
    let events = txn.commit()?;
    // Not before: who begins to watch in between would read what is about to go.
    flushed.into_iter().for_each(|only| shared.watches.all_touched(only));
    served.notify(&shared.waiters);
    notify(shared, &events);
    Ok(())
}

/// Notifies watchers and subscribers of what happened to keys.
pub(super) fn notify(shared: &Shared, events: &[Event]) {
    if !events.is_empty() {
        let expired = events.iter().filter(|event| event.name == "expired").count();
        Stats::add(&shared.stats.expired, expired as u64);
        shared.notify(events);
    }
}

/// As [`notify`], for a group of writes. Its plain SETs seldom interest a watcher or a subscriber.
pub(super) fn notify_group(shared: &Shared, events: &[Event], sets: Sets<'_>) {
    notify(shared, events);
    if shared.wants_events() {
        notify(shared, &sets.collect::<Vec<_>>());
    } else {
        shared.clients.enforce();
    }
}

/// Hands what was written to clients that wait for it, the longest waiting first. What that writes
/// may serve others.
fn serve_waiters(
    shared: &Shared,
    session: &mut Session,
    txn: &mut Txn<'_>,
    served: &mut Served,
) -> Outcome<()> {
    let own = txn.db();
    let room = shared.hot.clients_bytes.load(Ordering::Relaxed);
    let mut at = 0;
    while let Some(event) = txn.event_at(at) {
        let (db, key) = (event.db, event.key.clone());
        at += 1;
        txn.select(db);
        for waiter in shared.waiters.of(&key) {
            if waiter.db != db {
                continue;
            }
            // A waiter that would find nothing is not claimed: others would skip it needlessly.
            match txn.find(&key)? {
                None => break,
                Some(found) if found.kind() != waiter.op.kind() => continue,
                Some(_) => {}
            }
            if !served.claim(&waiter) {
                continue;
            }
            let mut reply = Reply::new();
            reply.resp3 = waiter.resp3;
            // All of them together get no more than a command may take.
            reply.limit(room.saturating_sub(served.bytes));
            txn.begin_command();
            let out = &mut reply;
            let mut call = Call { args: &[], txn, out, session, shared, in_exec: true };
            match waiter.op.run(&mut call, &key) {
                Ok(true) => {}
                Ok(false) => {
                    served.release();
                    continue;
                }
                Err(Failure::Error(_)) if reply.is_full() && served.bytes > 0 => {
                    waiter.try_again();
                    served.release();
                    continue;
                }
                Err(Failure::Error(text)) => {
                    reply.clear();
                    reply.error(&text);
                }
                Err(failure) => return Err(failure),
            }
            served.reply(reply.take());
        }
    }
    txn.select(own);
    Ok(())
}

/// EXEC.
fn exec(shared: &Shared, session: &mut Session, out: &mut Reply, row: &Row, now: u64) {
    let multi = session.multi.take().unwrap_or_default();
    let mark = out.len();
    if let Err(failure) = exec_all(shared, session, out, &multi, now) {
        out.truncate(mark);
        shared.calls.failed(row.id);
        fail(shared, out, &error_text(&failure));
    }
    // Until here CLIENT INFO says that it is in a transaction.
    session.client.queued.store(u64::MAX, Ordering::Relaxed);
    shared.watches.unwatch(&mut session.watched);
}

fn exec_all(
    shared: &Shared,
    session: &mut Session,
    out: &mut Reply,
    multi: &Multi,
    now: u64,
) -> Outcome<()> {
    if multi.is_broken {
        const ABORT: &str = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Failure::text(ABORT));
    }
    let queue: Vec<Vec<&[u8]>> =
        multi.queue.iter().map(|args| args.iter().map(Vec::as_slice).collect()).collect();
    let rows: Vec<&Row> = queue.iter().filter_map(|args| find_row(args).ok()).collect();
    let keyspace = &shared.keyspace;
    let writes = rows.iter().any(|row| !matches!(row.access, Access::Glance | Access::View));
    let held = if rows.iter().any(|row| row.access == Access::WriteAll) {
        keyspace.locks.all()
    } else {
        let watched: Vec<_> = session.watched.keys.keys().map(|(_, k)| k.clone()).collect();
        let named = rows.iter().zip(&queue).flat_map(|(row, args)| row.keys_of(args));
        with_targets(shared, named.chain(watched.iter().map(Vec::as_slice)).collect())
    };
    if session.watched.is_touched() || watched_is_over(keyspace, session, now)? {
        out.null_array();
        return Ok(());
    }
    let db = session.db;
    let mut txn = match writes {
        true => Txn::write_at_one_moment(keyspace, db, now)?,
        false => Txn::view_all(keyspace, db, now)?,
    };
    out.array(queue.len());
    for (row, args) in rows.iter().zip(&queue) {
        let mark = out.len();
        let may = permits::check(shared, session, row, args, now, When::InExec);
        txn.note_changes();
        let mut call = Call { args, txn: &mut txn, out, session, shared, in_exec: true };
        let began = time::now_micros();
        let result = may.map_err(args::fail).and_then(|()| run_row(row, &mut call));
        measure(shared, session, row, args, (taken(session, began), now));
        let fatal = match result {
            // Later steps must not discard it.
            _ if out.is_full() => Some(Failure::TOO_LARGE),
            Ok(()) => None,
            Err(Failure::Storage(error)) => Some(Failure::Storage(error)),
            Err(failure) => {
                txn.take_back();
                out.truncate(mark);
                shared.calls.failed(row.id);
                fail(shared, out, &error_text(&failure));
                None
            }
        };
        if let Some(failure) = fatal {
            set_database(session, db);
            return Err(failure);
        }
    }
    let mut held = Some(held);
    let finished = finish(shared, session, &mut txn, &mut held);
    if finished.is_err() {
        set_database(session, db);
    }
    drop(held);
    finished
}

/// Takes back a SELECT of a transaction that failed.
fn set_database(session: &mut Session, db: u8) {
    session.db = db;
    session.client.db.store(db, Ordering::Relaxed);
}

/// A watched key has expired that had not when the watch began.
fn watched_is_over(keyspace: &Keyspace, session: &Session, now: u64) -> Outcome<bool> {
    for ((db, key), was_over) in &session.watched.keys {
        let value = {
            let txn = Txn::glance(keyspace, *db, now);
            txn.get(&txn.record_key(key))?
        };
        let head = value.as_deref().map(Head::read).transpose()?;
        if !was_over && head.is_some_and(|head| head.is_expired(now)) {
            return Ok(true);
        }
    }
    Ok(false)
}
