//! `pumice sst_dump`: looks into table files, with the commands and texts of RocksDB's tool.
//!
//! Exit status 1 if any file is not readable, not intact, or not a table file.

mod recompress;

use crate::arguments::Arguments;
use crate::ldb::{Output, parse_text, show_internal_key, show_plain};
use pumice_base::dbformat::{MAX_SEQUENCE, seek_key, user_key};
use pumice_base::{Comparator, Error, InternalKeyComparator, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileOptions, FileSystem, PosixFs};
use pumice_manifest::file_meta::debug_bytes;
use pumice_table::{Table, TableReadContext, TableReadOptions, dump};
use recompress::Trials;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
sst_dump --file=<data_dir_OR_sst_file> [--command=check|scan|raw|verify|recompress]
    --file=<data_dir_OR_sst_file>
      Path to SST file or directory containing SST files

    --command=check|scan|raw|verify|recompress|none
        check: Iterate over entries in files but don't print anything except if an error is
               encountered (default command)
        scan: Iterate over entries in files and print them to screen
        raw: Dump all the table contents to <file_name>_dump.txt
        verify: Iterate all the blocks in files verifying checksum to detect possible corruption
        recompress: Build the tables anew in memory with other codecs and say how large they get
        none: Only what the flags below ask for

    --output_hex        Keys and values as hexadecimal digits
    --input_key_hex     --from and --to are 0x and hexadecimal digits
    --from=<user_key>   Key to start reading from when executing check|scan
    --to=<user_key>     Key to stop reading before when executing check|scan
    --read_num=<num>    Maximum number of entries to read when executing check|scan
    --show_properties   Print table properties after iterating over the file
    --show_summary      Print the sums of all files
    --verify_checksum   Verify checksums while reading (always done)

    With --command=recompress:
    --compression_types=<list>   Codecs to try, for instance kZSTD,kLZ4Compression
    --compression_level=<n>      Level of the codecs
    --compression_level_from=<n> --compression_level_to=<n>
                                 Several levels of one codec
    --set_block_size=<bytes>     Size of data blocks (16384)
    --compression_max_dict_bytes, --compression_zstd_max_train_bytes,
    --compression_max_dict_buffer_bytes, --compression_use_zstd_finalize_dict
                                 Dictionaries
    --compression_parallel_threads=<n>  Threads that compress
    --verify_compression         Decompress every block and compare
";

const FLAGS: &[&str] = &[
    "file",
    "command",
    "output_hex",
    "input_key_hex",
    "from",
    "to",
    "read_num",
    "show_properties",
    "show_summary",
    "verify_checksum",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Check,
    Scan,
    Raw,
    Verify,
    Recompress,
    None,
}

struct Request {
    file: PathBuf,
    command: Command,
    hex: bool,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    read_num: u64,
    show_properties: bool,
    show_summary: bool,
    trials: Trials,
}

#[derive(Default)]
struct Summary {
    files: u64,
    data_blocks: u64,
    data_bytes: u64,
    index_bytes: u64,
    filter_bytes: u64,
}

/// Runs `pumice sst_dump` with `args`, the words after the subcommand.
pub fn run(args: &[String]) -> ExitCode {
    let arguments = Arguments::parse(args);
    if arguments.has("help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let request = match request(&arguments) {
        Ok(request) => request,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = Output::stdout();
    let good = process_all(&request, &mut out);
    match out.finish() {
        Ok(()) if good => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn request(arguments: &Arguments) -> std::result::Result<Request, String> {
    if let Some(unknown) = arguments.first_unknown(&[FLAGS, recompress::FLAGS].concat()) {
        return Err(format!("Unrecognized argument '--{unknown}'"));
    }
    if let Some(word) = arguments.words.first() {
        return Err(format!("Unrecognized argument '{word}'"));
    }
    let Some(file) = arguments.text("file").filter(|file| !file.is_empty()) else {
        return Err("file or directory must be specified.".into());
    };
    let command = match arguments.text("command").unwrap_or("check") {
        "check" => Command::Check,
        "scan" => Command::Scan,
        "raw" => Command::Raw,
        "verify" => Command::Verify,
        "none" | "properties" => Command::None,
        "recompress" => Command::Recompress,
        "identify" => {
            return Err("command identify of RocksDB's sst_dump is not supported yet".into());
        }
        other => return Err(format!("Unknown command '{other}'")),
    };
    let hex = arguments.flag("input_key_hex");
    let bound = |flag: &str| {
        let given = arguments.text(flag).filter(|text| !text.is_empty());
        given.map(|text| parse_text(text, hex)).transpose()
    };
    let read_num = arguments.number::<u64>("read_num")?.unwrap_or(0);
    Ok(Request {
        file: PathBuf::from(file),
        command,
        hex: arguments.flag("output_hex"),
        from: bound("from")?,
        to: bound("to")?,
        // RocksDB's tool takes 0 for "all", too.
        read_num: if read_num == 0 { u64::MAX } else { read_num },
        show_properties: arguments.flag("show_properties")
            || arguments.text("command") == Some("properties"),
        show_summary: arguments.flag("show_summary"),
        trials: Trials::parse(arguments)?,
    })
}

/// Processes the file, or every table file of the directory. False: something is wrong.
fn process_all(request: &Request, out: &mut Output) -> bool {
    let fs = PosixFs::shared();
    let files = match table_files(&*fs, &request.file) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    };
    let mut good = !files.is_empty();
    let mut summary = Summary::default();
    for file in &files {
        out.text(&format!("Process {}\n", file.display()));
        match process(&*fs, request, file, &mut summary, out) {
            Ok(()) => {}
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                eprintln!("{} is not a valid SST file", file.display());
                good = false;
            }
        }
    }
    if files.is_empty() {
        eprintln!("{} is not a valid SST file", request.file.display());
    }
    if request.show_summary {
        out.text(&format!(
            "total number of files: {}\ntotal number of data blocks: {}\n\
             total data block size: {}\ntotal index block size: {}\ntotal filter block size: {}\n",
            summary.files,
            summary.data_blocks,
            summary.data_bytes,
            summary.index_bytes,
            summary.filter_bytes
        ));
    }
    good
}

/// The table files that `path` means, in the order of their numbers.
fn table_files(fs: &dyn FileSystem, path: &Path) -> Result<Vec<PathBuf>> {
    if !fs.exists(path)? {
        return Err(Error::not_found(format!("{}: No such file or directory", path.display())));
    }
    if !pumice_port::os::stat(path).is_ok_and(|stat| stat.is_dir) {
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

fn open(fs: &dyn FileSystem, path: &Path) -> Result<Arc<Table>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = filename::parse(&name).map_or(0, |(number, _)| number);
    let with = |comparator: Comparator| {
        let file = fs.open_random(path)?;
        let size = file.len();
        let context = TableReadContext {
            comparator: InternalKeyComparator::new(comparator),
            file_number: number,
            ..TableReadContext::default()
        };
        Table::open(context, file, size)
    };
    let table = with(Comparator::default())?;
    let wanted = table.properties().comparator.clone();
    if wanted.is_empty() || wanted == Comparator::default().name() {
        return Ok(table);
    }
    match Comparator::builtin(&wanted) {
        Some(comparator) => with(comparator),
        None => Err(Error::not_supported(format!("comparator {wanted} is not built in"))),
    }
}

fn process(
    fs: &dyn FileSystem,
    request: &Request,
    path: &Path,
    summary: &mut Summary,
    out: &mut Output,
) -> Result<()> {
    let table = open(fs, path)?;
    out.text("Sst file format: block-based\n");
    match request.command {
        Command::Check | Command::Scan => read(request, &table, out)?,
        Command::Verify => {
            table.verify_checksums()?;
            out.text("The file is ok\n");
        }
        Command::Raw => {
            let target = dump_path(path);
            let text = dump::raw_text(&table)?;
            let mut file = fs.create(&target, &FileOptions::default())?;
            file.append(&text)?;
            file.close()?;
            out.text(&format!("raw dump written to file {}\n", target.display()));
        }
        Command::Recompress => request.trials.run(&table, out)?,
        Command::None => {}
    }
    let properties = table.properties();
    if request.show_properties {
        out.text(&dump::properties_text(properties));
    }
    summary.files += 1;
    summary.data_blocks += properties.num_data_blocks;
    summary.data_bytes += properties.data_size;
    summary.index_bytes += properties.index_size;
    summary.filter_bytes += properties.filter_size;
    Ok(())
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
    out.text(&format!("from [{}] to [{}]\n", show(&request.from), show(&request.to)));
    let order = table.comparator();
    let mut iter = table.iter(&TableReadOptions { fill_cache: false, ..Default::default() });
    match &request.from {
        Some(from) => iter.seek(&seek_key(from, MAX_SEQUENCE)),
        None => iter.seek_to_first(),
    }
    let mut count = 0u64;
    while iter.valid() && count < request.read_num {
        if let Some(end) = &request.to
            && order.user.compare(user_key(iter.key()), end) != Ordering::Less
        {
            break;
        }
        count += 1;
        if request.command == Command::Scan {
            let key = show_internal_key(iter.key(), request.hex);
            let value = show_plain(iter.value(), request.hex);
            if !out.line(&[&key, b" => ", &value]) {
                return Ok(());
            }
        }
        iter.next();
    }
    iter.status()?;
    let properties = table.properties();
    let points = properties.num_entries.saturating_sub(properties.num_range_deletions);
    let whole = request.from.is_none() && request.to.is_none() && request.read_num == u64::MAX;
    if whole && count != points {
        return Err(Error::corruption(format!(
            "Table has {points} point entries by its properties, but {count} were read"
        )));
    }
    Ok(())
}
