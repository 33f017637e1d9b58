//! `query`: a few commands, one a line, on standard input.
//!
//! As in RocksDB's ldb the session ends with the input, or with the first key that is not there.

use std::io::BufRead;

use super::data::no_words;
use super::open::text as failure;
use super::opened::Opened;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{parse, show};
use pumice::WriteBatch;

const HELP: &str = "get <key>\nput <key> <value>\ndelete <key>\n";

/// `query`
pub fn query(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "query")?;
    let opened = it.open()?;
    let answered = answer_lines(it, &opened, out);
    opened.db.close().map_err(failure)?;
    answered
}

fn answer_lines(it: &Invocation, opened: &Opened, out: &mut Output) -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("reading standard input: {error}"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["help"] => out.text(HELP),
            ["get", key] => {
                let bytes = parse(key, it.key_hex)?;
                match opened.get(&bytes)? {
                    Some(value) => {
                        let shown = show(&value, it.value_hex);
                        out.line(&[&show(&bytes, it.key_hex), b" ==> ", &shown]);
                    }
                    None => {
                        out.text(&format!("Not found {key}\n"));
                        return Err(String::new());
                    }
                }
            }
            ["put", key, value] => {
                let (bytes, stored) = (parse(key, it.key_hex)?, parse(value, it.value_hex)?);
                let mut batch = WriteBatch::new();
                batch.put_cf(opened.cf.id(), &bytes, &stored);
                let failed = |error| format!("put {key}=>{value} failed: {error}");
                opened.write(&mut batch).map_err(failed)?;
                out.text(&format!("Successfully put {key} {value}\n"));
            }
            ["delete", key] => {
                let bytes = parse(key, it.key_hex)?;
                let mut batch = WriteBatch::new();
                batch.delete_cf(opened.cf.id(), &bytes);
                opened
                    .write(&mut batch)
                    .map_err(|error| format!("delete {key} failed: {error}"))?;
                out.text(&format!("Successfully deleted {key}\n"));
            }
            _ => out.text(&format!("Unknown command {line}\n")),
        }
    }
    Ok(())
}
