//! Options of requests that are not plain values.

use pumice::Error;
use pumice_binding::requests::WriteOptions;
use pumice_binding::store::Fields;

use crate::ffi::generated::{rocksdb_column_family_metadata_options_t, rocksdb_compactoptions_t};
use crate::ffi::macros::c_api;
use crate::ffi::types::{GivenSnapshot, ReadOptions};

c_api! {
    fn rocksdb_writeoptions_disable_WAL(options: &mut WriteOptions, disable: i32) {
        options.store_mut().put("disable_WAL", u64::from(disable != 0));
        options.changed();
    }

    fn rocksdb_readoptions_set_snapshot(
        options: &mut ReadOptions, snapshot: Option<&GivenSnapshot>
    ) {
        options.values.set_snapshot(snapshot.and_then(|snapshot| snapshot.0.clone()));
    }

    fn rocksdb_readoptions_set_iterate_upper_bound(options: &mut ReadOptions, key: Kept) {
        options.upper = key;
    }

    fn rocksdb_readoptions_set_iterate_lower_bound(options: &mut ReadOptions, key: Kept) {
        options.lower = key;
    }

    fn rocksdb_readoptions_set_timestamp(options: &mut ReadOptions, timestamp: Kept) {
        options.set_timestamp(timestamp);
    }

    fn rocksdb_readoptions_set_iter_start_ts(options: &mut ReadOptions, timestamp: Kept) {
        options.start_timestamp = timestamp;
    }

    fn rocksdb_readoptions_has_merge_operand_count_threshold(options: &ReadOptions) -> bool {
        options.values.has_operand_threshold
    }

    fn rocksdb_readoptions_set_merge_operand_count_threshold(
        options: &mut ReadOptions, threshold: usize
    ) {
        options.store_mut().put("merge_operand_count_threshold", threshold as u64);
        options.values.has_operand_threshold = true;
    }

    fn rocksdb_readoptions_clear_merge_operand_count_threshold(options: &mut ReadOptions) {
        options.store_mut().put("merge_operand_count_threshold", 0);
        options.values.has_operand_threshold = false;
    }

    fn rocksdb_readoptions_set_request_id(options: &mut ReadOptions, id: OptBytes) {
        options.store_mut().put_text("request_id", id.unwrap_or_default());
    }

    fn rocksdb_readoptions_clear_request_id(options: &mut ReadOptions) {
        options.store_mut().put_text("request_id", "");
    }

    fn rocksdb_readoptions_set_table_index_factory_from_string(
        options: &mut ReadOptions, name: Bytes, errptr: Fail
    ) {
        if name.is_empty() {
            return Err(Error::invalid_argument("the name of the index is empty"));
        }
        let text = String::from_utf8_lossy(name);
        if pumice::options::UserDefinedIndex::by_name(&text).is_none() {
            return Err(Error::not_supported(format!(
                "Could not load UserDefinedIndexFactory: {text}"
            )));
        }
        options.store_mut().put_text("table_index_factory_name", name);
        Ok(())
    }

    fn rocksdb_readoptions_clear_table_index_factory(options: &mut ReadOptions) {
        options.store_mut().put_text("table_index_factory_name", "");
    }

    fn rocksdb_readoptions_set_managed(_options: &mut ReadOptions, _managed: u8) {
        // Without effect in RocksDB since 5.
    }

    fn rocksdb_compactoptions_set_full_history_ts_low(
        options: &mut rocksdb_compactoptions_t, timestamp: OptBytesMut
    ) {
        options.store_mut().put_text("full_history_ts_low", timestamp.unwrap_or_default());
    }

    fn rocksdb_column_family_metadata_options_set_start_key(
        options: &mut rocksdb_column_family_metadata_options_t, key: OptBytes
    ) {
        options.store_mut().put_text("start_key", key.unwrap_or_default());
    }

    fn rocksdb_column_family_metadata_options_set_end_key(
        options: &mut rocksdb_column_family_metadata_options_t, key: OptBytes
    ) {
        options.store_mut().put_text("end_key", key.unwrap_or_default());
    }
}
