//! The text of an OPTIONS file, and of single options: options that can be read are written and
//! read again.

use pumice::{ColumnFamilyOptions, DbOptions, MemFs, Options};
use pumice_base::random::Rng;

use crate::database::options;
use crate::mutate::{self, number};
use crate::{Outcome, Target};

pub struct Text;

/// A replacement for a number in the text of an option.
fn value(rng: &mut Rng) -> String {
    let number = number(rng);
    match rng.uniform(8) {
        0 => format!("-{number}"),
        1 => format!("{number}{}", ["K", "M", "G", "T", "k"][rng.uniform(5) as usize]),
        2 => format!("{number}.{number}"),
        3 => ["true", "false", "kDisable", "{}", "", "nullptr", "inf", "NaN", "1e309"]
            [rng.uniform(9) as usize]
            .to_string(),
        4 => "{".repeat(rng.skewed(9) as usize),
        5 => format!("{{a={number};b={{c={number}}}}}"),
        6 => number.to_string().repeat(2),
        _ => number.to_string(),
    }
}

/// Gives a random line another value.
fn change_line(text: &str, rng: &mut Rng) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = rng.uniform(lines.len() as u64) as usize;
    let mut changed: Vec<String> = lines.iter().map(ToString::to_string).collect();
    if let Some(line) = changed.get_mut(at)
        && let Some((name, _)) = line.split_once('=')
    {
        *line = format!("{name}={}", value(rng));
    }
    changed.join("\n") + "\n"
}

fn check(db: &DbOptions, families: &[(&str, &ColumnFamilyOptions)]) {
    let text = pumice::options::options_file_bytes(db, families);
    let rules = pumice::options::FileRules::default();
    let again = pumice::options::parse_options_file(&text, rules).expect("what was written");
    let listed: Vec<_> =
        again.column_families.iter().map(|cf| (cf.name.as_str(), &cf.options)).collect();
    assert_eq!(pumice::options::options_file_bytes(&again.db, &listed), text);
}

impl Target for Text {
    fn honest(&self) -> Vec<Vec<u8>> {
        let fs = MemFs::new(1).shared();
        let Options { db, cf, .. } = options(&fs);
        let text = pumice::options::format_options_file(&db, &[("default", &cf), ("other", &cf)]);
        vec![text.into_bytes()]
    }

    /// The largest sizes, and texts of a newer RocksDB, in values, too.
    fn crafted(&self) -> Vec<Vec<u8>> {
        let honest = String::from_utf8(self.honest().remove(0)).unwrap();
        let newer = honest.replacen("rocksdb_version=7.8.0", "rocksdb_version=11.9.0", 1);
        let with = |text: &str, more: &str| {
            text.replacen("[DBOptions]", &format!("[DBOptions]\n  {more}"), 1).into_bytes()
        };
        let family = |more: &str| {
            newer.replacen(
                "[CFOptions \"default\"]",
                &format!("[CFOptions \"default\"]\n  {more}"),
                1,
            )
        };
        vec![
            with(&newer, "fast_sst_open=true"),
            family("compaction_options_fifo={use_kv_ratio_compaction=true;ttl=1;}").into_bytes(),
            family("arena_block_size=9223372036854775807").into_bytes(),
            with(&honest, "max_open_files=-9223372036854775808"),
        ]
    }

    fn change(&self, bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        let mut bytes = match std::str::from_utf8(&bytes) {
            Ok(text) if !rng.one_in(4) => change_line(text, rng).into_bytes(),
            _ => bytes,
        };
        if rng.one_in(4) {
            mutate::once(&mut bytes, corpus, rng);
        }
        bytes
    }

    fn enter(&self, bytes: &[u8], rng: &mut Rng) -> Outcome {
        let text = String::from_utf8_lossy(bytes);
        let rules = pumice::options::FileRules {
            ignore_unknown_options: rng.one_in(2),
            ignore_unsupported_options: rng.one_in(2),
            for_reading: rng.one_in(2),
        };
        if let Some(line) = text.lines().nth(rng.uniform(60) as usize) {
            // A single option, as `--options` of the tools and `set_options` take it.
            let mut single = Options::default();
            if let Some((name, value)) = line.trim().split_once('=') {
                drop(single.set(name, value));
            }
            drop(single.set_from_text(line));
        }
        match pumice::options::parse_options_file(bytes, rules) {
            Err(_) => Outcome::Refused,
            Ok(loaded) => {
                let families: Vec<_> = loaded
                    .column_families
                    .iter()
                    .map(|cf| (cf.name.as_str(), &cf.options))
                    .collect();
                check(&loaded.db, &families);
                Outcome::Taken
            }
        }
    }
}
