//! Picks for `CompactFiles`: the files that a user names, with those that must be included.
//!
//! In L0 that is every older file, in a deeper level every file between the first and the last, and
//! in the levels down to the output every file inside the range of the inputs above. So no older
//! entry ends up before a newer one.
//!
//! Pure, like the rest of the picker. Texts of errors are RocksDB's.

use std::collections::BTreeSet;

use pumice_base::{Error, Result};
use pumice_compress::CompressionType;
use pumice_env::Temperature;
use pumice_env::filename::{PathId, table_file_name};

use super::{CompactionPick, CompactionReason, InputLevel, OutputForm, PickContext, paths};

/// What a user asks for.
#[derive(Clone, Debug)]
pub struct FilesRequest {
    /// Name of the column family, for errors.
    pub family: String,
    /// Numbers of the files.
    pub files: BTreeSet<u64>,
    /// Level of the outputs.
    pub output_level: i32,
    /// The compression of the new files, if it is not what is set for the level.
    pub compression: Option<CompressionType>,
    /// The temperature of the new files, if it is not that of the options.
    pub temperature: Option<Temperature>,
    /// Bytes at which an output ends.
    pub output_file_size_limit: u64,
    /// The directory of the outputs; None for that of the level.
    pub path_id: Option<PathId>,
}

/// The compaction of the files of `request`; `fifo` keeps all files in L0.
///
/// # Errors
/// InvalidArgument if there are no such files or the level does not fit, Aborted if another
/// compaction conflicts.
pub fn pick_files(
    ctx: &PickContext<'_>,
    request: &FilesRequest,
    fifo: bool,
) -> Result<CompactionPick> {
    let last = if fifo { 0 } else { ctx.levels_in_use() - 1 };
    let output_level = checked_level(ctx, request, last)?;
    let mut inputs: Vec<InputLevel> = Vec::new();
    for level in 0..=output_level {
        let files = level_inputs(ctx, request, &inputs, level);
        if let Some(busy) = files.files.iter().find(|file| file.is_being_compacted()) {
            return Err(Error::aborted(format!(
                "Necessary compaction input file /{} is currently being compacted.",
                table_file_name(busy.number)
            )));
        }
        inputs.extend((!files.files.is_empty()).then_some(files));
    }
    let range = ctx.range_of(&inputs);
    let conflict = output_level > 0 && ctx.conflicts_with_running(&inputs, output_level);
    let proximal = ctx.proximal_output(&inputs, output_level);
    let conflict = conflict || ctx.conflicts_at_proximal(proximal.as_ref());
    if conflict || (inputs[0].level == 0 && ctx.running.level0_busy()) {
        return Err(Error::aborted(
            "A running compaction is writing to the same output level in an overlapping key range",
        ));
    }
    let bottommost = ctx.is_bottommost(&inputs, output_level, &range);
    let limit = if output_level == 0 { u64::MAX } else { request.output_file_size_limit };
    Ok(CompactionPick {
        reason: CompactionReason::ManualCompaction,
        score: 0.0,
        start_level: inputs[0].level,
        output_level,
        grandparents: Vec::new(),
        is_trivial_move: false,
        is_deletion: false,
        bottommost,
        deepest: output_level + 1 >= ctx.version.num_non_empty_levels(),
        outputs: OutputForm {
            path_id: request.path_id.unwrap_or_else(|| paths::of_level(ctx.options, output_level)),
            compression: request.compression,
            temperature: request.temperature,
            proximal,
        },
        target_output_file_size: limit,
        max_output_file_size: limit,
        max_compaction_bytes: u64::MAX,
        next_cursor: None,
        inputs,
    })
}

/// The output level, once it is known to fit the files; `last` is the deepest that may be.
fn checked_level(ctx: &PickContext<'_>, request: &FilesRequest, last: usize) -> Result<usize> {
    let refuse = |text: String| Err(Error::invalid_argument(text));
    let Ok(output_level) = usize::try_from(request.output_level) else {
        return refuse("Output level cannot be negative.".into());
    };
    if output_level >= ctx.version.num_levels() {
        return refuse(format!(
            "Output level for column family {} must between [0, {}].",
            request.family,
            ctx.version.num_levels() - 1
        ));
    }
    if output_level > last {
        return refuse(format!(
            "Exceed the maximum output level defined by the current compaction algorithm --- {last}"
        ));
    }
    if request.files.is_empty() {
        return refuse("A compaction must contain at least one file.".into());
    }
    for number in &request.files {
        let name = format!("/{}", table_file_name(*number));
        match ctx.version.find_by_number(*number) {
            None => {
                return refuse(format!(
                    "Specified compaction input file {name} does not exist in column family {}.",
                    request.family
                ));
            }
            Some((level, _)) if level > output_level => {
                return refuse(format!(
                    "Cannot compact file to up level, input file: {name} level {level} > output \
                     level {output_level}"
                ));
            }
            Some((_, file)) if file.is_being_compacted() => {
                return Err(Error::aborted(format!(
                    "Specified compaction input file {name} is already being compacted."
                )));
            }
            Some(_) => {}
        }
    }
    Ok(output_level)
}

/// The inputs of one level: those asked for and those that overlap the inputs above.
fn level_inputs(
    ctx: &PickContext<'_>,
    request: &FilesRequest,
    above: &[InputLevel],
    level: usize,
) -> InputLevel {
    let files = ctx.version.files(level);
    let cmp = &ctx.version.comparator().user;
    let asked = |at: &usize| request.files.contains(&files[*at].number);
    let first = (0..files.len()).find(asked);
    if level == 0 {
        return InputLevel::new(0, first.map_or(Vec::new(), |first| files[first..].to_vec()));
    }
    let last = (0..files.len()).rfind(asked);
    let mut span = first.unwrap_or(0)..last.map_or(0, |last| last + 1);
    if !above.is_empty() {
        let range = ctx.range_of(above);
        let below = ctx.version.level(level).overlapping_range(&range, cmp);
        span = match (span.is_empty(), below.is_empty()) {
            (_, true) => span,
            (true, false) => below,
            (false, false) => span.start.min(below.start)..span.end.max(below.end),
        };
    }
    if span.is_empty() {
        return InputLevel::new(level, Vec::new());
    }
    let span = ctx.version.level(level).clean_cut(span, cmp);
    InputLevel::new(level, files[span].to_vec())
}
