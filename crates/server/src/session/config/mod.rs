//! The server's settings: one row each, by redis.conf's names.
//!
//! A row gives a setting's syntax, its default, and whether a running server may change it. Files,
//! flags, the environment, CONFIG GET and CONFIG SET all go through the rows.
//!
//! Thread safety: a [`Config`] is shared; hot settings are also kept as atomics where they are
//! used.

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pumice_port::sync::Mutex;

/// How a setting is written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any text.
    Text,
    /// A whole number between these.
    Number(i64, i64),
    /// `yes` or `no`.
    YesNo,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Bytes: a number with `k`, `kb`, `m`, `mb`, `g`, `gb`.
    Bytes,
    /// Bytes between these.
    BytesBetween(u64, u64),
    /// Bytes, or `N%` of the machine's memory.
    Memory,
    /// Letters of classes of events.
    Events,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// redis.conf's name, or ours where Redis has none.
    pub name: &'static str,
    form: Form,
    /// The default.
    pub default: &'static str,
    /// A running server may change it.
    pub is_mutable: bool,
    /// What it does, for the help text and the docs page.
    pub help: &'static str,
}

const fn fixed(
    name: &'static str,
    form: Form,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, form, default, is_mutable: false, help }
}

const fn mutable(
    name: &'static str,
    form: Form,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, form, default, is_mutable: true, help }
}

/// All settings, in the order of their names.
pub const SETTINGS: &[Setting] = &[
    mutable(
        "acl-pubsub-default",
        Form::Choice(&["allchannels", "resetchannels"]),
        "resetchannels",
        "Whether new users may use all channels.",
    ),
    fixed(
        "aclfile",
        Form::Text,
        "",
        "File of users, one line `user NAME RULE...` each; empty for none.",
    ),
    mutable("acllog-max-len", Form::Number(0, 100_000), "128", "Refusals that ACL LOG keeps."),
    mutable(
        "appendfsync",
        Form::Choice(&["everysec", "always", "no"]),
        "everysec",
        "When the log is synced: every second, before each reply, or when the system decides.",
    ),
    fixed("appendonly", Form::Choice(&["yes"]), "yes", "Writes are always logged."),
    mutable(
        "auth-failures",
        Form::Number(0, 1_000_000),
        "60",
        "Wrong passwords that an address may send in a minute; 0 for no limit.",
    ),
    mutable(
        "auth-timeout",
        Form::Number(1, 3600),
        "10",
        "Seconds that a client may take to authenticate.",
    ),
    fixed("bind", Form::Text, "127.0.0.1", "Addresses to listen on, separated by blanks."),
    fixed("cache-bytes", Form::Bytes, "256mb", "Memory for blocks of table files."),
    mutable(
        "checkpoints-kept",
        Form::Number(0, 1_000_000),
        "2",
        "Checkpoints of SAVE and BGSAVE that are kept, the newest ones; 0 for all.",
    ),
    fixed("databases", Form::Number(1, 256), "16", "Databases that SELECT knows."),
    fixed("dir", Form::Text, "./pumice-data", "Directory of the data."),
    fixed(
        "direct-reads",
        Form::YesNo,
        "no",
        "Read table files without the system's cache, so that only cache-bytes are cached.",
    ),
    mutable(
        "latency-monitor-threshold",
        Form::Number(0, i64::MAX),
        "0",
        "Milliseconds from which LATENCY keeps how long a command took; 0 for never.",
    ),
    fixed("loops", Form::Number(0, 1024), "0", "Event loops; 0 for one per processor."),
    mutable("maxclients", Form::Number(1, 1_000_000), "10000", "Maximum number of connections."),
    mutable(
        "maxmemory",
        Form::Choice(&["0"]),
        "0",
        "Accepted for clients that ask; data is on disk and has no limit.",
    ),
    mutable(
        "maxmemory-clients",
        Form::Memory,
        "10%",
        "Memory of all clients' buffers, and of one command; 0 for no limit.",
    ),
    mutable(
        "maxmemory-policy",
        Form::Choice(&["noeviction"]),
        "noeviction",
        "Accepted for clients that ask; nothing is evicted.",
    ),
    fixed(
        "metrics-port",
        Form::Number(0, 65535),
        "0",
        "TCP port on which Prometheus finds /metrics, without a password; 0 for none.",
    ),
    mutable(
        "notify-keyspace-events",
        Form::Events,
        "",
        "Classes of events that are published: K E g $ l s h z x A.",
    ),
    fixed("port", Form::Number(0, 65535), "6379", "TCP port; 0 for none."),
    mutable(
        "protected-mode",
        Form::YesNo,
        "yes",
        "Without a password, refuse clients of other machines.",
    ),
    mutable(
        "proto-max-bulk-len",
        Form::BytesBetween(1 << 20, 512 << 20),
        "64mb",
        "Most bytes of one argument, and of a string; a request has at most twice as many.",
    ),
    mutable(
        "request-timeout",
        Form::Number(0, 100_000_000),
        "30",
        "Seconds that a request may take to arrive, plus one per 64 KiB of it; 0 for no limit.",
    ),
    mutable("requirepass", Form::Text, "", "Password of the default user; empty for none."),
    fixed(
        "runtime",
        Form::Choice(&["fibers", "threads"]),
        "fibers",
        "Where the engine is called: on the connections' fibers, or on a pool of threads.",
    ),
    mutable(
        "save",
        Form::Text,
        "",
        "Accepted for clients that ask; there are no periodic snapshots.",
    ),
    mutable(
        "slowlog-log-slower-than",
        Form::Number(-1, i64::MAX),
        "10000",
        "Microseconds from which SLOWLOG keeps a command; -1 for never.",
    ),
    mutable("slowlog-max-len", Form::Number(0, 100_000), "128", "Commands that SLOWLOG keeps."),
    fixed("status-bind", Form::Text, "127.0.0.1", "Addresses of the status page."),
    fixed(
        "status-port",
        Form::Number(0, 65535),
        "0",
        "TCP port on which a browser finds the status page, without a password; 0 for none.",
    ),
    mutable(
        "tcp-keepalive",
        Form::Number(0, 32_767),
        "300",
        "Seconds of silence after which TCP probes the client; 0 for never.",
    ),
    mutable(
        "timeout",
        Form::Number(0, 100_000_000),
        "0",
        "Seconds after which a silent client is disconnected; 0 for never.",
    ),
    #[cfg(feature = "tls")]
    mutable(
        "tls-auth-clients",
        Form::Choice(&["yes", "no", "optional"]),
        "yes",
        "Whether clients have to present a certificate signed by tls-ca-cert-file; optional: only \
         if they have one.",
    ),
    #[cfg(feature = "tls")]
    mutable(
        "tls-ca-cert-file",
        Form::Text,
        "",
        "CA certificates that sign those of clients, in PEM.",
    ),
    #[cfg(feature = "tls")]
    mutable("tls-cert-file", Form::Text, "", "The server's certificate and its chain, in PEM."),
    #[cfg(feature = "tls")]
    mutable("tls-key-file", Form::Text, "", "The private key of tls-cert-file, in PEM."),
    #[cfg(feature = "tls")]
    fixed("tls-port", Form::Number(0, 65535), "0", "TCP port for TLS; 0 for none."),
    fixed("unixsocket", Form::Text, "", "Path of a socket to listen on; empty for none."),
    fixed("unixsocketperm", Form::Text, "700", "Mode of unixsocket, in octal."),
    fixed("workers", Form::Number(1, 4096), "16", "Threads of the pool if runtime is threads."),
    fixed("write-buffer-bytes", Form::Bytes, "64mb", "Memory of one memtable."),
];

/// Settings that only a build with the feature `tls` has.
const TLS_SETTINGS: [&str; 5] =
    ["tls-auth-clients", "tls-ca-cert-file", "tls-cert-file", "tls-key-file", "tls-port"];
/// The error that other builds report for them.
const NO_TLS: &str = "this build has no TLS: build it with `--features tls`, as in \
`cargo build --release --features tls`";

/// The setting is known, but this build does not have it.
fn is_left_out(name: &str) -> bool {
    !cfg!(feature = "tls") && TLS_SETTINGS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The row of a setting.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// A number with a unit, in bytes.
fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Setting {
    /// The value as it is kept: checked, in its shortest form.
    ///
    /// # Errors
    /// Why it is invalid, in words.
    fn checked(&self, value: &str) -> Result<String, String> {
        match self.form {
            Form::Text => Ok(value.to_string()),
            Form::Number(least, most) => {
                let number = value.parse::<i64>().ok();
                match number {
                    None => Err("argument couldn't be parsed into an integer".to_string()),
                    Some(n) if n < least || n > most => {
                        Err(format!("argument must be between {least} and {most} inclusive"))
                    }
                    Some(n) => Ok(n.to_string()),
                }
            }
            Form::YesNo => match value.to_ascii_lowercase().as_str() {
                yes_no @ ("yes" | "no") => Ok(yes_no.to_string()),
                _ => Err("argument must be 'yes' or 'no'".to_string()),
            },
            Form::Choice(choices) => {
                let chosen = choices.iter().find(|choice| choice.eq_ignore_ascii_case(value));
                let known = || choices.join(", ");
                let unknown = || format!("argument(s) must be one of the following: {}", known());
                chosen.map(ToString::to_string).ok_or_else(unknown)
            }
            Form::Bytes => {
                let number = bytes(value).ok_or("argument must be a memory value");
                Ok(number?.to_string())
            }
            Form::BytesBetween(least, most) => match bytes(value) {
                None => Err("argument must be a memory value".to_string()),
                Some(n) if n < least || n > most => {
                    Err(format!("argument must be between {least} and {most} inclusive"))
                }
                Some(n) => Ok(n.to_string()),
            },
            Form::Memory => match value.strip_suffix('%').map(str::parse::<u64>) {
                Some(Ok(n)) if n <= 100 => Ok(format!("{n}%")),
                Some(_) => Err("argument must be a memory or percent value".to_string()),
                None => {
                    let number = bytes(value).ok_or("argument must be a memory or percent value");
                    Ok(number?.to_string())
                }
            },
            Form::Events => match value.bytes().all(|b| b"KEg$lshzxA".contains(&b)) {
                true => Ok(in_order(value)),
                false => Err("Invalid event class character. Use 'KEg$lshzxA'.".to_string()),
            },
        }
    }
}

/// The classes of events as CONFIG GET shows them.
fn in_order(classes: &str) -> String {
    let has = |letter: char| classes.contains(letter) || classes.contains('A');
    let each = "g$lshzx";
    let mut text: String = match each.chars().all(has) {
        true => "A".to_string(),
        false => each.chars().filter(|&letter| has(letter)).collect(),
    };
    text.extend("KE".chars().filter(|&letter| classes.contains(letter)));
    text
}

/// The settings of a server.
pub struct Config {
    values: Mutex<BTreeMap<&'static str, String>>,
    /// Lines `user NAME RULE...`.
    users: Mutex<Vec<String>>,
    /// The file that the server was started with.
    file: OnceLock<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// All settings at their defaults.
    pub fn new() -> Config {
        let default = |setting: &'static Setting| {
            let value = setting.checked(setting.default).unwrap_or_default();
            (setting.name, value)
        };
        let values = SETTINGS.iter().map(default).collect();
        Config { values: Mutex::new(values), users: Mutex::new(Vec::new()), file: OnceLock::new() }
    }

    /// The value of an existing setting.
    pub fn get(&self, name: &str) -> String {
        self.values.lock().get(name).cloned().unwrap_or_default()
    }

    /// The value of a number or of bytes.
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// The value of memory, in bytes.
    pub fn memory(&self, name: &str) -> u64 {
        let text = self.get(name);
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent: u64 = percent.parse().unwrap_or(0);
                pumice_port::os::total_memory_bytes() / 100 * percent
            }
            None => text.parse().unwrap_or(0),
        }
    }

    /// The file that the server was started with, which CONFIG REWRITE writes.
    pub fn file(&self) -> Option<&Path> {
        self.file.get().map(PathBuf::as_path)
    }

    /// Says which file the server was started with; the first call counts.
    pub fn set_file(&self, path: PathBuf) {
        self.file.get_or_init(|| path);
    }

    /// The file of users, if there is one: a relative path lies in `dir`, as for Redis.
    pub fn acl_file(&self) -> Option<PathBuf> {
        let name = self.get("aclfile");
        (!name.is_empty()).then(|| Path::new(&self.get("dir")).join(name))
    }

    /// The lines `user NAME RULE...`.
    pub fn users(&self) -> Vec<String> {
        self.users.lock().clone()
    }

    /// Sets one before the server starts; `user` adds a user each time.
    ///
    /// # Errors
    /// An error text about an unknown name or a bad value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), String> {
        if name.eq_ignore_ascii_case("user") {
            self.users.lock().push(format!("user {value}"));
            return Ok(());
        }
        if is_left_out(name) {
            return Err(format!("'{name}': {NO_TLS}"));
        }
        let setting = setting(name).ok_or_else(|| format!("unknown directive '{name}'"))?;
        let value = setting.checked(value).map_err(|why| format!("'{name} {value}': {why}"))?;
        self.values.lock().insert(setting.name, value);
        Ok(())
    }

    /// Implements CONFIG SET: sets all of the pairs or none. Returns their previous values.
    ///
    /// # Errors
    /// The reply.
    pub fn change(&self, pairs: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>, String> {
        let mut changes: Vec<(&'static str, String)> = Vec::new();
        for (name, value) in pairs {
            let failed_at = |name: &str, why: &str| {
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
            };
            let failed = |why: &str| failed_at(name, why);
            if is_left_out(name) {
                return Err(failed(NO_TLS));
            }
            let Some(setting) = setting(name) else {
                let name = name.to_string();
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            };
            if !setting.is_mutable {
                return Err(failed("can't set immutable config"));
            }
            if changes.iter().any(|(known, _)| *known == setting.name) {
                return Err(failed("duplicate parameter"));
            }
            // A bad value is reported under the setting's own name, earlier errors under `name`.
            let checked = setting.checked(value).map_err(|why| failed_at(setting.name, &why))?;
            changes.push((setting.name, checked));
        }
        let mut values = self.values.lock();
        let old = |(name, value)| values.insert(name, value).map(|old| (name, old));
        Ok(changes.into_iter().filter_map(old).collect())
    }

    /// Reverts what [`Config::change`] has done.
    pub fn restore(&self, old: Vec<(&'static str, String)>) {
        self.values.lock().extend(old);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn files_set_what_they_name_and_nothing_else() {
        let config = Config::new();
        config.read_file("# comment\n\nport 7001\nbind 127.0.0.1 ::1\ncache-bytes 1gb\n").unwrap();
        assert_eq!((config.number("port"), config.number("cache-bytes")), (7001, 1 << 30));
        assert_eq!(config.get("bind"), "127.0.0.1 ::1");
        for (bad, why) in [
            ("port 1\nnonsense 1", "line 2: unknown directive 'nonsense'"),
            ("port", "line 1: 'port' has no value"),
            ("port x", "couldn't be parsed into an integer"),
            ("port 70000", "between 0 and 65535"),
            ("appendfsync maybe", "everysec, always, no"),
            ("protected-mode 1", "'yes' or 'no'"),
        ] {
            let error = config.read_file(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[pumice_test_macros::test]
    fn a_build_without_tls_says_how_to_get_it() {
        let config = Config::new();
        for name in TLS_SETTINGS {
            let value = if name == "tls-auth-clients" { "yes" } else { "1" };
            let texts = [
                config.set(name, value),
                config.read_file(&format!("{} {value}", name.to_uppercase())).map(drop),
                config.change(&[(name, value)]).map(drop),
            ];
            for text in texts {
                if cfg!(feature = "tls") {
                    assert!(text.is_ok() || text.unwrap_err().contains("immutable"), "{name}");
                } else {
                    assert!(text.unwrap_err().contains("cargo build --release --features tls"));
                }
            }
            assert_eq!(setting(name).is_some(), cfg!(feature = "tls"));
        }
        assert!(config.set("tls-nonsense", "1").unwrap_err().contains("unknown directive"));
    }

    #[pumice_test_macros::test]
    fn settings_are_sorted_valid_and_changed_together() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in SETTINGS {
            assert!(setting.checked(setting.default).is_ok(), "{}", setting.name);
        }
        let config = Config::new();
        assert!(
            config.change(&[("timeout", "5"), ("port", "1")]).unwrap_err().contains("immutable")
        );
        assert_eq!(config.get("timeout"), "0");
        config.change(&[("notify-keyspace-events", "KEx$g")]).unwrap();
        assert_eq!(config.get("notify-keyspace-events"), "g$xKE");
        config.change(&[("notify-keyspace-events", "KEA")]).unwrap();
        assert_eq!(config.get("notify-keyspace-events"), "AKE");
    }
}
