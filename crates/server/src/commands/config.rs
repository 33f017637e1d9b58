//! CONFIG.
//!
//! Thread safety: see the module above.

use pumice_port::os;

use super::acl_rules;
use super::args::{fail, is, lossy, quoting};
use super::keys::help;
use super::{ADMIN, Access, Call, LOADING, NOSCRIPT, Row, STALE};
use crate::keyspace::{Failure, Outcome, glob};
use crate::session::config::SETTINGS;

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

const SUB: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("config", -2, 0, "2.0.0", "Shows and changes settings.", |_| Err(Failure::SYNTAX))
        .subcommands(CONFIG)];

const CONFIG: &[Row] = &[
    row("get", -3, SUB, "2.0.0", "Returns the settings that match patterns.", get),
    row("help", 2, LOADING | STALE, "5.0.0", "Lists the subcommands.", config_help),
    row("resetstat", 2, SUB, "2.0.0", "Sets the counters of INFO to zero.", resetstat),
    row("rewrite", 2, SUB, "2.8.0", "Writes the settings into the server's file.", rewrite),
    row("set", -4, SUB, "2.0.0", "Changes settings, all of them or none.", set),
];

fn config_help(call: &mut Call<'_, '_>) -> Outcome<()> {
    help(call, "CONFIG", CONFIG)
}

fn get(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut found: Vec<(&[u8], &str)> = Vec::new();
    for arg in &call.args[2..] {
        let pattern = arg.to_ascii_lowercase();
        // A name that is not a pattern is returned as the client spelled it.
        let is_pattern = arg.iter().any(|byte| b"[*?".contains(byte));
        for setting in SETTINGS {
            let is_new = !found.iter().any(|(_, name)| *name == setting.name);
            if is_new && !is_pattern && is(arg, setting.name) {
                found.push((*arg, setting.name));
            } else if is_new && is_pattern && glob::matches(&pattern, setting.name.as_bytes()) {
                found.push((setting.name.as_bytes(), setting.name));
            }
        }
    }
    call.out.map(found.len());
    for (shown, name) in found {
        call.out.bulk(shown);
        call.out.bulk(call.shared.config.get(name).as_bytes());
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> Outcome<()> {
    let args = &call.args[2..];
    if !args.len().is_multiple_of(2) {
        return Err(Failure::text("ERR wrong number of arguments for 'config|set' command"));
    }
    if let Some(name) = args.iter().step_by(2).find(|name| std::str::from_utf8(name).is_err()) {
        let what = "ERR Unknown option or number of arguments for CONFIG SET - '";
        return Err(fail(quoting(what, name, "'")));
    }
    let texts: Vec<_> = args.iter().map(|arg| lossy(arg)).collect();
    let pairs: Vec<_> = texts.chunks_exact(2).map(|p| (p[0].as_str(), p[1].as_str())).collect();
    let old = call.shared.config.change(&pairs).map_err(fail)?;
    let of_tls = pairs.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with("tls-"));
    if let Some((name, _)) = of_tls
        && let Err(why) = call.shared.take_over_tls()
    {
        call.shared.config.restore(old);
        return Err(fail(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to update TLS \
             configuration: {why}"
        )));
    }
    call.shared.settings_changed();
    if let Some((_, password)) = pairs.iter().find(|(n, _)| n.eq_ignore_ascii_case("requirepass")) {
        call.shared.acl.set_default_password(password.as_bytes());
    }
    call.out.ok();
    Ok(())
}

/// CONFIG REWRITE: the file gets the current settings, or stays as it was.
fn rewrite(call: &mut Call<'_, '_>) -> Outcome<()> {
    let config = &call.shared.config;
    let Some(path) = config.file() else {
        return Err(Failure::text("ERR The server is running without a config file"));
    };
    let failed = |error: std::io::Error| fail(format!("ERR Rewriting config file: {error}"));
    let text = os::read_file(path).map_err(failed)?;
    // Users of an ACL file are ACL SAVE's.
    let users = config.acl_file().is_none().then(|| acl_rules::lines(call.shared));
    let written = config.rewritten(&String::from_utf8_lossy(&text), users.as_deref());
    acl_rules::replace_file(path, &written).map_err(failed)?;
    call.out.ok();
    Ok(())
}

fn resetstat(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.shared.stats.reset();
    call.shared.calls.reset();
    call.out.ok();
    Ok(())
}
