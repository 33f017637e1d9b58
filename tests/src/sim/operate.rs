//! What an operator does to a database while others work on it: moves files between levels, changes
//! options, makes copies, pauses the background work, aborts compactions, verifies, and closes it
//! while others use it.
//!
//! A copy is judged like a read: it is one state that was there between the call and its end.
//!
//! Thread safety: as `Session`. Suspends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db, ErrorKind, ReadOptions, SubCode};
use pumice_base::random::Rng;
use pumice_env::FileSystem;
use pumice_port::thread;
use pumice_testkit::history::{ORDER_KEY, Stamp};

use super::session::{Session, Stop};
use super::side;
use super::verdict::{Count, Failure};
use super::world::trace;
use crate::stores::pumice::options;

/// One call of an operator.
///
/// # Errors
/// See [`Stop`].
pub fn once(session: &Session, rng: &mut Rng) -> Result<(), Stop> {
    session.tally.add(Count::Ops, 1);
    let cf = rng.uniform(session.plan.families as u64) as usize;
    // From a copy, so that these do not change what else is drawn.
    let mut rare = rng.clone().fork();
    match rare.uniform(6) {
        0 => session.promote(cf, &mut rare)?,
        1 => session.abort(&mut rare),
        _ => {}
    }
    match rng.uniform(24) {
        0..10 => session.change_level(cf, rng),
        10..13 => session.set_options(cf, rng),
        13..15 => session.set_db_options(rng),
        15..18 => session.copy(rng),
        18..20 => session.pause(rng),
        20 => Ok(session.db.verify_checksum()?),
        21..23 => side::come_and_go(session, rng),
        _ => session.close_under_others(),
    }
}

impl Session {
    /// Moves the files of a family to another level, often two or three times.
    fn change_level(&self, cf: usize, rng: &mut Rng) -> Result<(), Stop> {
        for _ in 0..1 + rng.uniform(3) {
            let rewrite = rng.one_in(3);
            let how = CompactRangeOptions {
                change_level: true,
                target_level: rng.uniform(8) as i32 - 1,
                exclusive_manual_compaction: rng.one_in(4),
                bottommost_level_compaction: match rewrite {
                    true => BottommostLevelCompaction::Force,
                    false => BottommostLevelCompaction::default(),
                },
                ..CompactRangeOptions::default()
            };
            let moved = self.db.compact_range_cf(&how, &self.families[cf], None, None);
            trace(format_args!(
                "family {cf}: to level {}: {:?}",
                how.target_level,
                moved.as_ref().err()
            ));
            match moved {
                Ok(()) => self.tally.add(Count::Moves, 1),
                Err(error) if may_refuse_move(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Moves level 0 down as it is, if that may be.
    fn promote(&self, cf: usize, rng: &mut Rng) -> Result<(), Stop> {
        let family = &self.families[cf];
        let files = self.db.property_int_cf(family, "rocksdb.num-files-at-level0").unwrap_or(0);
        let level = 1 + rng.uniform(3) as i32;
        let moved = self.db.promote_l0(family, level);
        trace(format_args!("family {cf}: {files} files to {level}: {:?}", moved.as_ref().err()));
        match moved {
            Ok(()) => self.tally.add(Count::Promoted, u64::from(files > 0)),
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// No compaction runs for a while.
    fn abort(&self, rng: &mut Rng) {
        self.db.abort_all_compactions();
        thread::sleep(Duration::from_micros(1 + rng.uniform(3000)));
        self.db.resume_all_compactions();
        self.tally.add(Count::Aborts, 1);
    }

    fn set_options(&self, cf: usize, rng: &mut Rng) -> Result<(), Stop> {
        let (name, values) = [
            ("write_buffer_size", ["65536", "100000"]),
            ("level0_file_num_compaction_trigger", ["2", "4"]),
            ("disable_auto_compactions", ["true", "false"]),
            ("target_file_size_base", ["2048", "65536"]),
            ("max_sequential_skip_in_iterations", ["0", "8"]),
            ("min_tombstones_for_range_conversion", ["1", "3"]),
        ][rng.uniform(6) as usize];
        let value = values[rng.uniform(2) as usize];
        Ok(self.db.set_options_cf(&self.families[cf], &[(name, value)])?)
    }

    fn set_db_options(&self, rng: &mut Rng) -> Result<(), Stop> {
        let (name, values) = [
            ("max_background_jobs", ["2", "6"]),
            ("max_total_wal_size", ["20000", "0"]),
            ("max_open_files", ["10", "-1"]),
        ][rng.uniform(3) as usize];
        Ok(self.db.set_db_options(&[(name, values[rng.uniform(2) as usize])])?)
    }

    fn pause(&self, rng: &mut Rng) -> Result<(), Stop> {
        self.db.pause_background_work();
        thread::sleep(Duration::from_micros(1 + rng.uniform(3000)));
        Ok(self.db.continue_background_work()?)
    }

    /// Closes while others are at work; they find out.
    fn close_under_others(&self) -> Result<(), Stop> {
        self.closes();
        let closed = self.db.close();
        trace(format_args!("closed by an operator: {:?}", closed.as_ref().err()));
        closed?;
        self.tally.add(Count::Closes, 1);
        Ok(())
    }

    /// Makes a checkpoint and judges it.
    fn copy(&self, rng: &mut Rng) -> Result<(), Stop> {
        let path = PathBuf::from(format!("/copy{}", rng.next_u64() >> 40));
        let begun = self.history.lock().now();
        let made = self.db.checkpoint(&path);
        trace(format_args!("checkpoint {path:?}: {:?}", made.as_ref().err()));
        made?;
        // What failed may be in the copy or not; then all that can be checked is that it opens.
        let judged = self.judge_copy(&path, begun);
        for name in self.fs.list(&path)? {
            self.fs.remove(&path.join(name))?;
        }
        judged
    }

    fn judge_copy(&self, path: &Path, begun: Stamp) -> Result<(), Stop> {
        // A checkpoint has its logs with it.
        let settings = self.plan.settings.clone().with("wal_dir", "");
        let (base, families) =
            options(&settings, self.fs.shared()).map_err(pumice_base::Error::invalid_argument)?;
        let (copy, handles) = Db::open_read_only(&base.db, path, &families, false)?;
        let reads = ReadOptions::default();
        let scan = |handle| super::reads::scan(&copy, handle, &reads, false);
        let found = handles.iter().map(scan).collect::<Result<Vec<_>, _>>()?;
        if self.had_faults() || self.is_dead() || !self.plan.one_line() {
            return Ok(());
        }
        let judge = || -> Result<(), Failure> {
            let mut history = self.history.lock();
            let ended = history.now();
            for (cf, entries) in found.iter().enumerate() {
                let order = &found[history.order_family(cf)];
                let order = order.iter().find(|(key, _)| key == ORDER_KEY);
                let order = order.map(|(_, value)| value.as_slice());
                let view = history.saw_order(cf, order, begun, ended)?;
                history.check_range(view, cf, (None, None), entries)?;
            }
            Ok(())
        };
        judge().map_err(|failure| failure.before("a checkpoint"))?;
        self.tally.add(Count::Copies, 1);
        Ok(())
    }
}

/// Errors that a move may return: other files are in its way, FIFO has one level, background work
/// is paused.
fn may_refuse_move(error: &pumice::Error) -> bool {
    let text = error.to_string();
    let has = |words: &str| text.contains(words);
    has("Levels between source and target are not empty")
        || has("Moving more than one file from non-L0 to L0")
        || has("FIFO compaction does not support change_level")
        || (has("Target level") && error.kind() == ErrorKind::InvalidArgument)
        || is_paused(error)
}

/// A manual compaction gave way to a pause, or was aborted with all others.
pub fn is_paused(error: &pumice::Error) -> bool {
    error.to_string().contains("Manual compaction paused")
        || error.subcode() == SubCode::CompactionAborted
}
