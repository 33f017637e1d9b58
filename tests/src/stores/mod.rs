//! Pumice and RocksDB as engines of the testkit, and the settings that they are opened with.

pub mod pumice;
pub mod rocksdb;

/// How a database is opened: option names and values are RocksDB's, so they serve both engines.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Database and column family options.
    pub options: Vec<(&'static str, String)>,
    /// More of them, as in an OPTIONS file: `name=value;...`.
    pub text: String,
    /// Options that only Pumice has.
    pub own: Vec<(&'static str, &'static str)>,
    /// Options of the block-based table, as in an OPTIONS file: `name=value;...`.
    pub table: String,
    /// Column families: name and `compression` value, empty for that of the other options; the
    /// first is `default`.
    pub families: Vec<(String, &'static str)>,
    /// Writes do not go to the WAL.
    pub disable_wal: bool,
    /// Tickers and histograms are counted.
    pub statistics: bool,
    /// Bytes of the block cache that each column family of Pumice gets; None is the default. The
    /// slots of a default cache are a megabyte, which is much of an open of a small database.
    pub cache_bytes: Option<usize>,
    /// Whether Pumice writes an info log. Its lines are a good part of an open of a small database.
    pub info_log: bool,
}

impl Settings {
    /// Small memtables and files, so that little work makes several levels; merges append.
    pub fn small(families: usize) -> Self {
        Settings {
            options: vec![
                ("create_if_missing", "true".into()),
                ("create_missing_column_families", "true".into()),
                ("write_buffer_size", "65536".into()),
                ("target_file_size_base", "65536".into()),
                ("max_bytes_for_level_base", "131072".into()),
                ("max_bytes_for_level_multiplier", "4".into()),
                ("merge_operator", "stringappend".into()),
            ],
            text: String::new(),
            own: Vec::new(),
            table: "block_size=512;filter_policy=bloomfilter:10:false".into(),
            families: (0..families).map(|cf| (family_name(cf), "kNoCompression")).collect(),
            disable_wal: false,
            statistics: false,
            cache_bytes: None,
            info_log: true,
        }
    }

    /// A database with the options of `text` and tables with those of `table`, else the defaults.
    pub fn of(text: &str, table: &str) -> Self {
        Settings {
            options: Vec::new(),
            text: text.to_string(),
            own: Vec::new(),
            table: table.to_string(),
            families: vec![("default".to_string(), "")],
            disable_wal: false,
            statistics: false,
            cache_bytes: None,
            info_log: true,
        }
    }

    /// The same with this many column families: `default`, `family1`, ..
    #[must_use]
    pub fn with_families(mut self, families: usize) -> Self {
        self.families = (0..families).map(|cf| (family_name(cf), "")).collect();
        self
    }

    /// The same with statistics.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// The same with one more option that only Pumice has.
    #[must_use]
    pub fn with_own(mut self, name: &'static str, value: &'static str) -> Self {
        self.own.push((name, value));
        self
    }

    /// The same with one more option, which replaces an earlier value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.options.retain(|(other, _)| *other != name);
        self.options.push((name, value.to_string()));
        self
    }
}

/// The name of the column family of that number.
pub fn family_name(cf: usize) -> String {
    if cf == 0 { "default".to_string() } else { format!("family{cf}") }
}
