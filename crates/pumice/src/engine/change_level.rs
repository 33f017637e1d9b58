//! `CompactRangeOptions::change_level` and `promote_l0`: all files of a level go to another one as
//! they are.
//!
//! The mover holds the compactions of its column family back and waits for those that run
//! (`promote_l0` refuses), so that none that was picked before the move ends after it. Which files
//! move where is then decided under the MANIFEST lock, under which ingestions choose their places
//! too. Other column families are not affected.
//!
//! Thread safety: from any thread; several movers of a column family run one after the other.
//! Suspends. Invariant: a file that is being compacted or reserved stays where it is.

use std::sync::Arc;
use std::time::Duration;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, ErrorKind, InternalKey, Result};
use pumice_manifest::{FileMetaData, VersionEdit};

use crate::compaction::plan::Hold;
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::family::CfState;
use crate::state::manifest_log::EditGroup;
use crate::version::family::CfData;

/// Waiters check again this often even if they are not woken.
const POLL: Duration = Duration::from_millis(200);

/// No compaction of a column family starts until it is dropped.
struct HeldBack<'a> {
    db: &'a DbInner,
    family: u32,
    hold: Hold,
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        let mut state = self.db.state.lock();
        if let Some(family) = state.cfs.get_mut(&self.family) {
            family.plan.unhold(&mut self.hold);
        }
        state.queue_compaction(self.family);
        self.db.scheduler().schedule_background(&mut state);
        self.db.changed.notify_all();
    }
}

impl DbInner {
    /// Moves the files of level `from` to `target`, or (negative) up, as long as the levels are
    /// empty and their target sizes hold the files.
    ///
    /// # Errors
    /// InvalidArgument, NotSupported or Aborted with RocksDB's texts if the files cannot go there;
    /// the background error; I/O errors of the MANIFEST.
    pub(crate) fn change_level(&self, cf: &CfData, from: usize, target: i32) -> Result<()> {
        if planted::is(Bug::StaleMove) {
            let edit = self.state.lock().cfs.get(&cf.id).map(|f| move_edit(f, from, target));
            let edit = edit.ok_or_else(|| dropped(cf))??;
            return self.install_move(|_| Ok(edit));
        }
        let held = self.hold_back(cf)?;
        let moved = loop {
            self.wait_uncompacted(cf)?;
            let moved = self.install_move(|state| {
                let family = state.cfs.get(&cf.id).ok_or_else(|| dropped(cf))?;
                let edit = move_edit(family, from, target)?;
                if edit.is_some() {
                    self.reports.info(format_args!("[{}] Moving files of level {from}", cf.name));
                }
                Ok(edit)
            });
            // An ingestion has started since, and has reserved its places.
            if !moved.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy) {
                break moved;
            }
        };
        if moved.is_err() && planted::is(Bug::FailedMoveHolds) {
            std::mem::forget(held);
        }
        moved
    }

    /// Moves the files of level 0 to `target`. Waits for other movers, and for no compaction.
    ///
    /// # Errors
    /// InvalidArgument with RocksDB's texts if the files cannot go there; the background error; I/O
    /// errors of the MANIFEST; Aborted in code that a job calls, which a mover may wait for.
    pub(crate) fn promote_l0(&self, cf: &CfData, target: i32) -> Result<()> {
        self.life.mark.check_may_wait()?;
        let _held = self.hold_back(cf)?;
        self.install_move(|state| {
            let family = state.cfs.get(&cf.id).ok_or_else(|| dropped(cf))?;
            let edit = promotion(family, target);
            match &edit {
                Ok(None) => {}
                Ok(_) => self.reports.info(format_args!("[{}] Promoting level 0", cf.name)),
                Err(error) => self.reports.info(format_args!("PromoteL0 FAILED. {error}")),
            }
            edit
        })
    }

    /// Holds new compactions of `cf` back, once no other call does.
    fn hold_back(&self, cf: &CfData) -> Result<HeldBack<'_>> {
        let mut state = self.state.lock();
        loop {
            self.life.check_alive(&state)?;
            let family = state.cfs.get_mut(&cf.id).ok_or_else(|| dropped(cf))?;
            if let Some(hold) = family.plan.hold() {
                return Ok(HeldBack { db: self, family: cf.id, hold });
            }
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Waits until nothing of `cf` is being compacted or reserved.
    fn wait_uncompacted(&self, cf: &CfData) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let family = state.cfs.get(&cf.id).ok_or_else(|| dropped(cf))?;
            if family.plan.running().is_empty() {
                return Ok(());
            }
            self.life.check_alive(&state)?;
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Applies the edit that `build` makes from the state. A refusal is not an error of the
    /// database.
    fn install_move(
        &self,
        build: impl FnOnce(&mut DbState) -> Result<Option<VersionEdit>>,
    ) -> Result<()> {
        let mut refused = None;
        let built = |state: &mut DbState| match build(state) {
            Ok(edit) => Ok(EditGroup::from(edit.into_iter().collect::<Vec<_>>())),
            Err(error) => {
                refused = Some(error);
                Ok(EditGroup::default())
            }
        };
        let moved = self.versions().change_versions(built, |_| ());
        moved.inspect_err(|error| self.faults().background_error(error, Reason::Compaction))?;
        refused.map_or(Ok(()), Err)
    }
}

#[cold]
fn dropped(cf: &CfData) -> Error {
    Error::column_family_dropped(cf.name.clone())
}

/// The edit that moves the files of `from`; None if there is nothing to move.
fn move_edit(family: &CfState, from: usize, target: i32) -> Result<Option<VersionEdit>> {
    let version = &family.version;
    let to = match usize::try_from(target) {
        Ok(target) => target,
        // The lowest level number such that everything between is empty and could hold the files.
        Err(_) => {
            let bytes = version.level_bytes(from);
            let fits = |level: &usize| {
                version.level(*level).is_empty() && family.plan.target_bytes(*level) >= bytes
            };
            (1..from).rev().take_while(fits).last().unwrap_or(from)
        }
    };
    if to >= version.num_levels() {
        return Err(Error::invalid_argument("Target level exceeds number of levels"));
    }
    if to + 1 == version.num_levels() && family.data.options().cf_allow_ingest_behind {
        return Err(Error::invalid_argument("Target level is reserved for ingestion behind"));
    }
    let source = version.level(from);
    if to == from || source.is_empty() {
        return Ok(None);
    }
    let mut between = if to < from { to..from } else { from + 1..to + 1 };
    if between.any(|level| !version.level(level).is_empty()) {
        return Err(Error::not_supported(
            "Levels between source and target are not empty for a move.",
        ));
    }
    if to == 0 && source.len() > 1 {
        return Err(Error::aborted("Moving more than one file from non-L0 to L0 is not supported"));
    }
    if !family.plan.running().is_empty() && !planted::is(Bug::StaleMove) {
        return Err(Error::busy("the tree is being compacted"));
    }
    let mut edit = VersionEdit { column_family: family.data.id, ..VersionEdit::default() };
    for file in source.files() {
        edit.deleted_files.push((from, file.number));
        edit.new_files.push((to, Arc::clone(file)));
    }
    Ok(Some(edit))
}

/// The edit that moves the files of level 0 to `target`; None if there are none.
fn promotion(family: &CfState, target: i32) -> Result<Option<VersionEdit>> {
    let version = &family.version;
    let refused = |text: &str| Err(Error::invalid_argument(text));
    let to = match usize::try_from(target) {
        Ok(to) if to > 0 => to,
        _ => return refused("Invalid target level"),
    };
    if to >= version.num_levels() {
        return refused("Target level does not exist");
    }
    if !family.plan.running().is_empty() {
        return refused("PromoteL0 called during L0 compaction");
    }
    let order = version.comparator();
    let end = |file: &FileMetaData, other: &FileMetaData| {
        order.compare(InternalKey::new(&file.largest), InternalKey::new(&other.largest))
    };
    let mut files: Vec<_> = version.files(0).to_vec();
    files.sort_by(|a, b| end(a, b));
    let overlap = |pair: &[Arc<FileMetaData>]| {
        let (largest, smallest) = (&pair[0].largest, &pair[1].smallest);
        order.compare(InternalKey::new(largest), InternalKey::new(smallest)).is_ge()
    };
    if files.windows(2).any(overlap) {
        return refused("L0 has overlapping files");
    }
    if (1..=to).any(|level| !version.level(level).is_empty()) {
        return refused("All levels up to target_level must be empty");
    }
    if files.is_empty() {
        return Ok(None);
    }
    let mut edit = VersionEdit { column_family: family.data.id, ..VersionEdit::default() };
    for file in files {
        edit.deleted_files.push((0, file.number));
        edit.new_files.push((to, file));
    }
    Ok(Some(edit))
}
