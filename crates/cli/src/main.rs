//! The binary `pumice`: server, benchmark programs, inspection tools and stress test in one.
//!
//! Each subcommand is a module that takes the words after its name and gives an exit code. The
//! parsers, texts and exit codes of `db_bench`, `ldb` and `sst_dump` follow RocksDB's tools.
#![forbid(unsafe_code)]

mod arguments;
mod calendar;
mod db_bench;
mod environments;
mod folder;
mod ldb;
mod nearest;
mod output;
mod plot;
mod progress;
mod report;
mod resp_bench;
mod serve;
mod shell;
mod sst_dump;
mod stress;
mod text;

use nearest::hint;
use pumice_port::os::{HugePages, allocator, use_huge_pages};
use shell::commands::{self, SUBCOMMANDS};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command that a program called `called` is by its name: scripts call RocksDB's tools.
fn rocksdbs_name(called: &OsStr) -> Option<OsString> {
    let name = Path::new(called).file_name()?;
    ["db_bench", "ldb", "sst_dump"].iter().any(|tool| name == *tool).then(|| name.to_owned())
}

/// How long the allocator keeps freed pages, ms: docs/decisions/0073.
const PURGE_DELAY_MILLIS: u16 = 10;

fn main() -> ExitCode {
    allocator::set_purge_delay(PURGE_DELAY_MILLIS);
    // docs/decisions/0031. Other engines run as they would on their own.
    let mut words = std::env::args_os();
    let called = words.next().and_then(|called| rocksdbs_name(&called));
    let mut words = words.peekable();
    let is_child = words.peek().is_some_and(|word| word == db_bench::CHILD);
    use_huge_pages(if is_child { HugePages::All } else { HugePages::Advised });
    // The child of a program of another name has that name, too.
    let Some(name) = called.filter(|_| !is_child).or_else(|| words.next()) else {
        eprint!("{}", commands::usage());
        return ExitCode::FAILURE;
    };
    let args: Vec<OsString> = words.collect();
    match &*name.to_string_lossy() {
        db_bench::CHILD => db_bench::run_child(&args),
        report::BASELINES_CHILD => report::run_baselines(&args),
        stress::CHILD => stress::run_child(&args),
        "--version" | "-V" | "version" => {
            println!("pumice {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        "--help" | "-h" | "help" => {
            print!("{}", commands::usage());
            ExitCode::SUCCESS
        }
        name => match commands::find(name) {
            Some(command) => (command.run)(&args),
            None => {
                let names = SUBCOMMANDS.iter().map(|command| command.name);
                eprintln!("pumice: there is no command '{name}'{}\n", hint(name, names));
                eprint!("{}", commands::usage());
                ExitCode::FAILURE
            }
        },
    }
}
