//! Event listeners, and the parts of their reports.

use pumice_binding::reports::{
    CompactionFile, CompactionInfo, FlushInfo, Ingestion, JobStats, MemTable, Properties, Stall,
    StallCondition, SubcompactionInfo,
};

use crate::ffi::callback::DestroyFn;
use crate::ffi::from::{Out, State, Taken};
use crate::ffi::generated::{rocksdb_blob_file_addition_info_t, rocksdb_blob_file_garbage_info_t};
use crate::ffi::into::{Lent, New, Part};
use crate::ffi::listener::{Call, Calls, DbCall, ErrorCall, Listener};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Options, Status};

fn lend(text: Option<&[u8]>, mut length: Out<'_, usize>) -> Lent {
    length.set(text.map_or(0, <[u8]>::len));
    text.map_or(Lent::nothing(), Lent::of)
}

c_api! {
    fn rocksdb_eventlistener_create(
        state: State, destroy: DestroyFn,
        flush_begin: DbCall<FlushInfo>, flush_completed: DbCall<FlushInfo>,
        compaction_begin: DbCall<CompactionInfo>, compaction_completed: DbCall<CompactionInfo>,
        subcompaction_begin: Call<SubcompactionInfo>,
        subcompaction_completed: Call<SubcompactionInfo>,
        ingested: DbCall<Ingestion>, background_error: ErrorCall, stall_changed: Call<Stall>,
        memtable_sealed: Call<MemTable>
    ) -> New<Listener> {
        New(Listener::new(state, destroy, Calls {
            flush_begin,
            flush_completed,
            compaction_begin,
            compaction_completed,
            subcompaction_begin,
            subcompaction_completed,
            ingested,
            background_error,
            stall_changed,
            memtable_sealed,
        }))
    }

    fn rocksdb_options_add_eventlistener(options: &mut Options, listener: Taken<Listener>) {
        if let Some(listener) = listener {
            options.listeners.push((*listener).into());
        }
    }

    fn rocksdb_reset_status(status: &mut Status) {
        status.0 = None;
    }

    fn rocksdb_status_ptr_get_error(status: &Status, errptr: Fail) {
        status.0.clone().map_or(Ok(()), Err)
    }

    fn rocksdb_compactionjobinfo_status(info: &CompactionInfo, errptr: Fail) {
        info.status.clone().map_or(Ok(()), Err)
    }

    fn rocksdb_subcompactionjobinfo_status(info: &SubcompactionInfo, errptr: Fail) {
        info.status.clone().map_or(Ok(()), Err)
    }

    fn rocksdb_subcompactionjobinfo_stats(info: &SubcompactionInfo) -> Part<JobStats> {
        Part::of(Some(&info.stats))
    }

    fn rocksdb_compactionjobinfo_input_file_at(
        info: &CompactionInfo, index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(info.input_files.get(index).map(Vec::as_slice), length)
    }

    fn rocksdb_compactionjobinfo_output_file_at(
        info: &CompactionInfo, index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(info.output_files.get(index).map(Vec::as_slice), length)
    }

    fn rocksdb_compactionjobinfo_stats(info: &CompactionInfo) -> Part<JobStats> {
        Part::of(Some(&info.stats))
    }

    fn rocksdb_compactionjobinfo_input_file_info_at(
        info: &CompactionInfo, index: usize
    ) -> Part<CompactionFile> {
        Part::of(info.input_infos.get(index))
    }

    fn rocksdb_compactionjobinfo_output_file_info_at(
        info: &CompactionInfo, index: usize
    ) -> Part<CompactionFile> {
        Part::of(info.output_infos.get(index))
    }

    fn rocksdb_flushjobinfo_blob_file_addition_info_at(
        _info: &FlushInfo, _index: usize
    ) -> Part<rocksdb_blob_file_addition_info_t> {
        // Their count is 0, as below.
        Part::of(None)
    }

    fn rocksdb_compactionjobinfo_blob_file_addition_info_at(
        _info: &CompactionInfo, _index: usize
    ) -> Part<rocksdb_blob_file_addition_info_t> {
        Part::of(None)
    }

    fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(
        _info: &CompactionInfo, _index: usize
    ) -> Part<rocksdb_blob_file_garbage_info_t> {
        Part::of(None)
    }

    fn rocksdb_compactionjobinfo_table_properties_key_at(
        info: &CompactionInfo, index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(info.table_properties.get(index).map(|(path, _)| path.as_slice()), length)
    }

    fn rocksdb_compactionjobinfo_table_properties_value_at(
        info: &CompactionInfo, index: usize
    ) -> Part<Properties> {
        Part::of(info.table_properties.get(index).map(|(_, table)| table))
    }

    fn rocksdb_compactionjobinfo_table_properties_for_file(
        info: &CompactionInfo, path: Bytes
    ) -> Part<Properties> {
        let found = info.table_properties.iter().find(|(known, _)| known == path);
        Part::of(found.map(|(_, table)| table))
    }

    fn rocksdb_flushjobinfo_table_properties(info: &FlushInfo) -> Part<Properties> {
        Part::of(Some(&info.table_properties))
    }

    fn rocksdb_externalfileingestioninfo_table_properties(info: &Ingestion) -> Part<Properties> {
        Part::of(Some(&info.table_properties))
    }

    fn rocksdb_writestallinfo_cur(info: &Stall) -> Part<StallCondition> {
        Part::of(Some(&info.current))
    }

    fn rocksdb_writestallinfo_prev(info: &Stall) -> Part<StallCondition> {
        Part::of(Some(&info.previous))
    }

    fn rocksdb_table_properties_user_collected_properties_count(table: &Properties) -> usize {
        table.user_collected.len()
    }

    fn rocksdb_table_properties_user_collected_properties_key_at(
        table: &Properties, index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(table.user_collected.get(index).map(|(name, _)| name.as_slice()), length)
    }

    fn rocksdb_table_properties_user_collected_properties_value_at(
        table: &Properties, index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(table.user_collected.get(index).map(|(_, value)| value.as_slice()), length)
    }

    fn rocksdb_table_properties_readable_properties_count(_table: &Properties) -> usize {
        // Readable forms of what collectors wrote; ours write none.
        0
    }

    fn rocksdb_table_properties_readable_properties_key_at(
        _table: &Properties, _index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(None, length)
    }

    fn rocksdb_table_properties_readable_properties_value_at(
        _table: &Properties, _index: usize, length: Out<'_, usize>
    ) -> Lent {
        lend(None, length)
    }
}
