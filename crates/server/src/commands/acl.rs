//! ACL: users and their permissions.
//!
//! Thread safety: see the module above.

use std::path::PathBuf;

use super::acl_rules::{apply, end_connections, end_listeners, is_name, joined, lines, load, save};
use super::args::{fail, integer, is, lossy, quoting, too_many_words};
use super::keys::help;
use super::{
    ADMIN, Access, Call, LOADING, NOSCRIPT, Row, STALE, all, catalog, find, permits, subcommand,
};
use crate::keyspace::{Failure, Outcome};
use crate::session::acl::DEFAULT;
use crate::session::acl::catalog::CATEGORIES;
use crate::session::acl::selector::Selector;
use crate::session::acl::user::hex;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("server", name, arity, flags, since, summary, run).access(Access::Glance)
}

/// A query about the user itself or the command table needs no administrative rights.
const OPEN: u32 = NOSCRIPT | LOADING | STALE;
const SUB: u32 = OPEN | ADMIN;

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("acl", -2, 0, "6.0.0", "Shows and changes users and their permissions.", |_| {
        Err(Failure::SYNTAX)
    })
    .subcommands(ACL)];

const ACL: &[Row] = &[
    row("cat", -2, OPEN, "6.0.0", "Lists categories, or the commands of one.", cat),
    row("deluser", -3, SUB, "6.0.0", "Deletes users and ends their connections.", deluser),
    row("dryrun", -4, SUB, "7.0.0", "Checks whether a user may run a command.", dryrun),
    row("genpass", -2, OPEN, "6.0.0", "Generates a random password.", genpass),
    row("getuser", 3, SUB, "6.0.0", "Returns the rules of a user.", getuser),
    row("help", 2, LOADING | STALE, "6.0.0", "Lists the subcommands.", |call| {
        help(call, "ACL", ACL)
    }),
    row("list", 2, SUB, "6.0.0", "Returns the rules of all users.", list),
    row("load", 2, SUB, "6.0.0", "Loads the users from the ACL file.", |call| {
        let path = file(call)?;
        let gone = load(call.shared, &path).map_err(fail)?;
        let mut closes = false;
        for user in &gone {
            closes |= end_connections(call.shared, user, &call.session.client);
        }
        let (shared, default) = (call.shared, call.shared.acl.default_user());
        closes |= end_listeners(shared, default, &call.session.client);
        call.session.closes |= closes;
        call.out.ok();
        Ok(())
    }),
    row("log", -2, SUB, "6.0.0", "Shows the log of refusals.", log),
    row("save", 2, SUB, "6.0.0", "Writes the users into the ACL file.", |call| {
        let path = file(call)?;
        save(call.shared, &path).map_err(|error| {
            fail(format!("ERR There was an error trying to save the ACLs: {error}"))
        })?;
        call.out.ok();
        Ok(())
    }),
    row("setuser", -3, SUB, "6.0.0", "Creates a user or changes its rules.", setuser),
    row("users", 2, SUB, "6.0.0", "Lists the names of all users.", users),
    row("whoami", 2, OPEN, "6.0.0", "Returns the connection's user.", whoami),
];

fn file(call: &Call<'_, '_>) -> Outcome<PathBuf> {
    const NONE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want \
                        to specify users via the ACL SETUSER command and then issue a CONFIG \
                        REWRITE (assuming you have a Redis configuration file set) in order to \
                        store users in the Redis configuration.";
    call.shared.config.acl_file().ok_or(Failure::text(NONE))
}

fn cat(call: &mut Call<'_, '_>) -> Outcome<()> {
    match &call.args[2..] {
        [] => {
            call.out.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| call.out.bulk(name.as_bytes()));
        }
        [name] => {
            let lower = lossy(name).to_ascii_lowercase();
            if !CATEGORIES.contains(&lower.as_str()) {
                return Err(fail(quoting("ERR Unknown category '", name, "'")));
            }
            let rows = all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
            let named: Vec<_> =
                rows.filter(|row| row.category_names().contains(&lower.as_str())).collect();
            call.out.array(named.len());
            named.iter().for_each(|row| call.out.bulk(row.full_name.as_bytes()));
        }
        _ => return Err(too_many_words(call.args)),
    }
    Ok(())
}

fn deluser(call: &mut Call<'_, '_>) -> Outcome<()> {
    let names = &call.args[2..];
    if names.contains(&DEFAULT) {
        return Err(Failure::text("ERR The 'default' user cannot be removed"));
    }
    let mut deleted = 0;
    for name in names {
        if let Some(user) = call.shared.acl.delete_user(name) {
            deleted += 1;
            // The reply has to be sent first.
            let is_own = end_connections(call.shared, &user, &call.session.client);
            call.session.closes |= is_own;
        }
    }
    call.out.count(deleted);
    Ok(())
}

fn dryrun(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (name, args) = (call.args[2], &call.args[3..]);
    let user = call.shared.acl.find(name);
    let user = user.ok_or_else(|| fail(quoting("ERR User '", name, "' not found")))?;
    let unknown = || fail(quoting("ERR Command '", args[0], "' not found"));
    let mut row = find(args[0]).ok_or_else(unknown)?;
    if let (false, Some(word)) = (row.subcommands.is_empty(), args.get(1)) {
        row = subcommand(row, word).ok_or_else(unknown)?;
    }
    if !row.takes(args.len()) {
        let name = row.full_name;
        return Err(fail(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let asked = permits::asked(row, args);
    match user.rules().check(&asked) {
        Ok(()) => call.out.ok(),
        Err(denied) => call.out.bulk(&permits::dry_text(row, &asked, denied)),
    }
    Ok(())
}

fn genpass(call: &mut Call<'_, '_>) -> Outcome<()> {
    const BAD: &str = "ERR ACL GENPASS argument must be the number of bits for the output \
                       password, a positive number up to 4096";
    let bits = match &call.args[2..] {
        [] => 256,
        [bits] => integer(bits)?,
        _ => return Err(too_many_words(call.args)),
    };
    if !(1..=4096).contains(&bits) {
        return Err(Failure::text(BAD));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    pumice_port::os::read_random_bytes(&mut bytes);
    call.out.bulk(&hex(&bytes).as_bytes()[..digits]);
    Ok(())
}

fn write_selector(call: &mut Call<'_, '_>, selector: &Selector) {
    let parts = [
        ("commands", selector.commands_text(catalog())),
        ("keys", selector.keys_text()),
        ("channels", selector.channels_text()),
    ];
    for (name, text) in parts {
        call.out.bulk(name.as_bytes());
        call.out.bulk(&text);
    }
}

fn getuser(call: &mut Call<'_, '_>) -> Outcome<()> {
    let Some(user) = call.shared.acl.find(call.args[2]) else {
        call.out.null();
        return Ok(());
    };
    let rules = user.rules();
    call.out.map(6);
    call.out.bulk(b"flags");
    let flags = rules.flags();
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.bulk(flag.as_bytes()));
    call.out.bulk(b"passwords");
    let passwords = rules.passwords();
    call.out.array(passwords.len());
    passwords.iter().for_each(|hash| call.out.bulk(hash.as_bytes()));
    write_selector(call, rules.root());
    call.out.bulk(b"selectors");
    call.out.array(rules.selectors().len());
    for selector in rules.selectors() {
        call.out.map(3);
        write_selector(call, selector);
    }
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> Outcome<()> {
    let lines = lines(call.shared);
    call.out.array(lines.len());
    lines.iter().for_each(|line| call.out.bulk(line));
    Ok(())
}

fn log(call: &mut Call<'_, '_>) -> Outcome<()> {
    const ENTRIES: i64 = 10;
    let log = &call.shared.acl.log;
    let most = match &call.args[2..] {
        [] => ENTRIES,
        [word] if is(word, "reset") => {
            log.reset();
            call.out.ok();
            return Ok(());
        }
        [count] => integer(count)?,
        _ => return Err(too_many_words(call.args)),
    };
    let entries = log.entries(usize::try_from(most).unwrap_or(0));
    call.out.array(entries.len());
    for entry in entries {
        let refusal = &entry.refusal;
        call.out.map(7);
        call.out.bulk(b"count");
        call.out.integer(entry.count as i64);
        for (name, text) in [
            ("reason", refusal.reason.as_bytes()),
            ("context", refusal.context.as_bytes()),
            ("object", &refusal.object),
            ("username", &refusal.user),
        ] {
            call.out.bulk(name.as_bytes());
            call.out.bulk(text);
        }
        call.out.bulk(b"age-seconds");
        call.out.double(call.txn.now.saturating_sub(entry.millis) as f64 / 1000.0);
        call.out.bulk(b"client-info");
        call.out.bulk(entry.client.as_bytes());
    }
    Ok(())
}

fn setuser(call: &mut Call<'_, '_>) -> Outcome<()> {
    let name = call.args[2];
    if !is_name(name) {
        const BAD: &str = "ERR Usernames can't contain spaces or null characters";
        return Err(Failure::text(BAD));
    }
    let error = |why: Vec<u8>| fail(quoting("ERR ", &why, ""));
    let words = joined(&call.args[3..]).map_err(error)?;
    let acl = &call.shared.acl;
    let all_channels = acl.all_channels();
    let user = acl.set_user(name, |rules| apply(rules, &words, all_channels)).map_err(error)?;
    let is_own = end_listeners(call.shared, &user, &call.session.client);
    call.session.closes |= is_own;
    call.out.ok();
    Ok(())
}

fn users(call: &mut Call<'_, '_>) -> Outcome<()> {
    let users = call.shared.acl.users();
    call.out.array(users.len());
    users.iter().for_each(|user| call.out.bulk(&user.name));
    Ok(())
}

fn whoami(call: &mut Call<'_, '_>) -> Outcome<()> {
    let name = call.session.user().name.clone();
    call.out.bulk(&name);
    Ok(())
}
