//! Native methods that are accessors of properties, or make and end objects of values.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{self, Row};
use crate::{Body, Native};

/// (Java's class, class of properties, type of the object)
const CLASSES: &[(&str, &str, &str)] = &[
    ("Options", "options", "Options"),
    ("DBOptions", "options", "Options"),
    ("ColumnFamilyOptions", "options", "Options"),
    ("ReadOptions", "readoptions", "ReadOptions"),
    ("WriteOptions", "writeoptions", "WriteOptions"),
    ("FlushOptions", "flushoptions", "Values"),
    ("CompactRangeOptions", "compactoptions", "Values"),
    ("IngestExternalFileOptions", "ingestexternalfileoptions", "Values"),
    ("EnvOptions", "envoptions", "Values"),
    ("CompactionOptionsUniversal", "universal_compaction_options", "Values"),
    ("CompactionOptionsFIFO", "fifo_compaction_options", "Values"),
    ("TransactionOptions", "transaction_options", "Values"),
    ("TransactionDBOptions", "transactiondb_options", "Values"),
    ("OptimisticTransactionOptions", "optimistictransaction_options", "Values"),
    ("CompactionOptions", "compaction_options", "Values"),
    ("RestoreOptions", "restore_options", "Values"),
    ("ImportColumnFamilyOptions", "import_column_family_options", "Values"),
    ("ComparatorOptions", "comparator_options", "Values"),
    ("ConfigOptions", "config_options", "Values"),
    ("BackupEngineOptions", "backup_engine_options", "crate::objects::BackupOptions"),
    ("CompactionJobInfo", "compactionjobinfo", "crate::objects::CompactionInfo"),
    ("CompactionJobStats", "compaction_job_stats", "crate::objects::JobStats"),
];

/// (Java's class, the type that its method `disposeInternal` ends)
const ENDS: &[(&str, &str)] = &[
    ("RocksIterator", "Iterator"),
    ("SstFileReaderIterator", "Iterator"),
    ("SstFileReader", "Reader"),
    ("WriteBatch", "Batch"),
    ("WriteBatchWithIndex", "SharedBatch"),
    ("ColumnFamilyHandle", "Family"),
    ("LRUCache", "Cache"),
    ("ClockCache", "Cache"),
    ("HyperClockCache", "Cache"),
    ("PersistentCache", "Persistent"),
    ("Filter", "Policy"),
    ("CassandraValueMergeOperator", "Merge"),
    ("StringAppendOperator", "Merge"),
    ("UInt64AddOperator", "Merge"),
    ("AbstractCompactionFilter", "Filter"),
    ("AbstractCompactionFilterFactory", "FilterFactory"),
    ("AbstractEventListener", "Listener"),
    ("Logger", "Log"),
    ("util/StdErrLogger", "Log"),
    ("Statistics", "Counts"),
    ("SstPartitionerFixedPrefixFactory", "Partitioner"),
    ("ExportImportFilesMetaData", "Exported"),
    ("RateLimiter", "Limiter"),
    ("WriteBufferManager", "BufferManager"),
    ("SstFileManager", "FileManager"),
    ("Checkpoint", "Checkpoint"),
    ("SstFileWriter", "Writer"),
    ("Transaction", "OpenTransaction"),
    ("TransactionLogIterator", "LogCursor"),
    ("BackupEngine", "Backups"),
    ("CompressionOptions", "Compression"),
    ("RocksMemEnv", "Env"),
    ("TimedEnv", "Env"),
    ("RocksEnv", "Env"),
];

pub struct Properties<'a> {
    rows: Vec<Row<'a>>,
    /// (class of properties, Java's name) to property.
    names: BTreeMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Properties<'a> {
    pub fn new(accessors: &'a str, names: &'a str) -> Properties<'a> {
        let lines = names.lines().filter(|line| !line.starts_with('#'));
        let names = lines.map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let &[class, java, property] = columns.as_slice() else { panic!("{line}") };
            ((class, java), property)
        });
        Properties { rows: table::rows(accessors), names: names.collect() }
    }

    /// The property that the method reads or sets.
    fn find(&self, native: &Native, class: &str) -> Option<&Row<'a>> {
        let name = native.plain_name();
        let stems = [
            Some(name),
            name.strip_prefix("set"),
            name.strip_prefix("get"),
            name.strip_prefix("is"),
        ];
        stems.into_iter().flatten().find_map(|stem| {
            let name = snake(stem);
            let property = self.names.get(&(class, name.as_str())).copied().unwrap_or(&name);
            let fits =
                |row: &&Row<'_>| row.object == class && row.name.eq_ignore_ascii_case(property);
            self.rows.iter().find(fits)
        })
    }

    /// The body of the function, if it needs nothing by hand.
    pub fn body(&self, native: &Native) -> Option<Body> {
        self.number(native).map(Body::Whole).or_else(|| self.inside(native).map(Body::Inside))
    }

    /// A number that is read or set.
    fn number(&self, native: &Native) -> Option<String> {
        let (_, object, kind) = CLASSES.iter().find(|(java, ..)| *java == native.class)?;
        let row = self.find(native, object).filter(|row| !table::is_text_kind(row.kind))?;
        let place = format!("(\"{object}\", {})", row.place);
        match (native.signature.short().as_str(), native.signature.result.as_str()) {
            ("J", result) => {
                let value = from_bits(row, result)?;
                let bits = format!("accessor::get::<{kind}>(raw, method, a0, {place})");
                Some(format!("let bits = {bits}; {value}"))
            }
            (_, "V") if native.signature.arguments.len() == 2 => {
                let bits = to_bits(row, native.signature.arguments[1].as_str())?;
                Some(format!("accessor::set::<{kind}>(raw, method, a0, {place}, {bits})"))
            }
            _ => None,
        }
    }

    fn inside(&self, native: &Native) -> Option<String> {
        let class = CLASSES.iter().find(|(java, ..)| *java == native.class);
        if native.plain_name() == "disposeInternal" && native.signature.short() == "J" {
            let ends = ENDS.iter().find(|(java, _)| *java == native.class);
            let own = ends.map(|(_, kind)| format!("crate::objects::{kind}"));
            let kind = own.or_else(|| class.map(|(_, _, kind)| (*kind).to_string()))?;
            return Some(format!("accessor::end::<{kind}>(a0)"));
        }
        if native.class == "PerfContext" && native.signature.text == "(J)J" {
            let (all, rest) = (snake(&native.name), native.name.trim_start_matches("get"));
            return Some(format!("crate::api::perf::metric(a0, [\"{}\", \"{all}\"])", snake(rest)));
        }
        let (java, object, kind) = class?;
        if *kind == "Values"
            && native.name.ends_with(java)
            && native.name.starts_with("new")
            && native.signature.text == "()J"
        {
            return Some(format!("Ok(accessor::create(\"{object}\"))"));
        }
        let row = self.find(native, object).filter(|row| table::is_text_kind(row.kind))?;
        let result = native.signature.result.as_str();
        let arguments = native.signature.short();
        let place = row.place;
        match (arguments.as_str(), result) {
            ("J", "Ljava/lang/String;") => {
                Some(format!("into(env, accessor::get_text::<{kind}>(a0, \"{object}\", {place})?)"))
            }
            ("JT", "V") => Some(format!(
                "{{ let text: String = from(env, a1)?; \
                 accessor::set_text::<{kind}>(a0, \"{object}\", \"{}\", &text) }}",
                row.name
            )),
            _ => None,
        }
    }

    /// The properties that column families have, as Rust.
    pub fn of_families(&self, natives: &[Native]) -> String {
        let own = natives.iter().filter(|native| native.class == "ColumnFamilyOptions");
        let names: BTreeSet<&str> =
            own.filter_map(|native| Some(self.find(native, "options")?.name)).collect();
        let list: Vec<&str> = names.into_iter().collect();
        let head = "/// Properties of column families.\npub const FAMILY_PROPERTIES: &[&str] =";
        format!("{head} &{list:?};\n")
    }
}

fn is_compression(row: &Row<'_>) -> bool {
    row.target.ends_with("/compression") || row.name == "compression"
}

fn is_signed(row: &Row<'_>) -> bool {
    row.kind.starts_with('i')
}

fn from_bits(row: &Row<'_>, result: &str) -> Option<&'static str> {
    Some(match result {
        "Z" => "bits != 0",
        "B" if is_compression(row) => "accessor::compression_byte(bits)",
        "B" => "bits as i8",
        "S" => "bits as i16",
        "I" => "bits as i32",
        "J" => "bits.cast_signed()",
        "D" => "f64::from_bits(bits)",
        _ => return None,
    })
}

fn to_bits(row: &Row<'_>, argument: &str) -> Option<&'static str> {
    Some(match (argument, is_signed(row)) {
        ("Z", _) => "u64::from(a1)",
        ("B", _) if is_compression(row) => "accessor::compression(a1)",
        ("B" | "S" | "I" | "J", true) => "(a1 as i64).cast_unsigned()",
        ("B", false) => "u64::from(a1 as u8)",
        ("S", false) => "u64::from(a1 as u16)",
        ("I", false) if row.kind == "u64" => "(a1 as i64).cast_unsigned()",
        ("I", false) => "u64::from(a1 as u32)",
        ("J", false) if row.kind == "u32" => "u64::from(a1 as u32)",
        ("J", false) => "a1.cast_unsigned()",
        ("D", _) => "a1.to_bits()",
        _ => return None,
    })
}

/// `maxOpenFiles` as `max_open_files`.
fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if begins {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
