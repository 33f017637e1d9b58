//! `pumice man DIR`: a man page of the binary and one of each subcommand, from the tables.
//!
//! A page has the name, the summary and the help text as `--help` prints it; that of ldb has a
//! section for each command. Thread safety: plain functions.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::commands::{SUBCOMMANDS, usage};
use crate::{folder, ldb};

pub const USAGE: &str = "\
pumice man: writes the man pages

USAGE: pumice man DIR

DIR, for instance /usr/local/share/man/man1, gets pumice.1 and a page for each command.
";

/// Runs the subcommand with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    let [dir] = args else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if dir == "--help" || dir == "-h" {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match write(Path::new(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pumice man: {why}");
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path) -> Result<(), String> {
    pumice_port::os::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for (name, page) in pages() {
        folder::replace(&dir.join(format!("{name}.1")), &page)?;
    }
    Ok(())
}

/// Names and texts.
fn pages() -> Vec<(String, String)> {
    let summary = "a storage engine that keeps its data in RocksDB's file format";
    let mut all = page("pumice", "pumice COMMAND [FLAGS]", summary, &usage());
    all.push_str(".SH SEE ALSO\n");
    let names = SUBCOMMANDS.iter().map(|command| format!(".BR pumice-{} (1)", command.name));
    all.push_str(&names.collect::<Vec<_>>().join(",\n"));
    all.push('\n');
    let mut pages = vec![("pumice".to_string(), all)];
    for command in SUBCOMMANDS {
        let name = format!("pumice-{}", command.name);
        let synopsis = format!("pumice {} [FLAGS]", command.name);
        let mut text = page(&name, &synopsis, command.summary, &(command.help)());
        if command.name == "ldb" {
            text.push_str(".SH COMMANDS\n");
            for help in ldb::commands_help() {
                text.push_str(&preformatted(&help));
            }
        }
        pages.push((name, text));
    }
    pages
}

/// Text for roff: its escapes and its control lines are text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        if line.starts_with('.') {
            out.push_str("\\&");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// What a terminal of 80 columns has for text, in characters.
const WIDTH: usize = 72;

/// Lines that stay as they are; long ones go on below where their last column begins.
fn preformatted(text: &str) -> String {
    let mut out = String::from(".PP\n.na\n.nh\n.nf\n");
    for line in text.lines() {
        if line.chars().count() <= WIDTH {
            out.push_str(&escaped(&format!("{line}\n")));
            continue;
        }
        let indent = hang(line);
        let line = escaped(line);
        write!(out, ".fi\n.in +{indent}n\n.ti -{indent}n\n{line}.in -{indent}n\n.nf\n")
            .expect("a String takes everything");
    }
    out.push_str(".fi\n");
    out
}

/// How far the rest of a line that is too long is indented: to what follows the first two blanks
/// between words, else a little; that of a sentence is not.
fn hang(line: &str) -> usize {
    let words = line.trim_start();
    let start = line.len() - words.len();
    let gap = words.find("  ").map(|at| start + at);
    let column = gap.map(|at| at + (line[at..].len() - line[at..].trim_start().len()));
    let column = column.filter(|column| *column < WIDTH / 2);
    column.unwrap_or(if start == 0 { 0 } else { start + 4 })
}

fn page(name: &str, synopsis: &str, summary: &str, help: &str) -> String {
    let mut text = String::new();
    let title = name.to_uppercase();
    writeln!(text, ".TH {title} 1 \"\" \"Pumice {}\"", env!("CARGO_PKG_VERSION"))
        .expect("a String takes everything");
    text.push_str(".SH NAME\n");
    text.push_str(&escaped(&format!("{name} - {summary}")));
    text.push_str(".SH SYNOPSIS\n");
    text.push_str(&escaped(synopsis));
    text.push_str(".SH DESCRIPTION\n");
    text.push_str(&preformatted(help));
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn pages_have_every_command_and_no_stray_requests() {
        let pages = pages();
        assert_eq!(pages.len(), SUBCOMMANDS.len() + 1);
        let requests = [".TH", ".SH", ".PP", ".nf", ".fi", ".BR", ".na", ".nh", ".in", ".ti"];
        for (name, page) in &pages {
            assert!(page.starts_with(&format!(".TH {} 1", name.to_uppercase())));
            for line in page.lines().filter(|line| line.starts_with('.')) {
                assert!(requests.iter().any(|known| line.starts_with(known)), "{name}: {line}");
            }
        }
        let ldb = pages.iter().find(|(name, _)| name == "pumice-ldb").unwrap();
        assert!(ldb.1.contains("checkconsistency"));
        let long = format!("  --flag   {}\nshort\n", "word ".repeat(20));
        let made = preformatted(&long);
        assert!(made.contains(".nf\n.fi\n.in +11n\n.ti -11n\n  \\-\\-flag   word"), "{made}");
        assert!(made.ends_with(".in -11n\n.nf\nshort\n.fi\n"), "{made}");
        assert_eq!(escaped(".x 'a-b\\"), "\\&.x \\(aqa\\-b\\e\n");
    }
}
