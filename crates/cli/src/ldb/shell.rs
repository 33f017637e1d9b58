//! `query`: a few commands, one a line, on standard input.
//!
//! As in RocksDB's ldb the session ends with the input, or with the first key that is not there.

use std::io::BufRead;

use super::data::no_words;
use super::open::{Opened, text as failure};
use super::output::Output;
use super::text::{parse, show};
use super::{Failure, Invocation};
use pumice::{ReadOptions, WriteOptions};

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
        let write = WriteOptions::default();
        match words.as_slice() {
            ["help"] => out.text(HELP),
            ["get", key] => {
                let bytes = parse(key, it.key_hex)?;
                let value = opened.db.get_cf_opt(&ReadOptions::default(), &opened.cf, &bytes);
                match value.map_err(failure)? {
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
                opened.db.put_cf_opt(&write, &opened.cf, &bytes, &stored).map_err(failure)?;
                out.text(&format!("Successfully put {key} {value}\n"));
            }
            ["delete", key] => {
                let bytes = parse(key, it.key_hex)?;
                opened.db.delete_cf_opt(&write, &opened.cf, &bytes).map_err(failure)?;
                out.text(&format!("Successfully deleted {key}\n"));
            }
            _ => out.text(&format!("Unknown command {line}\n")),
        }
    }
    Ok(())
}
