//! Ingestion: a batch of the history comes as table files made outside, and the call that adds
//! them must be one step like any other write, durable when it is acknowledged.
//!
//! The batch's numbers for the order keys are merge operands in the files, so a reader of the order
//! knows the ingestion's position in it. Files go to one or several families; those of one family
//! may overlap (the later wins) and hold range deletions, which concern what is older than the file
//! alone.
//!
//! Thread safety: as `Session`. Suspends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pumice::{
    ColumnFamily, IngestExternalFileArg, IngestExternalFileOptions, Options, SstFileWriter,
};
use pumice_base::random::Rng;
use pumice_env::{FileOptions, FileSystem};
use pumice_testkit::history::BatchId;
use pumice_testkit::{Op, op};

use super::session::{Session, Stop};
use super::side;
use super::verdict::{Count, Failure, Kind};
use super::world::trace;
use crate::stores::pumice::options;

/// Where the files are made.
pub(super) const OUTSIDE: &str = "/ext";
/// Room for the new keys of one packer.
const FRESH_KEYS: u64 = 1000;
/// Files for one family in one call, at most.
const FILES_MAX: u64 = 3;
/// Simulated time between the two steps of an ingestion.
const STEP_PAUSE: Duration = Duration::from_millis(3);

/// The files for one family: operations of each in the order in which they take effect, range
/// deletions first, then one operation per key, by rising key.
#[derive(Clone, Debug)]
pub struct Parcel {
    cf: usize,
    files: Vec<Vec<Op>>,
}

/// Makes random parcels.
#[derive(Debug)]
pub struct Packer {
    rng: Rng,
    families: usize,
    keys: u64,
    key_prefix: String,
    value_bytes_max: u64,
    /// Stands in every value, so that no two are equal.
    mark: String,
    values: u64,
    /// No key from here on has been written.
    fresh: u64,
}

impl Packer {
    /// One whose choices follow from `rng`; `mark` distinguishes its values from those of others,
    /// `number` its new keys.
    pub fn new(session: &Session, rng: Rng, mark: &str, number: u64) -> Self {
        Packer {
            rng,
            families: session.plan.families,
            keys: session.plan.keys,
            key_prefix: session.plan.key_prefix.clone(),
            value_bytes_max: session.plan.value_bytes_max.min(200),
            mark: mark.to_string(),
            values: 0,
            fresh: session.plan.keys + FRESH_KEYS * number,
        }
    }

    /// Files for one or more families.
    fn parcels(&mut self) -> Vec<Parcel> {
        let mut families: Vec<usize> = (0..self.families).collect();
        let wanted = 1 + self.rng.skewed(2).min(self.families as u64 - 1) as usize;
        while families.len() > wanted {
            families.swap_remove(self.rng.uniform(families.len() as u64) as usize);
        }
        let parcel = |cf| {
            let count = 1 + if self.rng.one_in(3) { self.rng.uniform(FILES_MAX) } else { 0 };
            Parcel { cf, files: (0..count).map(|_| self.file(cf)).collect() }
        };
        families.into_iter().map(parcel).collect()
    }

    /// Operations on a random range of keys, or on keys that are new: nothing overlaps those.
    fn file(&mut self, cf: usize) -> Vec<Op> {
        let fresh = self.rng.one_in(2);
        let widest = if !fresh && self.rng.one_in(4) { self.keys } else { 6 };
        let span = 1 + self.rng.uniform(widest);
        let from = if fresh { self.fresh } else { self.rng.uniform(self.keys) };
        self.fresh += if fresh { span } else { 0 };
        let mut ops = Vec::new();
        if self.rng.one_in(4) {
            let begin = from + self.rng.uniform(span);
            let end = begin + 1 + self.rng.uniform(6);
            ops.push(Op::DeleteRange { cf, begin: self.key(begin), end: self.key(end) });
        }
        let mut keys: Vec<u64> = (from..from + span).filter(|_| self.rng.one_in(2)).collect();
        if ops.is_empty() && keys.is_empty() {
            keys.push(from);
        }
        for n in keys {
            let key = self.key(n);
            self.values += 1;
            let name = format!("{}{}", self.mark, self.values);
            ops.push(match self.rng.uniform(10) {
                0..7 => Op::Put { cf, key, value: self.value(&name) },
                7 => Op::Merge { cf, key, operand: name.into_bytes() },
                _ => Op::Delete { cf, key },
            });
        }
        ops
    }

    fn key(&self, n: u64) -> Vec<u8> {
        op::key(&self.key_prefix, n)
    }

    fn value(&mut self, name: &str) -> Vec<u8> {
        let mut value = format!("x{name}:").into_bytes();
        let bytes = self.rng.uniform(self.value_bytes_max + 1) as usize;
        value.resize(bytes.max(value.len()), b'x');
        value
    }

    fn how(&mut self) -> IngestExternalFileOptions {
        let transfer = self.rng.uniform(3);
        IngestExternalFileOptions {
            move_files: transfer == 1,
            link_files: transfer == 2,
            write_global_seqno: self.rng.one_in(6),
            verify_checksums_before_ingest: self.rng.one_in(4),
            fill_cache: transfer != 0,
            allow_blocking_flush: !self.rng.one_in(10),
            allow_global_seqno: !self.rng.one_in(20),
            fail_if_not_bottommost_level: self.rng.one_in(20),
            ..IngestExternalFileOptions::default()
        }
    }
}

/// Puts the merges of order keys into the parcels: into a family's last file, or one of their own.
fn add_orders(parcels: &mut Vec<Parcel>, orders: &[Op], rng: &mut Rng) {
    for order in orders {
        let cf = order.family();
        let at = match parcels.iter().position(|parcel| parcel.cf == cf) {
            Some(at) => at,
            None => {
                parcels.push(Parcel { cf, files: Vec::new() });
                parcels.len() - 1
            }
        };
        let files = &mut parcels[at].files;
        match files.last_mut().filter(|_| rng.one_in(4)) {
            Some(file) => file.push(order.clone()),
            None => files.push(vec![order.clone()]),
        }
    }
}

impl Session {
    /// Makes random files and ingests them in one call; its number when it was acknowledged, None
    /// when it was refused, as the options allow.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn ingest(&self, packer: &mut Packer) -> Result<Option<BatchId>, Stop> {
        self.tally.add(Count::Ops, 1);
        let mut parcels = packer.parcels();
        let how = packer.how();
        let ops: Vec<Op> = parcels.iter().flat_map(|p| p.files.iter().flatten().cloned()).collect();
        let count = ops.len();
        let (id, written) = self.history.lock().issue(ops);
        add_orders(&mut parcels, &written[count..], &mut packer.rng);
        let made = self.make_files(id, &parcels, &mut packer.rng);
        let made = made.inspect_err(|_| self.history.lock().refused(id))?;
        let args: Vec<IngestExternalFileArg> = made
            .iter()
            .map(|(cf, files)| IngestExternalFileArg::new(&self.families[*cf], files.clone(), &how))
            .collect();
        trace(format_args!("batch {id}: ingests {made:?}, {how:?}"));
        let in_steps = packer.rng.clone().fork().one_in(3);
        let done = match in_steps {
            true => self.ingest_in_steps(&args),
            false => self.db.ingest_external_files(&args),
        };
        trace(format_args!("batch {id}: ingested {:?}", done.as_ref().err()));
        match done {
            Ok(()) => self.history.lock().ingested(id),
            Err(error) if is_refusal(&error, &how) => {
                self.history.lock().refused(id);
                self.tally.add(Count::Refused, 1);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        self.tally.add(Count::Ingested, 1);
        self.check_old_names(&made, how.move_files)?;
        Ok(Some(id))
    }

    /// Other tasks write between the two steps.
    fn ingest_in_steps(&self, args: &[IngestExternalFileArg]) -> pumice::Result<()> {
        let staged = self.db.prepare_file_ingestion(args)?;
        pumice_port::thread::sleep(STEP_PAUSE);
        self.tally.add(Count::Staged, 1);
        self.db.commit_file_ingestion_handles(vec![staged])
    }

    /// Ingests new keys into a side family that no other task uses meanwhile; creates one if there
    /// is none. No order key is among them, so nothing has to be flushed; what was promised for
    /// earlier writes still holds.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn ingest_beside(&self, rng: &mut Rng) -> Result<(), Stop> {
        self.tally.add(Count::Ops, 1);
        if self.side_handles.lock().is_empty() {
            side::come_and_go(self, rng)?;
        }
        let taken = self.side_handles.lock().pop_first();
        let Some((name, family)) = taken else { return Ok(()) };
        let begun = self.history.lock().now();
        let count = 1 + rng.uniform(5);
        let entries: Vec<_> = (0..count).map(|_| self.side.lock().issue(&name)).collect();
        self.side.lock().ingests_in_front(&name);
        let done = self.ingest_entries(&name, &family, &entries);
        trace(format_args!("{name}: ingested {} keys {:?}", entries.len(), done.as_ref().err()));
        self.side_handles.lock().insert(name.clone(), family);
        done?;
        let logged = self.plan.logging.has_wal();
        self.side.lock().ingested(&name, &entries, logged);
        self.history.lock().wal_flushed(true, begun);
        self.tally.add(Count::Ingested, 1);
        Ok(())
    }

    fn ingest_entries(
        &self,
        name: &str,
        family: &ColumnFamily,
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), Stop> {
        let first = String::from_utf8_lossy(&entries[0].0).into_owned();
        let put = |(key, value): &(Vec<u8>, Vec<u8>)| Op::Put {
            cf: 0,
            key: key.clone(),
            value: value.clone(),
        };
        let ops: Vec<Op> = entries.iter().map(put).collect();
        let path = self.make_side_file(name, &first, &ops)?;
        self.db.ingest_external_file_cf(&IngestExternalFileOptions::default(), family, &[&path])?;
        Ok(())
    }

    /// Options for a file of a side family; the folder of such files is there then.
    pub(super) fn outside_options(&self) -> Result<Options, Stop> {
        let (base, _) = options(&self.plan.settings, self.fs.shared())
            .map_err(pumice_base::Error::invalid_argument)?;
        self.fs.create_dir_all(Path::new(OUTSIDE))?;
        Ok(base)
    }

    fn make_files(
        &self,
        id: BatchId,
        parcels: &[Parcel],
        rng: &mut Rng,
    ) -> Result<BTreeMap<usize, Vec<PathBuf>>, Stop> {
        let (base, families) = options(&self.plan.settings, self.fs.shared())
            .map_err(pumice_base::Error::invalid_argument)?;
        self.fs.create_dir_all(Path::new(OUTSIDE))?;
        let mut made = BTreeMap::new();
        for Parcel { cf, files } in parcels {
            let options = Options { db: base.db.clone(), cf: families[*cf].options.clone() };
            let mut paths = Vec::new();
            for (n, ops) in files.iter().enumerate() {
                let mut path = PathBuf::from(format!("{OUTSIDE}/{id}-{cf}-{n}.sst"));
                self.write_file(&options, &path, ops)?;
                if rng.one_in(3) {
                    path = self.copy_unsynced(&path)?;
                }
                paths.push(path);
            }
            made.insert(*cf, paths);
        }
        Ok(made)
    }

    pub(super) fn write_file(
        &self,
        options: &Options,
        path: &Path,
        ops: &[Op],
    ) -> Result<(), Stop> {
        let mut writer = SstFileWriter::new(options)?;
        writer.open(path)?;
        if writer.finish().is_ok() {
            let text = "a file without an entry was finished";
            return Err(Failure::new(Kind::Wrong, text).into());
        }
        for op in ops {
            match op {
                Op::Put { key, value, .. } => writer.put(key, value)?,
                Op::Merge { key, operand, .. } => writer.merge(key, operand)?,
                Op::Delete { key, .. } | Op::SingleDelete { key, .. } => writer.delete(key)?,
                Op::DeleteRange { begin, end, .. } => writer.delete_range(begin, end)?,
            }
        }
        writer.finish()?;
        Ok(())
    }

    /// A file as made by a caller that never thinks of power cuts.
    fn copy_unsynced(&self, path: &Path) -> Result<PathBuf, Stop> {
        let copy = path.with_extension("copy.sst");
        let bytes = self.fs.read_file(path)?;
        let mut file = self.fs.create(&copy, &FileOptions::default())?;
        file.append(&bytes)?;
        file.close()?;
        self.fs.remove(path)?;
        Ok(copy)
    }

    /// Checks that moved files are gone and others exist, and removes those.
    fn check_old_names(
        &self,
        made: &BTreeMap<usize, Vec<PathBuf>>,
        moved: bool,
    ) -> Result<(), Stop> {
        for path in made.values().flatten() {
            let there = self.fs.exists(path)?;
            // A name whose removal failed is one too many, no harm.
            if there == moved && !(there && (self.had_faults() || self.is_dead())) {
                let text = format!("{}: there is {there}, moved {moved}", path.display());
                return Err(Failure::new(Kind::Wrong, text).into());
            }
            if there {
                self.fs.remove(path)?;
            }
        }
        Ok(())
    }
}

/// Whether the call may fail so, and nothing has happened then.
fn is_refusal(error: &pumice::Error, how: &IngestExternalFileOptions) -> bool {
    let text = error.to_string();
    (!how.allow_blocking_flush && text.contains("External file requires flush"))
        || (!how.allow_global_seqno && text.contains("Global seqno is required, but disabled"))
        || (how.fail_if_not_bottommost_level && text.contains("Files cannot be ingested to Lmax"))
}
