//! `--count_delim`: entries and bytes of each run of keys with the same prefix, up to a delimiter.
//! Plain data. Keys with the same prefix that another comparator does not keep together are counted
//! separately.

use super::Invocation;
use crate::output::Output;

/// Bytes at which a key or value ends for `idump`, as in RocksDB's ldb.
const ENDS: [u8; 2] = [0, 1];

/// The run that is being counted.
pub struct Groups {
    delimiter: u8,
    /// What its keys begin with.
    name: Vec<u8>,
    entries: u64,
    bytes: u64,
}

impl Invocation {
    /// Counters if `--count_delim` was given.
    pub fn groups(&self) -> Option<Groups> {
        let given = self.arguments.bytes("count_delim").and_then(|text| text.first().copied());
        let delimiter = given.unwrap_or(b'.');
        let is_asked = self.arguments.has("count_delim");
        is_asked.then(|| Groups { delimiter, name: Vec::new(), entries: 0, bytes: 0 })
    }
}

/// `bytes` up to the first of `ends`.
fn until(bytes: &[u8], ends: impl Fn(u8) -> bool) -> &[u8] {
    let end = bytes.iter().position(|byte| ends(*byte));
    &bytes[..end.unwrap_or(bytes.len())]
}

impl Groups {
    /// Counts an entry of the database; a key ends where a byte is 0, too.
    pub fn add(&mut self, key: &[u8], value: &[u8], out: &mut Output) {
        let delimiter = self.delimiter;
        let name = until(key, |byte| byte == delimiter || byte == 0);
        self.count(name, key.len() + value.len(), out);
    }

    /// Counts an entry with an internal key.
    pub fn add_internal(&mut self, ikey: &[u8], value: &[u8], out: &mut Output) {
        let (key, value) =
            (until(ikey, |byte| ENDS.contains(&byte)), until(value, |byte| ENDS.contains(&byte)));
        let delimiter = self.delimiter;
        self.count(until(key, |byte| byte == delimiter), key.len() + value.len(), out);
    }

    fn count(&mut self, name: &[u8], bytes: usize, out: &mut Output) {
        if !self.name.is_empty() && self.name != name {
            self.print(out);
            (self.entries, self.bytes) = (0, 0);
        }
        self.name = name.to_vec();
        self.entries += 1;
        self.bytes += bytes as u64;
    }

    /// Prints the last run.
    pub fn print(&self, out: &mut Output) {
        let numbers = format!(" => count:{}\tsize:{}", self.entries, self.bytes);
        out.line(&[&self.name, numbers.as_bytes()]);
    }
}
