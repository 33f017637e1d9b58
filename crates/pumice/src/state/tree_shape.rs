//! Trees and compactions in numbers, for logs and listeners.
//!
//! Wording and order are RocksDB's, since people and scripts look for its lines.
//!
//! Thread safety: functions of data; a family's belongs to the state lock.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::narrow::small_i32;
use pumice_manifest::FileMetaData;
use pumice_table::TableProperties;

use crate::commit::controller::WriteStall;
use crate::options::codec::compression_of;
use crate::state::family::CfState;
use crate::state::work::CompactionWork;
use crate::stats::CompactionStats;
use crate::stats::listener::{CompactionJobInfo, FlushJobInfo, FlushReason, WriteStallCondition};
use crate::version::family::CfData;

pub(crate) const MEGABYTE: f64 = 1_048_576.0;

/// The levels of a column family in numbers.
#[derive(Default)]
pub(crate) struct TreeShape {
    pub files: Vec<u64>,
    pub immutable_memtables: u64,
    pub summary: String,
}

impl TreeShape {
    pub fn of(cf: &CfState) -> Self {
        let levels = cf.version.num_levels();
        let files: Vec<u64> =
            (0..levels).map(|level| cf.version.num_level_files(level) as u64).collect();
        let counts: Vec<String> = files.iter().map(u64::to_string).collect();
        let score = (0..levels).map(|level| cf.plan.score(level)).fold(0.0, f64::max);
        let summary = format!(
            "base level {} files[{}] max score {score:.2}, estimated pending compaction bytes {}",
            cf.plan.base_level(),
            counts.join(" "),
            cf.plan.estimated_pending_bytes()
        );
        TreeShape { files, immutable_memtables: cf.imm.len() as u64, summary }
    }
}

pub(crate) fn compaction_info(work: &CompactionWork, job_id: u64) -> CompactionJobInfo {
    let pick = &work.pick;
    let options = work.cf.options();
    let (deepest, given) = (pick.deepest, pick.outputs.compression);
    let codec = compression_of(&options, pick.output_level, work.base_level, deepest, given);
    let numbers = |files: &[Arc<FileMetaData>]| files.iter().map(|f| f.number).collect();
    CompactionJobInfo {
        cf_id: work.cf.id,
        cf_name: work.cf.name.clone(),
        job_id,
        compaction_reason: pick.reason,
        base_input_level: small_i32(pick.start_level),
        output_level: small_i32(pick.output_level),
        input_files: pick.inputs.iter().map(|i| (small_i32(i.level), numbers(&i.files))).collect(),
        output_files: Vec::new(),
        score: pick.score,
        total_input_bytes: pick.input_bytes(),
        total_output_bytes: 0,
        num_input_records: 0,
        num_output_records: 0,
        num_subcompactions: 0,
        elapsed_micros: 0,
        cpu_micros: 0,
        output_compression: codec.0.property_name(),
        tables: BTreeMap::new(),
        error: None,
    }
}

/// `4@0 + 1@6`: files by level.
pub(crate) fn input_counts(info: &CompactionJobInfo) -> String {
    let counts = info.input_files.iter().map(|(level, files)| format!("{}@{level}", files.len()));
    counts.collect::<Vec<_>>().join(" + ")
}

/// `[12(1024B) 9(7B)], [3(2048B)]`: every input file with its bytes.
pub(crate) fn inputs_text(work: &CompactionWork) -> String {
    let mut text = String::new();
    for input in &work.pick.inputs {
        let files: Vec<String> =
            input.files.iter().map(|f| format!("{}({}B)", f.number, f.file_size)).collect();
        let comma = if text.is_empty() { "" } else { ", " };
        write!(text, "{comma}[{}]", files.join(" ")).expect("writing to a String cannot fail");
    }
    text
}

/// Rates and ratios of a compaction, the second half of its closing line.
pub(crate) fn compaction_figures(info: &CompactionJobInfo, counts: &CompactionStats) -> String {
    let (upper, lower) = (counts.bytes_read_non_output_levels, counts.bytes_read_output_level);
    let written = counts.bytes_written;
    let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
    let rate = |bytes: u64| bytes as f64 / counts.micros.max(1) as f64;
    let per_input = |bytes: u64| bytes as f64 / upper.max(1) as f64;
    let files_at = |same: bool| -> usize {
        let at = info.input_files.iter().filter(|(l, _)| (*l == info.output_level) == same);
        at.map(|(_, files)| files.len()).sum()
    };
    format!(
        "MB/sec: {:.1} rd, {:.1} wr, level {}, files in({}, {}) out({}) MB in({:.1}, {:.1}) \
         out({:.1}), read-write-amplify({:.1}) write-amplify({:.1}) OK, records in: {}, records \
         dropped: {} output_compression: {}",
        rate(upper + lower),
        rate(written),
        info.output_level,
        files_at(false),
        files_at(true),
        info.output_files.len(),
        megabytes(upper),
        megabytes(lower),
        megabytes(written),
        per_input(upper + lower + written),
        per_input(written),
        counts.num_input_records,
        counts.num_dropped_records,
        info.output_compression
    )
}

pub(crate) fn condition(stall: WriteStall) -> WriteStallCondition {
    match stall {
        WriteStall::None => WriteStallCondition::Normal,
        WriteStall::Delayed(_) => WriteStallCondition::Delayed,
        WriteStall::Stopped(_) => WriteStallCondition::Stopped,
    }
}

pub(crate) fn flush_info(cf: &CfData, job_id: u64, flush_reason: FlushReason) -> FlushJobInfo {
    let (options, files) = (cf.options(), cf.super_version.load().version.num_level_files(0));
    let reaches = |trigger: i32| usize::try_from(trigger).is_ok_and(|trigger| files >= trigger);
    FlushJobInfo {
        cf_id: cf.id,
        cf_name: cf.name.clone(),
        job_id,
        flush_reason,
        num_memtables: 0,
        total_num_input_entries: 0,
        num_deletes: 0,
        num_range_deletes: 0,
        total_data_size: 0,
        memory_usage: 0,
        file_path: PathBuf::new(),
        file_number: 0,
        smallest_seqno: 0,
        table_properties: TableProperties::default(),
        largest_seqno: 0,
        triggered_writes_slowdown: reaches(options.level0_slowdown_writes_trigger),
        triggered_writes_stop: reaches(options.level0_stop_writes_trigger),
    }
}
