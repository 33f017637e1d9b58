//! The commands of a connection: which are executed when, and together.
//!
//! Thread safety: belongs to the connection's fiber, except while a worker has it. Suspends.

use std::io::{ErrorKind, Write};
use std::sync::atomic::Ordering;

use pumice_port::time;

use super::super::executor::{execute, fail, look_ahead};
use super::super::set_run::{SetRun, execute_sets};
use super::{Connection, Input, Pause, REPLIES, REPLY_BYTES};
use crate::protocol::{Limits, Parser, ProtocolError, Reply};
use crate::session::waiters::Waiter;

impl Connection<'_> {
    /// Executes commands until one needs the connection itself, or none is complete.
    pub(super) fn carry_on(&mut self, input: &Input, parser: &mut Parser) -> Pause {
        let shared = &self.server.shared;
        let bytes = &input.bytes[..input.filled];
        while !self.session.closes {
            if self.replies >= REPLIES || self.out.len() >= REPLY_BYTES.min(self.replies_max / 2) {
                return Pause::Flush;
            }
            let limits = match self.session.is_authenticated {
                true => Limits::open(shared.hot.bulk_bytes.load(Ordering::Relaxed)),
                false => Limits::BEFORE_AUTH,
            };
            let parsed = if self.is_parsed { Ok(true) } else { parser.parse(bytes, &limits) };
            match parsed {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return self.refuse(&error),
            }
            match self.carry_out_sets(bytes, parser, &limits) {
                None => {}
                Some(Ok(is_parsed)) => {
                    self.is_parsed = is_parsed;
                    continue;
                }
                Some(Err(error)) => return self.refuse(&error),
            }
            if !parser.is_all(bytes.len()) {
                look_ahead(shared, &mut self.session, &bytes[parser.done_bytes()..]);
            }
            let mut args = Vec::with_capacity(8);
            parser.arguments(bytes, &mut args);
            if is_of_a_browser(args[0]) {
                return self.hang_up_on_a_browser(now_seconds());
            }
            let now = time::wall_micros() / 1000;
            // Earlier replies go first: its own take another path.
            let listens = is_about_listening(args[0]);
            self.is_parsed = listens && !self.out.is_empty();
            if self.is_parsed {
                return Pause::Flush;
            }
            self.session.is_last = parser.is_all(bytes.len());
            self.execute(&args, now);
            if self.session.waiter.is_some() {
                return Pause::Wait;
            }
            self.done(parser);
            if listens {
                return Pause::Listen;
            }
        }
        Pause::Idle
    }

    /// A web page may make a browser send commands as the body of a request: from here on none of
    /// it is executed or answered. This is reported on standard error, at most once a minute.
    fn hang_up_on_a_browser(&mut self, seconds: u64) -> Pause {
        let (shared, client) = (&self.server.shared, &self.session.client);
        if shared.attacked(seconds) {
            let what = "it sent POST or Host: as browsers do, so a web page may be making one send \
                        commands to this server (cross-protocol scripting)";
            let address = &client.address;
            // Standard error may have no reader.
            writeln!(std::io::stderr(), "pumice: SECURITY ATTACK: {address} was cut off: {what}")
                .ok();
        }
        self.out.clear();
        Pause::Broken
    }

    /// Input that is not the protocol.
    fn refuse(&mut self, error: &ProtocolError) -> Pause {
        fail(
            &self.server.shared,
            &mut self.out,
            format!("ERR Protocol error: {}", error.0).as_bytes(),
        );
        Pause::Broken
    }

    fn execute(&mut self, args: &[&[u8]], now: u64) {
        let shared = &self.server.shared;
        execute(shared, &mut self.session, &mut self.out, args, now);
        self.upto = match self.session.written.take() {
            Some(written) => self.upto.max(written.upto),
            None => shared.keyspace.writes(),
        };
    }

    /// If the parsed command is a plain SET and not the last command, executes it and the plain
    /// SETs that follow it. Returns whether there is a next command, which is then parsed; None if
    /// nothing was executed.
    fn carry_out_sets(
        &mut self,
        bytes: &[u8],
        parser: &mut Parser,
        limits: &Limits,
    ) -> Option<Result<bool, ProtocolError>> {
        let mut run = SetRun::default();
        let is_one =
            !parser.is_all(bytes.len()) && SetRun::suits(&self.session) && run.take(bytes, parser);
        if !is_one {
            return None;
        }
        let next = loop {
            self.done(parser);
            let next = parser.parse(bytes, limits);
            if !matches!(next, Ok(true)) || !run.take(bytes, parser) {
                break next;
            }
        };
        let is_last = matches!(next, Ok(false));
        let (shared, sets, row) = (&self.server.shared, run.sets(bytes), run.row()?);
        let (mut rest, mut joins) = (&sets[..], is_last);
        while let [first, others @ ..] = rest {
            let now = time::wall_micros() / 1000;
            let (session, out) = (&mut self.session, &mut self.out);
            let count = execute_sets(shared, session, out, row, (rest, joins), now, &mut self.upto);
            // What a group has left out needs more than a group can do.
            joins = false;
            rest = &rest[count..];
            if count == 0 {
                self.session.is_last = is_last && others.is_empty();
                self.execute(first, now);
                rest = others;
            }
        }
        self.session.seen_ahead = 0;
        Some(next)
    }

    /// The parser's command was executed.
    pub(super) fn done(&mut self, parser: &mut Parser) {
        parser.next();
        // The next request gets a new timeout.
        self.request_nanos = None;
        self.replies += 1;
    }

    /// Waits until the blocked command has its reply. False when the connection is over.
    pub(super) fn wait(&mut self, args: &[&[u8]]) -> bool {
        // Earlier output is sent first.
        let mut is_over = !self.flush() || self.session.closes;
        let (shared, began) = (&self.server.shared, time::now_nanos());
        while let Some(waiter) = self.session.waiter.clone() {
            self.charge();
            let reply = self.wait_for(&waiter, began, &mut is_over);
            shared.waiters.remove(&waiter);
            self.session.waiter = None;
            *self.session.client.waiter.lock() = None;
            match reply {
                Some(reply) => self.out.raw(&reply),
                None => {
                    let now = time::wall_micros() / 1000;
                    let (session, out) = (&mut self.session, &mut self.out);
                    session.is_last = false;
                    self.server.on_worker(|| execute(shared, session, out, args, now));
                }
            }
        }
        self.upto = shared.keyspace.writes();
        if is_over {
            // It was served before it closed its side, and may still read.
            self.flush();
        }
        // A reply beyond a smaller limit cannot be sent.
        !is_over && !self.out.is_full()
    }

    /// The reply of one that has waited since `began`; None if its command must be executed again.
    fn wait_for(&self, waiter: &Waiter, began: u64, is_over: &mut bool) -> Option<Vec<u8>> {
        let limit = waiter.limit_nanos.map(|nanos| began.saturating_add(nanos));
        let mut none = Reply::new();
        none.resp3 = waiter.resp3;
        none.null_array();
        loop {
            if let Some(reply) = waiter.reply() {
                return Some(reply);
            }
            if waiter.is_again() && !*is_over {
                return None;
            }
            let left = limit.map(|limit| limit.saturating_sub(time::now_nanos()));
            let ended = match *is_over {
                true => Ok(()),
                false => self.link.socket().wait_for_end(left, &waiter.token),
            };
            match ended {
                // The client is not there to take an element.
                Ok(()) => {
                    *is_over = true;
                    waiter.give_up(b"");
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    waiter.give_up(none.bytes());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => *is_over = true,
            }
        }
    }
}

fn now_seconds() -> u64 {
    time::wall_micros() / 1_000_000
}

/// `command` is what a request to a web server begins with, or one of its lines.
fn is_of_a_browser(command: &[u8]) -> bool {
    [&b"post"[..], b"host:"].iter().any(|word| command.eq_ignore_ascii_case(word))
}

/// `command` is SUBSCRIBE or a relative.
fn is_about_listening(command: &[u8]) -> bool {
    const WORD: &[u8] = b"subscribe";
    let start = command.len().checked_sub(WORD.len());
    start.is_some_and(|start| command[start..].eq_ignore_ascii_case(WORD))
}
