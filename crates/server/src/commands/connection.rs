//! Commands about the connection itself.
//!
//! Thread safety: see the module above.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::args::{fail, integer, is, lossy, quoting, too_many_words, upper};
use super::keys::help;
use super::rename::database;
use super::{ALLOW_BUSY, Access, Call, FAST, LOADING, NO_AUTH, NOSCRIPT, Row, STALE};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::{Reply, number};
use crate::session::Session;
use crate::session::acl::Acl;
use crate::session::acl::log::Refusal;
use crate::session::acl::user::User;
use crate::session::clients::Client;

const EARLY: u32 = NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("connection", name, arity, flags, since, summary, run).access(Access::Glance)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("auth", -2, EARLY, "1.0.0", "Authenticates the connection.", auth),
    row("client", -2, 0, "2.4.0", "Shows connections and ends them.", |_| Err(Failure::SYNTAX))
        .subcommands(CLIENT),
    row("echo", 2, LOADING | STALE | FAST, "1.0.0", "Returns its argument.", echo),
    row("hello", -1, EARLY, "6.0.0", "Selects the protocol version and authenticates.", hello),
    row("ping", -1, FAST, "1.0.0", "Checks that the server answers.", ping),
    row("quit", -1, EARLY, "1.0.0", "Ends the connection.", quit),
    row("reset", 1, EARLY, "6.2.0", "Resets the connection to its initial state.", reset),
    row("select", 2, LOADING | STALE | FAST, "1.0.0", "Selects the database.", select),
];

const SUB: u32 = NOSCRIPT | LOADING | STALE;

const CLIENT: &[Row] = &[
    row("getname", 2, SUB, "2.6.9", "Returns the connection's name.", getname),
    row("help", 2, LOADING | STALE, "5.0.0", "Lists the subcommands.", client_help),
    row("id", 2, SUB, "5.0.0", "Returns the connection's id.", id),
    row("info", 2, SUB, "6.2.0", "Describes the connection.", client_info),
    row("kill", -3, SUB | super::ADMIN, "2.4.0", "Ends connections.", kill),
    row("list", -2, SUB | super::ADMIN, "2.4.0", "Lists the connections.", list),
    row("no-evict", 3, SUB | super::ADMIN, "7.0.0", "Accepted without an effect.", no_evict),
    row(
        "unblock",
        -3,
        SUB | super::ADMIN,
        "5.0.0",
        "Ends the wait of a blocked connection.",
        unblock,
    ),
    row("setname", 3, SUB, "2.6.9", "Names the connection.", setname),
];

fn echo(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.bulk(call.args[1]);
    Ok(())
}

fn ping(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.args.len() > 2 {
        return Err(Failure::text("ERR wrong number of arguments for 'ping' command"));
    }
    let message = call.args.get(1).copied();
    if call.session.subscriptions() > 0 && !call.out.resp3 {
        call.out.array(2);
        call.out.bulk(b"pong");
        call.out.bulk(message.unwrap_or_default());
        return Ok(());
    }
    match message {
        Some(message) => call.out.bulk(message),
        None => call.out.simple("PONG"),
    }
    Ok(())
}

fn authenticate(call: &mut Call<'_, '_>, user: &[u8], secret: &[u8]) -> Outcome<()> {
    let (acl, now) = (&call.shared.acl, call.txn.now);
    let address = call.session.client.address.clone();
    if let Err(seconds) = acl.failures.charge(&address, now) {
        refused(call, user);
        let why = "ERR too many wrong passwords from this address, try again in";
        return Err(fail(format!("{why} {seconds} seconds")));
    }
    if let Some(user) = acl.authenticate(user, secret) {
        acl.failures.give_back(&address);
        // Deleting a user ends its connections, but would miss this one.
        call.session.closes |= !call.session.set_user(user);
        call.session.is_authenticated = true;
        return Ok(());
    }
    refused(call, user);
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    Err(Failure::text(WRONG))
}

/// A failed authentication.
fn refused(call: &Call<'_, '_>, user: &[u8]) {
    let refusal = Refusal {
        reason: "auth",
        context: if call.in_exec { "multi" } else { "toplevel" },
        object: call.args[0].to_vec(),
        user: user.to_vec(),
    };
    let client = call.session.client.line(call.txn.now);
    call.shared.acl.log.add(refusal, client, call.txn.now);
}

fn auth(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (user, secret) = match call.args[1..] {
        [secret] => (&b"default"[..], secret),
        [user, secret] => (user, secret),
        _ => return Err(Failure::SYNTAX),
    };
    let default = call.shared.acl.default_user().rules();
    if call.args.len() == 2 && default.needs_no_password {
        const NONE: &str = "ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?";
        return Err(Failure::text(NONE));
    }
    authenticate(call, user, secret)?;
    call.out.ok();
    Ok(())
}

fn hello(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut version = None;
    if let Some(arg) = call.args.get(1) {
        const BAD: &str = "ERR Protocol version is not an integer or out of range";
        version = Some(number::integer(arg).ok_or(Failure::text(BAD))?);
        if !matches!(version, Some(2 | 3)) {
            return Err(Failure::text("NOPROTO unsupported protocol version"));
        }
    }
    let (mut name, mut rest) = (None, call.args.get(2..).unwrap_or_default());
    while let Some((word, more)) = rest.split_first() {
        match (upper(word).as_slice(), more) {
            (b"AUTH", [user, secret, more @ ..]) => {
                let (user, secret) = (*user, *secret);
                authenticate(call, user, secret)?;
                rest = more;
            }
            (b"SETNAME", [wanted, more @ ..]) => {
                check_name(wanted)?;
                name = Some(wanted.to_vec());
                rest = more;
            }
            _ => return Err(fail(quoting("ERR Syntax error in HELLO option '", word, "'"))),
        }
    }
    if !call.session.is_authenticated {
        const FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, \
                             otherwise the HELLO AUTH <user> <pass> option can be used to \
                             authenticate the client and select the RESP protocol version at the \
                             same time";
        return Err(Failure::text(FIRST));
    }
    if let Some(name) = name {
        *call.session.client.name.lock() = name;
    }
    if let Some(version) = version {
        call.out.resp3 = version == 3;
        call.session.client.resp3.store(version == 3, Ordering::Relaxed);
        if let Some(outbox) = &call.session.outbox {
            outbox.resp3.store(version == 3, Ordering::Relaxed);
        }
    }
    call.out.map(7);
    let texts: [(&str, &str); 5] = [
        ("server", "redis"),
        ("version", super::info::REDIS_VERSION),
        ("mode", "standalone"),
        ("role", "master"),
        ("modules", ""),
    ];
    for (name, text) in &texts[..2] {
        call.out.bulk(name.as_bytes());
        call.out.bulk(text.as_bytes());
    }
    call.out.bulk(b"proto");
    call.out.integer(if call.out.resp3 { 3 } else { 2 });
    call.out.bulk(b"id");
    call.out.integer(call.session.client.id as i64);
    for (name, text) in &texts[2..4] {
        call.out.bulk(name.as_bytes());
        call.out.bulk(text.as_bytes());
    }
    call.out.bulk(b"modules");
    call.out.array(0);
    Ok(())
}

fn select(call: &mut Call<'_, '_>) -> Outcome<()> {
    let number = database(call, call.args[1])?;
    call.session.db = number;
    call.txn.select(number);
    call.session.client.db.store(number, Ordering::Relaxed);
    call.out.ok();
    Ok(())
}

fn quit(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.session.closes = true;
    call.out.ok();
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> Outcome<()> {
    let Session { client, .. } = &*call.session;
    client.name.lock().clear();
    client.db.store(0, Ordering::Relaxed);
    client.resp3.store(false, Ordering::Relaxed);
    client.queued.store(u64::MAX, Ordering::Relaxed);
    call.session.db = 0;
    call.session.multi = None;
    call.shared.watches.unwatch(&mut call.session.watched);
    call.shared.unsubscribe_all(call.session);
    call.out.resp3 = false;
    call.session.set_user(Arc::clone(call.shared.acl.default_user()));
    call.session.is_authenticated = call.shared.acl.is_open();
    call.out.simple("RESET");
    Ok(())
}

fn client_help(call: &mut Call<'_, '_>) -> Outcome<()> {
    help(call, "CLIENT", CLIENT)
}

fn id(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.integer(call.session.client.id as i64);
    Ok(())
}

fn getname(call: &mut Call<'_, '_>) -> Outcome<()> {
    let name = call.session.client.name.lock().clone();
    call.out.bulk_or_null(Some(&name[..]).filter(|name| !name.is_empty()));
    Ok(())
}

/// Maximum bytes of a connection's name, which is not charged.
const NAME_BYTES: usize = 4096;

fn check_name(name: &[u8]) -> Outcome<()> {
    if name.len() > NAME_BYTES {
        return Err(Failure::text("ERR Client names cannot be longer than 4096 bytes."));
    }
    if name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        return Ok(());
    }
    const BAD: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
    Err(Failure::text(BAD))
}

fn setname(call: &mut Call<'_, '_>) -> Outcome<()> {
    check_name(call.args[2])?;
    *call.session.client.name.lock() = call.args[2].to_vec();
    call.out.ok();
    Ok(())
}

fn client_info(call: &mut Call<'_, '_>) -> Outcome<()> {
    let line = call.session.client.line(call.txn.now) + "\n";
    call.out.verbatim(&line);
    Ok(())
}

fn no_evict(call: &mut Call<'_, '_>) -> Outcome<()> {
    if !is(call.args[2], "on") && !is(call.args[2], "off") {
        return Err(Failure::SYNTAX);
    }
    call.out.ok();
    Ok(())
}

fn unblock(call: &mut Call<'_, '_>) -> Outcome<()> {
    let is_error = match &call.args[3..] {
        [] => false,
        [word] if is(word, "timeout") => false,
        [word] if is(word, "error") => true,
        [_] => {
            const REASON: &str = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
            return Err(Failure::text(REASON));
        }
        _ => return Err(too_many_words(call.args)),
    };
    let id = integer(call.args[2])?;
    let clients = call.shared.clients.list();
    let client = clients.iter().find(|client| client.id as i64 == id);
    let waiter = client.and_then(|client| client.waiter.lock().clone());
    let unblocked = waiter.is_some_and(|waiter| {
        let mut reply = Reply::new();
        reply.resp3 = waiter.resp3;
        match is_error {
            true => reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            false => reply.null_array(),
        }
        waiter.give_up(reply.bytes())
    });
    call.out.integer(i64::from(unblocked));
    Ok(())
}

const BAD_ID: Failure = Failure::text("ERR client-id should be greater than 0");

fn list(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut clients = call.shared.clients.list();
    match &call.args[2..] {
        [] => {}
        [word, kind] if is(word, "type") => {
            let wanted: fn(&Client) -> bool = match upper(kind).as_slice() {
                b"NORMAL" => |client| !listens(client),
                b"PUBSUB" => listens,
                b"MASTER" | b"REPLICA" | b"SLAVE" => |_| false,
                _ => return Err(fail(quoting("ERR Unknown client type '", kind, "'"))),
            };
            clients.retain(|client| wanted(client));
        }
        [word, ids @ ..] if is(word, "id") && !ids.is_empty() => {
            let mut wanted = Vec::new();
            for id in ids {
                let id = number::integer(id).filter(|id| *id > 0);
                wanted.push(id.ok_or(Failure::text("ERR Invalid client ID"))? as u64);
            }
            clients.retain(|client| wanted.contains(&client.id));
        }
        _ => return Err(Failure::SYNTAX),
    }
    let now = call.txn.now;
    let text: String = clients.iter().map(|client| client.line(now) + "\n").collect();
    call.out.verbatim(&text);
    Ok(())
}

fn listens(client: &Client) -> bool {
    client.channels.load(Ordering::Relaxed) + client.patterns.load(Ordering::Relaxed) > 0
}

/// Selects the connections that KILL ends.
#[derive(Default)]
struct Wanted {
    id: Option<u64>,
    address: Option<String>,
    local_address: Option<String>,
    listening: Option<bool>,
    user: Option<Arc<User>>,
    /// There are no connections of that type here.
    is_nobody: bool,
    me_too: bool,
}

fn wanted(acl: &Acl, args: &[&[u8]]) -> Outcome<Wanted> {
    let mut wanted = Wanted::default();
    if !args.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    for pair in args.chunks_exact(2) {
        let text = lossy(pair[1]);
        match upper(pair[0]).as_slice() {
            b"ID" => {
                let id = integer(pair[1]).map_err(|_| BAD_ID)?;
                wanted.id = Some(u64::try_from(id).ok().filter(|id| *id > 0).ok_or(BAD_ID)?);
            }
            b"ADDR" => wanted.address = Some(text),
            b"LADDR" => wanted.local_address = Some(text),
            b"TYPE" => match upper(pair[1]).as_slice() {
                b"NORMAL" => wanted.listening = Some(false),
                b"PUBSUB" => wanted.listening = Some(true),
                b"MASTER" | b"REPLICA" | b"SLAVE" => wanted.is_nobody = true,
                _ => return Err(fail(quoting("ERR Unknown client type '", pair[1], "'"))),
            },
            b"USER" => {
                let none = || fail(quoting("ERR No such user '", pair[1], "'"));
                wanted.user = Some(acl.find(pair[1]).ok_or_else(none)?);
            }
            b"SKIPME" => match upper(pair[1]).as_slice() {
                b"YES" => wanted.me_too = false,
                b"NO" => wanted.me_too = true,
                _ => return Err(Failure::SYNTAX),
            },
            _ => return Err(Failure::SYNTAX),
        }
    }
    Ok(wanted)
}

fn kill(call: &mut Call<'_, '_>) -> Outcome<()> {
    let single = call.args.len() == 3;
    let wanted = if single {
        let address = Some(lossy(call.args[2]));
        Wanted { address, me_too: true, ..Wanted::default() }
    } else {
        wanted(&call.shared.acl, &call.args[2..])?
    };
    let own = Arc::clone(&call.session.client);
    let mut killed = 0;
    for client in call.shared.clients.list() {
        let fits = !wanted.is_nobody
            && wanted.user.as_ref().is_none_or(|user| client.is_of(user))
            && wanted.id.is_none_or(|id| id == client.id)
            && wanted.address.as_ref().is_none_or(|a| *a == client.address)
            && wanted.local_address.as_ref().is_none_or(|a| *a == client.local_address)
            && wanted.listening.is_none_or(|listening| listening == listens(&client));
        if !fits || client.id == own.id && !wanted.me_too {
            continue;
        }
        killed += 1;
        if client.id == own.id {
            // The reply has to be sent first.
            call.session.closes = true;
        } else {
            client.hang_up();
        }
    }
    match (single, killed) {
        (true, 0) => return Err(Failure::text("ERR No such client")),
        (true, _) => call.out.ok(),
        (false, killed) => call.out.integer(killed),
    }
    Ok(())
}
