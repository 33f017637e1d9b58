//! Ingestion behind all other data (`ingest_behind`), into side families that reserve their last
//! level for it.
//!
//! A file holds new keys, which must be there once the call was acknowledged, and keys that the
//! family has or has durably deleted: none of those may ever show the file's value. Between the
//! two there are deletions, flushes and compactions, whose results must not end up where the file
//! will be, nor forget that something older may come.
//!
//! Thread safety: as `Session`. Suspends.

use std::path::PathBuf;

use pumice::{
    BottommostLevelCompaction, ColumnFamily, CompactRangeOptions, FlushOptions,
    IngestExternalFileOptions,
};
use pumice_base::random::Rng;
use pumice_testkit::Op;

use super::session::{Session, Stop};
use super::side;
use super::verdict::Count;
use super::world::trace;

impl Session {
    /// Works on a side family that no other task uses meanwhile, and ingests a file behind its
    /// data; creates a family if there is none.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn ingest_behind(&self, rng: &mut Rng) -> Result<(), Stop> {
        self.tally.add(Count::Ops, 1);
        if self.side_handles.lock().is_empty() {
            side::come_and_go(self, rng)?;
        }
        let taken = self.side_handles.lock().pop_first();
        let Some((name, family)) = taken else { return Ok(()) };
        let done = self.prepare_behind(&name, &family, rng);
        let done = done.and_then(|()| self.put_behind(&name, &family, rng));
        self.side_handles.lock().insert(name, family);
        done
    }

    /// Writes, deletes, flushes and compacts some.
    fn prepare_behind(&self, name: &str, family: &ColumnFamily, rng: &mut Rng) -> Result<(), Stop> {
        for _ in 0..rng.uniform(3) {
            let (key, value) = self.side.lock().issue(name);
            let options = self.write_options(rng.one_in(3));
            self.db.put_cf_opt(&options, family, &key, &value)?;
            self.side.lock().acknowledge(name, &key, options.sync);
        }
        let flush = || self.db.flush_cfs_opt(&FlushOptions::default(), &[family]);
        let deleted = if rng.one_in(2) { self.side.lock().delete(name) } else { None };
        if let Some(key) = deleted {
            if rng.one_in(2) {
                // A compaction brings the deletion together with what it deletes.
                flush()?;
            }
            self.db.delete_cf_opt(&self.write_options(true), family, &key)?;
            if !self.plan.logging.has_wal() {
                flush()?;
            }
            self.side.lock().deleted(name, &key);
        }
        if rng.one_in(2) {
            let all = CompactRangeOptions {
                bottommost_level_compaction: BottommostLevelCompaction::Force,
                ..CompactRangeOptions::default()
            };
            match self.db.compact_range_cf(&all, family, None, None) {
                Err(error) if !super::operate::is_paused(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn put_behind(&self, name: &str, family: &ColumnFamily, rng: &mut Rng) -> Result<(), Stop> {
        let begun = self.history.lock().now();
        let logged = self.plan.logging.has_wal();
        let new = 1 + rng.uniform(3) as usize;
        let (mut old, new) = self.side.lock().ingests_behind(name, new, logged);
        old.retain(|_| rng.one_in(2));
        old.sort();
        let mut ops: Vec<Op> = Vec::new();
        for key in old {
            ops.push(match rng.one_in(4) {
                true => Op::Delete { cf: 0, key },
                false => Op::Put { cf: 0, key, value: b"behind".to_vec() },
            });
        }
        let put = |(key, value): &(Vec<u8>, Vec<u8>)| Op::Put {
            cf: 0,
            key: key.clone(),
            value: value.clone(),
        };
        ops.extend(new.iter().map(put));
        let first = String::from_utf8_lossy(&new[0].0).into_owned();
        let path = self.make_side_file(name, &first, &ops)?;
        let how = IngestExternalFileOptions {
            ingest_behind: true,
            move_files: rng.one_in(2),
            ..IngestExternalFileOptions::default()
        };
        let done = self.db.ingest_external_file_cf(&how, family, &[&path]);
        trace(format_args!("{name}: ingested {ops:?} behind {:?}", done.as_ref().err()));
        match done {
            Ok(()) => {}
            // A file in front may have sequence number 0, or be in the last level itself.
            Err(error) if self.may_refuse(name, &error) => {
                self.side.lock().refused(name, &new);
                self.tally.add(Count::Refused, 1);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.side.lock().ingested(name, &new, logged);
        self.history.lock().wal_flushed(true, begun);
        self.tally.add(Count::Behind, 1);
        Ok(())
    }

    fn may_refuse(&self, name: &str, error: &pumice::Error) -> bool {
        let text = error.to_string();
        let reasons = ["there are files with 0 seqno", "it doesn't fit at the last level"];
        self.side.lock().has_front(name) && reasons.iter().any(|reason| text.contains(reason))
    }

    /// Makes a file for a side family; its path.
    pub(super) fn make_side_file(
        &self,
        name: &str,
        mark: &str,
        ops: &[Op],
    ) -> Result<PathBuf, Stop> {
        let options = self.outside_options()?;
        let path = PathBuf::from(format!("{}/{name}-{mark}.sst", super::external::OUTSIDE));
        self.write_file(&options, &path, ops)?;
        Ok(path)
    }
}
