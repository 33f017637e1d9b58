//! The text file that defines a backup: `meta/<id>`.
//!
//! ```text
//! 1795493875                        unix time
//! 42                                sequence number
//! metadata 0A0B                     what the caller noted, in hexadecimal; may be left out
//! 2                                 files
//! private/1/CURRENT crc32 3750569469
//! shared_checksum/000047_sDQNXBA6WDL2BOBTBQB81_1020.sst crc32 3085826271
//! ```
//! Schema 2 begins with `schema_version 2.x` and has more fields, of which `size` is read. The
//! label is `crc32`, but the number is the CRC-32C of the whole file. Thread safety: plain data.

use pumice_base::{Error, Result};

use crate::table_output::file_checksum::unhex;

/// Largest size of a caller's note in bytes.
pub(super) const NOTE_BYTES_MAX: usize = 1 << 20;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileEntry {
    /// The file's path relative to the backup directory.
    pub path: String,
    /// CRC-32C of the whole file; None only in schema 2.
    pub crc: Option<u32>,
    /// The file's size in bytes, if the meta file gives it.
    pub bytes: Option<u64>,
}

/// The contents of a meta file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub timestamp: u64,
    pub sequence: u64,
    pub note: Vec<u8>,
    pub files: Vec<FileEntry>,
    /// Paths of files that were left out; only in schema 2.
    pub excluded: Vec<String>,
}

impl Meta {
    /// In that schema.
    pub fn encode(&self, schema: u32) -> String {
        let version = if schema < 2 { "" } else { "schema_version 2.1\n" };
        let mut out = format!("{version}{}\n{}\n", self.timestamp, self.sequence);
        if !self.note.is_empty() {
            let digits: String = self.note.iter().map(|byte| format!("{byte:02X}")).collect();
            out.push_str(&format!("metadata {digits}\n"));
        }
        out.push_str(&format!("{}\n", self.files.len()));
        for file in &self.files {
            let crc = file.crc.unwrap_or(0);
            out.push_str(&format!("{} crc32 {crc}\n", file.path));
        }
        for path in &self.excluded {
            out.push_str(&format!("{path} ni::excluded true\n"));
        }
        out
    }

    /// Reads either schema; `name` is for errors.
    ///
    /// # Errors
    /// Corruption; NotSupported for a newer schema, or a field that must be understood.
    pub fn decode(text: &str, name: &str) -> Result<Meta> {
        let bad = |what: &str| Error::corruption(format!("{what} in {name}"));
        let mut lines = text.lines().peekable();
        let version = lines.next_if(|line| line.starts_with("schema_version "));
        let second = version.is_some();
        if let Some(version) = version.map(|line| &line["schema_version ".len()..])
            && version != "2"
            && !version.starts_with("2.")
        {
            return Err(Error::not_supported(format!(
                "Unsupported/unrecognized schema version: {version}"
            )));
        }
        let mut number = |what: &str| -> Result<u64> {
            let line = lines.next().ok_or_else(|| bad(what))?;
            line.parse().map_err(|_| bad(what))
        };
        let mut meta = Meta {
            timestamp: number("no timestamp")?,
            sequence: number("no sequence number")?,
            ..Meta::default()
        };
        let mut count = None;
        for line in lines {
            if line.is_empty() {
                return Err(bad("empty line"));
            } else if line.starts_with("//") {
                break;
            } else if count.is_some() {
                meta.add_file(line, second, &bad)?;
            } else if let Ok(files) = line.parse::<usize>() {
                count = Some(files);
            } else if let Some(digits) = line.strip_prefix("metadata ") {
                meta.note = unhex(digits).ok_or_else(|| bad("bad metadata"))?;
            } else if !second {
                return Err(bad("no number of files"));
            } else if line.starts_with("ni::") {
                return Err(Error::not_supported(format!("Unrecognized field {line} in {name}")));
            }
        }
        match count {
            Some(count) if count == meta.files.len() => Ok(meta),
            _ => Err(bad("Inconsistent number of files or missing/incomplete header")),
        }
    }

    fn add_file(&mut self, line: &str, second: bool, bad: &dyn Fn(&str) -> Error) -> Result<()> {
        let mut words = line.split(' ');
        let path = words.next().unwrap_or_default().to_string();
        let climbs = path.split('/').any(|part| part.is_empty() || part == "..");
        if climbs {
            return Err(bad("a path that leaves the backup"));
        }
        let mut entry = FileEntry { path, crc: None, bytes: None };
        let mut excluded = false;
        while let Some(field) = words.next() {
            let Some(data) = words.next() else { return Err(bad("extra data")) };
            match field {
                "crc32" => entry.crc = Some(data.parse().map_err(|_| bad("bad checksum"))?),
                _ if !second => return Err(bad("extra data")),
                "size" => entry.bytes = Some(data.parse().map_err(|_| bad("bad size"))?),
                "ni::excluded" => excluded = data == "true",
                _ if field.starts_with("ni::") => {
                    return Err(Error::not_supported(format!("Unrecognized field {field}")));
                }
                _ => {}
            }
        }
        if !second && entry.crc.is_none() {
            return Err(bad("missing crc32"));
        }
        match excluded {
            false => self.files.push(entry),
            true => self.excluded.push(entry.path),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn both_schemas() {
        let entry = FileEntry { path: "private/1/CURRENT".into(), crc: Some(7), bytes: None };
        let meta = Meta {
            timestamp: 1,
            sequence: 2,
            note: vec![0, 0xab],
            files: vec![entry.clone()],
            ..Meta::default()
        };
        let text = "1\n2\nmetadata 00AB\n1\nprivate/1/CURRENT crc32 7\n";
        assert_eq!(meta.encode(1), text);
        assert_eq!(Meta::decode(text, "m").unwrap(), meta);
        let second = "schema_version 2.1\n1\n2\nsome thing\n1\nprivate/1/CURRENT crc32 7 size 9 \
                      temp kHot\na/b ni::excluded true\n// FOOTER\nx\n";
        let read = Meta::decode(second, "m").unwrap();
        assert_eq!(read.files, [FileEntry { bytes: Some(9), ..entry }]);
        assert_eq!(read.excluded, ["a/b"]);
        let meta = Meta { excluded: read.excluded, ..meta };
        assert_eq!(Meta::decode(&meta.encode(2), "m").unwrap(), meta);
        for wrong in [
            "",
            "1\n2\n",
            "1\n2\n2\na crc32 1\n",
            "1\n2\n1\na\n",
            "1\n2\n1\na crc32 1 size 2\n",
            "1\n2\n1\n\n",
            "1\n2\n1\n../a crc32 1\n",
            "1\n2\nmetadata 0\n0\n",
            "schema_version 3\n1\n2\n0\n",
            "schema_version 2.1\n1\n2\nni::x y\n0\n",
        ] {
            assert!(Meta::decode(wrong, "m").is_err(), "{wrong:?}");
        }
    }
}
