//! Commands that read and write pairs.

use super::groups::Groups;
use super::live::dump_file;
use super::open::text as failure;
use super::opened::{Handle, Opened};
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{parse, show};
use pumice::{Cursor as _, Db, ReadOptions, WriteBatch};
use pumice_base::histogram::Histogram;

impl Invocation {
    /// The key that a word means.
    pub fn key(&self, word: impl AsRef<[u8]>) -> Result<Vec<u8>, Failure> {
        parse(word, self.key_hex)
    }

    /// The bound that a flag gives, hexadecimal if `hex`.
    pub fn bound(&self, flag: &str, hex: bool) -> Result<Option<Vec<u8>>, Failure> {
        self.arguments.bytes(flag).map(|word| parse(word, hex)).transpose()
    }

    /// Bounds and limit of a range command.
    fn range(&self) -> Result<(ReadOptions, u64), Failure> {
        let options = ReadOptions {
            iterate_lower_bound: self.bound("from", self.key_hex)?,
            iterate_upper_bound: self.bound("to", self.key_hex)?,
            total_order_seek: true,
            ..ReadOptions::default()
        };
        let max = self.arguments.int("max_keys", "")?.unwrap_or(-1);
        Ok((options, u64::try_from(max).unwrap_or(u64::MAX)))
    }

    /// Writes `batch` and prints OK.
    fn write<H: Handle>(
        &self,
        opened: &Opened<H>,
        mut batch: WriteBatch,
        out: &mut Output,
    ) -> Result<(), Failure> {
        opened.write(&mut batch)?;
        opened.db.close().map_err(failure)?;
        out.line(&[b"OK"]);
        Ok(())
    }
}

/// `put <key> <value>`
pub fn put<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key, value] = it.arguments.words.as_slice() else {
        return Err("<key> and <value> must be specified for the put command".into());
    };
    let (key, value) = (it.key(key)?, parse(value, it.value_hex)?);
    let opened = it.open::<H>()?;
    let mut batch = WriteBatch::new();
    batch.put_cf(opened.cf.id(), &key, &value);
    it.write(&opened, batch, out)
}

/// `batchput <key> <value> [<key> <value>]...`
pub fn batch_put<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let words = &it.arguments.words;
    if words.len() < 2 {
        return Err("At least one <key> <value> pair must be specified batchput.".into());
    }
    if !words.len().is_multiple_of(2) {
        return Err("Equal number of <key>s and <value>s must be specified for batchput.".into());
    }
    let pairs =
        words.chunks_exact(2).map(|pair| Ok((it.key(&pair[0])?, parse(&pair[1], it.value_hex)?)));
    let pairs = pairs.collect::<Result<Vec<_>, Failure>>()?;
    let opened = it.open::<H>()?;
    let mut batch = WriteBatch::new();
    for (key, value) in &pairs {
        batch.put_cf(opened.cf.id(), key, value);
    }
    it.write(&opened, batch, out).map_err(|error| format!("Write failed: {error}"))
}

/// `delete <key>`
pub fn delete(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("KEY must be specified for the delete command".into());
    };
    let key = it.key(key)?;
    let opened = it.open::<Db>()?;
    let mut batch = WriteBatch::new();
    batch.delete_cf(opened.cf.id(), &key);
    it.write(&opened, batch, out)
}

/// `singledelete <key>`
pub fn single_delete(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("KEY must be specified for the single delete command".into());
    };
    let key = it.key(key)?;
    let opened = it.open::<Db>()?;
    let mut batch = WriteBatch::new();
    batch.single_delete_cf(opened.cf.id(), &key);
    it.write(&opened, batch, out)
}

/// `merge <key> <operand>`, with the operator that the database's OPTIONS name.
pub fn merge(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key, operand] = it.arguments.words.as_slice() else {
        return Err("<key> and <operand> must be specified for the merge command".into());
    };
    let (key, operand) = (it.key(key)?, parse(operand, it.value_hex)?);
    let opened = it.open::<Db>()?;
    let mut batch = WriteBatch::new();
    batch.merge_cf(opened.cf.id(), &key, &operand);
    it.write(&opened, batch, out)
}

/// `multi_get <key> <key> ...`: a line for each key.
pub fn multi_get(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let words = &it.arguments.words;
    if words.is_empty() {
        return Err("At least one <key> must be specified for multi_get.".into());
    }
    let keys = words.iter().map(|word| it.key(word)).collect::<Result<Vec<_>, Failure>>()?;
    let opened = it.open_read_only::<Db>()?;
    let options = opened.at_read_time(it, ReadOptions::default());
    let options = options.map_err(|error| format!("MultiGet failed: {error}"))?;
    let mut failed = false;
    for key in &keys {
        match opened.db.get_cf_opt(&options, &opened.cf, key) {
            Ok(Some(value)) => drop(out.line(&[&show(&value, it.value_hex)])),
            Ok(None) => drop(out.line(&[b"Key not found: ", &show(key, it.key_hex)])),
            Err(error) => {
                let key = show(key, it.key_hex);
                eprintln!("Status for key {}: {error}", String::from_utf8_lossy(&key));
                failed = true;
            }
        }
    }
    if failed { Err("one or more keys had non-okay status".into()) } else { Ok(()) }
}

/// `deleterange <begin key> <end key>`
pub fn delete_range(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [begin, end] = it.arguments.words.as_slice() else {
        return Err("begin and end keys must be specified for the delete command".into());
    };
    let (begin, end) = (it.key(begin)?, it.key(end)?);
    let opened = it.open::<Db>()?;
    let mut batch = WriteBatch::new();
    batch.delete_range_cf(opened.cf.id(), &begin, &end);
    it.write(&opened, batch, out)
}

/// `get <key>`
pub fn get<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("<key> must be specified for the get command".into());
    };
    let key = it.key(key)?;
    let opened = it.open_read_only::<H>()?;
    let options = opened.at_read_time(it, ReadOptions::DEFAULT);
    let options = options.map_err(|error| format!("Get failed: {error}"))?;
    let Some(value) = opened.get(&options, &key)? else {
        return Err("Get failed: NotFound: ".into());
    };
    out.line(&[&show(&value, it.value_hex)]);
    Ok(())
}

/// `scan`: `key : value` lines.
pub fn scan<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "scan")?;
    let (options, limit) = it.range()?;
    let no_value = it.arguments.flag("no_value");
    let write_times = it.arguments.flag("get_write_unix_time");
    let times = it.times()?;
    let opened = it.open_read_only::<H>()?;
    let options = opened.at_read_time(it, options);
    let options = options.map_err(|error| format!("Scan failed: {error}"))?;
    let mut cursor = opened.first(&options)?;
    times.print_head("Scanning", out);
    // Like RocksDB's, it checks the limit after an entry.
    let limit = limit.max(1);
    let mut count = 0;
    while count < limit && cursor.key().is_some() {
        let (key, value, time) = H::entry(&cursor)?;
        if times.contains(time) {
            let when = times.shown(time);
            let read_on = match no_value {
                true => out.line(&[when.as_bytes(), &show(key, it.key_hex)]),
                false => {
                    let key = opened.shown_key(&cursor, key, it.key_hex);
                    let value = opened.shown(&cursor, value, it.value_hex);
                    out.line(&[when.as_bytes(), &key, b" : ", &value])
                }
            };
            if !read_on || write_times && !print_write_time::<H>(&cursor, out) {
                return Ok(());
            }
            count += 1;
        }
        cursor.next();
    }
    cursor.status().map_err(failure)
}

/// When the entry that `cursor` is on was written; false if no one reads on.
fn print_write_time<H: Handle>(cursor: &H::Cursor, out: &mut Output) -> bool {
    let line = match H::write_time(cursor) {
        Ok(time) => format!("  write unix time: {}", time.unwrap_or(u64::MAX)),
        Err(error) => format!("  Failed to get write unix time: {error}"),
    };
    out.line(&[line.as_bytes()])
}

/// `dump`: `key ==> value` lines, or only counts and value sizes; with `--path` one file as text.
pub fn dump<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "dump")?;
    if let Some(path) = it.arguments.path("path") {
        return dump_file(it, path, out);
    }
    let (options, limit) = it.range()?;
    let times = it.times()?;
    let opened = it.open_read_only::<H>()?;
    it.print_stats(&opened, out);
    let is_whole = !it.arguments.has("from") && !it.arguments.has("to") && limit == u64::MAX;
    it.progress.meter().expect(if is_whole { it.table_bytes() } else { 0 });
    let mut cursor = opened.first(&opened.at_newest(options))?;
    let mut tally = Tally::new(it);
    let mut parts = times.parts();
    if tally.prints_entries() {
        times.print_head("Dumping", out);
    }
    while tally.count < limit && cursor.key().is_some() {
        let (key, value, time) = H::entry(&cursor)?;
        if times.contains(time) {
            if let Some(parts) = &mut parts {
                parts.count(time);
            }
            tally.add(key, value, out);
            if tally.prints_entries() {
                let when = times.shown(time);
                let key = opened.shown_key(&cursor, key, it.key_hex);
                let value = opened.shown(&cursor, value, it.value_hex);
                if !out.line(&[when.as_bytes(), &key, b" ==> ", &value]) {
                    return Ok(());
                }
            }
        }
        cursor.next();
    }
    cursor.status().map_err(failure)?;
    match &parts {
        Some(parts) => parts.print(out),
        None => tally.print_count(out),
    }
    tally.print_sizes(out);
    Ok(())
}

/// What `dump` counts.
struct Tally {
    count: u64,
    /// With `--count_only`.
    sizes: Option<Histogram>,
    /// With `--count_delim`.
    groups: Option<Groups>,
}

impl Tally {
    fn new(it: &Invocation) -> Self {
        let sizes = it.arguments.flag("count_only").then(Histogram::new);
        Tally { count: 0, sizes, groups: it.groups() }
    }

    fn prints_entries(&self) -> bool {
        self.sizes.is_none() && self.groups.is_none()
    }

    fn add(&mut self, key: &[u8], value: &[u8], out: &mut Output) {
        self.count += 1;
        if let Some(groups) = &mut self.groups {
            groups.add(key, value, out);
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.add(value.len() as u64);
        }
    }

    fn print_count(&self, out: &mut Output) {
        match &self.groups {
            Some(groups) => groups.print(out),
            None => out.text(&format!("Keys in range: {}\n", self.count)),
        }
    }

    fn print_sizes(&self, out: &mut Output) {
        if let Some(sizes) = &self.sizes {
            out.text(&format!("Value size distribution: \n{sizes}\n"));
        }
    }
}

impl Invocation {
    /// With `--stats`: prints the property `rocksdb.stats`.
    pub fn print_stats<H: Handle>(&self, opened: &Opened<H>, out: &mut Output) {
        if self.arguments.flag("stats")
            && let Some(stats) = opened.db.property_cf(&opened.cf, "rocksdb.stats")
        {
            out.line(&[stats.as_bytes()]);
        }
    }
}

/// Refuses words that the command has no use for.
pub fn no_words(it: &Invocation, command: &str) -> Result<(), Failure> {
    match it.arguments.words.first() {
        Some(word) => {
            let word = String::from_utf8_lossy(word);
            Err(format!("{command} takes no argument '{word}'; is it a flag with --?"))
        }
        None => Ok(()),
    }
}
