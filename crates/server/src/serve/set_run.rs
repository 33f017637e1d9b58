//! Plain SETs, executed as runs: those that follow each other in a pipeline, or a single one.
//!
//! Which command has a plain form, and how many words it has then, the table of commands says
//! ([`Row::plain_words`]). One batch, and so one log record, for all of them instead of one for
//! each. Clients see the same as with single SETs without other commands in between: the batch
//! becomes readable as a whole. Replies, events and statistics are those of single ones.
//!
//! Runs of several are only for a client that may do everything and is in no transaction. What the
//! keyspace leaves out of a run (an old value that needs more work, a long string) the command's
//! own handler does.
//!
//! Invariants:
//! 1. No lock of a key is waited for while another is held.
//! 2. The commands are carried out in order: those that are executed together are the first ones.
//!
//! Thread safety: belongs to the connection's task. Suspends.

use std::ops::Range;
use std::sync::atomic::Ordering;

use pumice_port::time;

use super::executor::{error_text, fail, note_if_slow, notify_group};
use crate::commands::{self, Row};
use crate::keyspace::locks::Held;
use crate::keyspace::txn::Event;
use crate::keyspace::{Failure, Outcome, RUN_MAX, Sets};
use crate::protocol::{Parser, Reply};
use crate::session::stats::Stats;
use crate::session::{Session, Shared};

/// Bytes of SETs that are executed together, at most.
const BYTES_MAX: usize = 256 << 10;

/// A plain SET as received.
pub type Set<'i> = [&'i [u8]; WORDS];

/// Words of a command in a run.
const WORDS: usize = 3;

/// The positions of such commands in the input.
#[derive(Default)]
pub struct SetRun {
    /// The command of all of them.
    row: Option<&'static Row>,
    sets: Vec<[Range<usize>; WORDS]>,
    bytes: usize,
}

impl SetRun {
    /// The client's SETs may be executed together.
    pub fn suits(session: &Session) -> bool {
        session.is_authenticated
            && session.user().is_unlimited()
            && session.multi.is_none()
            && session.subscriptions() == 0
    }

    /// Adds the command that `parser` found, if it is a plain SET and there is room.
    pub fn take(&mut self, input: &[u8], parser: &Parser) -> bool {
        let Some([name, key, value]) = parser.ranges() else { return false };
        let bytes = key.len() + value.len();
        let fits = self.sets.len() < RUN_MAX && self.bytes + bytes <= BYTES_MAX;
        if !fits || !self.is_of(&input[name.clone()]) {
            return false;
        }
        self.sets.push([name.clone(), key.clone(), value.clone()]);
        self.bytes += bytes;
        true
    }

    /// Whether the command of that name is the run's; the first one decides which that is.
    fn is_of(&mut self, name: &[u8]) -> bool {
        match self.row {
            Some(row) => name.eq_ignore_ascii_case(row.name.as_bytes()),
            None => {
                self.row = commands::find(name).filter(|row| row.plain_words == WORDS);
                self.row.is_some()
            }
        }
    }

    /// The command of all of them. None only if there are none.
    pub fn row(&self) -> Option<&'static Row> {
        self.row
    }

    /// The commands.
    pub fn sets<'i>(&self, input: &'i [u8]) -> Vec<Set<'i>> {
        let set =
            |ranges: &[Range<usize>; WORDS]| ranges.each_ref().map(|range| &input[range.clone()]);
        self.sets.iter().map(set).collect()
    }
}

/// Executes the first of `sets`, all of the command `row`, as many as possible together, and
/// returns how many; 0 if the first has to be executed alone. `is_last`: nothing follows them.
/// `upto` becomes what must be durable before their replies are sent. Suspends.
pub fn execute_sets(
    shared: &Shared,
    session: &mut Session,
    out: &mut Reply,
    row: &Row,
    (sets, is_last): (&[Set<'_>], bool),
    now: u64,
    upto: &mut u64,
) -> usize {
    let began = time::now_micros();
    let keyspace = &shared.keyspace;
    let pairs: Vec<_> = sets.iter().map(|[_, key, value]| (*key, *value)).collect();
    let short = pairs.iter().take_while(|pair| keyspace.is_short(pair)).count();
    let claim = |group| keyspace.locks.free_ones(pairs[..short].iter().map(|(key, _)| *key), group);
    let (mut held, mut free) = claim(is_last.then(|| keyspace.living_groups()).flatten());
    let joins = is_last && free == sets.len();
    if !joins && held.needs_group() {
        drop(held);
        (held, free) = claim(None);
    }
    // Under the lock no client can begin to wait for a key.
    let is_awaited = |(key, _): &(&[u8], &[u8])| shared.waiters.any_for(key);
    if (free < 2 && !joins) || pairs[..free].iter().any(is_awaited) {
        return 0;
    }
    let durable = shared.hot.syncs_always.load(Ordering::Acquire);
    let together = joins.then_some(durable);
    let notify = |events: &[_], sets: Sets<'_>| notify_group(shared, events, sets);
    let run = keyspace.set_run((session.db, now), &pairs[..free], held, together, notify);
    let done = &sets[..run.count];
    Stats::add(&shared.stats.commands, done.len() as u64);
    session.client.active_millis.store(now, Ordering::Relaxed);
    *session.client.command.lock() = row.full_name;
    let ended = match run.written {
        Ok(written) => {
            *upto = (*upto).max(written.upto);
            done.iter().for_each(|_| out.ok());
            written.micros
        }
        Err(error) => {
            let text = error_text(&Failure::Storage(error)).into_owned();
            for _ in done {
                shared.calls.failed(row.id);
                fail(shared, out, &text);
            }
            time::now_micros()
        }
    };
    let each = ended.saturating_sub(began) / done.len().max(1) as u64;
    shared.calls.called(row.id, each, done.len() as u64);
    done.iter().for_each(|set| note_if_slow(shared, session, row, set, (each, now)));
    run.count
}

/// Executes one of them as a run of its own. False when the old value needs more work; then only
/// its lock, in `held`, may have been released. Suspends.
///
/// # Errors
/// The engine's; the reply is too large.
pub fn execute_one(
    shared: &Shared,
    session: &mut Session,
    out: &mut Reply,
    pair: (&[u8], &[u8]),
    now: u64,
    held: &mut Option<Held<'_>>,
) -> Outcome<bool> {
    out.ok();
    if out.is_full() {
        return Err(Failure::TOO_LARGE);
    }
    let fits = |held: &mut Held<'_>| held.is_one() && shared.keyspace.is_short(&pair);
    let Some(held) = held.take_if(fits) else { return Ok(false) };
    let together = session.is_last.then(|| shared.hot.syncs_always.load(Ordering::Acquire));
    let notify = |events: &[Event], sets: Sets<'_>| notify_group(shared, events, sets);
    let run = shared.keyspace.set_run((session.db, now), &[pair], held, together, notify);
    session.written = if run.count > 0 { Some(run.written?) } else { None };
    Ok(session.written.is_some())
}
