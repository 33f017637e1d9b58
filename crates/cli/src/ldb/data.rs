//! Commands that read and write pairs.

use super::open::{Opened, text as failure};
use super::output::Output;
use super::text::{parse, show};
use super::{Failure, Invocation};
use pumice::{ReadOptions, WriteBatch, WriteOptions};
use pumice_base::histogram::Histogram;

impl Invocation {
    /// The key that a word means.
    pub fn key(&self, text: &str) -> Result<Vec<u8>, Failure> {
        parse(text, self.key_hex)
    }

    /// Bounds and limit of a range command.
    fn range(&self) -> Result<(ReadOptions, u64), Failure> {
        let bound = |flag: &str| -> Result<Option<Vec<u8>>, Failure> {
            let given = self.arguments.text(flag).filter(|text| !text.is_empty());
            given.map(|text| self.key(text)).transpose()
        };
        let options = ReadOptions {
            iterate_lower_bound: bound("from")?,
            iterate_upper_bound: bound("to")?,
            total_order_seek: true,
            ..ReadOptions::default()
        };
        let max = self.arguments.number::<i64>("max_keys")?.unwrap_or(-1);
        Ok((options, u64::try_from(max).unwrap_or(u64::MAX)))
    }

    /// Writes `batch` and prints OK.
    fn write(
        &self,
        opened: &Opened,
        mut batch: WriteBatch,
        out: &mut Output,
    ) -> Result<(), Failure> {
        opened.db.write_opt(&WriteOptions::default(), &mut batch).map_err(failure)?;
        opened.db.close().map_err(failure)?;
        out.line(&[b"OK"]);
        Ok(())
    }
}

/// `put <key> <value>`
pub fn put(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key, value] = it.arguments.words.as_slice() else {
        return Err("<key> and <value> must be specified for the put command".into());
    };
    let (key, value) = (it.key(key)?, parse(value, it.value_hex)?);
    let opened = it.open()?;
    let mut batch = WriteBatch::new();
    batch.put_cf(opened.cf.id(), &key, &value);
    it.write(&opened, batch, out)
}

/// `batchput <key> <value> [<key> <value>]...`
pub fn batch_put(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
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
    let opened = it.open()?;
    let mut batch = WriteBatch::new();
    for (key, value) in &pairs {
        batch.put_cf(opened.cf.id(), key, value);
    }
    it.write(&opened, batch, out)
}

/// `delete <key>`
pub fn delete(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("KEY must be specified for the delete command".into());
    };
    let key = it.key(key)?;
    let opened = it.open()?;
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
    let opened = it.open()?;
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
    let opened = it.open()?;
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
    let opened = it.open_read_only()?;
    let mut failed = false;
    for key in &keys {
        match opened.db.get_cf_opt(&ReadOptions::default(), &opened.cf, key) {
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
    let opened = it.open()?;
    let mut batch = WriteBatch::new();
    batch.delete_range_cf(opened.cf.id(), &begin, &end);
    it.write(&opened, batch, out)
}

/// `get <key>`
pub fn get(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("<key> must be specified for the get command".into());
    };
    let key = it.key(key)?;
    let opened = it.open_read_only()?;
    let value = opened.db.get_cf_opt(&ReadOptions::default(), &opened.cf, &key).map_err(failure)?;
    let Some(value) = value else {
        return Err("Get failed: NotFound: ".into());
    };
    out.line(&[&show(&value, it.value_hex)]);
    Ok(())
}

/// `scan`: `key : value` lines.
pub fn scan(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "scan")?;
    let (options, limit) = it.range()?;
    let no_value = it.arguments.flag("no_value");
    let opened = it.open_read_only()?;
    let mut cursor = opened.db.cursor_cf_opt(&options, &opened.cf).map_err(failure)?;
    cursor.seek_to_first();
    let mut count = 0;
    while cursor.valid() && count < limit {
        let key = show(cursor.key().unwrap_or_default(), it.key_hex);
        let read_on = match no_value {
            true => out.line(&[&key]),
            false => {
                out.line(&[&key, b" : ", &show(cursor.value().unwrap_or_default(), it.value_hex)])
            }
        };
        if !read_on {
            return Ok(());
        }
        count += 1;
        cursor.next();
    }
    cursor.status().map_err(failure)
}

/// `dump`: `key ==> value` lines, or only counts and value sizes.
pub fn dump(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "dump")?;
    let (options, limit) = it.range()?;
    let count_only = it.arguments.flag("count_only");
    let opened = it.open_read_only()?;
    if it.arguments.flag("stats")
        && let Some(stats) = opened.db.property_cf(&opened.cf, "rocksdb.stats")
    {
        out.line(&[stats.as_bytes()]);
    }
    let mut cursor = opened.db.cursor_cf_opt(&options, &opened.cf).map_err(failure)?;
    cursor.seek_to_first();
    let mut sizes = Histogram::new();
    let mut count = 0u64;
    while cursor.valid() && count < limit {
        count += 1;
        if count_only {
            sizes.add(cursor.value().unwrap_or_default().len() as u64);
        } else {
            let (key, value) = (
                show(cursor.key().unwrap_or_default(), it.key_hex),
                show(cursor.value().unwrap_or_default(), it.value_hex),
            );
            if !out.line(&[&key, b" ==> ", &value]) {
                return Ok(());
            }
        }
        cursor.next();
    }
    cursor.status().map_err(failure)?;
    out.text(&format!("Keys in range: {count}\n"));
    if count_only {
        out.text(&format!("Value size distribution: \n{sizes}\n"));
    }
    Ok(())
}

/// Refuses words that the command has no use for.
pub fn no_words(it: &Invocation, command: &str) -> Result<(), Failure> {
    match it.arguments.words.first() {
        Some(word) => Err(format!("{command} takes no argument '{word}'; is it a flag with --?")),
        None => Ok(()),
    }
}
