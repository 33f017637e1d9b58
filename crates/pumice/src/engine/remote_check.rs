//! What a result of a compaction service must be before its tables are installed: of the job that
//! it is for, complete, within the bounds of that, in a directory that is not the database's.
//!
//! Thread safety: free functions, from the threads of jobs. They suspend.
//!
//! What it does not do: read whole tables. A table that is damaged in the middle is found by
//! reads, as any other, or by its checksum if the result has one.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, FileNumber, InternalKey, Result};
use pumice_env::FileSystem;
use pumice_env::filename::{current_file, table_file_name};
use pumice_manifest::{FileMetaData, UserRange};
use pumice_table::{TableReadOptions, unique_id_of};

use crate::compaction::compaction_env::Part;
use crate::compaction::service::{ServiceFile, ServiceResult};
use crate::compaction::subcompaction::JobContext;

/// Refuses a directory of outputs that is one of a database: `dirs` are those of this one, and
/// `inputs` lie in one of them, whatever it is called.
///
/// # Errors
/// InvalidArgument; I/O.
pub(super) fn check_output_dir<'a>(
    fs: &dyn FileSystem,
    output: &Path,
    dirs: impl IntoIterator<Item = &'a Path>,
    inputs: impl IntoIterator<Item = FileNumber>,
) -> Result<()> {
    let refuse = || {
        let output = output.display();
        Err(Error::invalid_argument(format!(
            "{output}: is a directory of the database and cannot take outputs"
        )))
    };
    // Compares components: "/db" is "/db/".
    if dirs.into_iter().any(|dir| dir == output) || fs.exists(&current_file(output))? {
        return refuse();
    }
    for number in inputs {
        if fs.exists(&output.join(table_file_name(number)))? {
            return refuse();
        }
    }
    Ok(())
}

/// The result must be of as many entries as the inputs have, and of the level asked for.
pub(super) fn check_whole(job: &JobContext, part: Part<'_>, result: &ServiceResult) -> Result<()> {
    let bad = |text: String| Err(Error::corruption(text));
    if usize::try_from(result.output_level).ok() != Some(job.pick.output_level) {
        let level = result.output_level;
        return bad(format!("the result is for level {level}, not {}", job.pick.output_level));
    }
    let Some(entries) = result.entries_in else {
        // Nothing shows that the inputs were read.
        return match result.output_files.is_empty() {
            true => bad("the result has neither tables nor a count of entries".to_string()),
            false => Ok(()),
        };
    };
    let Some(expected) = job.pick.input_points() else { return Ok(()) };
    let (_, begin, end) = part;
    let whole = begin.is_none() && end.is_none();
    // The sum of several parts is checked when all are done.
    match if whole { entries == expected } else { entries <= expected } {
        true => Ok(()),
        false if !job.env.db_options().compaction_verify_record_count => Ok(()),
        false => bad(format!("{entries} entries were read, and the inputs have {expected}")),
    }
}

/// The table must lie inside of `part` and of the job's inputs.
pub(super) fn check_bounds(job: &JobContext, part: Part<'_>, file: &ServiceFile) -> Result<()> {
    let bad = |what: &str| Err(Error::corruption(format!("{}: {what}", file.file_name)));
    let order = &job.cf.table_keys.icmp;
    let bounds = (InternalKey::checked(&file.smallest), InternalKey::checked(&file.largest));
    let ordered = |(smallest, largest): &(InternalKey<'_>, InternalKey<'_>)| {
        order.compare(*smallest, *largest).is_le()
    };
    let Some((smallest, largest)) = bounds.0.zip(bounds.1).filter(ordered) else {
        return bad("its bounds are no keys in order");
    };
    let inputs = UserRange::of_files(order, job.pick.input_files().map(|(_, file)| file));
    let (_, begin, end) = part;
    let cmp = &order.user;
    let starts = [inputs.begin.map(|key| key.as_bytes()), begin.as_deref()];
    let below = |start: &[u8]| cmp.compare(smallest.user_key(), start.into()).is_lt();
    // The end of a part is outside of it; that of the inputs is so if it ends a range tombstone.
    let ends = [(inputs.end.map(|key| key.as_bytes()), inputs.end_open), (end.as_deref(), true)];
    let above = |(end, open): (Option<&[u8]>, bool)| {
        end.is_some_and(|end| match cmp.compare(largest.user_key(), end.into()) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => open && !largest.is_range_end(),
            std::cmp::Ordering::Greater => true,
        })
    };
    if starts.into_iter().flatten().any(below) || ends.into_iter().any(above) {
        return bad("its bounds are outside of those of the job");
    }
    let lowest = job.pick.input_files().map(|(_, file)| file.smallest_seq).min().unwrap_or(0);
    let highest = job.pick.input_files().map(|(_, file)| file.largest_seq).max().unwrap_or(0);
    let (first, last) = (file.smallest_seq, file.largest_seq);
    if first > last || last > highest || (first != 0 && first < lowest) {
        return bad("its sequence numbers are not those of the inputs");
    }
    Ok(())
}

/// The table must be one of this database that has as many entries as told, the first and the last
/// of them within its bounds.
pub(super) fn check_table(
    job: &JobContext,
    db_id: &str,
    meta: &FileMetaData,
    num_entries: u64,
) -> Result<()> {
    let bad = |text: String| Err(Error::corruption(text));
    let order = &job.cf.table_keys.icmp;
    let tables = job.cf.tables();
    let table = tables.table_at(meta, job.pick.output_level)?.share()?;
    let properties = table.properties();
    if properties.db_id != db_id {
        return bad(format!("is of the database {}", properties.db_id));
    }
    if unique_id_of(properties).unwrap_or_default() != meta.unique_id {
        return bad("has another unique id".to_string());
    }
    let found = meta.stats().num_entries;
    if found != num_entries {
        return bad(format!("has {found} entries and not {num_entries}"));
    }
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut entries = table.iter(&options);
    for to_first in [true, false] {
        match to_first {
            true => entries.seek_to_first(),
            false => entries.seek_to_last(),
        }
        entries.status()?;
        let inside = |key: InternalKey<'_>| {
            let (smallest, largest) = (meta.smallest_key(), meta.largest_key());
            order.compare(smallest, key).is_le() && order.compare(key, largest).is_le()
        };
        if entries.valid() && !inside(entries.key()) {
            return bad("has keys outside of its bounds".to_string());
        }
    }
    Ok(())
}

/// Tables of one level follow each other.
pub(super) fn in_order(job: &JobContext, files: &[Arc<FileMetaData>]) -> Result<()> {
    let order = &job.cf.table_keys.icmp;
    let follows = |pair: &[Arc<FileMetaData>]| {
        order.compare(pair[0].largest_key(), pair[1].smallest_key()).is_lt()
    };
    match job.pick.output_level == 0 || files.windows(2).all(follows) {
        true => Ok(()),
        false => Err(Error::corruption("tables of a remote compaction overlap")),
    }
}
