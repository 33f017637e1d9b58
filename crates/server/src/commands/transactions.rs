//! MULTI, DISCARD, WATCH, UNWATCH; EXEC is in the table here and executed by the executor.
//!
//! Thread safety: see the module above.

use std::sync::atomic::Ordering;

use super::{ALLOW_BUSY, Access, Call, FAST, LOADING, NOSCRIPT, Row, SKIP_SLOWLOG, STALE};
use crate::keyspace::encoding::Head;
use crate::keyspace::{Failure, Outcome};
use crate::session::Multi;

const COMMON: u32 = NOSCRIPT | LOADING | STALE;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("transactions", name, arity, flags | COMMON, since, summary, run)
        .access(Access::Glance)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("discard", 1, FAST | ALLOW_BUSY, "2.0.0", "Discards the queued commands.", discard),
    row("exec", 1, SKIP_SLOWLOG, "1.2.0", "Executes the queued commands as one transaction.", exec),
    row("multi", 1, FAST | ALLOW_BUSY, "1.2.0", "Starts a transaction.", multi),
    row("unwatch", 1, FAST | ALLOW_BUSY, "2.2.0", "Forgets all watched keys.", unwatch),
    row(
        "watch",
        -2,
        FAST | ALLOW_BUSY,
        "2.2.0",
        "Makes EXEC fail if one of the keys is changed.",
        watch,
    )
    .keys(1, -1, 1),
];

fn multi(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.session.multi.is_some() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    call.session.multi = Some(Multi::default());
    call.session.client.queued.store(0, Ordering::Relaxed);
    call.out.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.session.multi.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    call.session.client.queued.store(u64::MAX, Ordering::Relaxed);
    call.shared.watches.unwatch(&mut call.session.watched);
    call.out.ok();
    Ok(())
}

/// Only reached outside a transaction.
fn exec(_: &mut Call<'_, '_>) -> Outcome<()> {
    Err(Failure::text("ERR EXEC without MULTI"))
}

fn unwatch(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.shared.watches.unwatch(&mut call.session.watched);
    call.out.ok();
    Ok(())
}

fn watch(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.session.multi.is_some() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let db = call.txn.db();
    for key in &call.args[1..] {
        let value = call.txn.get(&call.txn.record_key(key))?;
        let head = value.as_deref().map(Head::read).transpose()?;
        let was_over = head.is_some_and(|head| head.is_expired(call.txn.now));
        call.shared.watches.watch(&mut call.session.watched, db, key, was_over);
    }
    call.out.ok();
    Ok(())
}
