//! The input of a policy at a tick, and its answer.
//!
//! Totals count from the open of the database and only grow; a policy uses their differences. "User
//! bytes" are bytes of write batches, as writers are slowed by them. Everything is plain data: a
//! policy has no clock, no lock and no file, so that a simulation can run the policy that the
//! engine runs.
//!
//! Thread safety: plain data; a policy has one caller.

/// A running job that makes room for writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Relief {
    /// What leaves the stock when it ends: bytes of memtables, or files of L0.
    pub stock: f64,
    /// Entries of its input, roughly. The bytes it writes say little: overwriting and compression
    /// may leave few of them, and the last may still be on their way to the device.
    pub total_entries: f64,
    /// Entries processed so far.
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
    /// Bytes of the sealed memtables.
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
    /// L0 and debt may slow and stop writes.
    pub compacts: bool,
}

/// L0 at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level0Inputs {
    /// Files of L0.
    pub files: f64,
    /// L0 is compacted from this many files on.
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
    /// User bytes admitted.
    pub admitted: f64,
    /// Bytes that were logged on the device of the tables.
    pub logged: f64,
    /// Seconds that leaders spent appending to the log, including their syncs and waits for other
    /// tasks' syncs, in ticks after one that set `times_log`.
    pub log_seconds: f64,
    /// Totals of flushes; they drain memtable bytes.
    pub flush: JobTotals,
    /// Flushes that are over.
    pub flushes: f64,
    /// Totals of compactions inside L0; they drain the number of files by which L0 shrinks.
    pub merge: JobTotals,
    /// Totals of compactions out of L0; they drain files of L0.
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
    /// Bytes written, including running jobs.
    pub written: f64,
    /// Entries processed, including running jobs.
    pub entries: f64,
    /// What finished jobs have drained, in the unit given at the field of `Totals`.
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
    /// Most user bytes that were admitted at once since the last tick, whatever the cap: those of
    /// writers that joined a group, of which only the leader waits.
    pub unpaid: f64,
    pub families: Vec<FamilyInputs>,
    /// Bytes a second that the device has recently taken from all its databases; 0 if unknown.
    pub device_rate: f64,
    /// Bytes a second that more urgent work of other databases needs from the same device.
    pub claimed_elsewhere: f64,
}

/// What limits writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Nothing does.
    #[default]
    Free,
    /// Memtables fill faster than they are flushed.
    Memtables,
    /// L0 fills faster than it is compacted.
    Level0,
    /// The tree grows faster than compactions can keep up.
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
    /// User bytes a second to admit; None for no limit.
    pub cap: Option<f64>,
    /// Which stock decides that.
    pub binding: Binding,
    /// Bytes a second that deferrable compactions (all but those inside L0) may write; None for no
    /// limit.
    pub waiting_rate: Option<f64>,
    /// Compactions out of L0 do not wait now: L0 is nearly full.
    pub level0_first: bool,
    /// If there are several compaction threads, one is reserved for compactions inside L0;
    /// otherwise for those out of L0 and the level below it.
    pub merges: bool,
    /// Bytes a second that urgent work will need.
    pub claim: f64,
    /// All compaction threads may work; otherwise one.
    pub all_threads: bool,
    /// The policy needs the time spent appending to the log.
    pub times_log: bool,
    /// Longest time to the next tick in seconds: small memtables fill quickly.
    pub tick_within: f64,
}

/// Decides how much of which work is done.
pub(crate) trait Policy: Send {
    /// The grants until the next tick.
    fn tick(&mut self, inputs: &Inputs) -> Grants;
}
