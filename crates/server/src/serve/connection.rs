//! A connection: receive, carry out all that has come, send all replies at once.
//!
//! Under `appendfsync always` what was written is durable before a reply leaves, whoever's write it
//! was that a reply speaks of. A client that sends without reading is not read from once its
//! replies are a mebibyte, until it has taken them.
//!
//! Thread safety: belongs to its fiber. Suspends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_port::fiber::{maybe_yield, spawn_here};
use pumice_port::net::{Direction, Stream};
use pumice_port::thread::JoinHandle;
use pumice_port::time;

use super::Server;
use super::executor::execute;
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
/// A client that does not say who it is may stay so long.
const AUTH_NANOS: u64 = 10_000_000_000;
/// A client that does not take its replies may stay so long.
const SEND_NANOS: u64 = 60_000_000_000;

/// What has been received and not understood.
struct Input {
    bytes: Vec<u8>,
    filled: usize,
}

impl Input {
    /// Receives more; false at the end of the stream, by a failure or in silence.
    fn receive(&mut self, stream: &Stream) -> bool {
        if self.filled == self.bytes.len() {
            let more = self.bytes.len().clamp(BUFFER_BYTES, BUFFER_BYTES_MAX.max(self.filled / 2));
            self.bytes.resize(self.filled + more, 0);
        }
        match stream.receive(&mut self.bytes[self.filled..]) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.filled += n;
                true
            }
        }
    }

    /// Forgets bytes at the front; large memory goes back when nothing is left.
    fn remove(&mut self, bytes: usize) {
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        if self.filled == 0 && self.bytes.len() > 64 << 10 {
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
}

/// Serves a connection until it ends. Suspends.
pub fn serve(server: &Server, stream: &Arc<Stream>, peer: Peer) {
    let shared = &server.shared;
    let needs_auth = !shared.config.get("requirepass").is_empty();
    let client = shared.clients.add(peer, time::wall_micros() / 1000);
    let id = client.id;
    let session = Session::new(client, !needs_auth);
    let out = Reply::new();
    let mut connection = Connection { server, stream, session, out, pusher: None, replies: 0 };
    connection.run();
    if shared.wants_end.load(Ordering::Acquire) {
        server.is_ending.set();
    }
    shared.unsubscribe_all(&mut connection.session);
    connection.end_pusher();
    shared.watches.unwatch(&mut connection.session.watched);
    shared.clients.remove(id);
    // The other side may have gone already.
    stream.shutdown(Direction::Both).ok();
}

impl Connection<'_> {
    fn run(&mut self) {
        let mut input = Input { bytes: Vec::new(), filled: 0 };
        let mut parser = Parser::new();
        self.stream.set_send_timeout(Some(SEND_NANOS));
        loop {
            self.limit_silence();
            if !input.receive(self.stream) {
                return;
            }
            if !self.carry_out(&mut input, &mut parser) || !self.flush() || self.session.closes {
                return;
            }
            input.remove(parser.done_bytes());
            parser.removed();
        }
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

    /// How long the client may be silent.
    fn limit_silence(&self) {
        let seconds = self.server.silence_seconds.load(Ordering::Relaxed);
        let nanos = match (self.session.is_authenticated, seconds) {
            (false, _) => Some(AUTH_NANOS),
            // Who listens is silent by nature.
            (true, _) if self.session.subscriptions() > 0 => None,
            (true, 0) => None,
            (true, seconds) => Some(seconds.saturating_mul(1_000_000_000)),
        };
        self.stream.set_receive_timeout(nanos);
    }

    /// Carries out every command that has come whole. False when the connection is over.
    fn carry_out(&mut self, input: &mut Input, parser: &mut Parser) -> bool {
        let shared = &self.server.shared;
        let bytes = &input.bytes[..input.filled];
        while !self.session.closes {
            let limits = match self.session.is_authenticated {
                true => &Limits::OPEN,
                false => &Limits::BEFORE_AUTH,
            };
            match parser.parse(bytes, limits) {
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

    /// Makes what was written durable, if that was promised, and sends the replies. False when the
    /// connection is over.
    fn flush(&mut self) -> bool {
        self.replies = 0;
        if self.out.is_empty() {
            return true;
        }
        let shared = &self.server.shared;
        if self.server.syncs_always.load(Ordering::Relaxed)
            && let Err(failure) = shared.keyspace.sync()
        {
            // None of these replies is true.
            self.out.clear();
            self.out.error(&format!("MISCONF Errors writing to the AOF file: {failure:?}"));
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
        if is_lost || stream.send_all(&outbox.take()).is_err() {
            // The other side may have gone already.
            stream.shutdown(Direction::Both).ok();
            return;
        }
    }
}
