//! Commands about the files of a database: where they are, their checksums, their range deletions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::data::no_words;
use super::manifest::{ManifestState, current_manifest};
use super::open::{Access, Found, text as failure};
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::show_plain;
use pumice::{Db, LiveFile};
use pumice_env::PosixFs;
use pumice_env::filename::TableDirs;
use pumice_table::{Table, TableReadContext};

/// Range deletions that are printed by default.
const RANGE_DELETIONS: i32 = 1000;
const RULE: &str = "------------------------------\n";

/// `list_live_files_metadata`: by column family and level, or by name.
pub fn list_live_files(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "list_live_files_metadata")?;
    let opened = it.open_read_only::<Db>()?;
    let files = opened.db.live_files_metadata();
    let found = it.options(Access::Read)?;
    let fs = PosixFs::shared();
    let manifest = current_manifest(&*fs, it.source()).map_err(failure)?;
    let state = ManifestState::read(&*fs, &manifest, it.may_overlap()).map_err(failure)?;
    let blobs = blob_files(it, &found, &state);
    let path = |file: &LiveFile| format!("{}{}", file.directory.display(), file.name);
    if it.arguments.flag("sort_by_filename") {
        let tables = files.iter().map(|file| {
            let (level, family) = (file.level, &file.column_family_name);
            (path(file), format!(" : level {level}, column family '{family}'"))
        });
        let blobs = blobs.iter().flat_map(|(family, paths)| {
            let line = format!(", column family '{family}'");
            paths.iter().map(move |path| (path.display().to_string(), line.clone()))
        });
        let lines: BTreeMap<String, String> = tables.chain(blobs).collect();
        out.text("Live SST and Blob Files:\n");
        lines.iter().for_each(|(path, what)| out.text(&format!("{path}{what}\n")));
        out.text(RULE);
        return Ok(());
    }
    for found in found.families {
        out.text(&format!("===== Column Family: {} =====\nLive SST Files:\n", found.name));
        for level in 0..usize::try_from(found.options.num_levels).unwrap_or(0) {
            out.text(&format!("---------- level {level} ----------\n"));
            let here = |f: &&LiveFile| f.column_family_name == found.name && f.level == level;
            for file in files.iter().filter(here) {
                out.text(&format!("{}\n", path(file)));
            }
        }
        out.text("Live Blob Files:\n");
        for path in blobs.get(&found.name).into_iter().flatten() {
            out.text(&format!("{}\n", path.display()));
        }
        out.text(RULE);
    }
    Ok(())
}

/// The blob files of each column family, as the MANIFEST lists them.
pub fn blob_files(
    it: &Invocation,
    found: &Found,
    state: &ManifestState,
) -> BTreeMap<String, Vec<PathBuf>> {
    let files = state.families.values().map(|family| {
        let named = found.families.iter().find(|options| options.name == family.name);
        let own = named.and_then(|family| family.options.cf_paths.first());
        let first = own.or(found.db.db_paths.first()).map_or(&it.db, |first| &first.path);
        let dirs = TableDirs::of(first);
        let numbers = family.version.blob_files().keys();
        (family.name.clone(), numbers.map(|number| dirs.blob(*number)).collect())
    });
    files.collect()
}

/// `file_checksum_dump`: number, function and checksum of every live file, from the MANIFEST.
pub fn file_checksums(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "file_checksum_dump")?;
    let fs = PosixFs::shared();
    let path = match it.arguments.path("path") {
        Some(path) => path.to_path_buf(),
        None => current_manifest(&*fs, it.source()).map_err(failure)?,
    };
    let state = ManifestState::read(&*fs, &path, it.may_overlap()).map_err(failure)?;
    let tables = state.files();
    let tables =
        tables.map(|f| (f.number, (f.file_checksum_func_name.as_str(), &f.file_checksum[..])));
    let blobs = state.families.values().flat_map(|family| family.version.blob_files().values());
    let blobs = blobs.map(|file| {
        let added = &file.shared.addition;
        (added.number, (added.checksum_method.as_str(), &added.checksum_value[..]))
    });
    let files: BTreeMap<u64, (&str, &[u8])> = tables.chain(blobs).collect();
    for (number, (name, checksum)) in files {
        let name = if name.is_empty() { "Unknown" } else { name };
        let checksum = crate::text::show(checksum, it.key_hex && it.value_hex);
        out.line(&[format!("{number}, {name}, ").as_bytes(), &checksum]);
    }
    out.text("Print SST file checksum information finished \n");
    Ok(())
}

/// `update_manifest --update_temperatures`: reads the MANIFEST, opens every table file, and would
/// record temperatures that differ from the MANIFEST's. A local file system reports none, here
/// as in RocksDB, and then RocksDB writes nothing either; what remains is that each file is there.
pub fn update_manifest(it: &Invocation, _out: &mut Output) -> Result<(), Failure> {
    if !it.arguments.flag("update_temperatures") {
        return Err("No action like --update_temperatures specified for update_manifest".into());
    }
    it.options(super::open::Access::Write)?;
    let fs = PosixFs::shared();
    let read = || {
        let manifest = current_manifest(&*fs, &it.db)?;
        let state = ManifestState::read(&*fs, &manifest, it.may_overlap())?;
        let mut paths =
            state.files().map(|file| TableDirs::of(&it.db).table(TableDirs::OWN, file.number));
        paths.try_for_each(|path| fs.open_sequential(&path).map(drop))
    };
    match read() {
        Ok(()) => {
            if it.arguments.flag("verbose") {
                eprintln!("[INFO] UpdateManifestForFilesState: no updates needed");
            }
            eprintln!("Manifest updates successful");
            Ok(())
        }
        Err(error) => {
            eprintln!("[ERROR] UpdateManifestForFilesState failed: {error}");
            Err(format!("failed to update manifest: {error}"))
        }
    }
}

/// `list_file_range_deletes`: the range deletions of each file, newest files first.
pub fn list_range_deletes(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "list_file_range_deletes")?;
    let most = it.arguments.int("max_keys", "")?.unwrap_or(RANGE_DELETIONS);
    let mut left = most;
    let fs = PosixFs::shared();
    let manifest = current_manifest(&*fs, it.source()).map_err(failure)?;
    let state = ManifestState::read(&*fs, &manifest, it.may_overlap()).map_err(failure)?;
    let Some(family) = state.families.values().find(|family| family.name == it.family) else {
        return Err(format!("Non-existing column family {}", it.family));
    };
    for (level, file) in family.version.all_files() {
        if left <= 0 {
            break;
        }
        let path = TableDirs::of(it.source()).table(TableDirs::OWN, file.number);
        out.text(&format!("=== file : {} ===\n", path.display()));
        let context = TableReadContext {
            comparator: family.version.comparator().clone(),
            file_number: file.number,
            level: level as i32,
            largest_seqno: file.largest_seq,
            skip_filters: true,
            ..TableReadContext::default()
        };
        let opened = fs.open_random(&path).map_err(failure)?;
        let table = Table::open(context, opened, file.file_size).map_err(failure)?;
        let Some(tombstones) = table.range_tombstones() else { continue };
        let all = tombstones.fragments().iter();
        for (fragment, seq) in all.flat_map(|f| f.seqs.iter().map(move |seq| (f, seq))) {
            if left == 0 {
                break;
            }
            left -= 1;
            let (start, end) = (show_plain(&fragment.start, true), show_plain(&fragment.end, true));
            let seq = format!(" seq: {seq}");
            out.line(&[b"start: ", &start, b" end: ", &end, seq.as_bytes()]);
        }
    }
    out.text(if most > 0 && left == 0 { "(results may not be complete)\n\n" } else { "\n" });
    Ok(())
}
