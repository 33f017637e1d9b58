//! A database that follows one of another process: reads what that process, the primary, has
//! written, and changes nothing of it. As a secondary it reads the primary's logs and tables where
//! they are. As a follower (`follower`) it reads no logs, and has the primary's tables in a
//! directory of its own (`own_files`).
//!
//! A catch-up reads what is new in the MANIFEST, then in the logs, and opens the new tables. All of
//! that stays invisible to readers at first: entries added to their memtables are above the
//! sequence number that they read at. If CURRENT and the MANIFEST have not changed since the start,
//! everything is consistent and is published at once; otherwise it continues from there. Without
//! logs everything is of the moment of the last edit that was read, whatever came since.
//!
//! Invariants: (1) readers see the primary's database at one moment, across column families; (2)
//! that moment never moves back; (3) a catch-up that fails changes nothing for readers; (4) readers
//! of a super version from before a catch-up do not read at a sequence number from after it, for
//! which that super version lacks tables and logs: the counter of ingested files tells them.
//!
//! When it loses its place (CURRENT names another MANIFEST, the primary reuses the
//! sequence numbers of refused writes, something is damaged), everything is read again, reusing the
//! open tables.
//!
//! Thread safety: `Life::following` is held through a catch-up; it comes before the state lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber};
use pumice_manifest::{FileMetaData, Version};
use pumice_memtable::MemTable;

use crate::commit::batch;
use crate::commit::predecessor::Predecessor;
use crate::commit::two_phase::PreparedSections;
use crate::engine::DbInner;
use crate::engine::found_files::{check_blob_file, check_length};
use crate::engine::own_files::OwnFiles;
use crate::engine::recovery::{Order, Replay};
use crate::log_tail::follow::{LogFollower, LogSink, TimestampSizes};
use crate::recovery::consistent_read::{Stamp, read_settled};
use crate::recovery::manifest_tail::ManifestTail;
use crate::recovery::version_recovery::{RecordedOrder, RecoveredVersions, Shape, check_found};
use crate::state::family::{CfState, ImmutableMemTable};
use crate::stats::listener::FlushReason;
use crate::version::charges::charge_metadata;
use crate::version::family::{CfData, new_memtable};

/// How the primary is followed. See the module head.
#[derive(Default)]
pub(crate) struct Following {
    /// None before the first catch-up, and after one that could not begin.
    place: Option<Place>,
    pub own: OwnFiles,
}

/// How far the primary has been followed.
struct Place {
    tail: ManifestTail,
    logs: LogFollower,
    order: Order,
    prepared: Prepared,
    min_log_to_keep: FileNumber,
    max_column_family: u32,
}

/// What the next publication shows to readers.
struct Prepared {
    families: BTreeMap<u32, Family>,
    /// The log whose records are in the memtables.
    log: FileNumber,
    last_sequence: SequenceNumber,
}

struct Family {
    data: Arc<CfData>,
    mem: Arc<MemTable>,
    /// Readers have `mem`: entries below the sequence number that they read at go into another
    /// memtable.
    shared: bool,
    next_mem_id: u64,
    /// Oldest first.
    imm: VecDeque<Sealed>,
    version: Arc<Version>,
    log_number: FileNumber,
}

/// The primary has deleted or changed something meanwhile; what was read stays valid.
fn is_behind(error: &Error) -> bool {
    error.is_not_found() || error.kind() == ErrorKind::TryAgain
}

/// A memtable that receives no more entries.
struct Sealed {
    mem: Arc<MemTable>,
    /// See `ImmutableMemTable`.
    next_log: FileNumber,
}

impl Family {
    fn of(state: &CfState) -> Self {
        // Tables come from elsewhere.
        state.mem.forget_dead_ranges();
        let mut family = Family {
            data: Arc::clone(&state.data),
            mem: Arc::clone(&state.mem),
            shared: true,
            next_mem_id: state.next.memtable,
            imm: VecDeque::new(),
            version: Arc::clone(&state.version),
            log_number: 0,
        };
        family.renew(0);
        family
    }

    /// A new memtable receives later entries, from sequence number `earliest` on.
    fn renew(&mut self, earliest: SequenceNumber) -> Arc<MemTable> {
        let (options, id) = (self.data.options(), self.next_mem_id);
        let fresh = new_memtable(&options, &self.data.icmp, id, earliest, None);
        fresh.forget_dead_ranges();
        self.next_mem_id += 1;
        self.shared = false;
        std::mem::replace(&mut self.mem, fresh)
    }

    /// Seals the memtable, which has records of `log`, if there is anything in it.
    fn seal(&mut self, log: FileNumber, earliest: SequenceNumber) {
        if self.mem.is_empty() {
            if self.shared {
                self.renew(earliest);
            }
            return;
        }
        let mem = self.renew(earliest);
        mem.mark_immutable();
        self.imm.push_back(Sealed { mem, next_log: log + 1 });
    }

    /// The primary's tables have the data of the logs below `log_number`; the memtable has records
    /// of `log`.
    fn flushed(&mut self, log_number: FileNumber, log: FileNumber) {
        self.log_number = self.log_number.max(log_number);
        while self.imm.front().is_some_and(|sealed| sealed.next_log <= self.log_number) {
            self.imm.pop_front();
        }
        if log < self.log_number && !self.mem.is_empty() {
            self.renew(self.mem.first_seq());
        }
    }

    /// Readers still have a different state.
    fn differs(&self, state: &CfState) -> bool {
        !Arc::ptr_eq(&self.mem, &state.mem)
            || !Arc::ptr_eq(&self.version, &state.version)
            || self.imm.len() != state.imm.len()
    }

    fn publish(&mut self, state: &mut CfState) {
        self.shared = true;
        state.mem = Arc::clone(&self.mem);
        state.next.memtable = self.next_mem_id;
        let sealed = |sealed: &Sealed| ImmutableMemTable {
            mem: Arc::clone(&sealed.mem),
            next_log: sealed.next_log,
            reason: FlushReason::Others,
        };
        state.imm = self.imm.iter().map(sealed).collect();
        state.version = Arc::clone(&self.version);
        state.log_number = self.log_number;
        state.publish();
    }
}

/// The first catch-up of a database that was just assembled.
///
/// # Errors
/// As [`catch_up`].
pub(crate) fn start(db: &DbInner) -> Result<()> {
    db.reports.info(format_args!("Opening the db in secondary mode"));
    if db.options().max_open_files != -1 {
        db.reports.info(format_args!(
            "max_open_files is not -1: tables that the primary deletes are errors where they are \
             read, until the next catch-up"
        ));
    }
    catch_up(db)
}

/// Reads what the primary has written by now, again while it changes its files. Suspends.
///
/// # Errors
/// NotSupported if this is no secondary; ShutdownInProgress; TryAgain if the primary changes its
/// files all the time; I/O; Corruption.
pub(crate) fn catch_up(db: &DbInner) -> Result<()> {
    caught_up(db, |following| {
        read_settled(&*db.dir.fs, db.dir.source(), |stamp| follow(db, following, stamp))
    })
}

/// As [`catch_up`], without trying again: files that the primary has deleted meanwhile are errors.
///
/// # Errors
/// As [`catch_up`]; NotFound.
pub(crate) fn try_once(db: &DbInner) -> Result<()> {
    caught_up(db, |following| follow(db, following, Stamp::of(&*db.dir.fs, db.dir.source())))
}

fn caught_up(db: &DbInner, read: impl FnOnce(&mut Following) -> Result<()>) -> Result<()> {
    db.life.check_caller()?;
    if !db.dir.secondary {
        return Err(Error::not_supported("Supported only by secondary instance"));
    }
    let mut following = db.life.following.lock();
    if db.life.closing.load(Ordering::Acquire) {
        return Err(Error::shutdown("the database is closing"));
    }
    let done = read(&mut following);
    drop(following);
    db.delete_obsolete_files();
    let last = db.last_sequence.load(Ordering::Acquire);
    done.inspect(|()| db.reports.info(format_args!("Last sequence is {last}")))
}

/// One attempt, which continues from the last one if possible.
fn follow(db: &DbInner, following: &mut Following, stamp: Stamp) -> Result<()> {
    let Following { place: slot, own } = following;
    let place = slot.take().filter(|place| place.tail.is_current(&*db.dir.fs, db.dir.source()));
    let mut is_new = place.is_none();
    let mut place = place.map_or_else(|| Place::begin(db), Ok)?;
    loop {
        match place.advance(db, own, stamp) {
            Err(error) if !is_behind(&error) && is_new => return Err(error),
            Err(error) if !is_behind(&error) => {
                db.reports.info(format_args!("reading everything again: {error}"));
                (place, is_new) = (Place::begin(db)?, true);
            }
            advanced => {
                *slot = Some(place);
                return advanced;
            }
        }
    }
}

impl Place {
    /// At the beginning of the current MANIFEST, with empty memtables.
    fn begin(db: &DbInner) -> Result<Self> {
        let (families, known) = {
            let state = db.state.lock();
            let files = state.cfs.values().flat_map(CfState::files);
            let known = files.map(|file| (file.number, Arc::downgrade(file))).collect();
            let families: BTreeMap<_, _> =
                state.cfs.iter().map(|(id, cf)| (*id, Family::of(cf))).collect();
            (families, known)
        };
        Ok(Place {
            tail: ManifestTail::open(&*db.dir.fs, db.dir.source(), known)?,
            logs: LogFollower::new(Arc::clone(&db.dir.fs), db.options().replay_mode()),
            order: Order::new(0, LAST_SEQUENCE_MAX),
            prepared: Prepared { families, log: 0, last_sequence: 0 },
            min_log_to_keep: 0,
            max_column_family: 0,
        })
    }

    /// Reads what is new and publishes it, if nothing has changed since `stamp` that logs depend
    /// on.
    fn advance(&mut self, db: &DbInner, own: &mut OwnFiles, stamp: Stamp) -> Result<()> {
        self.read_manifest(db)?;
        if let Some(leader) = &db.dir.leader {
            for family in self.prepared.families.values() {
                own.take(db, leader, &family.data, &family.version)?;
            }
            self.open_new_tables(db)?;
            return self.publish(db, own);
        }
        self.open_logs(db)?;
        self.read_logs(db)?;
        self.open_new_tables(db)?;
        stamp.check(&*db.dir.fs, &db.dir.path)?;
        self.publish(db, own)
    }

    /// Opens the tables that readers do not have yet: the primary may delete them once it no longer
    /// needs them. With a limit on open files only their lengths are checked.
    fn open_new_tables(&self, db: &DbInner) -> Result<()> {
        let keep_open = db.options().max_open_files < 0;
        for family in self.prepared.families.values() {
            let shown = Arc::clone(&family.data.super_version.load().version);
            if Arc::ptr_eq(&shown, &family.version) {
                continue;
            }
            let is_shown = |file: &Arc<FileMetaData>| {
                let found = shown.find_by_number(file.number);
                found.is_some_and(|(_, known)| Arc::ptr_eq(known, file))
            };
            for (level, file) in family.version.all_files() {
                if is_shown(file) && (!keep_open || file.table.is_full()) {
                    continue;
                }
                pumice_port::fiber::maybe_yield();
                match keep_open {
                    true => drop(family.data.tables().table_at(file, level)?),
                    false => check_length(&*db.dir.fs, &family.data.dirs, file)?,
                }
            }
            for (number, blob) in family.version.blob_files() {
                let known = shown.blob_files().get(number);
                let is_shown = known.is_some_and(|known| Arc::ptr_eq(&known.shared, &blob.shared));
                if is_shown && (!keep_open || blob.shared.open.is_full()) {
                    continue;
                }
                match keep_open {
                    true => drop(family.data.tables().blob_file(&blob.shared, family.data.id)?),
                    false => check_blob_file(&*db.dir.fs, &family.data.dirs, &blob.shared)?,
                }
            }
        }
        Ok(())
    }

    /// Makes everything that was prepared visible to readers, at once.
    fn publish(&mut self, db: &DbInner, own: &mut OwnFiles) -> Result<()> {
        let prepared = &mut self.prepared;
        let mut state = db.state.lock();
        let shown = db.last_sequence.load(Ordering::Acquire);
        if prepared.last_sequence < shown {
            return Err(Error::corruption(format!(
                "the primary is at sequence number {}: {shown} was read before",
                prepared.last_sequence
            )));
        }
        state.files.min_log_to_keep = self.min_log_to_keep;
        state.max_column_family = self.max_column_family;
        let gone: Vec<u32> =
            state.cfs.keys().copied().filter(|id| !prepared.families.contains_key(id)).collect();
        let mut before = Vec::new();
        for id in gone {
            if let Some(mut family) = state.cfs.remove(&id) {
                before.push((Arc::clone(&family.data), Arc::clone(&family.version)));
                family.mark_dropped();
                db.publish_families(&mut state);
            }
        }
        let mut changed = Vec::new();
        for (id, family) in &prepared.families {
            if let Some(cf) = state.cfs.get_mut(id).filter(|cf| family.differs(cf)) {
                // Before the sequence number: see invariant 4.
                cf.count_ingestion(0);
                before.push((Arc::clone(&cf.data), Arc::clone(&cf.version)));
                changed.push(*id);
            }
        }
        db.last_sequence.store(prepared.last_sequence, Ordering::Release);
        for id in changed {
            if let (Some(cf), Some(family)) =
                (state.cfs.get_mut(&id), prepared.families.get_mut(&id))
            {
                family.publish(cf);
                db.scheduler().refresh_scores(cf);
            }
        }
        own.give_up(&db.versions(), &mut state, &before);
        drop(state);
        Ok(())
    }

    fn read_manifest(&mut self, db: &DbInner) -> Result<()> {
        let families = &self.prepared.families;
        let spec = |id: u32, name: &str, _: Option<RecordedOrder<'_>>| {
            let opened = families.get(&id).filter(|family| family.data.name == name);
            Ok(opened.map(|family| Shape {
                comparator: family.data.comparator().clone(),
                stripped: family.data.table_keys.stripped,
                levels: family.data.options().num_levels as usize,
                may_overlap: false,
            }))
        };
        let versions = self.tail.read_on(&*db.dir.fs, &spec)?;
        if versions.db_id.as_ref().is_some_and(|id| *id != db.dir.db_id) {
            let text = format!("{}: there is another database now", db.dir.source().display());
            return Err(Error::corruption(text));
        }
        for (id, family) in &self.prepared.families {
            if let Some(found) = versions.families.get(id) {
                charge_metadata(&family.data.table_options(), &found.version)?;
            }
        }
        self.take(versions);
        Ok(())
    }

    fn take(&mut self, mut versions: RecoveredVersions) {
        let prepared = &mut self.prepared;
        let log = prepared.log;
        prepared.families.retain(|id, family| {
            // A family of that name may have been created since, with another id.
            let found = versions.families.remove(id);
            let Some(found) = found.filter(|found| found.name == family.data.name) else {
                return false;
            };
            family.version = found.version;
            family.flushed(found.log_number, log);
            true
        });
        prepared.last_sequence = prepared.last_sequence.max(versions.last_sequence);
        self.min_log_to_keep = versions.min_log_to_keep;
        self.max_column_family = versions.max_column_family;
        let oldest = self.oldest_log();
        self.logs.forget_before(oldest);
        self.order.forget_before(oldest, log);
    }

    /// The oldest log with data that is in no table.
    fn oldest_log(&self) -> FileNumber {
        let logs = self.prepared.families.values().map(|family| family.log_number);
        logs.min().unwrap_or(0).max(self.min_log_to_keep)
    }

    /// Also follows new logs.
    fn open_logs(&mut self, db: &DbInner) -> Result<()> {
        let (dir, oldest) = (db.logs.dir(), self.oldest_log());
        let newest = self.logs.newest().unwrap_or(0).max(self.prepared.log);
        let from = oldest.max(newest + 1);
        if newest == 0 {
            let kept = self.min_log_to_keep..oldest;
            self.order.sections = PreparedSections::find(&*db.dir.fs, &dir, kept)?;
        }
        let mut opened = Vec::new();
        for (number, path) in db.dir.logs_from(&dir, from)? {
            check_found(number, &path)?;
            let file = db.dir.fs.open_sequential(&path)?;
            opened.push((number, path, file));
        }
        let listed: Vec<_> = opened.iter().map(|(number, ..)| *number).collect();
        db.dir.check_no_log_between(&dir, from, &listed)?;
        for (number, path, file) in opened {
            db.reports.info(format_args!("Following log #{number}"));
            self.logs.add(number, path, file);
        }
        Ok(())
    }

    fn read_logs(&mut self, db: &DbInner) -> Result<()> {
        let mut replay = Replay::new(db, db.options().replay_mode(), self.order.clone());
        for (id, family) in &self.prepared.families {
            replay.mems.insert(*id, Arc::clone(&family.mem));
            replay.log_numbers.insert(*id, family.log_number);
        }
        let shown = db.last_sequence.load(Ordering::Acquire);
        let mut applying = Applying { replay, prepared: &mut self.prepared, shown };
        let read = self.logs.read_on(&mut applying);
        self.order = applying.replay.order;
        read?;
        let prepared = &mut self.prepared;
        let written = prepared.families.values().filter(|family| family.version.num_files() > 0);
        let families = written.map(|family| (family.log_number, family.data.name.as_str()));
        self.order.check_consistency(prepared.last_sequence, families)?;
        prepared.last_sequence = prepared.last_sequence.max(self.order.last);
        Ok(())
    }
}

/// Puts the records of the logs into the memtables.
struct Applying<'a> {
    replay: Replay<'a>,
    prepared: &'a mut Prepared,
    /// The sequence number that readers read at.
    shown: SequenceNumber,
}

impl Applying<'_> {
    fn seal(&mut self, earliest: SequenceNumber) {
        let log = self.prepared.log;
        for (id, family) in &mut self.prepared.families {
            family.seal(log, earliest);
            self.replay.mems.insert(*id, Arc::clone(&family.mem));
        }
    }
}

impl LogSink for Applying<'_> {
    fn record(
        &mut self,
        number: FileNumber,
        sizes: TimestampSizes<'_>,
        record: &[u8],
    ) -> Result<()> {
        self.replay.order.sections.set_timestamp_sizes(sizes);
        if let Some(predecessor) = Predecessor::parse(record) {
            return self.replay.check_predecessor(predecessor);
        }
        let first = match record.len() < batch::HEADER_LEN {
            true => LAST_SEQUENCE_MAX, // `record` says so.
            false => batch::sequence(record),
        };
        let shared = || self.prepared.families.values().any(|family| family.shared);
        if number != self.prepared.log || first <= self.shown && shared() {
            self.seal(first);
        }
        self.prepared.log = number;
        self.replay.record(number, record).map(drop)
    }

    fn complete(&mut self, number: FileNumber, end: u64, damaged: Option<Error>) -> Result<()> {
        self.replay.log_ends(number, end, damaged)
    }
}
