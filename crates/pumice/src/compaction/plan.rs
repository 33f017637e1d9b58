//! What a column family knows about its need for compaction.
//!
//! Kept next to the version under the state lock, and recomputed when the version, the options or
//! the set of running compactions changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use pumice_base::{Error, Result, SequenceNumber};
use pumice_compress::CompressionType;
use pumice_manifest::{
    BlobGarbageRule, CompressionChoice, FileMarks, LevelScores, LevelTargets, LeveledOptions,
    MarkRules, Offpeak, Preclusion, UserRange, Version,
};

use crate::compaction::picker::{
    self, CompactionPick, FifoMerges, FifoRules, FilesRequest, InputLevel, ManualPick, ManualRange,
    PickContext, PriorityCache, Reach, Registered, RunningCompactions, UniversalRules, Young,
};
use crate::options::{ColumnFamilyOptions, CompactionStyle, StopStyle};

/// The rules by which files are picked.
enum Rules {
    Leveled,
    Fifo(FifoRules),
    Universal(UniversalRules),
}

/// Seconds without a flush after which range tombstones are compacted down to the data that they
/// hide, to give its space back.
pub(crate) const RECLAIM_SECONDS: u64 = 20;

/// Proof that its owner holds the compactions of a family back, see [`CompactionPlan::hold`]. It is
/// given back by `&mut` because a guard does that in `drop`.
#[must_use = "compactions start only after it is given back"]
pub(crate) struct Hold(());

/// See the module head.
pub(crate) struct CompactionPlan {
    options: LeveledOptions,
    rules: Rules,
    /// Without the fields that are filled in for each pick.
    mark_rules: MarkRules,
    targets: LevelTargets,
    scores: LevelScores,
    marks: FileMarks,
    /// Numbers of files that the user suggested, see [`Self::suggest`].
    suggested: BTreeSet<u64>,
    running: RunningCompactions,
    /// No compaction starts, see [`Self::hold`].
    held: bool,
    cache: PriorityCache,
}

impl CompactionPlan {
    /// The plan of a column family at `version`.
    pub fn new(version: &Version, options: &ColumnFamilyOptions, freed_below: u64) -> Self {
        let shape = shape(options);
        let mut plan = CompactionPlan {
            targets: LevelTargets::compute(version, &shape),
            options: shape,
            rules: rules(options),
            mark_rules: mark_rules(options, Offpeak::default()),
            scores: LevelScores::default(),
            marks: FileMarks::default(),
            suggested: BTreeSet::new(),
            running: RunningCompactions::default(),
            held: false,
            cache: PriorityCache::default(),
        };
        plan.rescore(version, freed_below);
        plan
    }

    /// Takes over changed options or a new version.
    pub fn refresh(
        &mut self,
        version: &Version,
        options: &ColumnFamilyOptions,
        offpeak: Offpeak,
        freed_below: u64,
    ) {
        self.options = shape(options);
        self.rules = rules(options);
        self.mark_rules = mark_rules(options, offpeak);
        self.targets = LevelTargets::compute(version, &self.options);
        self.rescore(version, freed_below);
    }

    fn rescore(&mut self, version: &Version, freed_below: u64) {
        let now = pumice_port::time::wall_seconds();
        let mark_rules = MarkRules { oldest_snapshot: freed_below, now, ..self.mark_rules };
        let running = &self.running;
        (self.scores, self.marks) = match &self.rules {
            Rules::Fifo(fifo) => (fifo.scores(version, running, now), FileMarks::default()),
            Rules::Universal(universal) => (
                universal.scores(version, running),
                FileMarks::compute(version, &MarkRules { reclaim_seconds: None, ..mark_rules })
                    .without_levels(),
            ),
            Rules::Leveled => (
                LevelScores::compute(version, &self.targets, &self.options, running.files()),
                FileMarks::compute(version, &mark_rules),
            ),
        };
        if !self.suggested.is_empty() {
            self.mark_suggested(version);
        }
    }

    /// Adds the suggested files to the marked ones, and forgets those that are gone or at the
    /// bottom.
    fn mark_suggested(&mut self, version: &Version) {
        // Files of L0 can move down even if nothing is below.
        let last = version.num_non_empty_levels().saturating_sub(1).max(1);
        let is_fifo = self.is_fifo();
        let marked = &mut self.marks.marked;
        // A whole tree may be suggested, so no search through all files for each.
        let known: BTreeSet<u64> = marked.iter().map(|(_, file)| file.number).collect();
        self.suggested.retain(|number| {
            let found = version.find_by_number(*number).filter(|(level, _)| *level < last);
            let Some((level, file)) = found else { return false };
            if !is_fifo && !known.contains(number) && !file.is_being_compacted() {
                marked.push((level, Arc::clone(file)));
            }
            true
        });
    }

    /// Files in `range` are to be compacted, unless they are in the last level with data.
    pub fn suggest(&mut self, version: &Version, range: &UserRange<'_>, freed_below: u64) {
        let last = version.num_non_empty_levels().saturating_sub(1);
        for level in 0..last {
            let files = version.get_overlapping_inputs(level, range);
            self.suggested.extend(files.iter().map(|file| file.number));
        }
        self.rescore(version, freed_below);
    }

    /// The compaction of given files; not yet registered.
    ///
    /// # Errors
    /// The errors of RocksDB's `CompactFiles` for files that cannot be compacted like this.
    pub fn pick_files(&self, version: &Version, request: &FilesRequest) -> Result<CompactionPick> {
        if self.held {
            return Err(Error::aborted("files of the column family are being moved"));
        }
        let context = self.context(version);
        picker::pick_files(&context, request, self.is_fifo())
    }

    /// Once the oldest snapshot passes this sequence, more files of the bottommost level can drop
    /// tombstones and sequence numbers.
    pub fn bottommost_threshold(&self) -> u64 {
        self.marks.bottommost_threshold
    }

    /// Something should be compacted.
    pub fn needs_compaction(&self) -> bool {
        self.scores.needs_compaction() || !self.marks.is_empty()
    }

    /// Bytes that compactions have to rewrite to bring every level to its target.
    pub fn estimated_pending_bytes(&self) -> u64 {
        self.scores.estimated_compaction_needed_bytes
    }

    /// Bytes at which outputs in `level` end.
    pub fn output_bytes(&self, level: usize) -> u64 {
        match level {
            0 => u64::MAX,
            level => self.options.target_file_size(level, self.targets.base_level),
        }
    }

    /// The level that L0 is compacted into.
    pub fn base_level(&self) -> usize {
        self.targets.base_level
    }

    /// Largest size that `level` should have, in bytes; `u64::MAX` where no size triggers a
    /// compaction.
    pub fn target_bytes(&self, level: usize) -> u64 {
        self.targets.max_bytes.get(level).copied().unwrap_or(u64::MAX)
    }

    /// The score of `level`.
    pub fn score(&self, level: usize) -> f64 {
        self.scores.score(level)
    }

    /// Compactions that run now.
    pub fn running(&self) -> &RunningCompactions {
        &self.running
    }

    /// No compaction starts until the [`Hold`] is given to [`Self::unhold`]; running ones continue.
    /// None while there is another [`Hold`].
    pub fn hold(&mut self) -> Option<Hold> {
        (!std::mem::replace(&mut self.held, true)).then_some(Hold(()))
    }

    /// Ends `_hold`; the caller queues the column family again.
    pub fn unhold(&mut self, _hold: &mut Hold) {
        self.held = false;
    }

    /// Young entries stay above the last level.
    fn precludes(&self) -> bool {
        self.options.preclusion != Preclusion::Off
    }

    fn context<'a>(&'a self, version: &'a Version) -> PickContext<'a> {
        PickContext {
            version,
            targets: &self.targets,
            options: &self.options,
            running: &self.running,
            young: None,
        }
    }

    /// The most urgent compaction within `reach`. It is registered as running. `oldest_snapshot` is
    /// asked where that matters: `u64::MAX` without one.
    pub fn pick(
        &mut self,
        version: &Version,
        freed_below: u64,
        oldest_snapshot: impl FnOnce() -> SequenceNumber,
        reach: Reach,
    ) -> Option<(Registered, CompactionPick)> {
        if self.held {
            return None;
        }
        let now = pumice_port::time::wall_seconds();
        let context = PickContext {
            version,
            targets: &self.targets,
            options: &self.options,
            running: &self.running,
            young: self.precludes().then(|| Young {
                since: now.saturating_sub(self.mark_rules.preclude),
                oldest_snapshot: oldest_snapshot(),
            }),
        };
        let score = self.scores.score(0);
        let pick = match &self.rules {
            Rules::Fifo(fifo) => {
                let pick = fifo.pick(&context, now)?;
                CompactionPick { score, ..pick }
            }
            Rules::Universal(universal) => {
                CompactionPick { score, ..universal.pick(&context, &self.marks)? }
            }
            Rules::Leveled => {
                picker::pick(&context, &self.scores, &self.marks, &mut self.cache, reach)?
            }
        };
        let registered = self.running.register(&pick, version.comparator());
        self.rescore(version, freed_below);
        Some((registered, pick))
    }

    /// A piece of a manual compaction; not yet registered.
    pub fn pick_range(&self, version: &Version, range: &ManualRange<'_>) -> ManualPick {
        if self.held {
            return ManualPick::Conflict;
        }
        let context = self.context(version);
        match &self.rules {
            // As RocksDB: a manual compaction does what is due, whatever its range.
            Rules::Fifo(_) if !self.running.is_empty() => ManualPick::Conflict,
            Rules::Fifo(fifo) => match fifo.pick(&context, pumice_port::time::wall_seconds()) {
                Some(pick) => ManualPick::Pick { pick: Box::new(pick), resume_at: None },
                None => ManualPick::Nothing,
            },
            Rules::Universal(universal) => universal.pick_all(&context, range.path_id),
            Rules::Leveled => picker::pick_range(&context, range),
        }
    }

    /// When the next file gets too old, seconds since 1970; perhaps in the past. `None` if that
    /// cannot happen.
    pub fn expires_at(&self, version: &Version) -> Option<u64> {
        match &self.rules {
            Rules::Fifo(fifo) => fifo.expires_at(version, pumice_port::time::wall_seconds),
            _ => Some(self.marks.next_old).filter(|at| *at != u64::MAX),
        }
    }

    /// Files are compacted first in, first out.
    pub fn is_fifo(&self) -> bool {
        matches!(self.rules, Rules::Fifo(_))
    }

    /// Runs that a read may have to search and that stalls count: files of L0, and for universal
    /// compaction the deeper levels with files.
    pub fn counted_runs(&self, version: &Version) -> usize {
        match self.rules {
            Rules::Universal(_) => UniversalRules::runs(version),
            _ => version.num_level_files(0),
        }
    }

    /// Registers a manual pick as running.
    pub fn register(
        &mut self,
        version: &Version,
        pick: &CompactionPick,
        freed_below: u64,
    ) -> Registered {
        let registered = self.running.register(pick, version.comparator());
        self.rescore(version, freed_below);
        registered
    }

    /// Keeps compactions from writing to `range` of `level`, and from the files `replaced`, until
    /// [`Self::unreserve`].
    pub fn reserve(
        &mut self,
        level: usize,
        range: &UserRange<'_>,
        replaced: Vec<InputLevel>,
    ) -> Registered {
        self.running.reserve(level, range, replaced)
    }

    /// Keeps compactions from files that are being removed, until [`Self::unreserve`].
    pub fn reserve_files(&mut self, doomed: Vec<InputLevel>) -> Registered {
        self.running.reserve_files(doomed)
    }

    /// Ends [`Self::reserve`] and [`Self::reserve_files`]; the caller refreshes the plan.
    pub fn unreserve(&mut self, reserved: Registered) {
        self.running.unregister(reserved);
    }

    /// A compaction ended.
    pub fn finished(&mut self, version: &Version, registered: Registered, freed_below: u64) {
        self.running.unregister(registered);
        self.rescore(version, freed_below);
    }
}

fn rules(options: &ColumnFamilyOptions) -> Rules {
    match options.compaction_style {
        CompactionStyle::Level | CompactionStyle::None => Rules::Leveled,
        CompactionStyle::Fifo => Rules::Fifo(fifo_rules(options)),
        CompactionStyle::Universal => Rules::Universal(universal_rules(options)),
    }
}

fn fifo_rules(options: &ColumnFamilyOptions) -> FifoRules {
    let fifo = &options.compaction_options_fifo;
    // Larger files are results of merges: merging those again and again would cost much, and keep
    // old data from expiring.
    let merge_below = (options.write_buffer_size as u64 / 10).saturating_mul(11);
    let counts_blobs = fifo.max_data_files_size > 0;
    let tiers = fifo.use_kv_ratio_compaction
        && counts_blobs
        && fifo.max_data_files_size >= fifo.max_table_files_size;
    FifoRules {
        max_bytes: if counts_blobs { fifo.max_data_files_size } else { fifo.max_table_files_size },
        counts_blobs,
        ttl_seconds: options.ttl,
        merges: match fifo.allow_compaction {
            false => FifoMerges::Never,
            true if tiers => FifoMerges::Tiers,
            true => FifoMerges::Newest(merge_below),
        },
        merge_trigger: options.level0_file_num_compaction_trigger as usize,
        temperatures: fifo.file_temperature_age_thresholds.clone(),
    }
}

fn universal_rules(options: &ColumnFamilyOptions) -> UniversalRules {
    let universal = &options.compaction_options_universal;
    UniversalRules {
        trigger: options.level0_file_num_compaction_trigger as usize,
        stop_writes_trigger: options.level0_stop_writes_trigger as usize,
        size_ratio: universal.size_ratio,
        min_merge_width: universal.min_merge_width,
        max_merge_width: universal.max_merge_width,
        max_size_amplification_percent: universal.max_size_amplification_percent,
        compression_size_percent: universal.compression_size_percent,
        max_read_amp: universal.max_read_amp,
        similar_size: universal.stop_style == StopStyle::SimilarSize,
        allow_trivial_move: universal.allow_trivial_move,
        incremental: universal.incremental,
        write_buffer_size: options.write_buffer_size as u64,
        max_compaction_bytes: options.max_compaction_bytes,
    }
}

/// Which files are to be compacted whatever the size of their level; the current time and the needs
/// of snapshots are left open.
fn mark_rules(options: &ColumnFamilyOptions, offpeak: Offpeak) -> MarkRules {
    MarkRules {
        oldest_snapshot: 0,
        now: 0,
        bottommost_delay: u64::from(options.bottommost_file_compaction_delay),
        ttl: options.ttl,
        periodic: options.periodic_compaction_seconds,
        offpeak,
        allow_ingest_behind: options.cf_allow_ingest_behind,
        keeps_times: options.kept_times() > 0,
        preclude: match preclusion(options) {
            Preclusion::Off => 0,
            _ => options.preclude_last_level_data_seconds,
        },
        reclaim_seconds: (options.min_tombstones_for_range_conversion > 0)
            .then_some(RECLAIM_SECONDS),
        blob_garbage: blob_garbage_rule(options),
        reads_per_byte: options.read_triggered_compaction_threshold,
    }
}

/// When garbage in blob files forces compactions, if it may.
fn blob_garbage_rule(options: &ColumnFamilyOptions) -> Option<BlobGarbageRule> {
    let age_cutoff = options.blob_garbage_collection_age_cutoff;
    let threshold = options.blob_garbage_collection_force_threshold;
    let forces = options.enable_blob_garbage_collection && age_cutoff > 0.0 && threshold < 1.0;
    forces.then_some(BlobGarbageRule { age_cutoff, threshold })
}

/// Whether young entries stay above the last level.
fn preclusion(options: &ColumnFamilyOptions) -> Preclusion {
    match options.compaction_style {
        _ if options.preclude_last_level_data_seconds == 0 => Preclusion::Off,
        CompactionStyle::Level => Preclusion::Leveled,
        CompactionStyle::Universal => Preclusion::Universal,
        CompactionStyle::Fifo | CompactionStyle::None => Preclusion::Off,
    }
}

/// The options that shape the tree, as the picker wants them.
pub(super) fn shape(options: &ColumnFamilyOptions) -> LeveledOptions {
    let bottommost = options.bottommost_compression;
    LeveledOptions {
        level0_file_num_compaction_trigger: options.level0_file_num_compaction_trigger as usize,
        max_bytes_for_level_base: options.max_bytes_for_level_base,
        max_bytes_for_level_multiplier: options.max_bytes_for_level_multiplier,
        max_bytes_for_level_multiplier_additional: options
            .max_bytes_for_level_multiplier_additional
            .iter()
            .map(|n| (*n).max(1) as u32)
            .collect(),
        level_compaction_dynamic_level_bytes: options.level_compaction_dynamic_level_bytes,
        target_file_size_base: options.target_file_size_base,
        target_file_size_multiplier: options.target_file_size_multiplier.max(1) as u32,
        max_compaction_bytes: options.max_compaction_bytes,
        compaction_pri: options.compaction_pri,
        compression: CompressionChoice {
            default: options.compression as u8,
            bottommost: (bottommost != CompressionType::Disable).then_some(bottommost as u8),
            per_level: options.compression_per_level.iter().map(|c| *c as u8).collect(),
        },
        reserved_last_level: options.cf_allow_ingest_behind,
        preclusion: preclusion(options),
        path_sizes: options.cf_paths.iter().map(|path| path.target_size).collect(),
        partition_prefix: options.sst_partitioner_factory.prefix_len(),
    }
}
