//! `pumice sst_dump` and Debian's sst_dump (RocksDB 7.8.3): the same output for the same tables,
//! and a count of the options of RocksDB 11.9's tool that exist.
//!
//! Where Debian's tool is not installed nothing is compared. Not compared: the line with the
//! address of the environment, and errors beyond their first line.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::process::Command;

/// Exit code, standard output, first line of standard error.
type Printed = (Option<i32>, String, String);

fn run(mut command: Command, dir: &Path, words: &str) -> Option<Printed> {
    let output = command.current_dir(dir).args(words.split_whitespace()).output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = text(&output.stdout);
    let lines = lines.lines().filter(|line| !line.starts_with("options.env is "));
    let out = lines.map(|line| format!("{line}\n")).collect();
    let err = text(&output.stderr).lines().next().unwrap_or_default().to_string();
    Some((output.status.code(), out, err))
}

fn pumice(tool: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg(tool);
    command
}

fn ours(dir: &Path, words: &str) -> Printed {
    run(pumice("sst_dump"), dir, words).unwrap()
}

/// None: the tool is not installed.
fn theirs(dir: &Path, words: &str) -> Option<Printed> {
    run(Command::new("sst_dump"), dir, words)
}

/// A database with one table of `a`, `ab`, `c`; the table's path. None: there is no such program.
fn made(ldb: impl Fn() -> Command, dir: &Path) -> Option<String> {
    for words in ["--create_if_missing batchput a 1 ab 2 c 3", "compact"] {
        let printed = run(ldb(), dir, &format!("--db=d {words}"))?;
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
    let names = std::fs::read_dir(dir.join("d")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    Some(format!("d/{}", names.find(|name| name.ends_with(".sst")).unwrap()))
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn answers_are_those_of_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    // Made by Debian's ldb, too: its tool reads no newer format.
    let Some(table) = made(|| Command::new("ldb"), dir.path()) else { return };
    std::fs::write(dir.path().join("000007.sst"), "not a table, though it is named as one is")
        .unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::write(dir.path().join("empty/CURRENT"), "").unwrap();
    for words in [
        "--file=$T --command=identify",
        "--file=d --command=identify",
        "--file=d/CURRENT --command=identify",
        "--file=empty",
        "--file=empty --command=identify",
        "--file=empty --command=scan",
        "--file=empty --command=verify",
        "--file=empty --command=none --show_properties",
        "--file=empty --show_summary",
        "--file=$T --command=scan --prefix=a",
        "--file=$T --command=scan --prefix=0x6162 --input_key_hex",
        "--file=$T --command=check --prefix=zz",
        "--file=$T --command=scan --prefix=a --to=ab",
        "--file=$T --prefix=a --from=b",
        "--parse_internal_key=0x6101000000000000FF",
        "--parse_internal_key=0x0001000000000000",
        "--parse_internal_key=0x61010A0000000000",
        "--parse_internal_key=zz",
    ] {
        let words = words.replace("$T", &table);
        let Some(expected) = theirs(dir.path(), &words) else { return };
        assert_eq!(ours(dir.path(), &words), expected, "{words}");
    }
    // For a file that is not a table the text is the engine's.
    let name = "000007.sst";
    std::fs::copy(dir.path().join(name), dir.path().join("empty").join(name)).unwrap();
    for words in ["--file=000007.sst --command=identify", "--file=empty --show_summary"] {
        let printed = ours(dir.path(), words);
        let expected = theirs(dir.path(), words).unwrap();
        assert_eq!((printed.0, printed.1), (expected.0, expected.1), "{words}");
    }
}

/// What Debian's version lacks.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn newer_options() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(|| pumice("ldb"), dir.path()).unwrap();
    let good = |words: &str| {
        let printed = ours(dir.path(), words);
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
        printed.1
    };
    let out = good(&format!("--file={table} --command=none --list_meta_blocks"));
    let (_, blocks) = out.split_once("Meta Blocks:\n------------------------------\n").unwrap();
    let names: Vec<&str> =
        blocks.lines().map(|line| line.trim().split_once(": ").unwrap().0).collect();
    assert!(names.contains(&"rocksdb.properties"), "{out}");
    let size = std::fs::metadata(dir.path().join(&table)).unwrap().len();
    for line in blocks.lines() {
        let (_, numbers) = line.split_once(": ").unwrap();
        let (offset, bytes) = numbers.split_once(' ').unwrap();
        let end = offset.parse::<u64>().unwrap() + bytes.parse::<u64>().unwrap();
        assert!(end < size, "{line}");
    }
    let out = good(&format!("--file={table} --command=none --show_properties"));
    for name in ["smallest sequence number", "largest sequence number", "tail start offset"] {
        assert!(out.contains(&format!("\n  {name}: ")), "{name}: {out}");
    }
    let dump = dir.path().join(table.replace(".sst", "_dump.txt"));
    good(&format!("--file={table} --command=raw"));
    assert!(std::fs::read_to_string(&dump).unwrap().contains("  HEX    6162: 32\n"));
    good(&format!("--file={table} --command=raw --show_sequence_number_type"));
    let out = good(&format!("--file={table} --command=scan"));
    let (_, sequence) = out.split_once("'ab' seq:").unwrap();
    let sequence = sequence.split(',').next().unwrap();
    let line = format!("  HEX    6162 seq:{sequence}, type:1: 32\n");
    assert!(std::fs::read_to_string(&dump).unwrap().contains(&line), "{line}");
    // Which files are read.
    let wanted = format!("{table} --command=scan --require_property_regex=entries:.[1-9]");
    assert!(good(&wanted).contains("'ab' seq:"));
    for words in
        ["--require_property_regex=entries:.7", "--exclude_property_regex=name:.(cf|default)"]
    {
        let printed = ours(dir.path(), &format!("{table} --command=scan {words}"));
        assert!(printed.2.contains(": skipping because properties string "), "{printed:?}");
        assert!(!printed.1.contains(" => "), "{printed:?}");
    }
    let wrong = ours(dir.path(), &format!("{table} --require_property_regex=(a"));
    assert!(wrong.0 == Some(1) && wrong.2.contains("regular expression '(a'"), "{wrong:?}");
    // Several files.
    let out = good(&format!("--command=identify {table} --file={table}"));
    assert!(
        out.ends_with(&format!(
            "List of valid SST files:\n{table}\n{table}\nNumber of valid SST files: 2\n"
        )),
        "{out}"
    );
}

/// Options of RocksDB 11.9's sst_dump.
const OPTIONS: &str = "file env_uri fs_uri command output_hex json decode_blob_index \
    show_sequence_number_type input_key_hex read_num verify_checksum from to prefix \
    show_properties show_summary set_block_size block_size readahead_size compression_types \
    compression_strategy require_property_regex exclude_property_regex compression_manager \
    enable_index_compression verify_compression block_based_table_options parse_internal_key \
    compression_level compression_level_from compression_level_to compression_max_dict_bytes \
    compression_parallel_threads compression_zstd_max_train_bytes \
    compression_max_dict_buffer_bytes compression_auto_skip \
    compression_auto_skip_min_sample_every compression_max_compressed_bytes_per_kb \
    compression_use_zstd_finalize_dict list_meta_blocks help version";

/// What `--command` may be.
const COMMANDS: &str = "check scan raw verify recompress identify none";

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_option_and_command_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<&str> = OPTIONS.split_whitespace().collect();
    for name in &names {
        let printed = ours(dir.path(), &format!("--file=nosuch.sst --{name}=1"));
        for refusal in ["Unrecognized argument", "is not supported yet"] {
            assert!(!printed.2.contains(refusal), "{name}: {printed:?}");
        }
    }
    let commands: Vec<&str> = COMMANDS.split_whitespace().collect();
    // One of a file that is not there fails by that alone.
    for command in &commands {
        let printed = ours(dir.path(), &format!("--file=nosuch.sst --command={command}"));
        assert!(printed.2.contains("nosuch.sst"), "{command}: {printed:?}");
    }
    let (names, commands) = (names.len(), commands.len());
    let row = format!("| options of sst_dump | all {names}, with {commands} commands |");
    let page = include_str!("../../../docs/compatibility.md");
    assert!(page.contains(&row), "docs/compatibility.md lacks: {row}");
    assert!(ours(dir.path(), "--file=x --command=nosuch").2.contains("Unknown command 'nosuch'"));
    assert!(ours(dir.path(), "--file=x --nosuch=1").2.contains("Unrecognized argument '--nosuch'"));
}

/// Sizes of a table of many small blocks.
#[pumice_test_macros::test]
fn an_index_is_recompressed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = pumice::Options::default();
    options.cf.compression = pumice::CompressionType::None;
    let mut writer = pumice::SstFileWriter::new(&options).unwrap();
    writer.open(dir.path().join("t.sst")).unwrap();
    for n in 0..2000 {
        writer.put(format!("a key that is long enough {n:06}"), [b'v'; 100]).unwrap();
    }
    writer.finish().unwrap();
    let size = |flags: &str| -> u64 {
        let words = "--file=t.sst --command=recompress --compression_types=kZSTD --block_size=200";
        let printed = ours(dir.path(), &format!("{words} {flags}"));
        let (_, size) = printed.1.split_once("Size: ").filter(|_| printed.0 == Some(0)).unwrap();
        let (_, size) = size.split_once("Size: ").unwrap_or(("", size));
        size.split_whitespace().next().unwrap().parse().unwrap()
    };
    let compressed = size("");
    assert_eq!(size("--enable_index_compression=true"), compressed);
    assert_eq!(size("--compression_strategy=1"), compressed, "a hint");
    assert!(size("--enable_index_compression=false") > compressed + 10_000);
    // No block gets that small.
    assert!(size("--compression_max_compressed_bytes_per_kb=1") > 2 * compressed);
    // The flags win.
    let text = "--block_based_table_options={enable_index_compression=false;block_size=1M}";
    assert!(size(text) > compressed + 10_000);
    assert_eq!(size(&format!("{text} --enable_index_compression=true")), compressed);
    let wrong = "--file=t.sst --command=recompress --block_based_table_options=nosuch=1";
    assert!(ours(dir.path(), wrong).2.contains("nosuch"));
    let printed = ours(dir.path(), "--file=t.sst --command=recompress --compression_strategy=5");
    assert!(printed.2.contains("compression_strategy must be from 0 to 4"), "{printed:?}");
}

/// Of a value in a record of the table the index is shown, as it is stored.
#[test] // It starts processes.
fn embedded_blobs_are_shown_by_their_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/testdata");
    let bytes = std::fs::read(root.join("rocksdb-11.8-embedded/xxh3.sst")).unwrap();
    std::fs::write(dir.path().join("000012.sst"), &bytes).unwrap();
    let lines = |words: &str| {
        let printed = ours(dir.path(), &format!("--file=000012.sst {words}"));
        assert_eq!(printed.0, Some(0), "{printed:?}");
        printed.1
    };
    let out = lines("--command=scan --decode_blob_index --read_num=1");
    let shown = "'k0000' seq:0, type:17 => \
                 [blob ref] file:0 offset:0 size:300 compression: NoCompression";
    assert!(out.contains(shown), "{out}");
    let out = lines("--command=scan --output_hex --read_num=1");
    assert!(out.contains("=> 010000AC0200\n"), "{out}");
    lines("--command=verify");
    let mut damaged = bytes;
    damaged[20] ^= 1;
    std::fs::write(dir.path().join("000012.sst"), &damaged).unwrap();
    let printed = ours(dir.path(), "--file=000012.sst --command=verify");
    assert!(printed.0 != Some(0) && printed.2.contains("offset 0 of 300 bytes"), "{printed:?}");
}

/// The number behind `"name":` in a JSON text.
fn number(text: &str, name: &str) -> f64 {
    let (_, rest) = text.split_once(&format!("\"{name}\":")).expect(name);
    rest[..rest.find([',', '}']).unwrap()].parse().expect(name)
}

/// A folder with the table t.sst, of small blocks that LZ4 compresses.
fn compressed_table() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut options = pumice::Options::default();
    options.cf.compression = pumice::CompressionType::Lz4;
    options.cf.table_factory.enable_index_compression = false;
    options.cf.table_factory.block_size = 1000;
    let mut writer = pumice::SstFileWriter::new(&options).unwrap();
    writer.open(dir.path().join("t.sst")).unwrap();
    for n in 0..2000 {
        writer.put(format!("key{n:06}"), [b'v'; 100]).unwrap();
    }
    writer.finish().unwrap();
    dir
}

const MEASURED: &str = "--file=t.sst --command=recompress --json --block_size=1000 \
                        --compression_types=kNoCompression,kLZ4Compression";

/// The members of 11.12's tool in their order, and numbers that fit each other and the file.
#[test] // It starts processes.
fn what_is_measured_is_one_json_document() {
    let dir = compressed_table();
    let words = "--show_properties --output_hex --enable_index_compression=false";
    let (status, out, err) = ours(dir.path(), &format!("{MEASURED} {words}"));
    assert!(status == Some(0) && err.is_empty() && out.lines().count() == 1, "{out}{err}");
    assert!(out.starts_with("{\"block_size\":1000,\"baselines\":[{\"file\":\"t.sst\""), "{out}");
    let (baselines, rest) = out.split_once("],\"measurements\":[").unwrap();
    let (measured, properties) = rest.split_once("],\"properties\":[").unwrap();
    let measured: Vec<&str> = measured.split("},{").collect();
    let [none, lz4] = measured[..] else { panic!("{out}") };
    let names = |text: &str| -> Vec<String> {
        let parts = text.split('"').skip(1).step_by(2).map(str::to_string);
        parts.filter(|name| text.contains(&format!("\"{name}\":"))).collect()
    };
    let expected = "file compression_type compressed_data_payload uncompressed_data_payload \
                    uncompressed_index_payload compressed_index_payload ratio write_usec read_usec \
                    write_cpu_usec read_cpu_usec num_data_blocks blocks_compressed \
                    blocks_compression_rejected blocks_compression_bypassed compression_manager \
                    compression_options window_bits level strategy max_dict_bytes \
                    zstd_max_train_bytes parallel_threads enabled max_dict_buffer_bytes \
                    use_zstd_dict_trainer max_compressed_bytes_per_kb auto_skip \
                    auto_skip_min_sample_every checksum";
    assert_eq!(names(none).join(" "), expected);
    // The file is what LZ4 makes of it again, and its blocks are those that no codec makes smaller.
    let blocks = number(baselines, "num_data_blocks");
    assert!(blocks > 200.0);
    for name in [
        "compressed_data_payload",
        "uncompressed_index_payload",
        "compressed_index_payload",
        "num_data_blocks",
    ] {
        assert_eq!(number(baselines, name), number(lz4, name), "{name}: {out}");
    }
    let index = number(lz4, "uncompressed_index_payload");
    assert!(index > 5.0 * blocks && number(lz4, "compressed_index_payload") == index, "{out}");
    // The two bytes of size in front of each compressed block count, as in RocksDB.
    let raw = number(baselines, "uncompressed_data_payload");
    assert_eq!(raw, number(lz4, "uncompressed_data_payload") + 2.0 * blocks, "{out}");
    assert_eq!(number(none, "compressed_data_payload"), number(lz4, "uncompressed_data_payload"));
    assert_eq!(number(none, "uncompressed_data_payload"), number(lz4, "uncompressed_data_payload"));
    assert_eq!(number(none, "ratio"), 1.0);
    assert!(number(lz4, "ratio") > 3.0);
    assert_eq!(number(none, "blocks_compression_bypassed"), blocks);
    assert_eq!(number(lz4, "blocks_compressed"), blocks);
    assert!(none.contains("\"compression_manager\":null,"), "{none}");
    let (input, output) = properties.split_once("\"output_properties\":").unwrap();
    assert_eq!(number(input, "num_entries"), 2000.0);
    assert_eq!(number(input, "data_size"), number(output, "data_size"));
    assert_eq!(number(input, "trailer_overhead"), 5.0 * blocks);
    assert!(input.contains("\"rocksdb.deleted.keys\":\"00\""), "{input}");
}

/// An index that is compressed is smaller, also in partitions; data is what it was.
#[test] // It starts processes.
fn sizes_of_indexes_are_those_that_are_stored() {
    let dir = compressed_table();
    for more in ["", "--block_based_table_options=index_type=kTwoLevelIndexSearch"] {
        let (_, out, err) = ours(dir.path(), &format!("{MEASURED} {more}"));
        let (none, lz4) = out.split_once("\"kLZ4Compression\"").expect(&err);
        let (_, none) = none.split_once("\"kNoCompression\"").unwrap();
        let (raw, stored) = ("uncompressed_index_payload", "compressed_index_payload");
        assert!(number(lz4, stored) < number(lz4, raw), "{out}");
        assert!(4.0 * number(lz4, stored) > number(lz4, raw), "{out}");
        assert_eq!(number(none, stored), number(none, raw), "{out}");
        let data = "uncompressed_data_payload";
        assert_eq!(number(none, data), number(none, "compressed_data_payload"), "{out}");
        assert_eq!(number(none, data), number(lz4, data), "{out}");
    }
}

/// Words of RocksDB's tool about compression managers, and what they do.
#[test] // It starts processes.
fn a_table_is_recompressed_by_a_manager() {
    let dir = compressed_table();
    let with = |name: &str| {
        let words = "--file=t.sst --command=recompress --compression_types=kZSTD --block_size=1000";
        ours(dir.path(), &format!("{words} --compression_manager={name}"))
    };
    let (status, out, err) = with("BuiltinV2");
    let first = "Using compression manager: BuiltinCompressionManagerV2\n";
    assert!(status == Some(0) && out.starts_with(first), "{out}{err}");
    let (status, out, err) = with("BuiltinV2 --json");
    assert!(status == Some(0) && out.starts_with(first), "{out}{err}");
    assert!(out.contains("\"compression_manager\":\"BuiltinCompressionManagerV2\""), "{out}");
    let (_, out, _) = with(
        "RoundRobinManager --json --show_properties --block_based_table_options=format_version=7",
    );
    assert!(out.contains("\"compression_name\":\"BuiltinV2;010203040507;\""), "{out}");
    for (name, words) in [
        ("mixed", "Could not load CompressionManager: mixed"),
        ("nullptr", "No compression manager created: nullptr"),
    ] {
        let (status, _, err) = with(name);
        assert!(status == Some(1) && err.contains(words), "{err}");
    }
}

/// A folder with the table t.sst, whose values are noise.
fn noise() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = pumice::SstFileWriter::new(&pumice::Options::default()).unwrap();
    writer.open(dir.path().join("t.sst")).unwrap();
    let mut rng = pumice_base::random::Rng::new(1);
    for n in 0..2000 {
        writer.put(format!("key{n:06}"), rng.bytes(1000)).unwrap();
    }
    writer.finish().unwrap();
    dir
}

/// `--compression_auto_skip` and its interval.
#[test] // It starts processes.
fn blocks_that_do_not_compress_are_passed_over() {
    let dir = noise();
    let words = "--file=t.sst --command=recompress --json --block_size=1000 \
                 --compression_types=kLZ4Compression";
    let with = |more: &str| {
        let printed = ours(dir.path(), &format!("{words} {more}"));
        assert_eq!(printed.0, Some(0), "{printed:?}");
        let (_, measured) = printed.1.split_once("\"measurements\":").unwrap();
        let counted = ["bypassed", "rejected"]
            .map(|what| number(measured, &format!("blocks_compression_{what}")));
        (counted, number(measured, "compressed_data_payload"), printed.1)
    };
    let ([bypassed, rejected], bytes, out) = with("");
    assert_eq!((bypassed, rejected), (0.0, 2000.0), "{out}");
    assert!(out.contains("\"auto_skip\":false,\"auto_skip_min_sample_every\":0,"), "{out}");
    // 39 blocks before it is clear, then one of 65 or 10.
    for (more, expected) in [
        ("--compression_auto_skip=1", 39.0 + 30.0),
        ("--compression_auto_skip=true --compression_auto_skip_min_sample_every=9", 39.0 + 196.0),
        ("--compression_auto_skip=true --compression_parallel_threads=4", 39.0 + 30.0),
    ] {
        let ([bypassed, rejected], same, out) = with(more);
        assert_eq!((rejected, bypassed), (expected, 2000.0 - expected), "{more}: {out}");
        assert_eq!(same, bytes, "{more}");
        assert!(out.contains("\"auto_skip\":true,"), "{out}");
    }
    let text = words.replace("--json ", "");
    let (_, out, _) = ours(dir.path(), &format!("{text} --compression_auto_skip=1"));
    assert!(out.contains("Not compressed (abort):   1931 ( 96.5%)"), "{out}");
    for wrong in ["-1", "2147483648"] {
        let flag = format!("--compression_auto_skip_min_sample_every={wrong}");
        let (status, _, err) = ours(dir.path(), &format!("{words} {flag}"));
        let range = "compression_auto_skip_min_sample_every out of range";
        assert!(status == Some(1) && err.contains(range), "{err}");
    }
}
