//! A connection: receive, execute all complete commands, send all replies at once.
//!
//! Commands are executed on the connection's fiber or, with `runtime threads`, on a thread of the
//! worker pool; the fiber receives, sends and waits for the client in either case.
//!
//! Under `appendfsync always` writes are durable before a reply is sent that reveals them,
//! including other clients' writes. A client that sends without reading is not read from once its
//! replies reach a mebibyte, until it has taken them. Replies to all received commands are sent
//! together with the next receive, and with those of the loop's other connections in that turn.
//!
//! | what waits for the client | how long |
//! |---|---|
//! | for it to say who it is, and for TLS to begin | `auth-timeout` since it connected |
//! | for the rest of a request | `request-timeout` since its first byte, plus 1 s for each 64 KiB |
//! | for the next request | `timeout` |
//! | for it to take replies | a minute without a byte |
//!
//! `commands` has how commands are executed; here is what is received and sent.
//!
//! A panic of a command ends its connection and nothing else.
//!
//! Thread safety: belongs to its fiber, except while a worker has it. Suspends.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pumice_port::fiber::{maybe_yield, spawn_here};
use pumice_port::net::Direction;
use pumice_port::thread::{self, JoinHandle};
use pumice_port::time;

use super::Server;
use super::executor::error_text;
use super::link::Link;
use crate::protocol::{Parser, Reply};
use crate::session::Session;
use crate::session::clients::{Buffers, Growth, Peer};
use crate::session::pubsub::Outbox;
use crate::session::stats::Stats;

mod commands;

/// Initial and maximum size of one receive, in bytes.
const BUFFER_BYTES: usize = 1 << 10;
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// Replies are sent when they reach this many bytes or this number.
const REPLY_BYTES: usize = 1 << 20;
const REPLIES: usize = 1024;
/// Replies may always have this many bytes; they are sent at half of their limit, so that there is
/// always room for a short one.
const REPLY_BYTES_MIN: usize = 64 << 10;
/// Replies up to this many bytes are not charged, and may be sent together with the next receive.
const REPLY_BYTES_FREE: usize = 16 << 10;
/// Receive buffer that an idle connection keeps.
const BUFFER_BYTES_IDLE: usize = 8 << 10;
const SECOND_NANOS: u64 = 1_000_000_000;
/// Bytes per second by which a request has to grow after its timeout.
const REQUEST_BYTES_PER_SECOND: usize = 64 << 10;
/// How many times, and at what interval, a connection that waits for memory checks for it.
const ROOM_LOOKS: u32 = 20;
const ROOM: Duration = Duration::from_millis(5);
/// How long a client that does not read its replies may stay.
const SEND_NANOS: u64 = 60_000_000_000;

/// Bytes received and not yet parsed.
struct Input {
    bytes: Vec<u8>,
    filled: usize,
    /// The last receive left no space: more may have been waiting.
    was_full: bool,
}

impl Input {
    fn new() -> Self {
        Input { bytes: Vec::new(), filled: 0, was_full: false }
    }

    /// Sends `replies` and receives more; returns how much, which may be 0 within TLS; None at the
    /// end of the stream, on a failure or on a timeout.
    fn receive(&mut self, link: &Link, replies: &[u8], received: &AtomicU64) -> Option<usize> {
        self.make_room();
        match link.exchange(replies, &mut self.bytes[self.filled..]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Ok(0) | Err(_) => None,
            Ok(n) => {
                self.filled += n;
                self.was_full = self.filled == self.bytes.len();
                Stats::add(received, n as u64);
                Some(n)
            }
        }
    }

    /// For a long command the buffer grows as far as it must; for pipelines that do not fit, whose
    /// commands would else be executed and answered piece by piece, up to what it keeps when idle.
    fn make_room(&mut self) {
        let len = self.bytes.len();
        if self.filled == len {
            let more = len.clamp(BUFFER_BYTES, BUFFER_BYTES_MAX.max(self.filled / 2));
            self.bytes.resize(len + more, 0);
        } else if self.was_full && len < BUFFER_BYTES_IDLE {
            self.bytes.resize((2 * len).min(BUFFER_BYTES_IDLE), 0);
        }
    }

    /// Drops bytes at the front; frees a large buffer when nothing is left.
    fn remove(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        if self.filled == 0 && self.bytes.len() > BUFFER_BYTES_IDLE {
            self.bytes = Vec::new();
        }
    }
}

/// Why commands are not executed at the moment.
enum Pause {
    /// None has arrived completely.
    Idle,
    /// Replies have to be sent first.
    Flush,
    /// The last one blocks.
    Wait,
    /// The last one subscribes to channels.
    Listen,
    /// The input is malformed; the reply says so.
    Broken,
}

struct Connection<'s> {
    server: &'s Server,
    link: &'s Arc<Link>,
    session: Session,
    out: Reply,
    /// The fiber that sends what is in the outbox.
    pusher: Option<JoinHandle<()>>,
    /// Commands executed since replies were last sent.
    replies: usize,
    /// Maximum bytes of replies at once.
    replies_max: usize,
    /// Bytes of replies that may be sent: what they reveal is as durable as promised.
    ready: usize,
    /// What they reveal is durable once this many writes are, as `Keyspace::writes` counts.
    upto: u64,
    /// The parser's next command is complete.
    is_parsed: bool,
    /// When it connected, and when the first byte of the incomplete request arrived.
    began_nanos: u64,
    request_nanos: Option<u64>,
    /// Bytes of input that it keeps.
    input_bytes: usize,
    /// Bytes charged to the client, except those of growing replies.
    charged: u64,
    growth: Arc<Growth>,
}

/// Serves the connection that has entered `server`, until it ends. Suspends.
pub fn serve(server: &Server, link: &Arc<Link>, peer: Peer) {
    serve_by(server, link, peer, |connection| {
        if connection.begin() {
            connection.run();
        }
    });
}

/// A connection's place, given up even if it panics.
struct Place<'s>(&'s Server);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// As [`serve`], through `run`; cleans up after the connection even if `run` panics.
fn serve_by(server: &Server, link: &Arc<Link>, peer: Peer, run: impl FnOnce(&mut Connection<'_>)) {
    let place = Place(server);
    let shared = &server.shared;
    let client = shared.clients.add(peer, time::wall_micros() / 1000);
    let id = client.id;
    let growth = Arc::new(Growth::new(&shared.clients, &client));
    let mut connection = Connection {
        server,
        link,
        session: Session::new(client, &shared.acl),
        out: Reply::metered(growth.clone()),
        growth,
        pusher: None,
        replies: 0,
        replies_max: usize::MAX,
        ready: 0,
        upto: 0,
        is_parsed: false,
        began_nanos: time::now_nanos(),
        request_nanos: None,
        input_bytes: 0,
        charged: 0,
    };
    if server.is_ending.is_set() {
        // The others may have been ended before this one was registered.
        connection.session.client.hang_up_gently();
    }
    if catch_unwind(AssertUnwindSafe(|| run(&mut connection))).is_err() {
        // The client sees the end only once its place is free.
        Stats::add(&shared.stats.panics, 1);
    }
    if shared.wants_end.load(Ordering::Acquire) {
        server.is_ending.set();
    }
    if let Some(waiter) = connection.session.waiter.take() {
        // The client is gone and cannot take an element.
        waiter.give_up(b"");
        shared.waiters.remove(&waiter);
    }
    shared.unsubscribe_all(&mut connection.session);
    connection.end_pusher();
    shared.watches.unwatch(&mut connection.session.watched);
    let charged = connection.charged + connection.growth.take();
    shared.clients.memory.release(&connection.session.client, charged);
    let buffers = &connection.session.client.buffers;
    Stats::add(&shared.stats.receives, Stats::get(&buffers.receives));
    Stats::add(&shared.stats.sends, Stats::get(&buffers.sends));
    shared.clients.remove(id);
    // A client that sees the end may reconnect at once.
    drop(place);
    link.end();
}

impl Connection<'_> {
    /// Performs the TLS handshake, if there is one. False when the connection is over.
    fn begin(&mut self) -> bool {
        if self.link.is_plain() {
            return true;
        }
        self.charge();
        let seconds = self.server.shared.hot.auth_seconds.load(Ordering::Relaxed);
        let end = self.began_nanos.saturating_add(seconds * SECOND_NANOS);
        let has_begun = self.link.begin(end).is_ok();
        self.charge();
        has_begun
    }

    fn run(&mut self) {
        let mut input = Input::new();
        let mut parser = Parser::new();
        loop {
            let shared = &self.server.shared;
            if !self.limit_waits(&input) {
                self.flush();
                return;
            }
            let is_open = input.receive(self.link, self.out.bytes(), &shared.stats.received);
            self.sent();
            Buffers::count(&self.session.client.buffers.receives);
            match is_open {
                None => return,
                Some(0) => continue,
                Some(_) => {}
            }
            self.input_bytes = input.bytes.len();
            self.note_buffers(&input);
            self.charge();
            self.replies_max =
                shared.hot.clients_bytes.load(Ordering::Relaxed).max(REPLY_BYTES_MIN);
            self.out.limit(self.replies_max);
            self.wait_for_room();
            if !self.carry_out(&mut input, &mut parser) || !self.flush_now_or_later() {
                return;
            }
            input.remove(parser.done_bytes());
            parser.removed();
            self.input_bytes = input.bytes.len();
            self.note_buffers(&input);
            self.charge();
        }
    }

    /// For CLIENT LIST.
    fn note_buffers(&self, input: &Input) {
        let input = (input.filled, input.bytes.len());
        self.session.client.buffers.note(input, (self.out.len(), self.out.held_bytes()));
    }

    /// Charges the client for the memory it uses now.
    fn charge(&mut self) {
        let out = if self.out.len() > REPLY_BYTES_FREE { self.out.len() } else { 0 };
        let bytes = self.input_bytes + out + self.session.bytes() + self.link.bytes();
        let bytes = bytes as u64;
        let (clients, client) = (&self.server.shared.clients, &self.session.client);
        self.charged += self.growth.take();
        if bytes > self.charged {
            clients.memory.add(client, bytes - self.charged);
            clients.enforce();
        } else if bytes < self.charged {
            clients.memory.release(client, self.charged - bytes);
        }
        self.charged = bytes;
    }

    /// Waits a while when clients exceed their memory limit: evicted clients release theirs when
    /// they run.
    fn wait_for_room(&self) {
        let clients = &self.server.shared.clients;
        for _ in 0..ROOM_LOOKS {
            if !clients.memory.is_over() || self.session.client.is_evicted() {
                return;
            }
            thread::sleep(ROOM);
        }
    }

    /// Starts the fiber that sends what is in the outbox, if there is one now.
    fn start_pusher(&mut self) {
        if self.pusher.is_some() {
            return;
        }
        let Some(outbox) = self.session.outbox.clone() else { return };
        let link = Arc::clone(self.link);
        link.socket().set_send_timeout(Some(SEND_NANOS));
        self.pusher = Some(spawn_here("push", move || push(&outbox, &link)));
    }

    /// Lets it send the rest, and end.
    fn end_pusher(&mut self) {
        if let Some(outbox) = &self.session.outbox {
            outbox.end();
        }
        if let Some(pusher) = self.pusher.take() {
            // A panic of the pusher would end this connection, which is ending already.
            pusher.join().ok();
        }
    }

    /// How long the next wait for the client may last; false when it has timed out.
    fn limit_waits(&mut self, input: &Input) -> bool {
        let hot = &self.server.shared.hot;
        let nanos = |seconds: &AtomicU64| seconds.load(Ordering::Relaxed) * SECOND_NANOS;
        self.request_nanos = match (input.filled, self.request_nanos) {
            (0, _) if !self.link.has_part() => None,
            (_, began) => Some(began.unwrap_or_else(time::now_nanos)),
        };
        let silence = match nanos(&hot.silence_seconds) {
            0 => None,
            // A subscriber is normally silent.
            _ if self.session.subscriptions() > 0 => None,
            nanos => Some(nanos),
        };
        let request = self.request_nanos.zip(Some(nanos(&hot.request_seconds)).filter(|n| *n > 0));
        let request = request.map(|(began, limit)| {
            let more = (input.filled / REQUEST_BYTES_PER_SECOND) as u64 * SECOND_NANOS;
            began.saturating_add(limit + more).saturating_sub(time::now_nanos())
        });
        let limit = [silence, request, self.auth_left()].into_iter().flatten().min();
        self.link.socket().set_receive_timeout(limit);
        limit != Some(0)
    }

    /// How much time the client has left to authenticate.
    fn auth_left(&self) -> Option<u64> {
        if self.session.is_authenticated {
            return None;
        }
        let seconds = self.server.shared.hot.auth_seconds.load(Ordering::Relaxed);
        let end = self.began_nanos.saturating_add(seconds * SECOND_NANOS);
        Some(end.saturating_sub(time::now_nanos()))
    }

    /// Executes every complete command. False when the connection is over.
    fn carry_out(&mut self, input: &mut Input, parser: &mut Parser) -> bool {
        let server = self.server;
        loop {
            let pause = server.on_worker(|| {
                let pause = self.carry_on(input, parser);
                self.make_durable();
                pause
            });
            match pause {
                Pause::Idle => return true,
                Pause::Broken => {
                    self.flush();
                    return false;
                }
                Pause::Flush => {
                    if !self.flush() {
                        return false;
                    }
                    maybe_yield();
                    self.wait_for_room();
                }
                Pause::Wait => {
                    let mut args = Vec::with_capacity(8);
                    parser.arguments(&input.bytes[..input.filled], &mut args);
                    if !self.wait(&args) {
                        return false;
                    }
                    self.done(parser);
                }
                Pause::Listen => self.start_pusher(),
            }
        }
    }

    /// Makes durable what the replies so far reveal, if that was promised.
    fn make_durable(&mut self) {
        let shared = &self.server.shared;
        if self.out.len() > self.ready
            && shared.hot.syncs_always.load(Ordering::Acquire)
            && let Err(failure) = shared.keyspace.sync_upto(self.upto)
        {
            // These replies would be false.
            self.out.clear();
            self.out.error(&error_text(&failure));
            self.session.closes = true;
        }
        self.ready = self.out.len();
    }

    /// Sends the replies to all received commands: small ones go with the next receive. False when
    /// the connection is over.
    fn flush_now_or_later(&mut self) -> bool {
        let is_usual = self.link.is_plain()
            && self.session.outbox.is_none()
            && !self.session.closes
            && self.out.len() <= REPLY_BYTES_FREE
            && self.out.len() == self.ready;
        if !is_usual {
            return self.flush() && !self.session.closes;
        }
        self.replies = 0;
        // Applies to the rest, if the client does not take everything at once.
        self.link.socket().set_send_timeout(Some(self.send_limit()));
        true
    }

    /// How long the client may take to read its replies, which either are small and fit into the
    /// socket buffer, or are charged. It may be shorter for one that has not authenticated.
    fn send_limit(&self) -> u64 {
        self.auth_left().unwrap_or(SEND_NANOS).clamp(1, SEND_NANOS)
    }

    /// The replies have left.
    fn sent(&mut self) {
        if !self.out.is_empty() {
            Stats::add(&self.server.shared.stats.sent, self.out.len() as u64);
            Buffers::count(&self.session.client.buffers.sends);
            self.out.clear();
        }
        self.ready = 0;
    }

    /// Makes what was written durable, if that was promised, and sends the replies. False when the
    /// connection is over.
    fn flush(&mut self) -> bool {
        self.replies = 0;
        if self.out.is_empty() {
            return true;
        }
        if self.out.len() > self.ready {
            let server = self.server;
            server.on_worker(|| self.make_durable());
        }
        let sent = match self.session.outbox.clone() {
            Some(outbox) => {
                outbox.put(self.out.bytes());
                true
            }
            None => {
                if self.out.len() > REPLY_BYTES_FREE {
                    self.charge();
                }
                // By its current state: this batch may be the one in which it authenticated.
                self.link.socket().set_send_timeout(Some(self.send_limit()));
                self.link.send_all(self.out.bytes()).is_ok()
            }
        };
        self.sent();
        sent
    }
}

/// Sends what is put into the outbox until the connection ends, or lets too much pile up.
fn push(outbox: &Outbox, link: &Link) {
    while outbox.wait() {
        let is_lost = outbox.overflowed.load(Ordering::Acquire);
        let bytes = outbox.take();
        if is_lost || link.send_all(&bytes).is_err() {
            // The other side may be gone already.
            link.socket().shutdown(Direction::Both).ok();
            return;
        }
        outbox.sent(bytes.len());
    }
}

#[cfg(test)]
mod tests;
