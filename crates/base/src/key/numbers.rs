//! The numbers of the format: sequence numbers, file numbers, types of entries.
//!
//! They are persisted: never renumber.

/// Position of a write in the database's history; 56 bits.
///
/// ```
/// # use pumice_base::SequenceNumber;
/// // `Db::latest_sequence_number` of a database in which nothing was ever written.
/// let none: SequenceNumber = 0;
/// # let _ = none;
/// ```
pub type SequenceNumber = u64;
/// Number of a file in the database's one number space; 0 is invalid.
pub type FileNumber = u64;

/// Largest sequence number, used to seek to the newest version of a key.
pub const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;
/// Largest sequence number that a write may have: readers seek at one more.
pub const LAST_SEQUENCE_MAX: SequenceNumber = MAX_SEQUENCE - 2;
/// Largest file number: RocksDB packs it with two bits that say where the file is.
pub const FILE_NUMBER_MAX: FileNumber = (1 << 62) - 1;
/// Largest number that a file may have when its database is opened. Higher ones are left for future
/// files, so that none of them gets a number that the next open refuses.
pub const FILE_NUMBER_FOUND_MAX: FileNumber = FILE_NUMBER_MAX - (1 << 40);
/// Largest id of a column family.
pub const COLUMN_FAMILY_ID_MAX: u32 = u32::MAX - 1;
/// Type byte of a seek key: sorts before every stored type with the same sequence.
pub const VALUE_TYPE_FOR_SEEK: u8 = 0x18;

/// Kind of an entry. Persisted in WAL and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
// The names are RocksDB's, explained in docs/format/primitives.md#internal-keys.
#[allow(missing_docs)]
pub enum ValueType {
    Deletion = 0x00,
    Value = 0x01,
    Merge = 0x02,
    LogData = 0x03,
    ColumnFamilyDeletion = 0x04,
    ColumnFamilyValue = 0x05,
    ColumnFamilyMerge = 0x06,
    SingleDeletion = 0x07,
    ColumnFamilySingleDeletion = 0x08,
    BeginPrepareXid = 0x09,
    EndPrepareXid = 0x0A,
    CommitXid = 0x0B,
    RollbackXid = 0x0C,
    Noop = 0x0D,
    ColumnFamilyRangeDeletion = 0x0E,
    RangeDeletion = 0x0F,
    ColumnFamilyBlobIndex = 0x10,
    BlobIndex = 0x11,
    BeginPersistedPrepareXid = 0x12,
    BeginUnprepareXid = 0x13,
    DeletionWithTimestamp = 0x14,
    CommitXidAndTimestamp = 0x15,
    WideColumnEntity = 0x16,
    ColumnFamilyWideColumnEntity = 0x17,
    ValuePreferredSeqno = 0x18,
    ColumnFamilyValuePreferredSeqno = 0x19,
    MaxValid = 0x1A,
}

impl ValueType {
    /// The type with that tag, `None` for an unknown tag.
    #[inline]
    pub const fn from_u8(tag: u8) -> Option<Self> {
        use ValueType::*;
        const TABLE: [ValueType; 27] = [
            Deletion,
            Value,
            Merge,
            LogData,
            ColumnFamilyDeletion,
            ColumnFamilyValue,
            ColumnFamilyMerge,
            SingleDeletion,
            ColumnFamilySingleDeletion,
            BeginPrepareXid,
            EndPrepareXid,
            CommitXid,
            RollbackXid,
            Noop,
            ColumnFamilyRangeDeletion,
            RangeDeletion,
            ColumnFamilyBlobIndex,
            BlobIndex,
            BeginPersistedPrepareXid,
            BeginUnprepareXid,
            DeletionWithTimestamp,
            CommitXidAndTimestamp,
            WideColumnEntity,
            ColumnFamilyWideColumnEntity,
            ValuePreferredSeqno,
            ColumnFamilyValuePreferredSeqno,
            MaxValid,
        ];
        if (tag as usize) < TABLE.len() { Some(TABLE[tag as usize]) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_numbers() {
        for tag in 0..=255u8 {
            match ValueType::from_u8(tag) {
                Some(value_type) => assert_eq!(value_type as u8, tag),
                None => assert!(tag > ValueType::MaxValid as u8),
            }
        }
    }
}
