//! Makes the calls of a trace of queries again.
//!
//! Thread safety: one owner at a time; a replay with several threads has tasks of its own.
//! Everything may suspend.

use std::collections::BTreeMap;
use std::time::Duration;

use pumice_base::{Error, ErrorKind, Result};
use pumice_port::sync::Mutex;
use pumice_port::thread;
use pumice_port::time::now_micros;

use crate::commit::batch::WriteBatch;
use crate::commit::two_phase::unmarked;
use crate::db::api::Db;
use crate::db::store::Store;
use crate::options::requests::{ReadOptions, WriteOptions};
use crate::read::pinned::PinnedSlice;
use crate::trace::query::{Decoded, TraceQuery, TraceRecord, decode_since, read_header};
use crate::trace::{ReplayOptions, TraceReader};
use crate::version::family::ColumnFamily;

/// What a call of a trace gave.
///
/// Example: that of [`Replayer`].
#[derive(Debug)]
pub enum TraceResult {
    /// Of a write and of a seek: nothing else.
    Done,
    /// Of a point read.
    Value(Option<PinnedSlice>),
    /// Of several point reads as one.
    Values(Vec<Option<PinnedSlice>>),
}

/// What the caller of a replay is told of each call.
type Told<'a> = &'a (dyn Fn(&TraceRecord, &Result<TraceResult>) + Sync);

/// Makes the calls of a trace again.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{FileTraceReader, FileTraceWriter, TraceOptions};
/// use pumice::{Db, MemFs, ReplayOptions, TraceResult};
/// # let open = |fs: &std::sync::Arc<dyn pumice::FileSystem>, path| {
/// #     let fs = fs.clone();
/// #     let db = Db::builder(path).create(true);
/// #     db.configure(move |options| options.db.file_system = fs).open()
/// # };
/// let fs = MemFs::new(1).shared();
/// let db = open(&fs, "/first")?;
/// let writer = FileTraceWriter::create(&*fs, "/trace")?;
/// db.start_trace(&TraceOptions::default(), Box::new(writer))?;
/// db.put("key", "value")?;
/// db.get("key")?;
/// db.end_trace()?;
///
/// let again = open(&fs, "/second")?;
/// let trace = Box::new(FileTraceReader::open(fs, "/trace")?);
/// let families = [again.default_column_family().clone()];
/// let mut replayer = again.new_default_replayer(&families, trace)?;
/// replayer.prepare()?;
/// let write = replayer.next()?;
/// assert!(matches!(replayer.execute(&write)?, TraceResult::Done));
/// // The rest, a thousand times as fast.
/// replayer.replay(&ReplayOptions { fast_forward: 1e3, ..ReplayOptions::default() })?;
/// assert_eq!(again.get("key")?.as_deref(), Some(&b"value"[..]));
/// # db.close()?;
/// # again.close()
/// # }
/// ```
pub struct Replayer {
    calls: Calls,
    reader: Box<dyn TraceReader>,
    prepared: bool,
    at_end: bool,
    began_micros: u64,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer").field("db", &self.calls.db).finish_non_exhaustive()
    }
}

/// The database, and its families by id.
struct Calls {
    db: Db,
    families: BTreeMap<u32, ColumnFamily>,
}

fn at_end() -> Error {
    Error::incomplete("Trace end.")
}

impl Replayer {
    pub(crate) fn new(
        db: Db,
        families: &[ColumnFamily],
        reader: Box<dyn TraceReader>,
    ) -> Result<Self> {
        if families.is_empty() {
            return Err(Error::invalid_argument("Input column families is empty"));
        }
        families.iter().try_for_each(|family| db.data(family).map(drop))?;
        let families = families.iter().map(|family| (family.id(), family.clone())).collect();
        let calls = Calls { db, families };
        Ok(Replayer { calls, reader, prepared: false, at_end: false, began_micros: 0 })
    }

    /// Reads the header; the next call is the first.
    ///
    /// # Errors
    /// Corruption for what is no trace of queries, NotSupported for another version than 0.2;
    /// those of the reader.
    pub fn prepare(&mut self) -> Result<()> {
        self.reader.reset()?;
        self.began_micros = read_header(&mut *self.reader)?;
        (self.prepared, self.at_end) = (true, false);
        Ok(())
    }

    /// When the trace began: microseconds since 1970; 0 before [`Replayer::prepare`].
    pub fn header_timestamp(&self) -> u64 {
        self.began_micros
    }

    fn check_ready(&self) -> Result<()> {
        match (self.prepared, self.at_end) {
            (false, _) => Err(Error::incomplete("Not prepared!")),
            (true, true) => Err(at_end()),
            (true, false) => Ok(()),
        }
    }

    /// The next call.
    ///
    /// # Errors
    /// Incomplete before [`Replayer::prepare`] and at the end; Corruption; NotSupported for a
    /// record that is no call; those of the reader.
    #[expect(clippy::should_implement_trait, reason = "as RocksDB's; an error may not end it")]
    pub fn next(&mut self) -> Result<TraceRecord> {
        self.check_ready()?;
        match decode_since(self.began_micros, &self.reader.read()?)? {
            Decoded::Query(record) => Ok(record),
            Decoded::Other => Err(Error::not_supported("Unsupported trace type.")),
            Decoded::End => {
                self.at_end = true;
                Err(at_end())
            }
        }
    }

    /// Makes a call. The bounds of a seek are not used, as in RocksDB.
    ///
    /// # Errors
    /// Corruption for an id of no family of the replayer; those of the call.
    pub fn execute(&self, record: &TraceRecord) -> Result<TraceResult> {
        self.calls.make(&record.query)
    }

    /// Makes the calls that are left, each at its time or, if that is past, at once. Records that
    /// are no calls are left out. A trace that was not ended ends with its last whole record.
    ///
    /// # Errors
    /// InvalidArgument if `fast_forward` is not above 0; Incomplete before [`Replayer::prepare`]
    /// and after the end; the first error of a call, which ends the replay.
    pub fn replay(&mut self, options: &ReplayOptions) -> Result<()> {
        self.replay_with(options, &|_, _| ())
    }

    /// As [`Replayer::replay`]; `told` hears what each call gave, from the thread that made it.
    ///
    /// # Errors
    /// As [`Replayer::replay`].
    pub fn replay_with(
        &mut self,
        options: &ReplayOptions,
        told: &(dyn Fn(&TraceRecord, &Result<TraceResult>) + Sync),
    ) -> Result<()> {
        if options.fast_forward <= 0.0 || options.fast_forward.is_nan() {
            return Err(Error::invalid_argument("Wrong fast forward speed!"));
        }
        self.check_ready()?;
        let pace =
            Pace { started: now_micros(), began: self.began_micros, speed: options.fast_forward };
        let tasks = options.num_threads.clamp(1, 1024);
        let source = Mutex::new((&mut self.reader, Ok(())));
        let run = || run(&source, &self.calls, &pace, told);
        if tasks == 1 {
            run();
        } else {
            thread::scope(|scope| (0..tasks).for_each(|_| drop(scope.spawn(run))));
        }
        let (_, ended) = source.into_inner();
        match ended {
            Err(error) if error.kind() == ErrorKind::Incomplete => {
                self.at_end = true;
                Ok(())
            }
            ended => ended,
        }
    }
}

/// When calls are due.
struct Pace {
    /// Of the clock of tasks, in microseconds.
    started: u64,
    /// Of the trace.
    began: u64,
    speed: f64,
}

/// A waiting call looks this often whether the replay has failed.
const SLICE_MICROS: u64 = 100_000;

impl Pace {
    /// Waits for the time of a call; false if the replay has `failed` by then.
    fn wait(&self, record: &TraceRecord, failed: impl Fn() -> bool) -> bool {
        let after = record.micros.saturating_sub(self.began) as f64 / self.speed;
        #[expect(clippy::cast_possible_truncation, reason = "as casts of floats saturate")]
        let due = self.started.saturating_add(after as u64);
        while let Some(early @ 1..) = due.checked_sub(now_micros()) {
            if failed() {
                return false;
            }
            thread::sleep(Duration::from_micros(early.min(SLICE_MICROS)));
        }
        !failed()
    }
}

/// Makes calls, one after the other, until the trace ends or one fails, here or in another task.
fn run(
    source: &Mutex<(&mut Box<dyn TraceReader>, Result<()>)>,
    calls: &Calls,
    pace: &Pace,
    told: Told<'_>,
) {
    loop {
        let record = {
            let (reader, ended) = &mut *source.lock();
            if ended.is_err() {
                return;
            }
            let next = reader.read();
            let next = next.and_then(|bytes| decode_since(pace.began, &bytes).map_err(not_an_end));
            match next {
                Ok(Decoded::Query(record)) => record,
                Ok(Decoded::Other) => continue,
                Ok(Decoded::End) => {
                    *ended = Err(at_end());
                    return;
                }
                Err(error) => {
                    *ended = Err(error);
                    return;
                }
            }
        };
        let failed = || {
            let (_, ended) = &*source.lock();
            ended.as_ref().is_err_and(|error| error.kind() != ErrorKind::Incomplete)
        };
        if !pace.wait(&record, failed) {
            return;
        }
        let result = calls.make(&record.query);
        told(&record, &result);
        if let Err(error) = result {
            let (_, ended) = &mut *source.lock();
            let at_the_end = |kind| kind == ErrorKind::Incomplete;
            if ended.as_ref().map_or_else(|before| at_the_end(before.kind()), |()| true) {
                *ended = Err(not_an_end(error));
            }
            return;
        }
    }
}

/// An error of a call never passes for the end of the trace.
fn not_an_end(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Incomplete => Error::aborted(error.to_string()),
        _ => error,
    }
}

impl Calls {
    fn family(&self, id: u32) -> Result<&ColumnFamily> {
        self.families.get(&id).ok_or_else(|| Error::corruption("Invalid Column Family ID."))
    }

    fn make(&self, query: &TraceQuery) -> Result<TraceResult> {
        let read = ReadOptions::default();
        match query {
            TraceQuery::Write(rep) => {
                let mut batch = WriteBatch::from_data(&unmarked(rep)?)?;
                Store::write(&self.db, &WriteOptions::default(), &mut batch)?;
                Ok(TraceResult::Done)
            }
            TraceQuery::Get { family, key } => {
                let found = Store::get(&self.db, &read, self.family(*family)?, key)?;
                Ok(TraceResult::Value(found))
            }
            TraceQuery::Seek { family, key, for_prev, .. } => {
                let mut cursor = Store::cursor(&self.db, &read, self.family(*family)?)?;
                match for_prev {
                    true => cursor.seek_for_prev(key),
                    false => cursor.seek(key),
                }
                cursor.status()?;
                Ok(TraceResult::Done)
            }
            TraceQuery::MultiGet(keys) => {
                if keys.is_empty() {
                    return Err(Error::invalid_argument("Empty MultiGet cf_ids or keys."));
                }
                let key =
                    |(id, key): &'_ (u32, Vec<u8>)| Ok((self.family(*id)?.clone(), key.clone()));
                let keys: Vec<(ColumnFamily, Vec<u8>)> =
                    keys.iter().map(key).collect::<Result<_>>()?;
                let keys: Vec<_> = keys.iter().map(|(cf, key)| (cf, &key[..])).collect();
                let found = Store::multi_get(&self.db, &read, &keys).into_iter();
                Ok(TraceResult::Values(found.collect::<Result<_>>()?))
            }
        }
    }
}
