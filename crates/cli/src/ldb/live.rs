//! `dump_live_files`, and `dump --path`: one file of a database as text, whatever it is.

use std::path::Path;

use super::blob_dump::dump_blob_file;
use super::data::no_words;
use super::files::blob_files;
use super::manifest::{ManifestState, current_manifest};
use super::open::text as failure;
use super::wal::{WalDump, dump_log};
use super::{Failure, Invocation};
use crate::output::Output;
use crate::sst_dump::{Range, open_table, print_entries};
use crate::text::Format;
use pumice::Db;
use pumice_env::filename::{self, FileType};
use pumice_env::{FileSystem, PosixFs};
use pumice_table::dump::property_lines;

const RULE: &str = "==============================\n";
const LINE: &str = "------------------------------";

/// What is printed of a log: its header and the values, too.
const WHOLE_LOG: WalDump = WalDump { header: true, values: true, only_gaps: false };

/// `dump_live_files`: the MANIFEST, the tables of each column family, the logs.
pub fn dump_live_files(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "dump_live_files")?;
    let opened = it.open_read_only::<Db>()?;
    let fs = PosixFs::shared();
    let manifest = current_manifest(&*fs, it.source()).map_err(failure)?;
    out.text(&format!("Manifest File\n{RULE}{}\n", manifest.display()));
    let state = ManifestState::read(&*fs, &manifest, it.may_overlap()).map_err(failure)?;
    state.print(false, out);
    out.text("\n");
    let files = opened.db.live_files_metadata();
    let found = it.options(super::open::Access::Read)?;
    let blobs = blob_files(it, &found, &state);
    let format = Format { key_hex: false, value_hex: false, ..it.format() };
    let uncompressed = it.arguments.flag("dump_uncompressed_blobs");
    for family in found.families {
        out.text(&format!("Column family name: {}\n{RULE}\nSST Files\n{RULE}", family.name));
        for file in files.iter().filter(|file| file.column_family_name == family.name) {
            let path = file.directory.join(file.name.trim_start_matches('/'));
            out.text(&format!("{} level:{}\n{LINE}\n", path.display(), file.level));
            dump_table(&*fs, &path, format, &Range::default(), out)?;
            out.text("\n");
        }
        out.text(&format!("Blob Files\n{RULE}"));
        for path in blobs.get(&family.name).into_iter().flatten() {
            out.text(&format!("{}\n{LINE}\n", path.display()));
            dump_blob_file(&*fs, path, format, uncompressed, out)?;
            out.text("\n");
        }
    }
    out.text(&format!("\nWrite Ahead Log Files\n{RULE}"));
    let options = opened.db.options();
    let logs = if options.wal_dir.is_empty() { &it.db } else { Path::new(&options.wal_dir) };
    // A damaged log does not hide those after it.
    let mut dumped = Ok(());
    for log in opened.db.wal_files().map_err(failure)? {
        let path = logs.join(log.path_name.trim_start_matches('/'));
        out.text(&format!("{}\n", path.display()));
        dumped = dumped.and(dump_log(&*fs, &path, &WHOLE_LOG, &mut None, out));
    }
    dumped
}

/// `dump --path=FILE`: the kind of file follows from its name.
pub fn dump_file(it: &Invocation, file: &Path, out: &mut Output) -> Result<(), Failure> {
    let fs = PosixFs::shared();
    let path = file.display();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match filename::parse(&name) {
        Some((_, FileType::Wal)) => dump_log(&*fs, file, &WHOLE_LOG, &mut None, out),
        Some((_, FileType::Table)) => {
            let (from, to) = (it.bound("from", it.key_hex)?, it.bound("to", it.key_hex)?);
            let range = Range { from, to, ..Range::default() };
            let format = Format { value_hex: it.key_hex, ..it.format() };
            dump_table(&*fs, file, format, &range, out)
        }
        Some((_, FileType::Descriptor)) => {
            ManifestState::read(&*fs, file, it.may_overlap())
                .map_err(failure)?
                .print(it.key_hex, out);
            Ok(())
        }
        Some((_, FileType::Blob)) => {
            let uncompressed = it.arguments.flag("dump_uncompressed_blobs");
            dump_blob_file(&*fs, file, it.format(), uncompressed, out)
        }
        Some(_) => Err(format!("File type not supported: {path}")),
        None => Err(format!("Can't parse file type: {path}")),
    }
}

/// The entries of a table and its properties.
fn dump_table(
    fs: &dyn FileSystem,
    path: &Path,
    format: Format,
    range: &Range,
    out: &mut Output,
) -> Result<(), Failure> {
    out.text(&format!("Process {}\n", path.display()));
    let table = open_table(fs, path).map_err(failure)?;
    out.text(&format!("Sst file format: {}\n", table.format_name()));
    if print_entries(&table, range, format, out).map_err(failure)? {
        out.text(&format!("\nTable Properties:\n{}\n", property_lines(table.properties())));
    }
    Ok(())
}
