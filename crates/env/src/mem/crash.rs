//! What a crash may take away.

use pumice_base::random::Rng;

/// The fate of a file's changes since its last sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLoss {
    /// All are lost.
    Unsynced,
    /// None is lost.
    Nothing,
    /// The first few survive, whole.
    Prefix,
    /// The first few survive, and the next write up to some byte.
    Torn,
    /// Each 512-byte sector survives or not; a lost one reads as before, or as zeros.
    Sectors,
    /// The length is the newest, the data a prefix; the rest reads as zeros.
    SizeFirst,
    /// One of the above, chosen for each file.
    Mixed,
}

impl FileLoss {
    pub(super) fn choose(self, rng: &mut Rng) -> FileLoss {
        const ALL: [FileLoss; 6] = [
            FileLoss::Unsynced,
            FileLoss::Nothing,
            FileLoss::Prefix,
            FileLoss::Torn,
            FileLoss::Sectors,
            FileLoss::SizeFirst,
        ];
        if self == FileLoss::Mixed { ALL[rng.uniform(ALL.len() as u64) as usize] } else { self }
    }
}

/// What happens to the name changes since the last sync of their directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLoss {
    /// All are lost.
    Unsynced,
    /// None is lost.
    Nothing,
    /// Each survives or not independently; the least POSIX promises.
    Strict,
    /// The first few of the whole file system survive, as on ext4 and XFS.
    Journal,
    /// One of the above, chosen for each crash.
    Mixed,
}

impl NameLoss {
    pub(super) fn choose(self, rng: &mut Rng) -> NameLoss {
        const ALL: [NameLoss; 4] =
            [NameLoss::Unsynced, NameLoss::Nothing, NameLoss::Strict, NameLoss::Journal];
        if self == NameLoss::Mixed { ALL[rng.uniform(ALL.len() as u64) as usize] } else { self }
    }
}

/// What a crash may take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashMode {
    /// The loss of file contents.
    pub files: FileLoss,
    /// The loss of names.
    pub names: NameLoss,
}

impl CrashMode {
    /// Only what was synced survives: the harshest state that is always possible.
    pub const UNSYNCED: CrashMode =
        CrashMode { files: FileLoss::Unsynced, names: NameLoss::Unsynced };
    /// Everything survives: a crash of the process alone.
    pub const PROCESS: CrashMode = CrashMode { files: FileLoss::Nothing, names: NameLoss::Nothing };
    /// Any state the model allows.
    pub const MIXED: CrashMode = CrashMode { files: FileLoss::Mixed, names: NameLoss::Mixed };
}
