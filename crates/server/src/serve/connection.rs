//! A connection: receive, carry out all that has come, send all replies at once.
//!
//! Under `appendfsync always` what was written is durable before a reply leaves, whoever's write it
//! was that a reply speaks of. A client that sends without reading is not read from once its
//! replies are a mebibyte, until it has taken them.
//!
//! | who waits for the client | how long |
//! |---|---|
//! | for it to say who it is | `auth-timeout` since it connected |
//! | for the rest of a request | `request-timeout` since its first byte, a second for each 64 KiB |
//! | for the next request | `timeout` |
//! | for it to take replies | a minute without a byte |
//!
//! A panic of a command ends its connection and nothing else.
//!
//! Thread safety: belongs to its fiber. Suspends.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::fiber::{maybe_yield, spawn_here};
use pumice_port::net::{Direction, Stream};
use pumice_port::thread::JoinHandle;
use pumice_port::time;

use super::Server;
use super::executor::{error_text, execute};
use crate::protocol::{Limits, Parser, Reply};
use crate::session::Session;
use crate::session::clients::Peer;
use crate::session::pubsub::Outbox;
use crate::session::stats::Stats;

/// Bytes received at first, and at most at once.
const BUFFER_BYTES: usize = 1 << 10;
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// Replies are sent when there are so many bytes or so many of them.
const REPLY_BYTES: usize = 1 << 20;
const REPLIES: usize = 1024;
/// Memory that an idle connection keeps for what it will receive.
const BUFFER_BYTES_IDLE: usize = 8 << 10;
const SECOND_NANOS: u64 = 1_000_000_000;
/// Bytes that a request has to grow by in a second once its time is over.
const REQUEST_BYTES_PER_SECOND: usize = 64 << 10;
/// A client that does not take its replies may stay so long.
const SEND_NANOS: u64 = 60_000_000_000;

/// What has been received and not understood.
struct Input {
    bytes: Vec<u8>,
    filled: usize,
}

impl Input {
    /// Receives more; false at the end of the stream, by a failure or in silence.
    fn receive(&mut self, stream: &Stream, received: &AtomicU64) -> bool {
        if self.filled == self.bytes.len() {
            let more = self.bytes.len().clamp(BUFFER_BYTES, BUFFER_BYTES_MAX.max(self.filled / 2));
            self.bytes.resize(self.filled + more, 0);
        }
        match stream.receive(&mut self.bytes[self.filled..]) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.filled += n;
                Stats::add(received, n as u64);
                true
            }
        }
    }

    /// Forgets bytes at the front; large memory goes back when nothing is left.
    fn remove(&mut self, bytes: usize) {
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        if self.filled == 0 && self.bytes.len() > BUFFER_BYTES_IDLE {
            self.bytes = Vec::new();
        }
    }
}

struct Connection<'s> {
    server: &'s Server,
    stream: &'s Arc<Stream>,
    session: Session,
    out: Reply,
    /// The fiber that sends what is in the outbox.
    pusher: Option<JoinHandle<()>>,
    /// Commands carried out since replies last left.
    replies: usize,
    /// When it connected, and when the first byte of the request came that is not whole.
    began_nanos: u64,
    request_nanos: Option<u64>,
    /// Bytes that the client is charged for.
    charged: u64,
}

/// Serves the connection that has entered `server`, until it ends. Suspends.
pub fn serve(server: &Server, stream: &Arc<Stream>, peer: Peer) {
    serve_by(server, stream, peer, |connection| connection.run());
}

/// A connection's place, given up even if it panics.
struct Place<'s>(&'s Server);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// As [`serve`], by `run`; whatever happens in there, nothing of the connection is left behind.
fn serve_by(
    server: &Server,
    stream: &Arc<Stream>,
    peer: Peer,
    run: impl FnOnce(&mut Connection<'_>),
) {
    let place = Place(server);
    let shared = &server.shared;
    let client = shared.clients.add(peer, time::wall_micros() / 1000);
    let id = client.id;
    let mut connection = Connection {
        server,
        stream,
        session: Session::new(client, &shared.acl),
        out: Reply::new(),
        pusher: None,
        replies: 0,
        began_nanos: time::now_nanos(),
        request_nanos: None,
        charged: 0,
    };
    if server.is_ending.is_set() {
        // Whoever ended the others may have been before this one.
        connection.session.client.hang_up_gently();
    }
    if catch_unwind(AssertUnwindSafe(|| run(&mut connection))).is_err() {
        Stats::add(&shared.stats.panics, 1);
        connection.session.client.hang_up();
    }
    if shared.wants_end.load(Ordering::Acquire) {
        server.is_ending.set();
    }
    shared.unsubscribe_all(&mut connection.session);
    connection.end_pusher();
    shared.watches.unwatch(&mut connection.session.watched);
    shared.clients.memory.release(&connection.session.client, connection.charged);
    shared.clients.remove(id);
    // Whoever sees the end may connect again at once.
    drop(place);
    // The other side may have gone already.
    stream.shutdown(Direction::Both).ok();
}

impl Connection<'_> {
    fn run(&mut self) {
        let mut input = Input { bytes: Vec::new(), filled: 0 };
        let mut parser = Parser::new();
        loop {
            let shared = &self.server.shared;
            if !self.limit_waits(&input) || !input.receive(self.stream, &shared.stats.received) {
                return;
            }
            self.charge(input.bytes.len());
            self.out.limit(shared.hot.clients_bytes.load(Ordering::Relaxed));
            if !self.carry_out(&mut input, &mut parser) || !self.flush() || self.session.closes {
                return;
            }
            input.remove(parser.done_bytes());
            parser.removed();
            self.charge(input.bytes.len());
        }
    }

    /// Charges the client for what it keeps now, beside so many bytes of input.
    fn charge(&mut self, input_bytes: usize) {
        let bytes = (input_bytes + self.out.len() + self.session.bytes()) as u64;
        let (clients, client) = (&self.server.shared.clients, &self.session.client);
        if bytes > self.charged {
            clients.memory.add(client, bytes - self.charged);
            clients.enforce();
        } else if bytes < self.charged {
            clients.memory.release(client, self.charged - bytes);
        }
        self.charged = bytes;
    }

    /// Starts the fiber that sends what is in the outbox, if there is one now.
    fn start_pusher(&mut self) {
        if self.pusher.is_some() {
            return;
        }
        let Some(outbox) = self.session.outbox.clone() else { return };
        let stream = Arc::clone(self.stream);
        self.pusher = Some(spawn_here("push", move || push(&outbox, &stream)));
    }

    /// Lets it send what is left, and end.
    fn end_pusher(&mut self) {
        if let Some(outbox) = &self.session.outbox {
            outbox.end();
        }
        if let Some(pusher) = self.pusher.take() {
            // Its panic would be this connection's end, which has come.
            pusher.join().ok();
        }
    }

    /// How long the next wait for the client may last; false when its time is over.
    fn limit_waits(&mut self, input: &Input) -> bool {
        let hot = &self.server.shared.hot;
        let nanos = |seconds: &AtomicU64| seconds.load(Ordering::Relaxed) * SECOND_NANOS;
        let now = time::now_nanos();
        self.request_nanos = match (input.filled, self.request_nanos) {
            (0, _) => None,
            (_, began) => Some(began.unwrap_or(now)),
        };
        let silence = match nanos(&hot.silence_seconds) {
            0 => None,
            // Who listens is silent by nature.
            _ if self.session.subscriptions() > 0 => None,
            nanos => Some(nanos),
        };
        let left = |began: u64, limit: u64| began.saturating_add(limit).saturating_sub(now);
        let request = self.request_nanos.zip(Some(nanos(&hot.request_seconds)).filter(|n| *n > 0));
        let request = request.map(|(began, limit)| {
            let more = (input.filled / REQUEST_BYTES_PER_SECOND) as u64 * SECOND_NANOS;
            left(began, limit + more)
        });
        let auth = match self.session.is_authenticated {
            true => None,
            false => Some(left(self.began_nanos, nanos(&hot.auth_seconds))),
        };
        let limit = [silence, request, auth].into_iter().flatten().min();
        self.stream.set_receive_timeout(limit);
        self.stream.set_send_timeout(Some(auth.unwrap_or(SEND_NANOS).min(SEND_NANOS)));
        limit != Some(0)
    }

    /// Carries out every command that has come whole. False when the connection is over.
    fn carry_out(&mut self, input: &mut Input, parser: &mut Parser) -> bool {
        let shared = &self.server.shared;
        let bytes = &input.bytes[..input.filled];
        while !self.session.closes {
            let limits = match self.session.is_authenticated {
                true => Limits::open(shared.hot.bulk_bytes.load(Ordering::Relaxed)),
                false => Limits::BEFORE_AUTH,
            };
            match parser.parse(bytes, &limits) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    Stats::add(&shared.stats.errors, 1);
                    self.out.error(&format!("ERR Protocol error: {}", error.0));
                    self.flush();
                    return false;
                }
            }
            let mut args = Vec::with_capacity(8);
            parser.arguments(bytes, &mut args);
            let now = time::wall_micros() / 1000;
            // Replies before it go first: its own go another way.
            let listens = args[0].to_ascii_lowercase().ends_with(b"subscribe");
            if listens && !self.flush() {
                return false;
            }
            execute(shared, &mut self.session, &mut self.out, &args, now);
            if self.session.waiter.is_some() && !self.wait() {
                return false;
            }
            if listens {
                self.start_pusher();
            }
            parser.next();
            self.replies += 1;
            if self.replies >= REPLIES || self.out.len() >= REPLY_BYTES {
                if !self.flush() {
                    return false;
                }
                maybe_yield();
            }
        }
        true
    }

    /// Waits until the command that waits has its reply. False when the connection is over.
    fn wait(&mut self) -> bool {
        let Some(waiter) = self.session.waiter.take() else { return true };
        // What was said before leaves before.
        let mut is_over = !self.flush();
        let limit = waiter.limit_nanos.map(|nanos| time::now_nanos().saturating_add(nanos));
        let mut none = Reply::new();
        none.resp3 = waiter.resp3;
        none.null_array();
        let reply = loop {
            if let Some(reply) = waiter.reply() {
                break reply;
            }
            let left = limit.map(|limit| limit.saturating_sub(time::now_nanos()));
            let ended = match is_over {
                true => Ok(()),
                false => self.stream.wait_for_end(left, &waiter.token),
            };
            match ended {
                // Nobody is there to take an element.
                Ok(()) => {
                    is_over = true;
                    waiter.give_up(b"");
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    waiter.give_up(none.bytes());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => is_over = true,
            }
        };
        self.server.shared.waiters.remove(&waiter);
        *self.session.client.waiter.lock() = None;
        self.out.raw(&reply);
        !is_over
    }

    /// Makes what was written durable, if that was promised, and sends the replies. False when the
    /// connection is over.
    fn flush(&mut self) -> bool {
        self.replies = 0;
        if self.out.is_empty() {
            return true;
        }
        let shared = &self.server.shared;
        if shared.hot.syncs_always.load(Ordering::Acquire)
            && let Err(failure) = shared.keyspace.sync()
        {
            // None of these replies is true.
            self.out.clear();
            self.out.error(&error_text(&failure));
            self.session.closes = true;
        }
        let sent = match &self.session.outbox {
            Some(outbox) => {
                outbox.put(self.out.bytes());
                true
            }
            None => self.stream.send_all(self.out.bytes()).is_ok(),
        };
        Stats::add(&shared.stats.sent, self.out.len() as u64);
        self.out.clear();
        sent
    }
}

/// Sends what is put into the outbox until the connection ends, or leaves too much lying.
fn push(outbox: &Outbox, stream: &Stream) {
    while outbox.wait() {
        let is_lost = outbox.overflowed.load(Ordering::Acquire);
        let bytes = outbox.take();
        if is_lost || stream.send_all(&bytes).is_err() {
            // The other side may have gone already.
            stream.shutdown(Direction::Both).ok();
            return;
        }
        outbox.sent(bytes.len());
    }
}

#[cfg(test)]
mod tests;
