//! Which answers and which recovered states a history of several writers allows.
//!
//! Every batch appends its number to an *order key* by a merge, so the database itself records the
//! order in which the batches took effect: reading that key gives k and the first k batches, and
//! everything read at the same moment must be P(k), the state after exactly these. The judge is
//! told when calls begin and end, and checks every answer for:
//!
//! 1. *wrong*: a read shows one P(k), with k between what was acknowledged when it began and what
//!    was issued when it ended; orders seen at different moments are prefixes of each other;
//! 2. *hole*: no batch is missing that was acknowledged before a batch that is there was issued;
//! 3. *torn*: a state is P(k) in every key of every column family;
//! 4. *lost*: after a crash everything exists that the write options promise to preserve, after a
//!    clean close everything acknowledged;
//! 5. what one recovery showed stays; what it did not show never reappears.
//!
//! With a WAL all column families share one *line* of P(k), whose order key is in one of them;
//! without a WAL each family has a line of its own. A batch that failed, or never got an answer,
//! may exist or not, but only as a whole. Times are counts of reported events, so no clock is
//! involved.
//!
//! Thread safety: none; callers share it under a lock and must report events in their true order.

mod line;

use crate::oracle::{Crash, Logging};
use crate::{Entry, Op};
use line::Line;

/// The key that lists the batches of its line, in the order they took effect.
pub const ORDER_KEY: &[u8] = b"order";

/// What kind of promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Something promised to survive is gone.
    Lost,
    /// An earlier batch is missing and a later one is there.
    Hole,
    /// A state that is no P(k).
    Torn,
    /// A read that shows the past, the future or a state that never existed.
    Wrong,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub breach: Breach,
    /// What was expected and found.
    pub text: String,
}

impl Broken {
    fn new(breach: Breach, text: impl Into<String>) -> Self {
        Broken { breach, text: text.into() }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.breach, self.text)
    }
}

/// A moment of the history.
pub type Stamp = u64;

/// The number of a batch; they are never used twice.
pub type BatchId = usize;

struct Batch {
    ops: Vec<Op>,
    issued: Stamp,
    acked: Option<Stamp>,
    /// The lines in which it survives the death of the process, and a power cut: one bit each.
    in_system: u64,
    durable: u64,
    /// The database reported that no part of it was applied.
    refused: bool,
}

/// All lines.
const EVERYWHERE: u64 = u64::MAX;

impl Batch {
    fn acked_before(&self, stamp: Stamp) -> bool {
        self.acked.is_some_and(|at| at < stamp)
    }
    fn touches_family(&self, cf: usize) -> bool {
        self.ops.iter().any(|op| op.family() == cf)
    }
}

/// The state that one read saw: P(`k`) of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    line: usize,
    k: usize,
}

/// A point read whose place in the order is not known yet.
struct PointRead {
    cf: usize,
    key: Vec<u8>,
    found: Option<Vec<u8>>,
    begun: Stamp,
    ended: Stamp,
}

/// See the module head.
pub struct History {
    logging: Logging,
    families: usize,
    clock: Stamp,
    batches: Vec<Batch>,
    /// Batches below are settled by the last recovery.
    settled: BatchId,
    lines: Vec<Line>,
    reads: Vec<PointRead>,
    crashed: Option<Crash>,
}

impl History {
    /// The history of an empty database; where families share an order, its key is in
    /// `order_family`.
    pub fn new(families: usize, logging: Logging, order_family: usize) -> Self {
        let lines = match logging {
            Logging::Off => (0..families).map(|cf| Line::new(cf, cf..cf + 1)).collect(),
            _ => vec![Line::new(order_family, 0..families)],
        };
        History {
            logging,
            families,
            clock: 0,
            batches: Vec::new(),
            settled: 0,
            lines,
            reads: Vec::new(),
            crashed: None,
        }
    }

    /// The current moment: a call begins or has ended.
    pub fn now(&mut self) -> Stamp {
        self.clock += 1;
        self.clock
    }

    fn line_of(&self, cf: usize) -> usize {
        if self.lines.len() == 1 { 0 } else { cf }
    }

    /// The family that has the order key for reads of `cf`.
    pub fn order_family(&self, cf: usize) -> usize {
        self.lines[self.line_of(cf)].order_family
    }

    /// A batch is about to be written: returns its number, and the writes that represent it.
    pub fn issue(&mut self, mut ops: Vec<Op>) -> (BatchId, Vec<Op>) {
        let id = self.batches.len();
        for line in &self.lines {
            if ops.iter().any(|op| line.covers(op.family())) {
                let operand = id.to_string().into_bytes();
                ops.push(Op::Merge { cf: line.order_family, key: ORDER_KEY.to_vec(), operand });
            }
        }
        let issued = self.now();
        let written = ops.clone();
        self.batches.push(Batch {
            ops,
            issued,
            acked: None,
            in_system: 0,
            durable: 0,
            refused: false,
        });
        (id, written)
    }

    /// The write of a batch returned Ok.
    pub fn acknowledge(&mut self, id: BatchId, sync: bool) {
        let now = self.now();
        self.batches[id].acked = Some(now);
        if self.logging == Logging::Wal || sync {
            self.batches[id].in_system = EVERYWHERE;
        }
        if sync {
            self.batches[id].durable = EVERYWHERE;
            self.promise(self.batches[id].issued, true, EVERYWHERE, |_| true);
        }
    }

    /// The files that hold a batch were ingested, all in one call. They are durable, and so is all
    /// that was acknowledged in their lines before the call: nothing may be missing before them.
    pub fn ingested(&mut self, id: BatchId) {
        let now = self.now();
        let batch = &mut self.batches[id];
        batch.acked = Some(now);
        batch.in_system = EVERYWHERE;
        batch.durable = EVERYWHERE;
        let (issued, families) = (batch.issued, self.families);
        let touched = (0..families).filter(|cf| self.batches[id].touches_family(*cf));
        let lines = touched.fold(0, |lines, cf| lines | 1 << self.line_of(cf));
        self.promise(issued, true, lines, |_| true);
    }

    /// The database refused a batch: no part of it may ever appear.
    pub fn refused(&mut self, id: BatchId) {
        self.batches[id].refused = true;
    }

    /// `flush_wal(sync)` or `sync_wal`, called at `begun`, returned Ok.
    pub fn wal_flushed(&mut self, sync: bool, begun: Stamp) {
        if self.logging.has_wal() {
            self.promise(begun, sync, EVERYWHERE, |_| true);
        }
    }

    /// A flush of a column family, called at `begun`, returned Ok. With `atomic_flush` it flushed
    /// all families.
    pub fn flushed(&mut self, cf: usize, begun: Stamp) {
        let line = 1 << self.line_of(cf);
        let all = self.logging == Logging::AtomicFlush;
        self.promise(begun, true, line, |batch| all || batch.touches_family(cf));
    }

    fn promise(&mut self, before: Stamp, sync: bool, lines: u64, which: impl Fn(&Batch) -> bool) {
        for batch in &mut self.batches[self.settled..] {
            if batch.acked_before(before) && which(batch) {
                batch.in_system |= lines;
                batch.durable |= if sync { lines } else { 0 };
            }
        }
    }

    /// The database crashed, or crashed again while it recovered.
    pub fn crash(&mut self, crash: Crash) {
        self.crashed = self.crashed.max(Some(crash));
    }

    /// A read of the order key for `cf` gave `found`. The state shown by it, and by everything read
    /// at the same moment, did not arise before `begun` and existed at `ended`.
    ///
    /// # Errors
    /// When there is no such state.
    pub fn saw_order(
        &mut self,
        cf: usize,
        found: Option<&[u8]>,
        begun: Stamp,
        ended: Stamp,
    ) -> Result<View, Broken> {
        let index = self.line_of(cf);
        let line = &mut self.lines[index];
        let k = line.follow(found, &self.batches, self.settled)?;
        line.check_moment(k, &self.batches, self.settled, (begun, ended), false)?;
        Ok(View { line: index, k })
    }

    /// A key read at `view`.
    ///
    /// # Errors
    /// When the view holds something else.
    pub fn check_get(
        &self,
        view: View,
        cf: usize,
        key: &[u8],
        found: Option<&[u8]>,
    ) -> Result<(), Broken> {
        let expected = self.lines[view.line].value(cf, key, view.k);
        if expected == found {
            return Ok(());
        }
        let text = format!(
            "get of {} in family {cf} at P({}): {} instead of {}\n{}",
            show(key),
            view.k,
            show_value(found),
            show_value(expected),
            self.story(view.line, cf, key)
        );
        Err(Broken::new(Breach::Torn, text))
    }

    /// All entries from `lower` up to `upper` (not included) read at `view`, in key order.
    ///
    /// # Errors
    /// When the view holds something else.
    pub fn check_range(
        &self,
        view: View,
        cf: usize,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        found: &[Entry],
    ) -> Result<(), Broken> {
        let line = &self.lines[view.line];
        let mut found = found.iter();
        for (key, value) in line.range(cf, bounds, view.k) {
            match found.next() {
                Some((k, v)) if k == key && v == value => {}
                Some((k, v)) if k == key => return self.check_get(view, cf, key, Some(v)),
                Some((k, v)) if k.as_slice() < key => return self.check_get(view, cf, k, Some(v)),
                _ => return self.check_get(view, cf, key, None),
            }
        }
        match found.next() {
            Some((key, value)) => {
                self.check_get(view, cf, key, Some(value))?;
                let text = format!("{} stands outside its bounds, or twice", show(key));
                Err(Broken::new(Breach::Wrong, text))
            }
            None => Ok(()),
        }
    }

    /// A point read at the newest state, which is judged when the order is known. It was called at
    /// `begun` and returned now.
    pub fn saw_value(&mut self, cf: usize, key: &[u8], found: Option<Vec<u8>>, begun: Stamp) {
        let ended = self.now();
        self.reads.push(PointRead { cf, key: key.to_vec(), found, begun, ended });
    }

    /// Judges what a recovery found, and continues from there. Without a crash before it, the
    /// database was closed and opened: no acknowledged write may be missing.
    ///
    /// # Errors
    /// Why no allowed state is like `found`.
    pub fn recovered(&mut self, found: &[Vec<Entry>]) -> Result<(), Broken> {
        let mut views = Vec::new();
        for (index, line) in self.lines.iter_mut().enumerate() {
            let order = found[line.order_family].iter().find(|(key, _)| key == ORDER_KEY);
            let order = order.map(|(_, value)| value.as_slice());
            let k = line.follow(order, &self.batches, self.settled)?;
            line.check_holes(k, &self.batches, self.settled)?;
            views.push(View { line: index, k });
        }
        for view in &views {
            self.check_promises(*view)?;
            for cf in self.lines[view.line].families() {
                self.check_range(*view, cf, (None, None), &found[cf])?;
            }
        }
        self.judge_point_reads()?;
        for (line, view) in self.lines.iter_mut().zip(&views) {
            line.settle(view.k);
        }
        self.settled = self.batches.len();
        self.crashed = None;
        Ok(())
    }

    /// A crash is being examined: its images must not change the judge's state.
    #[must_use]
    pub fn fork(&self) -> History {
        History {
            logging: self.logging,
            families: self.families,
            clock: self.clock,
            batches: self.batches.iter().map(Batch::copy).collect(),
            settled: self.settled,
            lines: self.lines.clone(),
            reads: Vec::new(),
            crashed: self.crashed,
        }
    }

    /// Column families judged.
    pub fn families(&self) -> usize {
        self.families
    }

    /// Batches that were acknowledged, ever.
    pub fn acknowledged(&self) -> u64 {
        self.batches.iter().filter(|batch| batch.acked.is_some()).count() as u64
    }

    fn check_promises(&self, view: View) -> Result<(), Broken> {
        let line = &self.lines[view.line];
        for (id, batch) in self.batches.iter().enumerate().skip(self.settled) {
            let promised = match self.crashed {
                None => batch.acked.is_some(),
                Some(Crash::Process) => batch.in_system & (1 << view.line) != 0,
                Some(Crash::Power) => batch.durable & (1 << view.line) != 0,
            };
            let here = batch.ops.iter().any(|op| line.covers(op.family()));
            if promised && here && !line.has(id, view.k) {
                let text = format!(
                    "batch {id} is gone ({:?}, {:?}; issued {}, acked {:?}, in system {:b}, \
                     durable {:b}); there are: {}",
                    self.logging,
                    self.crashed,
                    batch.issued,
                    batch.acked,
                    batch.in_system,
                    batch.durable,
                    line.tail(view.k)
                );
                return Err(Broken::new(Breach::Lost, text));
            }
        }
        Ok(())
    }

    /// Checks the point reads against the order that is known by now.
    fn judge_point_reads(&mut self) -> Result<(), Broken> {
        for read in std::mem::take(&mut self.reads) {
            let index = self.line_of(read.cf);
            let line = &self.lines[index];
            // A batch whose place was never observed, lost in the crash, may explain anything.
            let unplaced = |(id, batch): (usize, &Batch)| {
                !line.has(id, usize::MAX)
                    && !batch.refused
                    && batch.issued < read.ended
                    && batch.ops.iter().any(|op| op.family() == read.cf && op.touches(&read.key))
            };
            if self.batches.iter().enumerate().skip(self.settled).any(unplaced) {
                continue;
            }
            let (settled, moment) = (self.settled, (read.begun, read.ended));
            let allowed = line.values_between(&read.key, read.cf, |k| {
                line.check_moment(k, &self.batches, settled, moment, true).is_ok()
            });
            if !allowed.contains(&read.found.as_deref()) {
                let text = format!(
                    "get of {} in family {} between {} and {}: {}, which was not the value\n{}",
                    show(&read.key),
                    read.cf,
                    read.begun,
                    read.ended,
                    show_value(read.found.as_deref()),
                    self.story(index, read.cf, &read.key)
                );
                return Err(Broken::new(Breach::Wrong, text));
            }
        }
        Ok(())
    }

    /// What happened to a key, for messages.
    fn story(&self, line: usize, cf: usize, key: &[u8]) -> String {
        let mut lines = Vec::new();
        for (id, batch) in self.batches.iter().enumerate() {
            for op in batch.ops.iter().filter(|op| op.family() == cf && op.touches(key)) {
                let place = self.lines[line].place(id);
                let place = place.map_or("nowhere".into(), |p| format!("P({})", p + 1));
                let (issued, acked) = (batch.issued, batch.acked);
                lines.push(format!(
                    "  batch {id}, {place}, issued {issued}, acked {acked:?}: {}",
                    show_op(op)
                ));
            }
        }
        let from = lines.len().saturating_sub(8);
        lines[from..].join("\n")
    }
}

impl Batch {
    fn copy(&self) -> Batch {
        Batch { ops: self.ops.clone(), ..*self }
    }
}

fn show_op(op: &Op) -> String {
    match op {
        Op::Put { value, .. } => format!("put {}", show_value(Some(value))),
        Op::Merge { operand, .. } => format!("merge {}", show_value(Some(operand))),
        Op::Delete { .. } => "delete".into(),
        Op::SingleDelete { .. } => "single delete".into(),
        Op::DeleteRange { begin, end, .. } => format!("delete {} to {}", show(begin), show(end)),
    }
}

fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn show_value(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => {
            let cut = String::from_utf8_lossy(&value[..value.len().min(40)]);
            format!("{cut:?} ({} bytes)", value.len())
        }
    }
}

#[cfg(test)]
mod tests;
