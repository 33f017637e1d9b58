//! Configuration files: read when the server starts, written by CONFIG REWRITE.
//!
//! A file of Redis's is a file of ours. A directive of Redis that has nothing to apply to here is
//! accepted, and the caller gets a warning that names it. One that would change what survives a
//! crash or who may connect is refused unless it says what this server does anyway. What Redis does
//! not know either is an error.
//!
//! Invariant: 1. what CONFIG REWRITE has written is read back to the same settings.
//!
//! Thread safety: as the module above.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Config, SETTINGS, setting};
use crate::protocol::request::split_words;

/// Directives of Redis 7.0 that change nothing here: files of other formats, encodings in memory,
/// replicas, memory, how Redis runs as a process.
const WITHOUT_EFFECT: &[&str] = &[
    "active-defrag-cycle-max",
    "active-defrag-cycle-min",
    "active-defrag-ignore-bytes",
    "active-defrag-max-scan-fields",
    "active-defrag-threshold-lower",
    "active-defrag-threshold-upper",
    "active-expire-effort",
    "activedefrag",
    "activerehashing",
    "always-show-logo",
    "aof-load-truncated",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "aof_rewrite_cpulist",
    "appenddirname",
    "appendfilename",
    "auto-aof-rewrite-min-size",
    "auto-aof-rewrite-percentage",
    "bgsave_cpulist",
    "bio_cpulist",
    "busy-reply-threshold",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "daemonize",
    "dbfilename",
    "disable-thp",
    "dynamic-hz",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hash-max-ziplist-entries",
    "hash-max-ziplist-value",
    "hll-sparse-max-bytes",
    "hz",
    "ignore-warnings",
    "io-threads",
    "io-threads-do-reads",
    "jemalloc-bg-thread",
    "latency-tracking",
    "latency-tracking-info-percentiles",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "lfu-decay-time",
    "lfu-log-factor",
    "list-compress-depth",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "logfile",
    "loglevel",
    "lua-time-limit",
    "maxmemory-eviction-tenacity",
    "maxmemory-samples",
    "no-appendfsync-on-rewrite",
    "oom-score-adj",
    "oom-score-adj-values",
    "pidfile",
    "proc-title-template",
    "rdb-del-sync-files",
    "rdb-save-incremental-fsync",
    "rdbchecksum",
    "rdbcompression",
    "repl-backlog-size",
    "repl-backlog-ttl",
    "repl-disable-tcp-nodelay",
    "repl-diskless-load",
    "repl-diskless-sync",
    "repl-diskless-sync-delay",
    "repl-diskless-sync-max-replicas",
    "repl-diskless-sync-period",
    "repl-ping-replica-period",
    "repl-timeout",
    "replica-announce-ip",
    "replica-announce-port",
    "replica-announced",
    "replica-ignore-maxmemory",
    "replica-lazy-flush",
    "replica-priority",
    "replica-read-only",
    "replica-serve-stale-data",
    "sanitize-dump-payload",
    "server_cpulist",
    "set-max-intset-entries",
    "set-proc-title",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
    "shutdown-timeout",
    "stop-writes-on-bgsave-error",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "supervised",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
    "tracking-table-max-keys",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "zset-max-ziplist-entries",
    "zset-max-ziplist-value",
];

/// Directives of Redis that decide about durability or access, with the values that mean what this
/// server does anyway, and why others are refused.
const DECIDING: &[(&str, &[&str], &str)] = &[
    ("bind-source-addr", &[""], "this server connects to no other"),
    ("cluster-enabled", &["no"], "there is no cluster: data would not be where clients look"),
    ("enable-debug-command", &["no"], "there is no DEBUG to allow"),
    ("enable-module-command", &["no"], "there are no modules"),
    ("enable-protected-configs", &["no"], "protected settings cannot be changed at run time"),
    ("include", &[], "the other file could hold anything: give its lines here"),
    ("loadmodule", &[], "there are no modules"),
    ("masterauth", &[""], REPLICA),
    ("masteruser", &[""], REPLICA),
    ("min-replicas-max-lag", &["10"], REPLICA),
    ("min-replicas-to-write", &["0"], REPLICA),
    ("rename-command", &[], "commands keep their names: forbid them by ACL rules"),
    ("replicaof", &["no one"], REPLICA),
    ("slaveof", &["no one"], REPLICA),
    ("unixsocketgroup", &[""], "the socket has the group of the server: see unixsocketperm"),
];

const REPLICA: &str = "there is no replication: data would not be where it is expected";

/// A setting of ours that Redis allows more of, in a file: what it means here. Nothing is weaker.
fn stronger(name: &str, value: &str) -> Option<&'static str> {
    let is = |known: &str, text: &str| {
        name.eq_ignore_ascii_case(known) && value.eq_ignore_ascii_case(text)
    };
    is("appendonly", "no").then_some("appendonly is yes: writes are always logged")
}

/// What a line means.
enum Line<'a> {
    /// A blank one, or a comment.
    Nothing,
    /// A name in its own letters, and the value.
    Directive(Cow<'a, str>, String),
}

/// # Errors
/// What is wrong with it.
fn parse(line: &str) -> Result<Line<'_>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    let words = split_words(line.as_bytes()).ok_or("unbalanced quotes")?;
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let (name, values) = words.split_first().ok_or("no name")?;
    if values.is_empty() {
        return Err(format!("'{name}' has no value"));
    }
    Ok(Line::Directive(Cow::Owned(name.to_string()), values.join(" ")))
}

/// Text as one word of a file, quoted where it needs to be.
fn quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"'\\#".contains(&b);
    // Lists of words are several arguments.
    if !value.is_empty() && value.split(' ').all(|word| !word.is_empty() && word.bytes().all(plain))
    {
        return value.to_string();
    }
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

impl Config {
    /// Reads a file of lines `name value`; `#` begins a comment. Returns warnings: directives of
    /// Redis that have no effect here.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn read_file(&self, text: &str) -> Result<Vec<String>, String> {
        let (mut warnings, mut idle) = (Vec::new(), BTreeSet::new());
        for (index, line) in text.lines().enumerate() {
            let at = |why: String| format!("line {}: {why}", index + 1);
            let Line::Directive(name, value) = parse(line).map_err(at)? else { continue };
            if let Some(meaning) = stronger(&name, &value) {
                warnings.push(at(format!("'{name} {value}': {meaning}")));
                continue;
            }
            let lower = name.to_ascii_lowercase();
            if let Ok(at) = WITHOUT_EFFECT.binary_search(&lower.as_str()) {
                idle.insert(WITHOUT_EFFECT[at]);
                continue;
            }
            match DECIDING.iter().find(|(known, ..)| *known == lower) {
                Some((_, same, _)) if same.contains(&&*value.to_ascii_lowercase()) => {}
                Some((.., why)) => return Err(at(format!("'{name} {value}' is refused: {why}"))),
                None => self.set(&name, &value).map_err(at)?,
            }
        }
        if !idle.is_empty() {
            let names: Vec<_> = idle.into_iter().collect();
            warnings.push(format!("without effect here: {}", names.join(", ")));
        }
        Ok(warnings)
    }

    /// Implements CONFIG REWRITE: the text of the file with today's settings. Comments, blank lines
    /// and directives without effect stay; a setting keeps its line, and gets one at the end if it
    /// has none and is not at its default. `users` are the lines of all users if the file is their
    /// place.
    pub fn rewritten(&self, text: &str, users: Option<&[Vec<u8>]>) -> Vec<u8> {
        const MARK: &str = "# Generated by CONFIG REWRITE";
        let (mut out, mut written) = (Vec::new(), BTreeSet::new());
        let mut has_mark = false;
        let mut line_out = |line: &[u8]| {
            out.extend_from_slice(line);
            out.push(b'\n');
        };
        for line in text.lines() {
            has_mark |= line == MARK;
            let Ok(Line::Directive(name, value)) = parse(line) else {
                line_out(line.as_bytes());
                continue;
            };
            if name.eq_ignore_ascii_case("user") {
                continue;
            }
            let Some(setting) = setting(&name).filter(|_| stronger(&name, &value).is_none()) else {
                line_out(line.as_bytes());
                continue;
            };
            if !written.insert(setting.name) {
                continue;
            }
            let now = self.get(setting.name);
            match setting.checked(&value).is_ok_and(|old| old == now) {
                true => line_out(line.as_bytes()),
                false => line_out(format!("{} {}", setting.name, quoted(&now)).as_bytes()),
            }
        }
        let of_users = users.unwrap_or_default();
        let mut more = Vec::new();
        for setting in SETTINGS.iter().filter(|setting| !written.contains(setting.name)) {
            let now = self.get(setting.name);
            if setting.checked(setting.default).is_ok_and(|default| default != now) {
                more.push(format!("{} {}", setting.name, quoted(&now)).into_bytes());
            }
        }
        more.extend(of_users.iter().cloned());
        if !more.is_empty() && !has_mark {
            line_out(MARK.as_bytes());
        }
        more.iter().for_each(|line| line_out(line));
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn tables_are_sorted_and_name_no_setting_of_ours() {
        assert!(WITHOUT_EFFECT.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(DECIDING.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let names = WITHOUT_EFFECT.iter().chain(DECIDING.iter().map(|(name, ..)| name));
        for name in names {
            assert!(setting(name).is_none(), "{name}");
        }
    }

    #[pumice_test_macros::test]
    fn directives_of_redis_are_taken_named_or_refused() {
        let config = Config::new();
        let text = "bind 127.0.0.1 -::1\nhz 10\nHZ 20\nappendonly no\nrdbcompression yes\n\
                    cluster-enabled no\nnotify-keyspace-events \"\"\nreplicaof no one\n";
        let warnings = config.read_file(text).unwrap();
        assert_eq!(
            warnings,
            [
                "line 4: 'appendonly no': appendonly is yes: writes are always logged",
                "without effect here: hz, rdbcompression"
            ]
        );
        assert_eq!(
            (config.get("appendonly"), config.get("bind")),
            ("yes".into(), "127.0.0.1 -::1".into())
        );
        for (line, why) in [
            ("rename-command CONFIG x", "ACL rules"),
            ("replicaof 10.0.0.1 6379", "no replication"),
            ("min-replicas-to-write 1", "no replication"),
            ("cluster-enabled yes", "no cluster"),
            ("include /etc/redis/other.conf", "is refused"),
            ("maxmemory 100mb", "one of the following: 0"),
            ("nonsense 1", "unknown directive 'nonsense'"),
        ] {
            let error = config.read_file(line).unwrap_err();
            assert!(error.starts_with("line 1: ") && error.contains(why), "{error}");
        }
    }

    #[pumice_test_macros::test]
    fn a_rewritten_file_reads_back_to_the_same_settings() {
        let config = Config::new();
        let text = "# mine\ntimeout 5\n\nhz 10\nmaxclients 7\nmaxclients 8\nappendonly no\n\
                    user old on nopass\n";
        config.read_file(text).unwrap();
        config.change(&[("timeout", "9"), ("requirepass", "a \"b\"\\ #c")]).unwrap();
        let users = [b"user new on nopass ~* &* +@all".to_vec()];
        let written = String::from_utf8(config.rewritten(text, Some(&users))).unwrap();
        assert_eq!(
            written,
            "# mine\ntimeout 9\n\nhz 10\nmaxclients 8\nappendonly no\n\
             # Generated by CONFIG REWRITE\nrequirepass \"a \\\"b\\\"\\\\ #c\"\n\
             user new on nopass ~* &* +@all\n"
        );
        let again = Config::new();
        again.read_file(&written).unwrap();
        for setting in SETTINGS {
            assert_eq!(again.get(setting.name), config.get(setting.name), "{}", setting.name);
        }
        assert_eq!(String::from_utf8(again.rewritten(&written, Some(&users))).unwrap(), written);
    }
}
