//! Random commands on strings, by seed, against a model in memory.

use std::collections::BTreeMap;

use super::{Quiet, Random, Scratch, text};

/// Strings and when they expire.
#[derive(Default)]
struct Model(BTreeMap<String, (String, Option<u64>)>);

impl Model {
    fn reply(&mut self, words: &[String], now: u64) -> String {
        self.0.retain(|_, (_, expires)| expires.is_none_or(|at| at > now));
        let key = words[1].clone();
        let bulk = |value: Option<&String>| {
            value.map_or("$-1".to_string(), |v| format!("${}|{v}", v.len()))
        };
        let old = self.0.get(&key).map(|(value, _)| value.clone());
        match words[0].as_str() {
            "GET" => bulk(old.as_ref()),
            "SET" => {
                let expires = words.get(4).map(|ms| now + ms.parse::<u64>().unwrap());
                self.0.insert(key, (words[2].clone(), expires));
                "+OK".to_string()
            }
            "DEL" => format!(":{}", u8::from(self.0.remove(&key).is_some())),
            "APPEND" => {
                let entry = self.0.entry(key).or_default();
                entry.0 += &words[2];
                format!(":{}", entry.0.len())
            }
            "RENAME" => match self.0.remove(&key) {
                None => "-ERR no such key".to_string(),
                Some(value) => {
                    self.0.insert(words[2].clone(), value);
                    "+OK".to_string()
                }
            },
            "PERSIST" => match self.0.get_mut(&key) {
                Some((_, expires @ Some(_))) => {
                    *expires = None;
                    ":1".to_string()
                }
                _ => ":0".to_string(),
            },
            "PTTL" => match self.0.get(&key) {
                None => ":-2".to_string(),
                Some((_, None)) => ":-1".to_string(),
                Some((_, Some(at))) => format!(":{}", at - now),
            },
            other => panic!("{other}"),
        }
    }
}

fn words(random: &mut Random) -> Vec<String> {
    let key = |random: &mut Random| format!("{{{}}}k{}", random.below(3), random.below(8));
    let (one, two) = (key(random), key(random));
    let value = "v".repeat(random.below(40) as usize) + "x";
    let line = match random.below(9) {
        0 | 1 => format!("SET {one} {value}"),
        2 => format!("SET {one} {value} PX {}", 1 + random.below(400)),
        3 => format!("DEL {one}"),
        4 => format!("APPEND {one} {value}"),
        5 => format!("RENAME {one} {two}"),
        6 => format!("PERSIST {one}"),
        7 => format!("PTTL {one}"),
        _ => format!("GET {one}"),
    };
    line.split(' ').map(str::to_string).collect()
}

#[pumice_test_macros::test]
fn strings_are_what_a_model_says() {
    for seed in 1..=4_u64 {
        let scratch = Scratch::new("model");
        let mut server = Quiet::open(scratch.path());
        let (mut random, mut model) = (Random::new(seed), Model::default());
        let mut client = server.client();
        for step in 0..1500 {
            let words = words(&mut random);
            let reply = text(&server.ask(&mut client, &words));
            assert_eq!(
                reply,
                model.reply(&words, server.now),
                "seed {seed} step {step}: {words:?}"
            );
            server.now += random.below(20);
            if random.below(300) == 0 {
                server.shared.keyspace.db().flush_opt(&Default::default()).unwrap();
            }
            if random.below(500) == 0 {
                let now = server.now;
                server.shared.keyspace.reap(now, 100, |_| ()).unwrap();
                server.shared.keyspace.close().unwrap();
                server = Quiet::open(scratch.path());
                server.now = now;
                client = server.client();
            }
        }
        server.shared.keyspace.close().unwrap();
    }
}
