//! Keys of a log whose timestamps are not those that their family has now.
//!
//! A family may get timestamps, or lose them, between two opens if its tables have none
//! (`persist_user_defined_timestamps=false`): what its log has is converted as it is replayed.
//!
//! Thread safety: pure, but for a look at the family under the state lock. Not here: prepared
//! sections, which are refused if they would have to be converted (`commit::two_phase`).

use pumice_base::key::{U64_TS_LEN, U64_TS_SUFFIX};
use pumice_base::{Comparator, Error, Result};
use pumice_memtable::MemTable;

use crate::engine::DbInner;

/// What is done to keys of a log from before their family got timestamps, or lost them.
#[derive(Clone, Copy)]
pub(crate) enum Conversion {
    /// They get the oldest timestamp, of so many bytes.
    Add(usize),
    /// They lose the one that they have.
    Cut(usize),
}

impl Conversion {
    /// Of keys of family `id`, which have so many bytes of timestamps in the log and now.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported if the family has not got or lost them.
    pub fn find(db: &DbInner, id: u32, (recorded, now): (usize, usize)) -> Result<Self> {
        let state = db.state.lock();
        match state.cfs.get(&id).map(|family| &family.data) {
            Some(cf) => {
                Conversion::between(id, recorded, (cf.comparator(), cf.table_keys.stripped))
            }
            None => Err(other_timestamps(id, recorded, now)),
        }
    }

    /// Of keys of family `id`, which have so many bytes of timestamps in the log, to keys of
    /// another length in the `order` that it has now, with tables that are `stripped` or not.
    ///
    /// # Errors
    /// As [`Conversion::find`].
    pub fn between(
        id: u32,
        recorded: usize,
        (order, stripped): (&Comparator, bool),
    ) -> Result<Self> {
        match (recorded, order.timestamp_size()) {
            (0, now) if stripped => Ok(Conversion::Add(now)),
            (U64_TS_LEN, 0) if !order.name().ends_with(U64_TS_SUFFIX) => {
                Ok(Conversion::Cut(recorded))
            }
            (_, now) => Err(other_timestamps(id, recorded, now)),
        }
    }

    /// A key of the log as the family has it now.
    ///
    /// # Errors
    /// Corruption if it is shorter than its timestamp.
    pub fn of(self, key: &[u8]) -> Result<Vec<u8>> {
        match self {
            Conversion::Add(size) => {
                let mut key = key.to_vec();
                key.resize(key.len() + size, 0);
                Ok(key)
            }
            Conversion::Cut(size) => match key.len().checked_sub(size) {
                Some(bare) => Ok(key[..bare].to_vec()),
                None => Err(short_key()),
            },
        }
    }
}

/// A log whose keys are not those of the options. RocksDB adds or strips timestamps when a family
/// is switched to an order with or without them.
#[cold]
fn other_timestamps(id: u32, recorded: usize, expected: usize) -> Error {
    let text = format!(
        "column family {id} has timestamps of {recorded} bytes in the log and of {expected} in \
         its comparator"
    );
    match recorded > 0 && expected > 0 {
        true => Error::invalid_argument(text),
        false => Error::not_supported(text),
    }
}

#[cold]
fn short_key() -> Error {
    Error::corruption("a key in the log is shorter than its timestamp")
}

/// Refuses what a memtable of keys with timestamps does not take.
///
/// # Errors
/// Corruption.
pub(super) fn check_timed(mem: &MemTable, key: &[u8], end: Option<&[u8]>) -> Result<()> {
    match mem.timestamp_size() {
        0 => Ok(()),
        size if key.len() < size || end.is_some_and(|end| end.len() < size) => Err(short_key()),
        _ => Ok(()),
    }
}
