//! Running a command on a copy, and comparing the result with the expected one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use pumice_peer::{Db, Options, Peer, ReadOptions, ReadSettings, SstFileWriter};

use crate::made::{Contents, Made, May, PLAIN};

/// How a command gets the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// From the OPTIONS file, as usual.
    Options,
    /// There is no OPTIONS file.
    NoOptionsFile,
    /// There is one, which the caller does not want loaded.
    NotLoaded,
}

/// A command that writes.
pub struct Command {
    /// The words after `ldb --db=..`; `$X` is a table of `x1` and `x2`, `$Y` a table to be made,
    /// `$D` a directory to be made, `$N` the number of the first table of `default`.
    pub words: &'static str,
    /// What it reads.
    pub input: &'static str,
    /// What it does to the contents.
    pub effect: fn(&mut Contents),
    /// The program may rewrite tables that were there.
    pub rewrites: bool,
    /// The error where it cannot work although the database is intact.
    pub fails: Option<&'static str>,
    /// It opens no intact database: where the MANIFEST names the order, it needs no OPTIONS file.
    pub by_manifest: bool,
}

/// A command that changes nothing.
const COMMAND: Command = Command {
    words: "",
    input: "y1 ==> 1\n",
    effect: |_| {},
    rewrites: false,
    fails: None,
    by_manifest: false,
};

/// Commands that change no database, or none of these (`restore` writes the bytes of a backup and
/// opens nothing). All others are in [`COMMANDS`].
pub const HARMLESS: &[&str] = &[
    "get",
    "scan",
    "dump",
    "dump_live_files",
    "idump",
    "manifest_dump",
    "list_column_families",
    "checkconsistency",
    "get_property",
    "multi_get",
    "get_entity",
    "multi_get_entity",
    "approxsize",
    "list_file_range_deletes",
    "list_live_files_metadata",
    "file_checksum_dump",
    "dump_wal",
    "restore",
    "update_manifest",
];

fn set(contents: &mut Contents, family: &str, key: &str, value: &str) {
    contents.insert((family.to_string(), key.into()), value.into());
}

fn in_range(family: &str, key: &(String, Vec<u8>)) -> bool {
    key.0 == family && (&b"k05"[..]..b"k08").contains(&&key.1[..])
}

/// Each table holds one key in three, and its share of the owner's merges.
fn of_first_table((family, key): &(String, Vec<u8>)) -> bool {
    let number = key.strip_prefix(b"k").and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
    family == "default" && (number.is_some_and(|n: usize| n.is_multiple_of(3)) || key == b"e0")
}

/// Every command of `ldb` that writes, and flags that could change how.
pub const COMMANDS: &[Command] = &[
    Command { words: "put n new", effect: |c| set(c, "default", "n", "new"), ..COMMAND },
    Command {
        words: "--column_family=other put n new",
        effect: |c| set(c, "other", "n", "new"),
        ..COMMAND
    },
    Command {
        words: "batchput k01 a n b",
        effect: |c| {
            set(c, "default", "k01", "a");
            set(c, "default", "n", "b");
        },
        ..COMMAND
    },
    Command {
        words: "put_entity n :new column:x",
        effect: |c| set(c, "default", "n", "new"),
        ..COMMAND
    },
    Command {
        words: "delete k01",
        effect: |c| drop(c.remove(&("default".to_string(), b"k01".to_vec()))),
        ..COMMAND
    },
    Command {
        words: "deleterange k05 k08",
        effect: |c| c.retain(|key, _| !in_range("default", key)),
        ..COMMAND
    },
    Command { words: "compact", rewrites: true, ..COMMAND },
    Command { words: "--column_family=other compact", rewrites: true, ..COMMAND },
    Command { words: "create_column_family fresh", ..COMMAND },
    Command {
        words: "drop_column_family other",
        effect: |c| c.retain(|key, _| key.0 != "other"),
        rewrites: true,
        ..COMMAND
    },
    Command { words: "write_extern_sst $Y", ..COMMAND },
    Command {
        words: "ingest_extern_sst $X",
        effect: |c| {
            set(c, "default", "x1", "1");
            set(c, "default", "x2", "2");
        },
        ..COMMAND
    },
    Command {
        words: "--ignore_unknown_options --create_if_missing put n new",
        effect: |c| set(c, "default", "n", "new"),
        ..COMMAND
    },
    Command {
        words: "--bloom_bits=10 --block_size=8192 --compression_type=no --write_buffer_size=999999 \
                --file_size=1000000 --auto_compaction=false put n new",
        effect: |c| set(c, "default", "n", "new"),
        ..COMMAND
    },
    Command {
        words: "singledelete k01",
        effect: |c| drop(c.remove(&("default".to_string(), b"k01".to_vec()))),
        ..COMMAND
    },
    Command {
        words: "--hex merge 0x6e 0x0700000000000000",
        effect: |c| set(c, "default", "n", "\u{7}\0\0\0\0\0\0\0"),
        fails: Some("merge_operator"),
        ..COMMAND
    },
    Command {
        words: "query",
        input: "put n new\ndelete k01\n",
        effect: |c| {
            set(c, "default", "n", "new");
            c.remove(&("default".to_string(), b"k01".to_vec()));
        },
        ..COMMAND
    },
    Command {
        words: "load --disable_wal",
        input: "k01 ==> a\nn ==> new\n",
        effect: |c| {
            set(c, "default", "k01", "a");
            set(c, "default", "n", "new");
        },
        // It is the flush that makes a compaction due, where the options do not forbid it.
        rewrites: true,
        ..COMMAND
    },
    Command {
        words: "--column_family=other load --bulk_load",
        input: "n ==> new\n",
        effect: |c| set(c, "other", "n", "new"),
        ..COMMAND
    },
    Command { words: "repair", by_manifest: true, ..COMMAND },
    Command { words: "backup --backup_dir=$D", ..COMMAND },
    Command { words: "checkpoint --checkpoint_dir=$D", ..COMMAND },
    Command { words: "reduce_levels --new_levels=1", rewrites: true, ..COMMAND },
    Command {
        words: "change_compaction_style --old_compaction_style=0 --new_compaction_style=1",
        rewrites: true,
        fails: Some("FIFO compaction does not support change_level"),
        ..COMMAND
    },
    Command {
        words: "unsafe_remove_sst_file $N",
        effect: |c| c.retain(|key, _| !of_first_table(key)),
        rewrites: true,
        by_manifest: true,
        ..COMMAND
    },
];

/// A scratch directory with a database's original and the copy at work.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let shm = Path::new("/dev/shm");
        let base = if shm.exists() { shm.to_path_buf() } else { std::env::temp_dir() };
        let path = base.join(format!("pumice-foreign-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
    /// The one place of the database while it is made and used: paths are in its options.
    pub fn database(&self) -> PathBuf {
        self.0.join("db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Every file below a directory.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

pub fn read_files(root: &Path) -> Files {
    let mut files = Files::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_path_buf();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

pub fn write_files(root: &Path, files: &Files) {
    if root.exists() {
        std::fs::remove_dir_all(root).unwrap();
    }
    for (name, bytes) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn name_starts(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
}

/// What RocksDB finds, opened as its owner opens it.
pub fn contents(peer: &Peer, made: &Made, path: &Path) -> Result<Contents, String> {
    let [options, other] = made.options(peer, path);
    let text = |error: pumice_peer::Error| error.to_string();
    let names = Db::list_column_families(&options, path).map_err(text)?;
    let own = |name: &str| if name == "other" { &other } else { &options };
    let families: Vec<(&str, &Options)> =
        names.iter().map(|name| (name.as_str(), own(name))).collect();
    let (db, handles) = Db::open_cf(&options, path, &families, false).map_err(text)?;
    let mut contents = Contents::new();
    for (name, family) in names.iter().zip(&handles) {
        let timestamp = made.timed.contains(&&name[..]).then(|| vec![0xff; 8]);
        let settings =
            ReadSettings { total_order_seek: true, timestamp, ..ReadSettings::default() };
        let mut entries = db.iter(&ReadOptions::new(peer, &settings), family);
        entries.seek_to_first();
        while entries.valid() {
            contents.insert((name.clone(), entries.key().to_vec()), entries.value().to_vec());
            entries.next();
        }
        entries.status().map_err(text)?;
    }
    Ok(contents)
}

/// What the tool finds in the default family, where all is text.
fn scanned(path: &Path, original: &Original) -> Result<Contents, String> {
    let ran = run(path, original, "scan", "");
    if !ran.worked {
        return Err(ran.err);
    }
    let entry = |line: &str| {
        let (key, value) = line.split_once(" : ")?;
        // Of an entity, the column without a name.
        let columns = value.strip_prefix(':').and_then(|columns| columns.split(' ').next());
        let value = columns.unwrap_or(value);
        Some((("default".to_string(), key.into()), value.into()))
    };
    Ok(ran.out.lines().filter_map(entry).collect())
}

/// A database before any tool has seen it.
pub struct Original {
    pub files: Files,
    pub contents: Contents,
    table: PathBuf,
}

impl Original {
    pub fn new(peer: &Peer, directory: &Directory, made: &Made) -> Self {
        let path = directory.database();
        made.make(peer, &path);
        let files = read_files(&path);
        // All tools refuse them before a byte changes.
        let refused = made.may.iter().all(|may| matches!(may, May::Refuse(_)));
        let contents = match refused {
            true => Contents::new(),
            false => contents(peer, made, &path).unwrap(),
        };
        let table = directory.0.join("x.sst");
        let plain = if made.timed.contains(&"default") { &PLAIN } else { made };
        let mut writer = SstFileWriter::new(&plain.options(peer, &path)[0]);
        writer.open(&table).unwrap();
        let mut pairs = [(b"x1", b"1"), (b"x2", b"2")];
        if made.name == "reverse" {
            pairs.reverse();
        }
        pairs.iter().for_each(|(key, value)| writer.put(*key, *value).unwrap());
        writer.finish().unwrap();
        Original { files, contents, table }
    }
}

/// What a run of the tool gave.
pub struct Ran {
    pub worked: bool,
    pub out: String,
    pub err: String,
}

pub fn run(path: &Path, original: &Original, words: &str, input: &str) -> Ran {
    let made = original.table.with_file_name("y.sst");
    let directory = original.table.with_file_name("made");
    std::fs::remove_dir_all(&directory).ok();
    let tables = original.files.keys().filter_map(|name| name.to_str()?.strip_suffix(".sst"));
    let first = tables.filter_map(|name| name.parse::<u64>().ok()).min().unwrap();
    let words = words.replace("$X", original.table.to_str().unwrap());
    let words = words.replace("$Y", made.to_str().unwrap());
    let words = words.replace("$D", directory.to_str().unwrap());
    let words = words.replace("$N", &first.to_string());
    let mut child = Process::new(env!("CARGO_BIN_EXE_pumice"))
        .args(["ldb", &format!("--db={}", path.display())])
        .args(words.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may be refused before it reads its input.
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!err.contains("panicked"), "{words}: {err}");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    Ran { worked: output.status.success(), out, err }
}

/// A database under test: the library, its path, how its owner made it.
pub struct Case<'a> {
    pub peer: &'a Peer,
    pub directory: &'a Directory,
    pub made: &'a Made,
    pub original: &'a Original,
    /// Rows of an OPTIONS file of RocksDB's without special options.
    pub defaults: &'a Rows,
}

impl Case<'_> {
    /// Runs `command`; the error says what it did wrong.
    pub fn check(&self, command: &Command, given: Given) -> Result<(), String> {
        let Case { made, original, .. } = self;
        let may = made.may[given as usize];
        let path = self.directory.database();
        let mut before = original.files.clone();
        if given == Given::NoOptionsFile {
            before.retain(|name, _| !name_starts(name, "OPTIONS-"));
        }
        write_files(&path, &before);
        let mut words = command.words.to_string();
        if given == Given::NotLoaded {
            words = format!("--try_load_options=false {words}");
        }
        let ran = run(&path, original, &words, command.input);
        let after = read_files(&path);
        let could_not = command.fails.is_some_and(|word| ran.err.contains(word));
        let verdict = match (may, ran.worked) {
            // Checked as what works, against an owner whose order is built in.
            (May::Refuse(_), true) if command.by_manifest && made.by_manifest(given) => {
                self.right(command, given, &before, &after, true)
            }
            (May::Work, false) if !could_not => Err("should work".to_string()),
            (May::Refuse(word), worked) => refused(&before, &after, !worked, &ran.err, word),
            (May::Either(word) | May::ReadHere(word), false)
                if !ran.err.contains(word) && !could_not =>
            {
                Err(format!("no {word}"))
            }
            (May::Untold, _) => return Ok(()),
            _ => self.right(command, given, &before, &after, ran.worked),
        };
        let Ran { worked, err, .. } = ran;
        verdict.map_err(|why| {
            let name = made.name;
            format!("{name}, {given:?}: ldb {words}: worked={worked} {err}  {may:?}: {why}")
        })
    }

    fn right(
        &self,
        command: &Command,
        given: Given,
        before: &Files,
        after: &Files,
        worked: bool,
    ) -> Result<(), String> {
        // A flush may delete logs, and rows of OPTIONS are compared by themselves.
        let kept = |name: &Path| {
            let table = name.extension().is_some_and(|kind| kind == "sst" || kind == "blob");
            let owned = name.starts_with("kept") || name == Path::new("notes.txt");
            owned || (table && !(command.rewrites && worked))
        };
        let changed = changed(before, after, kept);
        if !changed.is_empty() {
            return Err(format!("changed: {changed:?}"));
        }
        if given == Given::Options {
            let lost = self.lost_rows(before, after, command.words);
            if !lost.is_empty() {
                return Err(format!("rows lost: {lost:?}"));
            }
        }
        let mut expected = self.original.contents.clone();
        if worked {
            (command.effect)(&mut expected);
        }
        let path = self.directory.database();
        let found = match self.made.may[given as usize] {
            May::ReadHere(_) => {
                expected.retain(|key, _| key.0 == "default");
                scanned(&path, self.original)?
            }
            _ => contents(self.peer, self.made, &path)?,
        };
        let keys = expected.keys().chain(found.keys());
        // What is merged is in every table.
        let merged = |key: &[u8]| command.words.starts_with("unsafe") && key == b"counter";
        let keys = keys.filter(|key| !merged(&key.1));
        let differ = keys.filter(|key| found.get(*key) != expected.get(*key));
        let differ: Vec<_> = differ.map(|key| (&key.0, String::from_utf8_lossy(&key.1))).collect();
        if !differ.is_empty() {
            return Err(format!("other values are found: {differ:?}"));
        }
        Ok(())
    }

    /// The owner's rows that the newest OPTIONS file lacks.
    fn lost_rows(&self, before: &Files, after: &Files, words: &str) -> Vec<String> {
        // What each engine writes about itself, and what ldb itself opens with, as RocksDB's does.
        let own = [
            "rocksdb_version",
            "options_file_version",
            "create_if_missing",
            "create_missing_column_families",
            // RocksDB lengthens it to num_levels when it opens, too, and writes it shorter.
            "max_bytes_for_level_multiplier_additional",
            // Without effect, and written where it is not 0: no table here has that default.
            "huge_page_tlb_size",
        ];
        let now = rows(after);
        let mut lost = Vec::new();
        for (at, value) in rows(before) {
            let (section, name) = &at;
            let found = now.get(&at);
            // Of a family that RocksDB made by itself: as of any other.
            let usual = (section.replace("___rocksdb_stats_history___", "default"), name.clone());
            let is_default = self.defaults.get(&usual) == Some(&value);
            let same = found.map_or(is_default, |now| *now == value);
            let by_flag = FLAGS.iter().any(|(flag, row)| row == name && words.contains(flag));
            let dropped = words.contains("drop_column_family") && section.contains("\"other\"");
            if !same && !own.contains(&name.as_str()) && !by_flag && !dropped {
                lost.push(format!("{section} {name}={value}, now {found:?}"));
            }
        }
        lost
    }
}

/// Flags and the rows that they change.
const FLAGS: [(&str, &str); 6] = [
    ("--bloom_bits", "filter_policy"),
    ("--block_size", "block_size"),
    ("--compression_type", "compression"),
    ("--write_buffer_size", "write_buffer_size"),
    ("--file_size", "target_file_size_base"),
    ("--auto_compaction", "disable_auto_compactions"),
];

fn refused(
    before: &Files,
    after: &Files,
    refused: bool,
    err: &str,
    word: &str,
) -> Result<(), String> {
    if !refused || !err.contains(word) {
        return Err("not refused with that word".to_string());
    }
    let changed = changed(before, after, |_| true);
    if !changed.is_empty() {
        return Err(format!("changed: {changed:?}"));
    }
    Ok(())
}

/// Files of `before` that are not the same, of those that `kept` names; and new ones, if all are.
fn changed(before: &Files, after: &Files, kept: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, bytes) in before.iter().filter(|(name, _)| kept(name)) {
        match after.get(name) {
            Some(now) if now == bytes => {}
            Some(_) => changed.push(format!("{} differs", name.display())),
            None => changed.push(format!("{} is gone", name.display())),
        }
    }
    if kept(Path::new("anything")) {
        let new = after.keys().filter(|name| !before.contains_key(*name));
        changed.extend(new.map(|name| format!("{} is new", name.display())));
    }
    changed
}

/// Rows of an OPTIONS file: section, name and value.
pub type Rows = BTreeMap<(String, String), String>;

/// The rows of the newest OPTIONS file.
pub fn rows(files: &Files) -> Rows {
    let newest = files.iter().rfind(|(name, _)| name_starts(name, "OPTIONS-")).unwrap();
    let mut section = String::new();
    let mut rows = BTreeMap::new();
    for line in String::from_utf8_lossy(newest.1).lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.to_string();
        } else if let Some((name, value)) = line.split_once('=') {
            flatten(&mut rows, &section, name, value);
        }
    }
    rows
}

/// `a={b=1;c={d=2;}}` is `a.b=1` and `a.c.d=2`: engines have their own order, and members that
/// they leave out.
fn flatten(rows: &mut Rows, section: &str, name: &str, value: &str) {
    let inner = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(inner) = inner.filter(|inner| inner.contains('=')) else {
        rows.insert((section.to_string(), name.to_string()), value.to_string());
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inner.bytes().chain([b';']).enumerate() {
        depth += i32::from(letter == b'{') - i32::from(letter == b'}');
        if letter == b';' && depth == 0 {
            if let Some((member, value)) = inner[start..at].split_once('=') {
                flatten(rows, section, &format!("{name}.{member}"), value);
            }
            start = at + 1;
        }
    }
}
