//! `pumice serve`: the network server, started from flags, the environment and a file.
//!
//! Later sources take precedence: defaults, the file, the environment (`PUMICE_SERVE_PORT` for
//! `port`, `_` for `-`), flags. Names are redis.conf's. SIGTERM, SIGINT and the command SHUTDOWN
//! shut the server down cleanly, exit code 0; a second signal ends it at once.
//!
//! Thread safety: everything runs on the main thread but for the wait for signals.

mod notify;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::{Flag, utf8};
use crate::nearest::hint;
use crate::progress::{Progress, bytes_of};
use pumice_env::PosixFs;
use pumice_port::{os, thread};
use pumice_server::{Config, IoMode, Running, SETTINGS};

const USAGE: &str = "\
pumice serve: a server that speaks Redis's protocol and keeps everything on disk

USAGE: pumice serve [FILE] [--NAME VALUE]...

FILE has lines `name value`, as redis.conf. The environment has PUMICE_SERVE_NAME, upper case, `_`
for `-`. Flags win over the environment, which wins over the file.

SETTINGS
";

/// Exit code of a server that was ended by a second signal.
const IMPATIENT: i32 = 130;

pub fn usage() -> String {
    let mut text = USAGE.to_string();
    for setting in SETTINGS {
        let default = if setting.default.is_empty() { "none" } else { setting.default };
        writeln!(text, "  --{:<24} {} [{default}]", setting.name, setting.help)
            .expect("a String takes everything");
    }
    text
}

/// The flags, for completions.
pub fn flags() -> Vec<Flag> {
    SETTINGS.iter().map(|setting| Flag::long(setting.name, true, setting.help)).collect()
}

/// The setting that was meant by `name`, if there is none of that name.
fn near(name: &str) -> String {
    let known = || SETTINGS.iter().map(|setting| setting.name);
    if known().any(|known| known.eq_ignore_ascii_case(name)) {
        return String::new();
    }
    hint(name, known())
}

/// The settings that file, environment and flags make.
fn configure(args: &[OsString], environment: &[(OsString, OsString)]) -> Result<Config, String> {
    let config = Config::new();
    let (mut flags, mut file) = (Vec::new(), None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_bytes().strip_prefix(b"--") {
            None if file.is_none() => file = Some(Path::new(arg)),
            None => return Err(format!("unexpected second file '{}'", arg.display())),
            Some(flag) => {
                let shown = arg.display();
                let flag = utf8(flag, "a flag")?;
                flags.push(match flag.split_once('=') {
                    Some((name, value)) => (name, value),
                    None => {
                        let value = rest.next().ok_or_else(|| format!("'{shown}' has no value"))?;
                        (flag, utf8(value.as_bytes(), flag)?)
                    }
                });
            }
        }
    }
    if let Some(file) = file {
        let with_name = |why: String| format!("{}: {why}", file.display());
        let bytes = os::read_file(file).map_err(|error| with_name(error.to_string()))?;
        let warnings = config.read_file(&String::from_utf8_lossy(&bytes)).map_err(with_name)?;
        for warning in warnings {
            eprintln!("pumice serve: {}: {warning}", file.display());
        }
        config.set_file(file.to_path_buf());
    }
    for (variable, value) in environment {
        // Others may be any bytes.
        let Some(name) = variable.to_str().and_then(|name| name.strip_prefix("PUMICE_SERVE_"))
        else {
            continue;
        };
        let name = name.to_ascii_lowercase().replace('_', "-");
        let variable = variable.display();
        let value = utf8(value.as_bytes(), &variable.to_string())?;
        config.set(&name, value).map_err(|why| format!("{variable}: {why}{}", near(&name)))?;
    }
    for (name, value) in flags {
        config.set(name, value).map_err(|why| format!("--{name}: {why}{}", near(name)))?;
    }
    Ok(config)
}

/// Runs the subcommand with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--version" || arg == "-v") {
        println!("pumice serve {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let environment: Vec<_> = std::env::vars_os().collect();
    match configure(args, &environment).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pumice serve: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Informs the process that started it, which may no longer be reading.
fn print(line: std::fmt::Arguments<'_>) {
    writeln!(std::io::stdout(), "{line}").ok();
}

/// Serves until the end is requested.
fn serve(config: Config) -> Result<(), String> {
    let signals = os::Signals::install().map_err(|error| format!("signals: {error}"))?;
    let dir = config.get("dir");
    let fsync = config.get("appendfsync");
    let manager = notify::Manager::of_environment();
    let (progress, files) = Progress::logs(PosixFs::shared());
    progress.meter().expect(bytes_of(Path::new(&dir), &[".log"]));
    let running = Running::start_with(config, IoMode::Auto, Some(files))?;
    // Said once: this is the program's only server.
    running.shared().allocator.set("mimalloc").ok();
    drop(progress);
    let end: Arc<dyn Fn() + Send + Sync> = Arc::new(running.ask_to_end());
    // It ends with the process.
    drop(thread::spawn_os("signals", move || {
        if let Err(error) = signals.wait() {
            eprintln!("pumice serve: signals: {error}");
            return;
        }
        print(format_args!("shutting down; signal again to exit at once"));
        end();
        if signals.wait().is_ok() {
            std::process::exit(IMPATIENT);
        }
    }));
    print(format_args!("pumice {} serves {dir} (appendfsync {fsync})", env!("CARGO_PKG_VERSION")));
    for address in running.addresses() {
        print(format_args!("listening on {address}: redis-cli -p {}", address.port()));
    }
    for address in running.tls_addresses() {
        let (host, port) = (address.ip(), address.port());
        print(format_args!("listening on {address} for TLS: redis-cli --tls -h {host} -p {port}"));
    }
    if let Some(path) = running.socket() {
        print(format_args!("listening on {}: redis-cli -s {}", path.display(), path.display()));
    }
    if let Some(address) = running.metrics() {
        print(format_args!("metrics on http://{address}/metrics"));
    }
    if let Some(address) = running.status() {
        print(format_args!("status on http://{address}/"));
    }
    print(format_args!(
        "Ctrl-C, SIGTERM or the command SHUTDOWN stops the server; everything written is kept"
    ));
    manager.ready(&format!("serving {dir}"));
    while !running.wait(Duration::from_secs(3600)) {}
    manager.stopping();
    running.stop()?;
    print(format_args!("stopped; everything is on disk"));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[pumice_test_macros::test]
    fn flags_win_over_the_environment_and_the_file() {
        let path = std::env::temp_dir().join(format!("pumice-serve-{}.conf", os::pid()));
        let mut file = os::File::open(&path, os::OpenFlags::CREATE).unwrap();
        file.write_all(b"port 1\nmaxclients 1\ntimeout 1\n").unwrap();
        let environment = [("PUMICE_SERVE_MAXCLIENTS", "2"), ("PUMICE_SERVE_TIMEOUT", "2")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let args = words(&format!("{} --timeout 3 --appendfsync=always", path.display()));
        let config = configure(&args, &environment).unwrap();
        os::unlink(&path).unwrap();
        let get = |name| config.get(name);
        assert_eq!([get("port"), get("maxclients"), get("timeout")], ["1", "2", "3"]);
        assert_eq!(get("appendfsync"), "always");
    }

    #[pumice_test_macros::test]
    fn what_is_not_understood_is_an_error() {
        let error = |args: &str| configure(&words(args), &[]).err().unwrap();
        assert_eq!(error("--nonsense 1"), "--nonsense: unknown directive 'nonsense'");
        assert_eq!(error("--port"), "'--port' has no value");
        assert_eq!(error("a b"), "unexpected second file 'b'");
        assert!(error("--port x").contains("couldn't be parsed into an integer"));
        assert!(error("/no/such/file").contains("/no/such/file: "));
        let variable = [("PUMICE_SERVE_NONSENSE".into(), "1".into())];
        assert!(configure(&[], &variable).err().unwrap().contains("PUMICE_SERVE_NONSENSE"));
    }
}
