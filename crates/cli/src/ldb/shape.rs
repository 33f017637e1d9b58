//! Commands that change where a database's files are: fewer levels, another compaction style, a
//! file less. The database must not be open elsewhere; its lock is held.

use super::data::no_words;
use super::manifest::{Places, current_manifest, for_each_edit};
use super::open::{Access, Found, text as failure};
use super::opened::Opened;
use super::{Failure, Invocation};
use crate::output::Output;
use pumice::{BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, Db};
use pumice_base::Result as EngineResult;
use pumice_env::{BufferedWriter, FileOptions, FileSystem, PosixFs, WriterOptions, filename};
use pumice_manifest::VersionEdit;
use pumice_wal::LogWriter;

/// Target size of files while everything becomes one file.
const WHOLE: u64 = i64::MAX as u64;

/// Files of the column family by level.
fn files_by_level(opened: &Opened<Db>) -> Result<Vec<usize>, Failure> {
    let options = opened.db.column_family_options(&opened.cf).map_err(failure)?;
    let mut counts = vec![0; usize::try_from(options.num_levels).unwrap_or(1)];
    for file in opened.db.live_files_metadata() {
        if file.column_family_name == opened.cf.name() {
            counts[file.level] += 1;
        }
    }
    Ok(counts)
}

/// `reduce_levels --new_levels=N`: no file is on level N or below it any more.
pub fn reduce_levels(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "reduce_levels")?;
    let levels = it.arguments.number::<i32>("new_levels").unwrap_or_default().unwrap_or(0);
    if levels <= 0 {
        return Err(" Use --new_levels to specify a new level number\n".into());
    }
    it.check_present()?;
    let opened = it.open::<Db>()?;
    let used = files_by_level(&opened)?.iter().rposition(|count| *count > 0).map_or(0, |l| l + 1);
    if it.arguments.flag("print_old_levels") {
        out.text(&format!("The old number of levels in use is {used}\n"));
    }
    if used as u64 > u64::from(levels.unsigned_abs()) {
        let options = CompactRangeOptions {
            change_level: true,
            target_level: levels - 1,
            ..CompactRangeOptions::default()
        };
        opened.db.compact_range_cf(&options, &opened.cf, None, None).map_err(failure)?;
    }
    opened.db.close().map_err(failure)
}

/// `change_compaction_style`: from level to universal compaction, all becomes one file on level 0.
pub fn change_compaction_style(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "change_compaction_style")?;
    let style = |flag: &str, which: &str| -> Result<i32, Failure> {
        let given = it.arguments.number::<i32>(flag).unwrap_or_default();
        given.filter(|style| (0..=1).contains(style)).ok_or_else(|| {
            format!(
                "Use --{flag} to specify {which} compaction style. Check ldb help for proper \
                 compaction style value.\n"
            )
        })
    };
    let old = style("old_compaction_style", "old")?;
    let new = style("new_compaction_style", "new")?;
    if old == new {
        return Err(
            "Old compaction style is the same as new compaction style. Nothing to do.\n".into()
        );
    }
    if old == 1 {
        return Err(
            "Convert from universal compaction to level compaction. Nothing to do.\n".into()
        );
    }
    let mut found = it.options(Access::Write)?;
    let automatic = stop_automatic_compactions(&mut found);
    let opened = it.open_found::<Db>(&found)?;
    let left = show_one_file(&opened, out);
    // Due compactions are left to the next opener.
    opened.db.pause_background_work();
    for family in automatic.iter().filter_map(|name| opened.db.column_family(name)) {
        let back = [("disable_auto_compactions", "false")];
        opened.db.set_options_cf(&family, &back).map_err(failure)?;
    }
    opened.db.close().map_err(failure)?;
    let left = left?;
    if left[0] > 1 || left[1..].iter().any(|count| *count > 0) {
        let count: usize = left.iter().sum();
        return Err(format!("Number of db files at level 0 after compaction is {count}, not 1.\n"));
    }
    Ok(())
}

/// Due compactions would change what is shown. Returns the names of the families that had automatic
/// compactions.
fn stop_automatic_compactions(found: &mut Found) -> Vec<String> {
    let families = found.families.iter_mut();
    let automatic = families.filter(|family| !family.options.disable_auto_compactions);
    let stop = |family: &mut ColumnFamilyDescriptor| {
        family.options.disable_auto_compactions = true;
        family.name.clone()
    };
    automatic.map(stop).collect()
}

/// Files by level after merging everything into one, with the intermediate states shown.
fn show_one_file(opened: &Opened<Db>, out: &mut Output) -> Result<Vec<usize>, Failure> {
    let mut show = |when: &str| {
        let files = files_by_level(opened)?;
        let counts = files.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        out.text(&format!("files per level {when} compaction: {counts}\n"));
        Ok(files)
    };
    show("before")?;
    become_one_file(opened)?;
    show("after")
}

/// Compacts all into one file on level 0; sizes of files, and what stays above the last level, are
/// as before afterwards.
fn become_one_file(opened: &Opened<Db>) -> Result<(), Failure> {
    let before = opened.db.column_family_options(&opened.cf).map_err(failure)?;
    let set = |sizes: [u64; 2], times: [u64; 2]| {
        let [target, compaction, precluded, preserved] =
            [sizes[0], sizes[1], times[0], times[1]].map(|number| number.to_string());
        let changes = [
            ("target_file_size_base", &target[..]),
            ("max_compaction_bytes", &compaction[..]),
            ("preclude_last_level_data_seconds", &precluded[..]),
            ("preserve_internal_time_seconds", &preserved[..]),
        ];
        opened.db.set_options_cf(&opened.cf, &changes).map_err(failure)
    };
    let (precluded, preserved) =
        (before.preclude_last_level_data_seconds, before.preserve_internal_time_seconds);
    // Young entries come along, and it stays known that they are young.
    set([WHOLE, WHOLE], [0, precluded.max(preserved)])?;
    let options = CompactRangeOptions {
        change_level: true,
        target_level: 0,
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let compacted = opened.db.compact_range_cf(&options, &opened.cf, None, None);
    let sizes = [before.target_file_size_base, before.max_compaction_bytes];
    set(sizes, [precluded, preserved])?;
    compacted.map_err(failure)
}

/// `unsafe_remove_sst_file N`: the MANIFEST forgets a table file, which the next open deletes. This
/// may repair a database whose files overlap where they must not.
pub fn remove_table_file(it: &Invocation, _out: &mut Output) -> Result<(), Failure> {
    let [word] = it.arguments.words.as_slice() else {
        return Err("SST file number must be specified".into());
    };
    let word = &*String::from_utf8_lossy(word);
    let Some(number) = file_number(word) else {
        return Err(format!("Failed to parse SST file number {word}"));
    };
    // Nothing is opened, as the table may be damaged; but only what a writer could open may pass.
    it.options(Access::Write)?;
    let fs = PosixFs::shared();
    let text = |error| format!("failed to unsafely remove SST file: {error}");
    // Without a database there is nothing to lock.
    current_manifest(&*fs, &it.db).map_err(text)?;
    let lock = fs.lock(&filename::lock_file(&it.db)).map_err(text)?;
    let manifest = current_manifest(&*fs, &it.db).map_err(text)?;
    let places = Places::read(&*fs, &manifest).map_err(text)?;
    let mut families = places.families.iter();
    let place = families.find_map(|(id, (_, files))| Some((*id, files.level_of(number)?)));
    let Some((id, level)) = place else {
        return Err(
            "failed to unsafely remove SST file: NotFound: File not present in any level".into()
        );
    };
    let mut edit = VersionEdit::for_column_family(id);
    edit.delete_file(level, number);
    edit.next_file_number = Some(places.next_file_number + 1);
    let mut records = Vec::new();
    let read = for_each_edit(&*fs, &manifest, |edit| {
        records.push(edit.encode());
        Ok(())
    });
    read.map_err(text)?;
    records.push(edit.encode());
    write_manifest(&*fs, &it.db, places.next_file_number, &records).map_err(text)?;
    drop(lock);
    eprintln!("unsafely removed SST file");
    Ok(())
}

/// The number that `strtoull` of C, which RocksDB's ldb calls, makes of the whole word: one that is
/// too large is the largest, and a negative one counts down from there.
fn file_number(word: &str) -> Option<u64> {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match digits.parse::<u64>() {
        Ok(number) if word.starts_with('-') => Some(number.wrapping_neg()),
        Ok(number) => Some(number),
        Err(_) => Some(u64::MAX),
    }
}

/// Writes a MANIFEST of these edits, and makes it the current one.
fn write_manifest(
    fs: &dyn FileSystem,
    db: &std::path::Path,
    number: u64,
    records: &[Vec<u8>],
) -> EngineResult<()> {
    let file = fs.create(&filename::manifest_file(db, number), &FileOptions::default())?;
    let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(file, number, false, false);
    for record in records {
        log.add_record(record)?;
    }
    log.sync()?;
    log.close()?;
    filename::set_current_file(fs, db, number, true)
}
