//! COMMAND and its relatives, and the reference page: everything reported about the commands, made
//! from the rows.
//!
//! Thread safety: see the module above.

use std::fmt::Write;

use super::args::{is, lossy, upper};
use super::arguments::{arguments_of, write_arguments};
use super::keys::help;
use super::specs::{tips, write_keys_and_flags, write_specs};
use super::syntax::synopsis;
use super::{Access, Call, Keys, LOADING, Row, STALE, all, find, subcommand};
use crate::keyspace::{Failure, Outcome, glob};
use crate::protocol::Reply;

const fn row(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("server", name, arity, LOADING | STALE, since, summary, run)
        .access(Access::Glance)
        .categories(&["connection"])
}

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("command", -1, "2.8.13", "Describes the commands.", command).subcommands(COMMAND)];

const COMMAND: &[Row] = &[
    row("count", 2, "2.8.13", "Counts the commands.", count),
    row("docs", -2, "7.0.0", "Returns the documentation of commands.", docs),
    row("getkeys", -4, "2.8.13", "Returns the arguments of a command that are keys.", getkeys),
    row(
        "getkeysandflags",
        -4,
        "7.0.0",
        "Returns the keys of a command, and what it does with each.",
        getkeysandflags,
    ),
    row("help", 2, "5.0.0", "Lists the subcommands.", command_help),
    row("info", -2, "2.8.13", "Returns names, arities, flags and keys of commands.", info),
    row("list", -2, "7.0.0", "Lists the names of the commands.", list),
];

fn command(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.array(all().len());
    all().iter().for_each(|row| write_info(call.out, row));
    Ok(())
}

/// The reply of COMMAND for a row.
fn write_info(out: &mut Reply, row: &Row) {
    out.array(10);
    out.bulk(row.full_name.as_bytes());
    out.integer(i64::from(row.arity));
    let flags = row.flag_names();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
    let (first, last, step) = row.key_positions();
    [first, last, step].iter().for_each(|n| out.integer(i64::from(*n)));
    let categories = row.category_names();
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(&format!("@{name}")));
    let tips = tips(row);
    out.array(tips.len());
    tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    write_specs(out, row);
    out.array(row.subcommands.len());
    row.subcommands.iter().for_each(|sub| write_info(out, sub));
}

fn count(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.count(all().len());
    Ok(())
}

fn command_help(call: &mut Call<'_, '_>) -> Outcome<()> {
    help(call, "COMMAND", COMMAND)
}

/// A row by its name, or `parent|name`.
pub fn by_full_name(name: &[u8]) -> Option<&'static Row> {
    match name.iter().position(|&b| b == b'|') {
        None => find(name),
        Some(at) => subcommand(find(&name[..at])?, &name[at + 1..]),
    }
}

fn info(call: &mut Call<'_, '_>) -> Outcome<()> {
    let names = &call.args[2..];
    if names.is_empty() {
        return command(call);
    }
    call.out.array(names.len());
    for name in names {
        match by_full_name(name) {
            Some(row) => write_info(call.out, row),
            None => call.out.null(),
        }
    }
    Ok(())
}

fn docs(call: &mut Call<'_, '_>) -> Outcome<()> {
    let names = &call.args[2..];
    let rows: Vec<_> = if names.is_empty() {
        all().iter().collect()
    } else {
        names.iter().filter_map(|name| by_full_name(name)).collect()
    };
    call.out.map(rows.len());
    rows.iter().for_each(|row| write_docs(call.out, row));
    Ok(())
}

fn write_docs(out: &mut Reply, row: &Row) {
    out.bulk(row.full_name.as_bytes());
    let has_sub = !row.subcommands.is_empty();
    let arguments = arguments_of(row);
    out.map(3 + usize::from(has_sub) + usize::from(!arguments.is_empty()));
    for (name, text) in [("summary", row.summary), ("since", row.since), ("group", row.group)] {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        write_arguments(out, &arguments);
    }
    if has_sub {
        out.bulk(b"subcommands");
        out.map(row.subcommands.len());
        row.subcommands.iter().for_each(|sub| write_docs(out, sub));
    }
}

fn list(call: &mut Call<'_, '_>) -> Outcome<()> {
    // Subcommands are commands here, under their full names.
    let every = || all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let chosen: Vec<_> = match &call.args[2..] {
        [] => every().collect(),
        [word, by, value] if is(word, "filterby") => {
            let value = value.to_ascii_lowercase();
            let fits = |row: &&Row| match upper(by).as_slice() {
                b"PATTERN" => glob::matches(&value, row.full_name.as_bytes()),
                b"ACLCAT" => row.category_names().iter().any(|name| name.as_bytes() == value),
                _ => false,
            };
            if !is(by, "pattern") && !is(by, "aclcat") && !is(by, "module") {
                return Err(Failure::SYNTAX);
            }
            every().filter(fits).collect()
        }
        _ => return Err(Failure::SYNTAX),
    };
    call.out.array(chosen.len());
    chosen.iter().for_each(|row| call.out.bulk(row.full_name.as_bytes()));
    Ok(())
}

/// The command that COMMAND GETKEYS and its relative are asked about, which has keys.
fn asked<'a, 'k>(call: &Call<'a, 'k>) -> Outcome<(&'static Row, &'a [&'a [u8]])> {
    let args = &call.args[2..];
    let mut row = find(args[0]).ok_or(Failure::text("ERR Invalid command specified"))?;
    if let Some(sub) = args.get(1).and_then(|word| subcommand(row, word)) {
        row = sub;
    }
    if row.keys == Keys::None {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !row.takes(args.len()) {
        const ARITY: &str = "ERR Invalid number of arguments specified for command";
        return Err(Failure::text(ARITY));
    }
    if row.keys_of(args).is_empty() || !row.counts_well(args) {
        return Err(Failure::text("ERR Invalid arguments specified for command"));
    }
    Ok((row, args))
}

fn getkeys(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (row, args) = asked(call)?;
    let keys = row.keys_of(args);
    call.out.array(keys.len());
    keys.iter().for_each(|key| call.out.bulk(key));
    Ok(())
}

fn getkeysandflags(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (row, args) = asked(call)?;
    write_keys_and_flags(call.out, row, args);
    Ok(())
}

/// The reference page, docs/server_commands.md.
pub fn page() -> String {
    let mut text = String::from(
        "# Commands of `pumice serve`\n\nMade from the table in `crates/server/src/commands`; a \
         test holds this page against it. Arity counts\nthe name; a negative one is a least \
         number. Keys: first, last, step.\n",
    );
    let mut groups: Vec<_> = all().iter().map(|row| row.group).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let rows: Vec<_> = all().iter().filter(|row| row.group == group).collect();
        let written = write_group(&mut text, group, &rows);
        written.expect("a String takes everything");
    }
    text
}

fn write_group(text: &mut String, group: &str, rows: &[&Row]) -> std::fmt::Result {
    writeln!(text, "\n## {group}\n")?;
    writeln!(text, "| command | arguments | arity | keys | since | categories | does |")?;
    writeln!(text, "|---|---|---|---|---|---|---|")?;
    for row in rows {
        write_row(text, row, "")?;
        for sub in row.subcommands {
            write_row(text, sub, &format!("{} ", lossy(&upper(row.name.as_bytes()))))?;
        }
    }
    Ok(())
}

fn write_row(text: &mut String, row: &Row, parent: &str) -> std::fmt::Result {
    let keys = match row.keys {
        Keys::Counted { .. } => "counted".to_string(),
        Keys::None => String::new(),
        _ => {
            let (first, last, step) = row.key_positions();
            format!("{first} {last} {step}")
        }
    };
    let categories: Vec<_> = row.category_names().iter().map(|name| format!("@{name}")).collect();
    writeln!(
        text,
        "| {parent}{} | {} | {} | {keys} | {} | {} | {} |",
        lossy(&upper(row.name.as_bytes())),
        synopsis(&arguments_of(row)).replace('|', "\\|").replace('<', "\\<"),
        row.arity,
        row.since,
        categories.join(" "),
        row.summary,
    )
}
