//! The interface under which engines are compared: Pumice, RocksDB, and the model.
//!
//! Errors are texts: a suite only prints them. Snapshots and cursors are named by numbers that the
//! caller chooses; a store keeps them until they are released.

use crate::{Entry, Op};

/// A move of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key at or after.
    Seek(Vec<u8>),
    /// To the last key at or before.
    SeekForPrev(Vec<u8>),
    /// Forward; only while the cursor is on a key.
    Next,
    /// Backward; only while the cursor is on a key.
    Prev,
}

/// What a cursor walks over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorSpec {
    /// Column family, counted from 0.
    pub cf: usize,
    /// The snapshot to read at; None is the state when the cursor is opened.
    pub snapshot: Option<u64>,
    /// Keys below are excluded.
    pub lower: Option<Vec<u8>>,
    /// Keys from here on are excluded.
    pub upper: Option<Vec<u8>>,
}

/// A database as the suites see it.
pub trait Store {
    /// Applies `batch` as one.
    fn write(&mut self, batch: &[Op]) -> Result<(), String>;
    /// Reads a key now or at a snapshot.
    fn get(
        &mut self,
        cf: usize,
        key: &[u8],
        snapshot: Option<u64>,
    ) -> Result<Option<Vec<u8>>, String>;
    /// Reads several keys from one state.
    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String>;
    /// Keeps the current state readable under `name`.
    fn snapshot(&mut self, name: u64) -> Result<(), String>;
    /// Releases the snapshot `name`.
    fn release(&mut self, name: u64);
    /// Opens a cursor under `name`.
    fn open_cursor(&mut self, name: u64, spec: &CursorSpec) -> Result<(), String>;
    /// Moves the cursor `name`; None when it is then not on a key.
    fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String>;
    /// Closes the cursor `name`.
    fn close_cursor(&mut self, name: u64);
    /// Flushes a column family and waits.
    fn flush(&mut self, cf: usize) -> Result<(), String>;
    /// Compacts a key range of a column family and waits; None is unbounded.
    fn compact(
        &mut self,
        cf: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), String>;
    /// Closes and opens the database. Snapshots and cursors were released before.
    fn reopen(&mut self) -> Result<(), String>;
}

/// Everything in a column family, walked forward, or backward and then reversed.
pub fn scan(store: &mut dyn Store, cf: usize, backward: bool) -> Result<Vec<Entry>, String> {
    const NAME: u64 = u64::MAX;
    store.open_cursor(NAME, &CursorSpec { cf, ..CursorSpec::default() })?;
    let (start, onward) =
        if backward { (Step::Last, Step::Prev) } else { (Step::First, Step::Next) };
    let mut found = Vec::new();
    let mut at = store.step(NAME, &start)?;
    while let Some(entry) = at {
        found.push(entry);
        at = store.step(NAME, &onward)?;
    }
    store.close_cursor(NAME);
    if backward {
        found.reverse();
    }
    Ok(found)
}
