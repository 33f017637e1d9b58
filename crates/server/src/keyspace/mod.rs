//! The keyspace: Redis's databases, keys and data types over the engine. No sockets, no clock.
//!
//! | file | what |
//! |---|---|
//! | `encoding` | the bytes of keys and values, forever |
//! | `slot` | hash slots |
//! | `space` | giving space back while nobody writes |
//! | `database` | what is asked of the database in more than one call |
//! | `txn` | reads and writes of a command or a transaction, as one write batch |
//! | `undo` | what a refused command of a transaction was going to write |
//! | `writes` | the pending writes of a transaction |
//! | `walk` | ranges, as a transaction sees them |
//! | `databases` | the mapping of SELECT's numbers |
//! | `locks` | who may change a key |
//! | `chain` | the groups of writes of a loop, one after the other |
//! | `group` | writes of many commands as one batch |
//! | `counts` | how many keys there are |
//! | `expiry` | keys that have expired |
//! | `generations` | elements of collections that are gone, or were removed |
//! | `scan` | walks over all keys, in steps that a client holds a number for |
//! | `glob` | patterns |
//! | `sync` | making writes durable for many at once |
//!
//! Thread safety: a [`Keyspace`] is shared by all tasks. Calls suspend.

mod chain;
pub mod counts;
pub mod database;
pub mod databases;
pub mod encoding;
pub mod expiry;
pub mod generations;
pub mod glob;
mod group;
pub mod locks;
pub mod scan;
pub mod slot;
pub mod space;
mod sync;
pub mod txn;
mod undo;
pub mod walk;
mod writes;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pumice::{Db, Options, ReadOptions, WriteOptions};
use pumice_port::sync::Mutex;

use counts::{Changes, Counts, Tally};
use databases::{Databases, Map};
use encoding::{Head, Place, SYSTEM, place};
use expiry::{Due, ExpiredKeys, Filters};
use generations::Graves;
pub use group::{RUN_MAX, Run, Sets, Written};
use locks::KeyLocks;

/// Databases that keys can name.
pub const DATABASES_MAX: usize = 256;

const FORMAT: &[u8] = b"\xff\xffformat";
const FORMAT_TEXT: &[u8] = b"pumice-server 2";
/// Has no records in layout 1 and no marks of generations.
const FORMAT_TEXT_1: &[u8] = b"pumice-server 1";
const GENERATION: &[u8] = b"\xff\xffgeneration";
const COUNTS: &[u8] = b"\xff\xffcounts";
const DATABASES: &[u8] = b"\xff\xffdatabases";
/// Generations that are reserved at once.
const GENERATIONS: u64 = 1 << 20;

/// Why a command was not executed.
#[derive(Debug)]
pub enum Failure {
    /// For the client; the text begins with its code. It may quote bytes that are not UTF-8.
    Error(Cow<'static, [u8]>),
    /// The engine could not.
    Storage(pumice::Error),
}

impl Failure {
    /// The key holds another type.
    pub const WRONG_TYPE: Failure =
        Failure::text("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The command was malformed.
    pub const SYNTAX: Failure = Failure::text("ERR syntax error");
    /// It would take more memory than all clients may use.
    pub const TOO_LARGE: Failure =
        Failure::text("ERR the command needs more memory than 'maxmemory-clients' allows");
    /// An integer was needed.
    pub const NOT_AN_INTEGER: Failure =
        Failure::text("ERR value is not an integer or out of range");
    /// A number was needed.
    pub const NOT_A_FLOAT: Failure = Failure::text("ERR value is not a valid float");

    /// An error with that text.
    pub const fn text(text: &'static str) -> Failure {
        Failure::Error(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<pumice::Error> for Failure {
    fn from(error: pumice::Error) -> Failure {
        Failure::Storage(error)
    }
}

/// Result of what a command does.
pub type Outcome<T> = Result<T, Failure>;

/// See the module's head.
pub struct Keyspace {
    db: Db,
    /// Locks of keys; writers hold theirs.
    pub locks: KeyLocks,
    expired: Arc<ExpiredKeys>,
    due: Due,
    /// Range deletions that have been written.
    ranges_deleted: AtomicU64,
    /// Databases that were flushed.
    flushes: AtomicU64,
    graves: Arc<Graves>,
    /// The mapping of database numbers.
    databases: Databases,
    counts: Counts,
    generations: Mutex<Generations>,
    chains: chain::Chains,
    syncs: sync::Syncs,
    /// Places of walks under way.
    pub places: scan::Places,
    /// Bytes that a command may keep of what it reads, and write.
    room: AtomicUsize,
}

/// The next generation, and the first one that is not reserved.
struct Generations {
    next: u64,
    end: u64,
}

impl Keyspace {
    /// Opens or creates the keyspace in the directory `path`. `options` are the engine's; what the
    /// keyspace needs is added. Counts all keys if the last shutdown was not clean. Suspends.
    ///
    /// # Errors
    /// The engine's; a database that was not made by this server, or by a later one.
    pub fn open(mut options: Options, path: &std::path::Path) -> pumice::Result<Keyspace> {
        let (expired, graves) = (ExpiredKeys::new(), Arc::<Graves>::default());
        options.db.create_if_missing = true;
        let filters = Filters { expired: Arc::clone(&expired), graves: Arc::clone(&graves) };
        options.cf.compaction_filter_factory = Some(Arc::new(filters));
        let db = Db::open(&options, path)?;
        check_format(&db)?;
        graves.restore(&db)?;
        let bound = number_at(&db, GENERATION)?.unwrap_or(1);
        let databases = Databases::new(&map_of(&db, &ReadOptions::DEFAULT)?);
        let keyspace = Keyspace {
            databases,
            room: AtomicUsize::new(usize::MAX),
            counts: Counts::default(),
            generations: Mutex::new(Generations { next: bound, end: bound }),
            db,
            locks: KeyLocks::default(),
            expired,
            due: Due::default(),
            ranges_deleted: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            graves,
            chains: chain::Chains::default(),
            syncs: sync::Syncs::default(),
            places: scan::Places::default(),
        };
        keyspace.restore_counts()?;
        Ok(keyspace)
    }

    /// From now on a command may keep this many bytes of what it reads, and write this many.
    pub fn set_room(&self, bytes: usize) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// A number that changes when two databases are swapped; None during a swap.
    pub fn databases_version(&self) -> Option<u64> {
        self.databases.version()
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    fn restore_counts(&self) -> pumice::Result<()> {
        if let Some(saved) = self.db.get(COUNTS)? {
            let is_known = self.counts.restore(&saved);
            // The saved counts are valid only until the next write.
            self.db.delete(COUNTS)?;
            if is_known {
                if self.counts.has_expiring() {
                    self.due.forget();
                }
                return Ok(());
            }
        }
        let mut cursor = self.db.cursor()?;
        cursor.seek_to_first();
        while cursor.valid() {
            match place(cursor.key().unwrap_or_default()) {
                Place::Record(slot, db, _) => {
                    let expires = Head::read(cursor.value().unwrap_or_default())
                        .map_or(0, |head| head.expires);
                    self.due.note(slot, expires);
                    self.counts.add(db, Tally::key(expires));
                    cursor.next();
                }
                Place::Element(slot, db) => {
                    // The end after all elements of this slot and database.
                    let (_, end) = encoding::slot_range(slot, db);
                    cursor.seek(&end);
                }
                Place::Other => break,
            }
        }
        cursor.status()
    }

    /// Keys in a database, including expired ones that are not yet deleted.
    pub fn keys_in(&self, db: u8) -> Tally {
        self.counts.of(self.databases.stored(db))
    }

    /// A generation that no collection has had.
    fn new_generation(&self) -> Outcome<u64> {
        let mut generations = self.generations.lock();
        if generations.next == generations.end {
            let end = generations.end + GENERATIONS;
            self.db.put(GENERATION, end.to_be_bytes())?;
            generations.end = end;
        }
        generations.next += 1;
        Ok(generations.next - 1)
    }

    /// Makes reads of the records of these keys that follow at once, one by one, miss the CPU's
    /// caches less. Returns how many there are.
    pub fn warm<'a>(&self, db: u8, keys: impl Iterator<Item = &'a [u8]>) -> usize {
        let stored = self.databases.stored(db);
        let records: Vec<_> = keys.map(|key| encoding::record_key(stored, key)).collect();
        if records.len() > 1 {
            self.db.warm(&records);
        }
        records.len()
    }

    /// Grows as writes become readable. A batch is readable before its writer continues, so writers
    /// do not count it.
    pub fn writes(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    /// Everything that could be read before the call is durable when it returns; many callers
    /// share a sync. Suspends.
    ///
    /// # Errors
    /// The errors of the log's device.
    pub fn sync(&self) -> Outcome<()> {
        self.sync_upto(self.writes())
    }

    /// Everything is durable that could be read when [`Keyspace::writes`] was that number. Suspends
    /// unless it already is.
    ///
    /// # Errors
    /// The errors of the log's device.
    pub fn sync_upto(&self, number: u64) -> Outcome<()> {
        self.syncs.run(number, || self.writes(), || self.db.sync_wal())
    }

    /// A database is being flushed: there will be much to give back.
    pub fn flushing(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// A write is readable: what follows from it.
    fn written(&self, changes: &mut Changes) {
        self.counts.apply(changes);
        changes.expiries.drain(..).for_each(|(slot, expires)| self.due.note(slot, expires));
        self.graves.add(&mut changes.dead);
    }

    /// Saves what the next start need not recompute, makes everything durable and closes. A
    /// concurrent writer waits, and finds it closed. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> pumice::Result<()> {
        let all = self.locks.all();
        let durable = WriteOptions { sync: true, ..WriteOptions::default() };
        let saved = self.db.put_opt(&durable, COUNTS, self.counts.to_bytes());
        let closed = self.db.close();
        drop(all);
        closed.and(saved)
    }
}

fn number_at(db: &Db, key: &[u8]) -> pumice::Result<Option<u64>> {
    let value = db.get(key)?;
    let number = |bytes: &[u8]| {
        let bytes = bytes.try_into();
        bytes.map(u64::from_be_bytes).map_err(|_| pumice::Error::corruption("a number of 8 bytes"))
    };
    value.as_deref().map(number).transpose()
}

/// The mapping of database numbers, as seen through `reads`.
fn map_of(db: &Db, reads: &ReadOptions) -> pumice::Result<Map> {
    let bad = || pumice::Error::corruption("a map of databases");
    match db.get_opt(reads, DATABASES)? {
        Some(bytes) => databases::from_bytes(&bytes).ok_or_else(bad),
        None => Ok(databases::plain()),
    }
}

/// Marks a new database as ours; any other must be marked already.
fn check_format(db: &Db) -> pumice::Result<()> {
    match db.get(FORMAT)? {
        Some(text) if &*text == FORMAT_TEXT => return Ok(()),
        // From now on it has what earlier versions would not understand.
        Some(text) if &*text == FORMAT_TEXT_1 => {
            return db.put(FORMAT, FORMAT_TEXT);
        }
        Some(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            let message =
                format!("keyspace in the format '{text}', which this version cannot read");
            return Err(pumice::Error::not_supported(message));
        }
        None => {}
    }
    let mut cursor = db.cursor()?;
    cursor.seek_to_first();
    if cursor.valid() {
        let message = "this database was not made by pumice serve: give it a directory of its own";
        return Err(pumice::Error::invalid_argument(message));
    }
    cursor.status()?;
    db.put(FORMAT, FORMAT_TEXT)
}

/// Where the data ends and the system keys begin.
pub fn data_end() -> Vec<u8> {
    SYSTEM.to_vec()
}
