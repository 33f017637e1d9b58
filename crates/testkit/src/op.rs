//! Operations: what is written to a store.

/// One write. `cf` counts the column families from 0, the default one.
#[allow(missing_docs)] // The fields are RocksDB's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key.
    Put { cf: usize, key: Vec<u8>, value: Vec<u8> },
    /// Removes a key.
    Delete { cf: usize, key: Vec<u8> },
    /// Removes a key that was put once.
    SingleDelete { cf: usize, key: Vec<u8> },
    /// Appends `,operand` to a value, or sets it when there is none.
    Merge { cf: usize, key: Vec<u8>, operand: Vec<u8> },
    /// Removes the keys from `begin` up to `end` (not included).
    DeleteRange { cf: usize, begin: Vec<u8>, end: Vec<u8> },
}

impl Op {
    /// The column family that the write concerns.
    pub fn family(&self) -> usize {
        match self {
            Op::Put { cf, .. }
            | Op::Delete { cf, .. }
            | Op::SingleDelete { cf, .. }
            | Op::Merge { cf, .. }
            | Op::DeleteRange { cf, .. } => *cf,
        }
    }

    /// Whether the write may change `key`, in any column family.
    pub fn touches(&self, key: &[u8]) -> bool {
        match self {
            Op::DeleteRange { begin, end, .. } => begin.as_slice() <= key && key < end.as_slice(),
            Op::Put { key: own, .. }
            | Op::Delete { key: own, .. }
            | Op::SingleDelete { key: own, .. }
            | Op::Merge { key: own, .. } => own == key,
        }
    }
}

/// The key of number `n` in the general space. Lengths differ; the order is that of `n`.
pub fn key(prefix: &str, n: u64) -> Vec<u8> {
    let mut key = format!("k{prefix}{n:07}").into_bytes();
    key.resize(key.len() + (n % 5) as usize * 3, b'.');
    key
}
