//! `query`: a few commands, one a line, on standard input.
//!
//! As in RocksDB's ldb the session ends with the input, or with the first key that is not there.

use std::io::BufRead;

use super::data::no_words;
use super::open::text as failure;
use super::opened::{Handle, Opened};
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{parse, show};
use pumice::{ReadOptions, WriteBatch};

const HELP: &str = "get <key>\nput <key> <value>\ndelete <key>\n";

/// `query`
pub fn query<H: Handle>(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "query")?;
    let opened = it.open::<H>()?;
    let answered = answer_lines(it, &opened, out);
    opened.db.close().map_err(failure)?;
    answered
}

fn answer_lines<H: Handle>(
    it: &Invocation,
    opened: &Opened<H>,
    out: &mut Output,
) -> Result<(), Failure> {
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| format!("reading standard input: {error}"))?;
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words: Vec<&[u8]> = words.collect();
        match words.as_slice() {
            [b"help"] => out.text(HELP),
            [b"get", key] => {
                let bytes = parse(key, it.key_hex)?;
                match opened.get(&ReadOptions::DEFAULT, &bytes)? {
                    Some(value) => {
                        let shown = show(&value, it.value_hex);
                        out.line(&[&show(&bytes, it.key_hex), b" ==> ", &shown]);
                    }
                    None => {
                        out.line(&[b"Not found ", key]);
                        return Err(String::new());
                    }
                }
            }
            [b"put", key, value] => {
                let (bytes, stored) = (parse(key, it.key_hex)?, parse(value, it.value_hex)?);
                let mut batch = WriteBatch::new();
                batch.put_cf(opened.cf.id(), &bytes, &stored);
                let text = String::from_utf8_lossy;
                let failed = |error| format!("put {}=>{} failed: {error}", text(key), text(value));
                opened.write(&mut batch).map_err(failed)?;
                out.line(&[b"Successfully put ", key, b" ", value]);
            }
            [b"delete", key] => {
                let bytes = parse(key, it.key_hex)?;
                let mut batch = WriteBatch::new();
                batch.delete_cf(opened.cf.id(), &bytes);
                let key_text = String::from_utf8_lossy(key);
                opened
                    .write(&mut batch)
                    .map_err(|error| format!("delete {key_text} failed: {error}"))?;
                out.line(&[b"Successfully deleted ", key]);
            }
            _ => {
                out.line(&[b"Unknown command ", &line]);
            }
        }
    }
    Ok(())
}
