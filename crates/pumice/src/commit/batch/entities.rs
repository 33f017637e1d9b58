//! Updates with wide columns.
//!
//! Thread safety: the batch's.

use pumice_base::ValueType;
use pumice_base::wide_columns::encode_pairs;

use super::WriteBatch;
use crate::commit::update_family::UpdateFamily;

impl WriteBatch {
    /// Sets `key` to the entity with these `columns`, names and values in any order, in the default
    /// column family. The column with the empty name is the default one, which plain reads return.
    ///
    /// Two columns with the same name are refused like an update that is too large, through
    /// [`WriteBatch::status`]: with Corruption, as in RocksDB.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) {
        self.put_entity_cf(0, key, columns);
    }

    /// [`WriteBatch::put_entity`] in column family `cf`.
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) {
        let id = self.family(&cf);
        match encode_pairs(columns) {
            Ok(entity) => self.put_encoded(id, key.as_ref(), &entity),
            Err(error) => self.refuse(error),
        }
    }

    /// Sets `key` in column family `cf` to an entity that is encoded.
    pub(crate) fn put_encoded_cf(&mut self, cf: impl UpdateFamily, key: &[u8], entity: &[u8]) {
        let id = self.family(&cf);
        self.put_encoded(id, key, entity);
    }

    /// Sets `key` to an entity that is encoded.
    pub(crate) fn put_encoded(&mut self, id: u32, key: &[u8], entity: &[u8]) {
        let (short, long) = (ValueType::WideColumnEntity, ValueType::ColumnFamilyWideColumnEntity);
        self.add(id, key, Some(entity), short, long);
    }
}
