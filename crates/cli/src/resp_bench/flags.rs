//! The command line of `pumice resp_bench`, in redis-benchmark's words.
//!
//! Thread safety: plain data.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use pumice_port::net::SocketAddr;

use super::requests::TESTS;
use crate::arguments::Flag;
use crate::nearest::hint;

/// The flags without a value.
const SWITCHES: [&str; 2] = ["--csv", "--random-data"];
/// The flags with a value.
const VALUES: [&str; 15] = [
    "-h",
    "-p",
    "-s",
    "-a",
    "-c",
    "-n",
    "-P",
    "-d",
    "-r",
    "-t",
    "--threads",
    "--rate",
    "--duration",
    "--server-pid",
    "--seed",
];

/// The flags, for completions.
pub fn all() -> Vec<Flag> {
    let of = |name: &&str, takes_value| Flag {
        name: name.to_string(),
        takes_value,
        meaning: String::new(),
    };
    let switches = SWITCHES.iter().map(|name| of(name, false));
    switches.chain(VALUES.iter().map(|name| of(name, true))).collect()
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a port.
    Tcp(SocketAddr),
    /// At a name in the file system.
    Unix(PathBuf),
}

/// The command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    /// `-h`, `-p`, `-s`.
    pub place: Place,
    /// `-a`.
    pub password: Option<String>,
    /// `-c`: connections.
    pub clients: usize,
    /// `-n`: requests of each test; None when `--duration` alone ends it.
    pub requests: Option<u64>,
    /// `-P`: requests that are sent together.
    pub pipeline: u64,
    /// `-d`: bytes of a value.
    pub value_bytes: usize,
    /// `--random-data`: values are drawn for each request.
    pub random_data: bool,
    /// `-r`: number of keys; 0 for one.
    pub keys: u64,
    /// `-t`, unless there is a command.
    pub tests: Vec<String>,
    /// The command that is sent instead of tests.
    pub command: Vec<Vec<u8>>,
    /// `--threads`: event loops.
    pub threads: usize,
    /// `--rate`: requests a second that arrive, whatever the server does; None for a closed loop.
    pub rate: Option<f64>,
    /// `--duration`, in seconds.
    pub seconds: Option<f64>,
    /// `--server-pid`.
    pub server_pid: Option<u32>,
    /// `--seed`.
    pub seed: u64,
    /// `--csv`.
    pub csv: bool,
}

impl Flags {
    /// Of redis-benchmark.
    fn new() -> Flags {
        Flags {
            place: Place::Tcp(SocketAddr::from(([127, 0, 0, 1], 6379))),
            password: None,
            clients: 50,
            requests: None,
            pipeline: 1,
            value_bytes: 3,
            random_data: false,
            keys: 0,
            tests: vec!["set".to_string(), "get".to_string()],
            command: Vec::new(),
            threads: 1,
            rate: None,
            seconds: None,
            server_pid: None,
            seed: 1,
            csv: false,
        }
    }

    /// Reads the words after the name of the program.
    ///
    /// # Errors
    /// What is not understood, in words.
    pub fn parse(args: &[OsString]) -> Result<Flags, String> {
        let mut flags = Flags::new();
        let (mut host, mut port) = ("127.0.0.1".to_string(), 6379);
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let word = arg.as_bytes();
            if !word.starts_with(b"-") {
                flags.command.push(word.to_vec());
                flags.command.extend(rest.map(|arg| arg.as_bytes().to_vec()));
                break;
            }
            let end = word.iter().position(|byte| *byte == b'=' && word.starts_with(b"--"));
            let end = end.unwrap_or(word.len());
            let name = &*String::from_utf8_lossy(&word[..end]);
            let given = word.get(end + 1..).map(|value| OsString::from_vec(value.to_vec()));
            match name {
                "--csv" => flags.csv = true,
                "--random-data" => flags.random_data = true,
                _ => {}
            }
            if SWITCHES.contains(&name) {
                continue;
            }
            if !VALUES.contains(&name) {
                let known = SWITCHES.into_iter().chain(VALUES);
                return Err(format!("there is no flag '{name}'{}", hint(name, known)));
            }
            let value = given.or_else(|| rest.next().cloned());
            let value = value.ok_or_else(|| format!("'{name}' has no value"))?;
            if name == "-s" {
                flags.place = Place::Unix(PathBuf::from(value));
                continue;
            }
            let value = value
                .into_string()
                .map_err(|value| format!("'{name} {}': it has to be UTF-8", value.display()))?;
            match name {
                "-h" => host = value,
                "-p" => port = number(name, &value, 1, 65_535)? as u16,
                _ => flags.set(name, value)?,
            }
        }
        if let Place::Tcp(address) = &mut flags.place {
            let host = if host == "localhost" { "127.0.0.1" } else { host.as_str() };
            let parsed = host.parse().map_err(|_| format!("-h: '{host}' is not an address"))?;
            *address = SocketAddr::new(parsed, port);
        }
        if flags.requests.is_none() && flags.seconds.is_none() {
            flags.requests = Some(100_000);
        }
        Ok(flags)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let above_zero = || {
            let number = value.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
            number.ok_or_else(|| format!("'{name} {value}': it has to be a number above 0"))
        };
        match name {
            "-a" => self.password = Some(value),
            "-c" => self.clients = number(name, &value, 1, 1_000_000)? as usize,
            "-n" => self.requests = Some(number(name, &value, 1, u64::MAX)?),
            "-P" => self.pipeline = number(name, &value, 1, 100_000)?,
            "-d" => self.value_bytes = number(name, &value, 1, 512 << 20)? as usize,
            "-r" => self.keys = number(name, &value, 1, 999_999_999_999)?,
            "-t" => {
                self.tests = value.split(',').map(str::to_ascii_lowercase).collect();
                if let Some(unknown) = self.tests.iter().find(|t| !TESTS.contains(&t.as_str())) {
                    return Err(format!("there is no test '{unknown}': {}", TESTS.join(", ")));
                }
            }
            "--threads" => self.threads = number(name, &value, 1, 1024)? as usize,
            "--rate" => self.rate = Some(above_zero()?),
            "--duration" => self.seconds = Some(above_zero()?),
            "--server-pid" => self.server_pid = Some(number(name, &value, 1, 1 << 30)? as u32),
            "--seed" => self.seed = number(name, &value, 0, u64::MAX)?,
            _ => unreachable!("{name} is among the flags"),
        }
        Ok(())
    }
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| format!("'{name} {value}': it has to be a number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Flags, String> {
        Flags::parse(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    // Plain #[test]: nothing here can wait.
    #[test]
    fn flags_are_redis_benchmarks() {
        let flags = parse("-p 7000 -c 5 -P 16 -t SET,mget --rate 10 --duration=2.5 --csv").unwrap();
        assert_eq!(flags.place, Place::Tcp("127.0.0.1:7000".parse().unwrap()));
        assert_eq!((flags.clients, flags.pipeline, flags.requests), (5, 16, None));
        assert_eq!((flags.rate, flags.seconds, flags.csv), (Some(10.0), Some(2.5), true));
        assert_eq!(flags.tests, ["set", "mget"]);
        assert_eq!(parse("").unwrap().requests, Some(100_000));
        assert_eq!(parse("-n 5 get -x").unwrap().command, [&b"get"[..], b"-x"]);
        for (bad, why) in [
            ("-h nowhere", "-h: 'nowhere' is not an address"),
            ("-c 0", "'-c 0': it has to be a number from 1 to 1000000"),
            ("-t no", "there is no test 'no': "),
            ("--rate 0", "'--rate 0': it has to be a number above 0"),
            ("-z 1", "there is no flag '-z'"),
            ("-n", "'-n' has no value"),
        ] {
            assert!(parse(bad).unwrap_err().starts_with(why), "{bad}");
        }
    }
}
