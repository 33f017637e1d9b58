//! Commands that read and write entities: values of columns with names.
//!
//! With `--ttl` they bypass the times of values, as in RocksDB: an entity has none.

use super::open::text as failure;
use super::opened::Handle;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{parse, show, show_columns};
use pumice::{Db, ReadOptions, Store};

/// Name and value of a column.
type Column = (Vec<u8>, Vec<u8>);

/// The column that `name:value` means. As in RocksDB's tool a colon may follow, and there is no
/// way to write an empty value but `name::`.
fn column(word: &[u8], hex: bool) -> Result<Column, Failure> {
    let mut parts: Vec<&[u8]> = word.split(|byte| *byte == b':').collect();
    if parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    let [name, value] = parts.as_slice() else {
        return Err(
            "wide column format needs to be <column_name>:<column_value> (did you mean put \
                    <key> <value>?)"
                .into(),
        );
    };
    // An empty word is not hexadecimal.
    let part = |text: &[u8]| if text.is_empty() { Ok(Vec::new()) } else { parse(text, hex) };
    Ok((part(name)?, part(value)?))
}

/// `put_entity <key> <name>:<value>...`
pub fn put_entity<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let words = &it.arguments.words;
    if words.len() < 2 {
        return Err(
            "<key> and at least one column <column_name>:<column_value> must be specified \
                    for the put_entity command"
                .into(),
        );
    }
    let key = it.key(&words[0])?;
    let columns = words[1..].iter().map(|word| column(word, it.value_hex));
    let columns = columns.collect::<Result<Vec<Column>, Failure>>()?;
    let opened = it.open::<H>()?;
    opened.db.put_entity_cf(&opened.cf, key, columns).map_err(failure)?;
    opened.db.close().map_err(failure)?;
    out.line(&[b"OK"]);
    Ok(())
}

/// `get_entity <key>`: its columns.
pub fn get_entity<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let [key] = it.arguments.words.as_slice() else {
        return Err("<key> must be specified for the get_entity command".into());
    };
    let key = it.key(key)?;
    let opened = it.open_read_only::<H>()?;
    let options = opened.at_read_time(it, ReadOptions::default());
    let options = options.map_err(|error| format!("GetEntity failed: {error}"))?;
    match Store::get_entity(&opened.db, &options, &opened.cf, &key) {
        Ok(Some(columns)) => drop(out.line(&[&show_columns(columns.iter(), it.value_hex)])),
        Ok(None) => return Err("GetEntity failed: NotFound: ".into()),
        Err(error) => return Err(format!("GetEntity failed: {}", failure(error))),
    }
    Ok(())
}

/// `multi_get_entity <key> <key> ...`: a line for each key.
pub fn multi_get_entity(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let words = &it.arguments.words;
    if words.is_empty() {
        let text = "At least one <key> must be specified for the multi_get_entity command";
        return Err(text.into());
    }
    let keys = words.iter().map(|word| it.key(word)).collect::<Result<Vec<_>, Failure>>()?;
    let opened = it.open_read_only::<Db>()?;
    let options = opened.at_read_time(it, ReadOptions::default());
    let options = options.map_err(|error| format!("MultiGetEntity failed: {error}"))?;
    let asked: Vec<_> = keys.iter().map(|key| (&opened.cf, &key[..])).collect();
    let mut failed = false;
    let answers = Store::multi_get_entity(&opened.db, &options, &asked);
    for (key, found) in keys.iter().zip(answers) {
        let key = show(key, it.key_hex);
        match found {
            Ok(Some(columns)) => {
                out.line(&[&key, b" ==> ", &show_columns(columns.iter(), it.value_hex)]);
            }
            Ok(None) => drop(out.line(&[b"Key not found: ", &key])),
            Err(error) => {
                let error = failure(error);
                eprintln!("Status for key {}: {error}", String::from_utf8_lossy(&key));
                failed = true;
            }
        }
    }
    if failed { Err("one or more keys had non-okay status".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn columns_are_words_with_a_colon() {
        let expected = |name: &str, value: &str| Ok((name.into(), value.into()));
        assert_eq!(column(b"n:v", false), expected("n", "v"));
        assert_eq!(column(b":v", false), expected("", "v"));
        assert_eq!(column(b"n::", false), expected("n", ""));
        assert_eq!(column(b"n:v:", false), expected("n", "v"));
        assert_eq!(column(b"0x6e:0x76", true), expected("n", "v"));
        assert_eq!(column(b":0x76", true), expected("", "v"));
        for wrong in ["", ":", "n", "n:", "a:b:c"] {
            assert!(column(wrong.as_bytes(), false).is_err(), "{wrong}");
        }
        assert!(column(b"n:v", true).is_err());
    }
}
