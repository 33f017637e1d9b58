//! The OPTIONS file (docs/format/options.md).
//!
//! ```text
//! [Version]                              rocksdb_version=, options_file_version=
//! [DBOptions]                            name=value lines
//! [CFOptions "default"]                  one pair of sections per live column family,
//! [TableOptions/BlockBasedTable "default"]   the default one first
//! ```
//!
//! RocksDB refuses names that it does not know; if told to ignore them, it does so only in a file
//! whose version is above its own. So a file has the options that every RocksDB since 7.8 knows,
//! and its version is 7.8. Later options are added if they are not the default (`Saved`), and the
//! file then has the version of a RocksDB that knows them. Pumice's own options and objects are not
//! written. Every file that RocksDB 7.8 to 10.10 writes can be read; in a file of a newer version,
//! names that the tables do not know are skipped and noted, except those that `on_disk` lists.
//!
//! The file is bytes: only the name of a column family may be other than UTF-8, and a comment.
//!
//! Thread safety: pure functions from and to text.
//!
//! Invariants:
//! 1. The column families of the file are exactly those passed in, in their order; RocksDB's tools
//!    cannot open a database whose file lists too many or too few.
//! 2. Nothing is skipped without a note in `LoadedOptions::ignored`.

use pumice_base::{Error, ErrorKind, Result, names};

use super::block_based::BlockBasedTableOptions;
use super::cf_options::ColumnFamilyOptions;
use super::db_options::DbOptions;
use super::on_disk::{self, Concern};
use super::other_tables::TableFactory;
use super::row::{OptionSet, RowKind, unknown_option};
use super::text::{escape_bytes, trim_comment, unescape_bytes};

/// The version in files: the first of these that knows every name in it.
const WRITTEN_VERSIONS: [&str; 3] = ["7.8.0", "10.10.0", "11.8.0"];
/// The newest RocksDB, major and minor, whose option names the tables have.
const KNOWN_VERSION: (u32, u32) = (10, 10);
/// Version of the file's own syntax.
const FILE_VERSION: &str = "1.1";

/// A column family in an OPTIONS file.
///
/// Example: that of [`load_latest_options`](super::load_latest_options).
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFamilyEntry {
    /// Name of the column family.
    pub name: String,
    /// The options of the family.
    pub options: ColumnFamilyOptions,
}

/// What a reader of OPTIONS files tolerates. By default: unknown names, and members of values, in
/// files of a RocksDB newer than the tables. An option that decides what is in the files is never
/// skipped, unless `for_reading` says so.
///
/// Example: that of [`load_latest_options`](super::load_latest_options).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRules {
    /// Skip names that no table has, whichever version wrote them.
    pub ignore_unknown_options: bool,
    /// Skip values that this build does not support and that do not change the files.
    pub ignore_unsupported_options: bool,
    /// The database will only be read: also skip options that decide how files are written, as long
    /// as they can be read without them (universal compaction, a second index, ..).
    pub for_reading: bool,
}

/// The contents of an OPTIONS file.
///
/// Example: that of [`load_latest_options`](super::load_latest_options).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedOptions {
    /// `rocksdb_version` of the file; empty if it has none.
    pub rocksdb_version: String,
    /// Options of the database.
    pub db: DbOptions,
    /// Column families in file order, the default one first.
    pub column_families: Vec<ColumnFamilyEntry>,
    /// Options skipped by the rules, as `name=value` or `name.member=value`, each once. They are in
    /// `db.skipped_options` too, from where an open writes them into the info log.
    pub ignored: Vec<String>,
}

/// The text of an OPTIONS file for a database with exactly these live column families; bytes of
/// their names that are not UTF-8 are replaced, see [`options_file_bytes`].
///
/// Example: that of [`parse_options_file`].
pub fn format_options_file(
    db: &DbOptions,
    column_families: &[(&str, &ColumnFamilyOptions)],
) -> String {
    String::from_utf8_lossy(&options_file_bytes(db, column_families)).into_owned()
}

/// The bytes of an OPTIONS file for a database with exactly these live column families.
///
/// Example: that of [`parse_options_file`].
pub fn options_file_bytes(
    db: &DbOptions,
    column_families: &[(&str, &ColumnFamilyOptions)],
) -> Vec<u8> {
    let mut sections = Sections { text: Vec::with_capacity(8 << 10), since: 0 };
    sections.write("DBOptions", None, db);
    for (name, options) in column_families {
        sections.write("CFOptions", Some(name), *options);
        let table = &options.table_factory;
        let title = format!("TableOptions/{}", table.format.name());
        match &table.format {
            TableFactory::BlockBased => sections.write(&title, Some(name), table),
            TableFactory::Plain(plain) => sections.write(&title, Some(name), plain),
            TableFactory::Cuckoo(cuckoo) => sections.write(&title, Some(name), cuckoo),
        }
    }
    let version = WRITTEN_VERSIONS[sections.since];
    let mut file = format!(
        "# This is a RocksDB option file, written by Pumice.\n\n[Version]\n  \
         rocksdb_version={version}\n  options_file_version={FILE_VERSION}\n"
    )
    .into_bytes();
    file.append(&mut sections.text);
    file
}

struct Sections {
    text: Vec<u8>,
    /// Index in `WRITTEN_VERSIONS`.
    since: usize,
}

impl Sections {
    fn write<S: OptionSet>(&mut self, title: &str, name: Option<&str>, options: &S) {
        self.text.extend(format!("\n[{title}").into_bytes());
        if let Some(name) = name {
            self.text.extend(b" \"");
            self.text.extend(escape_bytes(&names::bytes_of(name)));
            self.text.push(b'"');
        }
        self.text.extend(b"]\n");
        let defaults = S::default();
        for row in S::rows() {
            if let Some(text) = row.saved_text(options, &defaults) {
                self.text.extend(format!("  {}={text}\n", row.name).into_bytes());
                self.since = self.since.max(row.saved_since(options));
            }
        }
    }
}

/// The section that the reader is in.
enum Section {
    None,
    Version,
    Db,
    Cf,
    Table,
}

struct Reader<'a> {
    rules: FileRules,
    /// The options whose objects a column family keeps.
    family: &'a dyn Fn(&str) -> ColumnFamilyOptions,
    loaded: LoadedOptions,
    section: Section,
    saw_db: bool,
    /// The file is of a RocksDB above `KNOWN_VERSION`.
    newer: bool,
    line: usize,
}

/// Reads the contents of an OPTIONS file, a text or its bytes.
///
/// # Errors
/// InvalidArgument or NotSupported with the line number for a file that is malformed, lacks a
/// section, or names options or values that the rules do not let pass.
///
/// A name that is in no table is skipped if `rocksdb_version` is above 10.10.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::options::{FileRules, format_options_file, options_file_bytes};
/// use pumice::options::{parse_options_file, parse_options_file_over};
/// use pumice::{ColumnFamilyOptions, DbOptions};
/// let (db, family) = (DbOptions::default(), ColumnFamilyOptions::default());
/// let text = format_options_file(&db, &[("default", &family)]);
/// let read = parse_options_file(&text, FileRules::default())?;
/// assert_eq!((read.db, &read.column_families[0].options), (db.clone(), &family));
///
/// // A program that has objects of its own, such as a comparator, gives them to the reader.
/// let bytes = options_file_bytes(&db, &[("default", &family)]);
/// let read = parse_options_file_over(&bytes, FileRules::default(), &db, &|_name| family.clone())?;
/// assert_eq!(read.column_families.len(), 1);
/// # Ok(())
/// # }
/// ```
pub fn parse_options_file(
    text: &(impl AsRef<[u8]> + ?Sized),
    rules: FileRules,
) -> Result<LoadedOptions> {
    parse_options_file_over(text, rules, &DbOptions::default(), &|_| ColumnFamilyOptions::default())
}

/// As [`parse_options_file`] for a program that has objects which text cannot make: those of `db`,
/// and for each column family those of `family`, are kept, whatever the file says, but a comparator
/// with another name is an error. Settings are those of the file.
///
/// # Errors
/// As [`parse_options_file`].
///
/// Example: that of [`parse_options_file`].
pub fn parse_options_file_over(
    text: &(impl AsRef<[u8]> + ?Sized),
    rules: FileRules,
    db: &DbOptions,
    family: &dyn Fn(&str) -> ColumnFamilyOptions,
) -> Result<LoadedOptions> {
    let mut reader = Reader {
        rules,
        family,
        loaded: LoadedOptions { db: db.only_objects(), ..LoadedOptions::default() },
        section: Section::None,
        saw_db: false,
        newer: false,
        line: 0,
    };
    for line in text.as_ref().split(|byte| *byte == b'\n') {
        reader.line += 1;
        let result = reader.read_line(trim_comment(line));
        result.map_err(|e| e.with_context(format!("OPTIONS file, line {}", reader.line)))?;
    }
    if !reader.saw_db {
        return Err(Error::invalid_argument("OPTIONS file: A DBOptions section is missing"));
    }
    if reader.loaded.column_families.is_empty() {
        return Err(Error::invalid_argument("OPTIONS file: A CFOptions section is missing"));
    }
    let mut loaded = reader.loaded;
    loaded.db.skipped_options = loaded.ignored.clone();
    loaded.db.keep_objects(db);
    for entry in &mut loaded.column_families {
        entry.options.keep_objects(&family(&entry.name));
    }
    Ok(loaded)
}

/// Splits `CFOptions "name"]` into title and name.
fn section_title(text: &[u8]) -> Option<(&str, Option<String>)> {
    let inner = text.strip_suffix(b"]")?.trim_ascii();
    let quote = inner.iter().position(|byte| *byte == b'"');
    let title = str::from_utf8(&inner[..quote.unwrap_or(inner.len())]).ok()?.trim();
    let Some(quote) = quote else { return Some((title, None)) };
    let name = inner[quote + 1..].strip_suffix(b"\"")?;
    Some((title, Some(names::text_of(&unescape_bytes(name)))))
}

impl Reader<'_> {
    /// Reads a line without its comment.
    fn read_line(&mut self, line: &[u8]) -> Result<()> {
        match line {
            [] => Ok(()),
            [b'[', title @ ..] => self.open_section(title),
            _ => match str::from_utf8(line) {
                Ok(line) => self.assignment(line),
                Err(_) => Err(Error::not_supported(format!(
                    "{}: not valid UTF-8",
                    String::from_utf8_lossy(line)
                ))),
            },
        }
    }

    fn open_section(&mut self, text: &[u8]) -> Result<()> {
        let (title, name) = section_title(text)
            .ok_or_else(|| Error::invalid_argument("The section title is malformed"))?;
        self.section = match (title, name) {
            ("Version", None) => Section::Version,
            ("DBOptions", None) if self.saw_db => {
                return Err(Error::invalid_argument("More than one DBOptions section found"));
            }
            ("DBOptions", None) => {
                self.saw_db = true;
                Section::Db
            }
            ("CFOptions", Some(name)) => self.open_cf(name)?,
            (title, Some(name)) if title.starts_with("TableOptions") => {
                let format = title.strip_prefix("TableOptions/");
                if format.and_then(TableFactory::by_name).is_none() {
                    return Err(Error::not_supported(format!("Section {title}")));
                }
                self.open_table(&name, title)?
            }
            _ => return Err(Error::invalid_argument(format!("Unknown section {title}"))),
        };
        Ok(())
    }

    fn open_cf(&mut self, name: String) -> Result<Section> {
        let families = &mut self.loaded.column_families;
        if families.is_empty() && name != "default" {
            return Err(Error::invalid_argument(
                "Default column family must be the first CFOptions section",
            ));
        }
        if families.iter().any(|cf| cf.name == name) {
            return Err(Error::invalid_argument(format!("Two CFOptions sections for {name}")));
        }
        let options = (self.family)(&name).only_objects();
        families.push(ColumnFamilyEntry { name, options });
        Ok(Section::Cf)
    }

    fn open_table(&mut self, name: &str, title: &str) -> Result<Section> {
        let Some(cf) = self.loaded.column_families.last().filter(|cf| cf.name == name) else {
            return Err(Error::invalid_argument(format!(
                "The TableOptions section of {name} must follow its CFOptions section"
            )));
        };
        let format = cf.options.table_factory.format.name();
        if title.strip_prefix("TableOptions/") != Some(format) {
            return Err(Error::invalid_argument(format!(
                "Section {title} for {name}, whose table_factory is {format}"
            )));
        }
        Ok(Section::Table)
    }

    fn assignment(&mut self, line: &str) -> Result<()> {
        let (name, value) = line
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Error::invalid_argument("A valid statement must have a '='"))?;
        let lenient = self.newer || self.rules.ignore_unknown_options;
        let result = match self.section {
            Section::None => Err(Error::invalid_argument("A statement before any section")),
            Section::Version => self.version(name, value).map(|()| Vec::new()),
            Section::Db => set_saved(&mut self.loaded.db, name, value, lenient),
            Section::Cf => match self.loaded.column_families.last_mut() {
                Some(cf) => set_saved(&mut cf.options, name, value, lenient),
                None => Err(unknown_option(name)),
            },
            Section::Table => match self.loaded.column_families.last_mut() {
                Some(cf) => set_table_option(&mut cf.options.table_factory, name, value, lenient),
                None => Err(unknown_option(name)),
            },
        };
        let skipped = self.forgive(name, value, result)?;
        for note in skipped {
            if !self.loaded.ignored.contains(&note) {
                self.loaded.ignored.push(note);
            }
        }
        Ok(())
    }

    fn version(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "rocksdb_version" => {
                self.loaded.rocksdb_version = value.to_string();
                self.newer = is_newer(value);
            }
            "options_file_version" => {
                let major = value.split('.').next().and_then(|n| n.parse::<u32>().ok());
                if major.is_none_or(|n| n < 1) {
                    return Err(Error::invalid_argument(
                        "A valid options_file_version must be at least 1",
                    ));
                }
            }
            _ => return Err(unknown_option(name)),
        }
        Ok(())
    }

    /// Turns errors that the rules let pass into notes.
    fn forgive(&self, name: &str, value: &str, result: Result<Vec<String>>) -> Result<Vec<String>> {
        let Err(error) = result else { return result };
        let unknown = error.message() == unknown_option(name).message();
        let unsupported = error.kind() == ErrorKind::NotSupported;
        let pass = match on_disk::concern(name, value) {
            _ if !unknown && !unsupported => false,
            Some((Concern::Reading, why)) => return Err(on_disk::refusal(name, value, why)),
            Some((Concern::Writing, _)) if self.rules.for_reading => true,
            Some((Concern::Writing, why)) => return Err(on_disk::refusal(name, value, why)),
            None if unknown => self.newer || self.rules.ignore_unknown_options,
            None => self.rules.ignore_unsupported_options,
        };
        if pass { Ok(vec![format!("{name}={value}")]) } else { Err(error) }
    }
}

/// Whether `version`, `major.minor.patch`, is above what the tables know; false without a version.
fn is_newer(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) > KNOWN_VERSION,
        _ => false,
    }
}

/// [`set_saved`] of the format that the tables have.
fn set_table_option(
    table: &mut BlockBasedTableOptions,
    name: &str,
    value: &str,
    lenient: bool,
) -> Result<Vec<String>> {
    match &mut table.format {
        TableFactory::BlockBased => set_saved(table, name, value, lenient),
        TableFactory::Plain(plain) => set_saved(plain, name, value, lenient),
        TableFactory::Cuckoo(cuckoo) => set_saved(cuckoo, name, value, lenient),
    }
}

/// Sets an option; if `lenient`, without the members that are unknown here, which it returns, and
/// without a value that has no effect here and another form in the file.
fn set_saved<S: OptionSet>(
    options: &mut S,
    name: &str,
    value: &str,
    lenient: bool,
) -> Result<Vec<String>> {
    let row = S::row(name).ok_or_else(|| unknown_option(name))?;
    if !lenient {
        return row.set(options, value).map(|()| Vec::new());
    }
    let (known, unknown) = row.known_members(options, value);
    match row.set(options, &known) {
        Err(_) if matches!(row.kind, RowKind::Hint { .. }) => Ok(vec![format!("{name}={value}")]),
        Err(error) => Err(error),
        Ok(()) => Ok(unknown.iter().map(|member| format!("{name}.{member}")).collect()),
    }
}

#[cfg(test)]
mod tests;
