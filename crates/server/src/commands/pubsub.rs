//! Channels: listening, and sending messages.
//!
//! Once a connection has subscribed, all its output goes through its outbox, so that replies and
//! messages keep their order. Thread safety: see the module above.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::args::too_many_words;
use super::keys::help;
use super::{Access, Call, FAST, LOADING, NO_MULTI, NOSCRIPT, PUBSUB, Row, STALE};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::Reply;
use crate::session::pubsub::Outbox;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("pubsub", name, arity, flags, since, summary, run).access(Access::Glance)
}

const COMMON: u32 = PUBSUB | LOADING | STALE;
/// Unlike in Redis they cannot be queued: their confirmations would be sent too early.
const LISTENS: u32 = COMMON | NOSCRIPT | NO_MULTI;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row(
        "psubscribe",
        -2,
        LISTENS,
        "2.0.0",
        "Subscribes to the channels that match patterns.",
        |call| subscribe(call, true),
    ),
    row("publish", 3, COMMON | FAST, "2.0.0", "Sends a message to a channel.", publish),
    row("pubsub", -2, 0, "2.8.0", "Shows subscriptions.", |_| Err(Failure::SYNTAX))
        .subcommands(SUB),
    row("punsubscribe", -1, LISTENS, "2.0.0", "Unsubscribes from patterns.", |call| {
        unsubscribe(call, true)
    }),
    row("subscribe", -2, LISTENS, "2.0.0", "Subscribes to channels.", |call| {
        subscribe(call, false)
    }),
    row("unsubscribe", -1, LISTENS, "2.0.0", "Unsubscribes from channels.", |call| {
        unsubscribe(call, false)
    }),
];

const SUB: &[Row] = &[
    row("channels", -2, COMMON, "2.8.0", "Lists subscribed channels.", channels),
    row("help", 2, LOADING | STALE, "6.2.0", "Lists the subcommands.", |call| {
        help(call, "PUBSUB", SUB)
    }),
    row("numpat", 2, COMMON, "2.8.0", "Counts subscribed patterns.", numpat),
    row("numsub", -2, COMMON, "2.8.0", "Counts the subscribers of channels.", numsub),
];

/// The cost of a name besides its bytes, here and in the registry.
const NAME_BYTES: usize = 256;

/// The connection's outbox, through which all its output goes from now on.
fn outbox(call: &mut Call<'_, '_>) -> Arc<Outbox> {
    let (session, memory) = (&mut *call.session, &call.shared.clients.memory);
    let new = || Outbox::new(&session.client, memory);
    let outbox = Arc::clone(session.outbox.get_or_insert_with(new));
    outbox.resp3.store(call.out.resp3, Ordering::Relaxed);
    outbox
}

/// The confirmation of a subscription.
fn confirmation(call: &Call<'_, '_>, what: &str, name: Option<&[u8]>, count: usize) -> Vec<u8> {
    let mut reply = Reply::new();
    reply.resp3 = call.out.resp3;
    reply.push(3);
    reply.bulk(what.as_bytes());
    reply.bulk_or_null(name);
    reply.count(count);
    reply.take()
}

fn noted(call: &Call<'_, '_>) {
    let (session, client) = (&*call.session, &call.session.client);
    client.channels.store(session.channels.len() as u64, Ordering::Relaxed);
    client.patterns.store(session.patterns.len() as u64, Ordering::Relaxed);
}

fn subscribe(call: &mut Call<'_, '_>, is_pattern: bool) -> Outcome<()> {
    debug_assert!(call.out.is_empty(), "earlier replies were sent");
    let outbox = outbox(call);
    let what = if is_pattern { "psubscribe" } else { "subscribe" };
    for name in &call.args[1..] {
        let own = &mut *call.session;
        let names = if is_pattern { &mut own.patterns } else { &mut own.channels };
        if names.insert(name.to_vec()) {
            own.listened_bytes += name.len() + NAME_BYTES;
        }
        let confirmation = confirmation(call, what, Some(name), call.session.subscriptions());
        call.shared.channels.subscribe(name, is_pattern, &outbox, &confirmation);
    }
    noted(call);
    // Rules that were revoked before the names were in the registry are noticed here, later ones by
    // the task that changes them.
    let user = call.session.user();
    if !user.is_unlimited() {
        let rules = user.rules();
        let is_denied = |name: &&&[u8]| !rules.allows_channel(name, is_pattern);
        call.session.closes |= call.args[1..].iter().find(is_denied).is_some();
    }
    Ok(())
}

fn unsubscribe(call: &mut Call<'_, '_>, is_pattern: bool) -> Outcome<()> {
    let outbox = outbox(call);
    let what = if is_pattern { "punsubscribe" } else { "unsubscribe" };
    let own = if is_pattern { &call.session.patterns } else { &call.session.channels };
    let names: Vec<Vec<u8>> = match &call.args[1..] {
        [] => own.iter().cloned().collect(),
        names => names.iter().map(|name| name.to_vec()).collect(),
    };
    if names.is_empty() {
        outbox.put(&confirmation(call, what, None, call.session.subscriptions()));
    }
    for name in names {
        let own = &mut *call.session;
        let set = if is_pattern { &mut own.patterns } else { &mut own.channels };
        if set.remove(&name) {
            own.listened_bytes -= name.len() + NAME_BYTES;
        }
        let confirmation = confirmation(call, what, Some(&name), call.session.subscriptions());
        call.shared.channels.unsubscribe(&name, is_pattern, &outbox, &confirmation);
    }
    noted(call);
    Ok(())
}

fn publish(call: &mut Call<'_, '_>) -> Outcome<()> {
    let reached = call.shared.channels.publish(call.args[1], call.args[2]);
    call.shared.clients.enforce();
    call.out.count(reached);
    Ok(())
}

fn channels(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.args.len() > 3 {
        return Err(too_many_words(call.args));
    }
    let names = call.shared.channels.names(call.args.get(2).copied());
    call.out.array(names.len());
    names.iter().for_each(|name| call.out.bulk(name));
    Ok(())
}

fn numpat(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.count(call.shared.channels.patterns());
    Ok(())
}

fn numsub(call: &mut Call<'_, '_>) -> Outcome<()> {
    let names = &call.args[2..];
    // Not a map, whatever the protocol.
    call.out.array(names.len() * 2);
    for name in names {
        call.out.bulk(name);
        call.out.count(call.shared.channels.listeners(name));
    }
    Ok(())
}
