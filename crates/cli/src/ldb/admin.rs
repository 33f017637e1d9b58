//! Commands about the database as a whole.

use super::data::no_words;
use super::manifest::{ManifestState, current_manifest};
use super::open::{Access, text as failure};
use super::opened::Handle;
use super::{Failure, Invocation, family_name};
use crate::arguments::utf8;
use crate::output::Output;
use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db};
use pumice_base::names;
use pumice_env::PosixFs;
use pumice_env::filename::TableDirs;

/// `list_column_families`
pub fn list_column_families(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "list_column_families")?;
    let names = Db::list_column_families(&pumice::DbOptions::default(), &it.db)
        .map_err(|error| format!("Error in processing db {} {error}", it.db.display()))?;
    out.text(&format!("Column families in {}: \n", it.db.display()));
    let names: Vec<_> = names.iter().map(|name| names::bytes_of(name)).collect();
    out.line(&[b"{", &names.join(&b", "[..]), b"}"]);
    Ok(())
}

/// `create_column_family <name>`
pub fn create_column_family(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [name] = it.arguments.words.as_slice() else {
        return Err("new column family name must be specified".into());
    };
    let name = family_name(name);
    it.check_present()?;
    let options = it.options(Access::Write)?;
    let default = options.families.iter().find(|family| family.name == "default");
    let family = default.map(|family| family.options.clone()).unwrap_or_default();
    let opened = it.open_found::<Db>(&options)?;
    opened
        .db
        .create_column_family(&family, &name)
        .map_err(|error| format!("Fail to create new column family: {error}"))?;
    opened.db.close().map_err(failure)?;
    out.line(&[b"OK"]);
    Ok(())
}

/// `drop_column_family <name>`
pub fn drop_column_family(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [name] = it.arguments.words.as_slice() else {
        return Err("The name of column family to drop must be specified".into());
    };
    let name = family_name(name);
    it.check_present()?;
    let opened = it.open::<Db>()?;
    let Some(family) = opened.db.column_family(&name) else {
        return Err(format!("Column family: {name} doesn't exist in db."));
    };
    opened
        .db
        .drop_column_family(&family)
        .map_err(|error| format!("Fail to drop column family: {error}"))?;
    opened.db.close().map_err(failure)?;
    out.line(&[b"OK"]);
    Ok(())
}

/// `checkconsistency`: the MANIFEST can be replayed, and every live file is there with its size.
pub fn check_consistency(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "checkconsistency")?;
    let fs = PosixFs::shared();
    let manifest = current_manifest(&*fs, it.source()).map_err(failure)?;
    let state = ManifestState::read(&*fs, &manifest, it.may_overlap()).map_err(failure)?;
    let mut complaints = String::new();
    for file in state.files() {
        let path = TableDirs::of(it.source()).table(TableDirs::OWN, file.number);
        match fs.file_size(&path) {
            Ok(size) if size == file.file_size => {}
            Ok(size) => complaints.push_str(&format!(
                "Sst file size mismatch: {}. Size recorded in manifest {}, actual size {size}\n",
                path.display(),
                file.file_size
            )),
            Err(error) => {
                complaints.push_str(&format!("Can't access {}: {error}\n", path.display()));
            }
        }
    }
    if !complaints.is_empty() {
        return Err(format!("Corruption: {complaints}"));
    }
    it.open_read_only::<Db>()?;
    out.line(&[b"OK"]);
    Ok(())
}

/// `get_property <name>`
pub fn get_property(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [name] = it.arguments.words.as_slice() else {
        return Err("property name must be specified".into());
    };
    let name = utf8(name, "property name")?;
    let opened = it.open_read_only::<Db>()?;
    if let Some(map) = opened.db.property_map_cf(&opened.cf, name) {
        map.iter().for_each(|(key, value)| out.text(&format!("{name}.{key}: {value}\n")));
        return Ok(());
    }
    match opened.db.property_cf(&opened.cf, name) {
        Some(value) => {
            out.text(&format!("{name}: {value}\n"));
            Ok(())
        }
        None => Err(format!("failed to get property: {name}")),
    }
}

/// `compact`: everything in the range is rewritten, the last level too, as RocksDB's does: files
/// get the options of today.
pub fn compact<H: Handle>(it: &Invocation, _out: &mut Output) -> Result<(), Failure> {
    no_words(it, "compact")?;
    let (begin, end) = (it.bound("from", it.key_hex)?, it.bound("to", it.key_hex)?);
    let opened = it.open::<H>()?;
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    let (db, cf) = (&opened.db, &opened.cf);
    let files = db.live_files_metadata();
    let files = files.iter().filter(|file| file.column_family_name == it.family);
    let files: Vec<_> = files.map(|file| (file.level, file.size)).collect();
    it.progress.meter().expect(bytes_to_compact(&files));
    db.compact_range_cf(&options, cf, begin.as_deref(), end.as_deref())
        .map_err(|error| format!("Compaction failed: {error}"))?;
    opened.db.close().map_err(failure)
}

/// Bytes that a compaction of everything reads: each level that has files and is not the last one
/// goes with the next one, and the last one is rewritten if there is no other. `files` have a level
/// and a size.
fn bytes_to_compact(files: &[(usize, u64)]) -> u64 {
    let first = files.iter().map(|(level, _)| *level).min().unwrap_or(0);
    let last = files.iter().map(|(level, _)| *level).max().unwrap_or(0);
    let above =
        |end: usize| files.iter().filter(|(level, _)| *level <= end).map(|f| f.1).sum::<u64>();
    (first + 1..=last.max(first + 1)).map(above).sum::<u64>()
}

/// `approxsize --from --to`
pub fn approximate_size(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "approxsize")?;
    let bound = |flag: &str| match it.bound(flag, it.key_hex)? {
        Some(key) => Ok(key),
        None => Err(format!("{flag} must be specified for approxsize command")),
    };
    let (from, to) = (bound("from")?, bound("to")?);
    let opened = it.open_read_only::<Db>()?;
    let sizes = opened.db.approximate_sizes_cf(&opened.cf, &[(&from, &to)]).map_err(failure)?;
    out.text(&format!("{}\n", sizes.iter().sum::<u64>()));
    Ok(())
}

/// `checkpoint --checkpoint_dir=PATH`
pub fn checkpoint(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "checkpoint")?;
    let opened = it.open::<Db>()?;
    let Some(target) = it.arguments.path("checkpoint_dir") else {
        return Err("Invalid argument: invalid checkpoint directory name".into());
    };
    opened.db.checkpoint(target).map_err(failure)?;
    opened.db.close().map_err(failure)?;
    out.line(&[b"OK"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bytes_to_compact;

    #[pumice_test_macros::test]
    fn each_level_is_read_with_those_above() {
        assert_eq!(bytes_to_compact(&[]), 0);
        assert_eq!(bytes_to_compact(&[(0, 5)]), 5);
        assert_eq!(bytes_to_compact(&[(6, 5)]), 5);
        assert_eq!(bytes_to_compact(&[(0, 1), (1, 10), (2, 100)]), 11 + 111);
    }
}
