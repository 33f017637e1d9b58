//! `pumice sst_dump`: inspects table files, with the commands and texts of RocksDB's tool.
//!
//! Exit status 1 if any file is not readable, not intact, or not a table file; with `identify` if
//! no file is a table file.

mod flags;
mod measured;
mod recompress;

use crate::arguments::{self, Arguments, Flag, Wrong};
use crate::environments;
use crate::nearest::hint;
use crate::output::Output;
use crate::progress::{Progress, bytes_of};
use crate::text::{Format, parse, show_internal_key, show_stored, show_timed_key};
use flags::KNOWN;
use measured::Document;

pub use flags::USAGE;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, UserKey, ValueType, seek_key};
use pumice_base::{Comparator, Error, InternalKeyComparator, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileOptions, FileSystem, PosixFs};
use pumice_manifest::file_meta::debug_bytes;
use pumice_table::{Table, TableProperties, TableReadContext, TableReadOptions, TableStats, dump};
use recompress::Trials;
use regex_lite::Regex;
use std::cmp::Ordering;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Check,
    Scan,
    Raw,
    Verify,
    Recompress,
    Identify,
    None,
}

struct Request {
    /// Files and directories.
    paths: Vec<PathBuf>,
    command: Command,
    format: Format,
    range: Range,
    show_properties: bool,
    show_summary: bool,
    list_meta_blocks: bool,
    show_sequences: bool,
    /// Patterns that properties must match and must not match.
    wanted: Option<Regex>,
    unwanted: Option<Regex>,
    trials: Trials,
    /// What is measured is printed as JSON, and nothing about reading the files.
    json: bool,
}

/// Which entries of a table are walked over.
pub struct Range {
    /// The first user key.
    pub from: Option<Vec<u8>>,
    /// The user key before which the walk ends.
    pub to: Option<Vec<u8>>,
    /// `from` is a prefix that all keys have.
    pub is_prefix: bool,
    /// How many entries at most.
    pub limit: u64,
    /// How much is read ahead.
    pub readahead_bytes: usize,
}

/// RocksDB's tool reads this much ahead by default.
const READAHEAD_BYTES: usize = 2 << 20;

impl Default for Range {
    fn default() -> Self {
        let (limit, readahead_bytes) = (u64::MAX, READAHEAD_BYTES);
        Range { from: None, to: None, is_prefix: false, limit, readahead_bytes }
    }
}

#[derive(Default)]
struct Summary {
    files: u64,
    data_blocks: u64,
    data_bytes: u64,
    index_bytes: u64,
    filter_bytes: u64,
}

/// The flags, for completions.
pub fn flags() -> Vec<Flag> {
    KNOWN.flags()
}

/// Runs `pumice sst_dump` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = Arguments::parse(args);
    if arguments.has("help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if arguments.has("version") {
        println!("sst_dump from Pumice {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if let Some(key) = arguments.bytes("parse_internal_key") {
        return parse_internal_key(key);
    }
    let request = match request(&arguments) {
        Ok(request) => request,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = Output::stdout();
    request.trials.introduce(&mut out);
    let good = match request.command {
        Command::Identify => identify(&request, &mut out),
        _ => process_all(&request, &mut out),
    };
    match out.finish() {
        Ok(()) if good => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// `--parse_internal_key`. RocksDB's tool ends with -1 if it is not such a key.
fn parse_internal_key(text: &[u8]) -> ExitCode {
    const FAILED: u8 = 255;
    let key = match parse(text, true) {
        Ok(key) => key,
        Err(complaint) => {
            let text = String::from_utf8_lossy(text);
            eprintln!(
                "{complaint}\nERROR: Invalid key input '{text}' Use 0x{{hex representation of \
                 internal rocksdb key}}"
            );
            return ExitCode::from(FAILED);
        }
    };
    let Some(ikey) = InternalKey::checked(&key) else {
        eprintln!("Corrupted Key: Internal Key too small. Size={}. ", key.len());
        return ExitCode::from(FAILED);
    };
    let shown = show_internal_key(&key, true);
    let shown = String::from_utf8_lossy(&shown);
    let is_known = ValueType::from_u8(ikey.tag()).is_some();
    if !is_known {
        eprintln!("Corrupted Key: {shown}");
    }
    println!("key={shown}");
    if is_known { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// The regular expression `text`.
///
/// # Errors
/// What is wrong with it.
fn parse_regex(text: &str) -> std::result::Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("regular expression '{text}': {error}"))
}

fn request(arguments: &Arguments) -> std::result::Result<Request, String> {
    arguments.check(&KNOWN).map_err(|wrong| match wrong {
        Wrong::Unknown(_, unknown) => {
            format!("Unrecognized argument '--{unknown}'{}", hint(&unknown, KNOWN.names()))
        }
        wrong => wrong.to_string(),
    })?;
    environments::check(arguments.text("env_uri")?, arguments.text("fs_uri")?)?;
    let words = arguments.words.iter().map(|word| arguments::path(word));
    let paths = arguments.path("file").into_iter().chain(words);
    let paths: Vec<PathBuf> = paths.map(Path::to_path_buf).collect();
    if paths.is_empty() {
        return Err("file or directory must be specified.".into());
    }
    let command = arguments.text("command")?.unwrap_or("check");
    let shows_properties = command == "properties";
    let command = match command {
        "check" => Command::Check,
        "scan" => Command::Scan,
        "raw" => Command::Raw,
        "verify" => Command::Verify,
        "none" | "properties" => Command::None,
        "recompress" => Command::Recompress,
        "identify" => Command::Identify,
        other => return Err(format!("Unknown command '{other}'")),
    };
    let hex = arguments.flag("input_key_hex");
    let bound = |flag: &str| arguments.bytes(flag).map(|text| parse(text, hex)).transpose();
    let regex = |flag: &str| arguments.text(flag)?.map(parse_regex).transpose();
    let prefix = bound("prefix")?;
    if prefix.is_some() && arguments.has("from") {
        return Err("Cannot specify --prefix and --from".into());
    }
    let read_num = arguments.number::<u64>("read_num")?.unwrap_or(0);
    Ok(Request {
        paths,
        command,
        format: Format {
            key_hex: arguments.flag("output_hex"),
            value_hex: arguments.flag("output_hex"),
            decode_blob_index: arguments.flag("decode_blob_index"),
        },
        range: Range {
            is_prefix: prefix.is_some(),
            from: prefix.map_or_else(|| bound("from"), |prefix| Ok(Some(prefix)))?,
            to: bound("to")?,
            // RocksDB's tool also takes 0 for "all".
            limit: if read_num == 0 { u64::MAX } else { read_num },
            readahead_bytes: arguments.number("readahead_size")?.unwrap_or(READAHEAD_BYTES),
        },
        show_properties: arguments.flag("show_properties") || shows_properties,
        show_summary: arguments.flag("show_summary"),
        list_meta_blocks: arguments.flag("list_meta_blocks"),
        show_sequences: arguments.flag("show_sequence_number_type"),
        wanted: regex("require_property_regex")?,
        unwanted: regex("exclude_property_regex")?,
        trials: Trials::parse(arguments)?,
        json: arguments.flag("json"),
    })
}

/// What a run over all files has found.
struct Processed {
    /// Files that are tables, and were not left out by their properties.
    valid: Vec<PathBuf>,
    /// A file or directory could not be read, or is not intact, or there was none.
    failed: bool,
}

/// Processes each file, and every table file of each directory. Complaints go to stderr.
fn process_each(request: &Request, out: &mut Output) -> Processed {
    let quiet = matches!(request.command, Command::Check | Command::Verify | Command::Recompress);
    let (progress, fs) = Progress::files("sst_dump", PosixFs::shared(), !quiet);
    let bytes = |path: &PathBuf| match is_directory(path) {
        true => bytes_of(path, &[".sst"]),
        false => pumice_port::os::stat(path).map_or(0, |stat| stat.bytes),
    };
    progress.meter().expect(request.paths.iter().map(bytes).sum());
    let mut done = Processed { valid: Vec::new(), failed: false };
    let (mut summary, mut document) = (Summary::default(), Document::default());
    // Directories, and files, in which there is no table.
    let mut without: Vec<&PathBuf> = Vec::new();
    for path in &request.paths {
        let files = match table_files(&*fs, path) {
            Ok(files) => files,
            Err(error) => {
                eprintln!("{error}");
                done.failed = true;
                continue;
            }
        };
        let mut tables = 0;
        for file in &files {
            if !request.json {
                out.text(&format!("Process {}\n", file.display()));
            }
            match process(&*fs, request, file, (&mut summary, &mut document), out) {
                Ok(is_wanted) => {
                    tables += 1;
                    done.valid.extend(is_wanted.then(|| file.clone()));
                }
                Err(error) => {
                    eprintln!("{}: {error}", file.display());
                    done.failed = true;
                }
            }
        }
        if tables == 0 {
            without.push(path);
        }
    }
    if request.json && request.command == Command::Recompress {
        out.text(&document.text(request.trials.block_size()));
    }
    if request.show_summary {
        out.text(&summary.text());
    }
    for path in without {
        say_no_table(path, request, out);
        done.failed = true;
    }
    done
}

/// There is no table at `path`: RocksDB's words. `identify` says so itself of a directory.
fn say_no_table(path: &Path, request: &Request, out: &mut Output) {
    match is_directory(path) {
        true if request.command == Command::Identify => {}
        true => list_valid(&format!(" found in {}", path.display()), &[], out),
        false => eprintln!("{} is not a valid SST file", path.display()),
    }
}

fn is_directory(path: &Path) -> bool {
    pumice_port::os::stat(path).is_ok_and(|stat| stat.is_dir)
}

impl Summary {
    /// Adds a table. Its properties may say anything.
    fn add(&mut self, table: &TableProperties) {
        let plus = u64::saturating_add;
        self.files += 1;
        self.data_blocks = plus(self.data_blocks, table.num_data_blocks);
        self.data_bytes = plus(self.data_bytes, table.data_size);
        self.index_bytes = plus(self.index_bytes, table.index_size);
        self.filter_bytes = plus(self.filter_bytes, table.filter_size);
    }

    fn text(&self) -> String {
        format!(
            "total number of files: {}\ntotal number of data blocks: {}\n\
             total data block size: {}\ntotal index block size: {}\ntotal filter block size: {}\n",
            self.files, self.data_blocks, self.data_bytes, self.index_bytes, self.filter_bytes
        )
    }
}

/// [`process_each`]. False: something is wrong.
fn process_all(request: &Request, out: &mut Output) -> bool {
    !process_each(request, out).failed
}

/// Prints which files are tables. False: none is.
fn identify(request: &Request, out: &mut Output) -> bool {
    let valid = process_each(request, out).valid;
    let [path] = request.paths.as_slice() else {
        list_valid("", &valid, out);
        return !valid.is_empty();
    };
    if is_directory(path) {
        list_valid(&format!(" found in {}", path.display()), &valid, out);
    } else if !valid.is_empty() {
        out.text(&format!("{} is a valid SST file\n", path.display()));
    }
    !valid.is_empty()
}

fn list_valid(whence: &str, valid: &[PathBuf], out: &mut Output) {
    out.text("------------------------------\n");
    if valid.is_empty() {
        eprintln!("No valid SST files{whence}");
        return;
    }
    out.text(&format!("List of valid SST files{whence}:\n"));
    for file in valid {
        out.text(&format!("{}\n", file.display()));
    }
    out.text(&format!("Number of valid SST files: {}\n", valid.len()));
}

/// The table files that `path` means, in the order of their numbers.
fn table_files(fs: &dyn FileSystem, path: &Path) -> Result<Vec<PathBuf>> {
    if !fs.exists(path)? {
        return Err(Error::not_found(format!("{}: No such file or directory", path.display())));
    }
    if !is_directory(path) {
        let is_table = path.extension().is_some_and(|extension| extension == "sst");
        return Ok(if is_table { vec![path.to_path_buf()] } else { Vec::new() });
    }
    let mut numbers: Vec<(u64, String)> = fs
        .list(path)?
        .into_iter()
        .filter_map(|name| match filename::parse(&name) {
            Some((number, FileType::Table)) => Some((number, name)),
            _ => None,
        })
        .collect();
    numbers.sort();
    Ok(numbers.into_iter().map(|(_, name)| path.join(name)).collect())
}

/// Opens the table at `path`, in the key order that it names.
///
/// # Errors
/// It is not a table, is damaged, or of a comparator that is not built in; I/O.
pub fn open_table(fs: &dyn FileSystem, path: &Path) -> Result<Arc<Table>> {
    open_table_with(fs, path, None)
}

/// [`open_table`] for which `stats` counts.
fn open_table_with(
    fs: &dyn FileSystem,
    path: &Path,
    stats: Option<Arc<dyn TableStats>>,
) -> Result<Arc<Table>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = filename::parse(&name).map_or(0, |(number, _)| number);
    let file = fs.open_random(path)?;
    let size = file.len();
    let properties = Table::read_properties(Arc::clone(&file), size)?;
    let comparator = match properties.user_timestamps_persisted {
        0 => named_order(&properties.comparator)?.without_timestamps(),
        _ => named_order(&properties.comparator)?,
    };
    let context = TableReadContext {
        comparator: InternalKeyComparator::new(comparator),
        file_number: number,
        raw_indexes: true,
        stats,
        ..TableReadContext::default()
    };
    Table::open(context, file, size)
}

/// The order of that name.
fn named_order(name: &str) -> Result<Comparator> {
    let missing = || Error::not_supported(format!("comparator {name} is not built in"));
    match name {
        "" => Ok(Comparator::default()),
        name => Comparator::builtin(name).ok_or_else(missing),
    }
}

/// Processes a file. False: its properties are not those that are wanted.
fn process(
    fs: &dyn FileSystem,
    request: &Request,
    path: &Path,
    (summary, document): (&mut Summary, &mut Document),
    out: &mut Output,
) -> Result<bool> {
    let table = open_table(fs, path)?;
    if !request.json {
        out.text(&format!("Sst file format: {}\n", table.format_name()));
    }
    if let Some(why) = request.left_out(&table) {
        eprintln!("{}: skipping because properties string {why}", path.display());
        return Ok(false);
    }
    match request.command {
        Command::Check | Command::Scan => read(request, &table, out)?,
        Command::Verify => {
            table.verify_checksums()?;
            out.text("The file is ok\n");
        }
        Command::Raw => {
            let target = dump_path(path);
            let text = dump::raw_text(&table, request.show_sequences)?;
            let mut file = fs.create(&target, &FileOptions::default())?;
            file.append(&text)?;
            file.close()?;
            out.text(&format!("raw dump written to file {}\n", target.display()));
        }
        Command::Recompress if request.json => {
            let hex = request.show_properties.then_some(request.format.key_hex);
            request.trials.measure(fs, path, hex, document)?;
            summary.add(table.properties());
            return Ok(true);
        }
        Command::Recompress => request.trials.run(&table, out)?,
        Command::Identify | Command::None => {}
    }
    let properties = table.properties();
    if request.show_properties {
        out.text(&dump::properties_text(properties));
        out.text(&dump::newer_properties_text(properties));
    }
    if request.list_meta_blocks {
        out.text(&dump::meta_blocks_text(&table)?);
    }
    summary.add(properties);
    Ok(true)
}

impl Request {
    /// Why the file is left out, if it is.
    fn left_out(&self, table: &Table) -> Option<&'static str> {
        if self.wanted.is_none() && self.unwanted.is_none() {
            return None;
        }
        let text = dump::properties_text(table.properties());
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.is_match(&text)) {
            return Some("doesn't match required regex");
        }
        let is_unwanted = self.unwanted.as_ref().is_some_and(|regex| regex.is_match(&text));
        is_unwanted.then_some("matches excluded regex")
    }
}

impl Range {
    /// The walk ends before this user key.
    fn ends_before(&self, order: &InternalKeyComparator, key: UserKey<'_>) -> bool {
        let is_behind = |end: &Vec<u8>| {
            let end = order.user.at_newest(end);
            order.user.compare(key, UserKey::new(&end)) != Ordering::Less
        };
        let prefix = self.from.as_ref().filter(|_| self.is_prefix);
        self.to.as_ref().is_some_and(is_behind)
            || prefix.is_some_and(|prefix| !key.as_bytes().starts_with(prefix))
    }
}

/// `dir/000009_dump.txt` for `dir/000009.sst`.
fn dump_path(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{stem}_dump.txt"))
}

/// Walks the entries of the range, and prints them for `scan`. A walk over the whole file checks
/// their number, too.
fn read(request: &Request, table: &Arc<Table>, out: &mut Output) -> Result<()> {
    let show = |bound: &Option<Vec<u8>>| {
        bound.as_deref().map_or_else(String::new, |key| debug_bytes(key, true))
    };
    let range = &request.range;
    out.text(&format!("from [{}] to [{}]\n", show(&range.from), show(&range.to)));
    let is_shown = request.command == Command::Scan;
    let Some(count) = walk(table, range, request.format, is_shown.then_some(out))? else {
        return Ok(());
    };
    let properties = table.properties();
    let points = properties.num_entries.saturating_sub(properties.num_range_deletions);
    let whole = range.from.is_none() && range.to.is_none() && range.limit == u64::MAX;
    if whole && count != points {
        return Err(Error::corruption(format!(
            "Table has {points} point entries by its properties, but {count} were read"
        )));
    }
    Ok(())
}

/// Prints the entries of `range`. False: the reader is gone.
///
/// # Errors
/// Corruption and I/O errors of the table.
pub fn print_entries(
    table: &Arc<Table>,
    range: &Range,
    format: Format,
    out: &mut Output,
) -> Result<bool> {
    Ok(walk(table, range, format, Some(out))?.is_some())
}

/// Walks over the entries of `range`, prints them if there is an output, and returns their number.
/// None: the reader is gone.
fn walk(
    table: &Arc<Table>,
    range: &Range,
    format: Format,
    mut out: Option<&mut Output>,
) -> Result<Option<u64>> {
    let order = table.comparator();
    let mut iter = table.iter(&TableReadOptions {
        fill_cache: false,
        readahead_size: range.readahead_bytes,
        ..Default::default()
    });
    // Keys that have lost their timestamps are shown with the oldest one.
    let named = named_order(&table.properties().comparator)?;
    let lost = vec![0; named.timestamp_size() - order.user.timestamp_size()];
    match &range.from {
        Some(from) => {
            let from = order.user.at_newest(from);
            iter.seek(InternalKey::new(&seek_key(&from, MAX_SEQUENCE)));
        }
        None => iter.seek_to_first(),
    }
    let mut count = 0u64;
    while iter.valid() && count < range.limit {
        if range.ends_before(order, iter.key().user_key()) {
            break;
        }
        count += 1;
        if let Some(out) = &mut out {
            let ikey = iter.key();
            let key = [ikey.user_key().as_bytes(), &lost, &ikey.trailer().to_le_bytes()].concat();
            let key = show_timed_key(&key, format.key_hex, &named);
            if let Some(value) = show_stored(iter.key().as_bytes(), iter.value(), format)
                && !out.line(&[&key, b" => ", &value])
            {
                return Ok(None);
            }
        }
        iter.next();
    }
    iter.status()?;
    Ok(Some(count))
}

#[cfg(test)]
mod tests;
