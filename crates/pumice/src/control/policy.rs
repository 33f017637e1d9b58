//! What a policy sees at a tick, and what it answers.
//!
//! Totals count from the open of the database and only grow; a policy uses their differences.
//! "User bytes" are bytes of write batches, as writers are slowed by them. Everything is plain
//! data: a policy has no clock, no lock and no file, so that a simulation runs the one that the
//! engine runs.
//!
//! Thread safety: plain data; a policy has one caller.

/// A job under way that makes room where writes need it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Relief {
    /// What leaves the stock at the end: bytes of memtables; files of L0.
    pub stock: f64,
    /// Entries of its input, roughly. What it writes says nothing: overwritten entries and
    /// compression may leave little of it, and the last of it may be on its way to the device.
    pub total_entries: f64,
    /// Entries that it is done with.
    pub done_entries: f64,
    /// Seconds since it began.
    pub elapsed: f64,
}

/// A column family at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FamilyInputs {
    /// Which one it is.
    pub id: u32,
    /// Size at which a memtable is sealed.
    pub memtable_bytes: f64,
    /// Writes stop at this many sealed memtables.
    pub memtables_max: f64,
    /// Bytes of the memtable that is written to.
    pub active_bytes: f64,
    /// Memtables that wait for their flush, running or not.
    pub sealed: f64,
    /// Their bytes.
    pub sealed_bytes: f64,
    /// A flush could begin, and has not.
    pub flush_due: bool,
    /// The flush that runs.
    pub flush: Option<Relief>,
    pub l0: Level0Inputs,
    /// Bytes that wait for compaction.
    pub debt_bytes: f64,
    /// From here on writes are to be slowed; 0 never.
    pub soft_bytes: f64,
    /// Here they stop; 0 never.
    pub hard_bytes: f64,
    /// L0 and debt slow and stop writes at all.
    pub compacts: bool,
}

/// What a tick sees of L0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level0Inputs {
    /// Its files.
    pub files: f64,
    /// It is compacted from this many files on.
    pub trigger: f64,
    /// From here on writes are to be slowed.
    pub slowdown: f64,
    /// Here they stop.
    pub stop: f64,
    /// The compaction out of it that runs.
    pub job: Option<Relief>,
    /// The compaction inside it that runs.
    pub merge: Option<Relief>,
}

/// Totals of finished and running jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// User bytes let in.
    pub admitted: f64,
    /// Bytes that were logged on the device of the tables.
    pub logged: f64,
    /// Seconds that leaders spent in appending to the log, their syncs and waits for other tasks'
    /// included, in ticks after one that said `times_log`.
    pub log_seconds: f64,
    /// What flushes have done; memtable bytes are what they drained.
    pub flush: JobTotals,
    /// Flushes that are over.
    pub flushes: f64,
    /// What compactions inside L0 have done; files that are fewer are what they drained.
    pub merge: JobTotals,
    /// What compactions out of L0 have done; files of L0 are what they drained.
    pub l0: JobTotals,
    /// Bytes that all other compactions have written.
    pub deep_written: f64,
    /// Reads of users that were timed, and those of them that took longer than they should. Both
    /// stay 0 while there is no target for reads.
    pub reads: f64,
    pub slow_reads: f64,
}

/// Totals of the jobs of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobTotals {
    /// Bytes written, by running jobs too.
    pub written: f64,
    /// Entries that they are done with, running jobs too.
    pub entries: f64,
    /// What finished jobs have taken away; in what unit, the field of `Totals` says.
    pub drained: f64,
    /// Seconds that finished jobs took, added up.
    pub seconds: f64,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    /// Seconds since the last tick.
    pub seconds: f64,
    /// The policy rested for most of that time, as there was nothing to do.
    pub rested: bool,
    pub totals: Totals,
    pub families: Vec<FamilyInputs>,
    /// Bytes a second that the device has lately shown it can take from all its databases; 0 if
    /// nobody knows.
    pub device_rate: f64,
    /// Bytes a second that more urgent work of other databases wants of the same device.
    pub claimed_elsewhere: f64,
}

/// What keeps writes from being faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Nothing does.
    #[default]
    Free,
    /// Memtables fill faster than they are flushed.
    Memtables,
    /// L0 fills faster than it is compacted.
    Level0,
    /// The tree grows faster than it can be brought to shape.
    Debt,
}

impl Binding {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Free => "nothing",
            Binding::Memtables => "memtables",
            Binding::Level0 => "L0",
            Binding::Debt => "pending compaction bytes",
        }
    }
}

/// See the module head.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Grants {
    /// User bytes a second that are let in; None for no limit.
    pub cap: Option<f64>,
    /// Which stock decides that.
    pub binding: Binding,
    /// Bytes a second that compactions which can wait, all but those inside L0, may write; None for
    /// no limit.
    pub waiting_rate: Option<f64>,
    /// Those out of L0 do not wait now: L0 is nearly full.
    pub level0_first: bool,
    /// One compaction thread of several is kept for compactions inside L0; else for those out of L0
    /// and the level below it.
    pub merges: bool,
    /// Bytes a second that what cannot wait is going to need.
    pub claim: f64,
    /// All compaction threads may work; else one does.
    pub all_threads: bool,
    /// The time that appending to the log takes is wanted.
    pub times_log: bool,
    /// Seconds until the next tick at most: little memory fills quickly.
    pub tick_within: f64,
}

/// Decides how much of which work is done.
pub(crate) trait Policy: Send {
    /// The grants until the next tick.
    fn tick(&mut self, inputs: &Inputs) -> Grants;
}
