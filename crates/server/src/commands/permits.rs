//! Whether a user may run a command, and the reply and log entry if not.
//!
//! For a user that may do everything the check is one load; for others command, keys and channels
//! are compared with the current rules.
//!
//! Thread safety: pure except for the log.

use super::args::quoting;
use super::specs::keys_with_rights;
use super::{Call, NO_AUTH, Row};
use crate::session::acl::log::Refusal;
use crate::session::acl::selector::{Asked, Denied};
use crate::session::{Session, Shared};

/// The permissions that a command needs.
pub fn asked<'a>(row: &Row, args: &[&'a [u8]]) -> Asked<'a> {
    let channels = match row.name {
        "publish" => args.get(1..2).unwrap_or_default(),
        "subscribe" | "psubscribe" => &args[1..],
        _ => &[],
    };
    Asked {
        id: row.id,
        is_free: row.is(NO_AUTH),
        first: args.get(1).copied(),
        keys: keys_with_rights(row, args),
        channels: channels.to_vec(),
        are_patterns: row.name == "psubscribe",
    }
}

/// When a command is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When it arrives.
    Now,
    /// At EXEC; it was allowed when it was queued.
    InExec,
}

/// Whether the connection's user may run a command.
///
/// # Errors
/// The reply; it is in the log.
#[inline]
pub fn check(
    shared: &Shared,
    session: &Session,
    row: &Row,
    args: &[&[u8]],
    now: u64,
    when: When,
) -> Result<(), String> {
    if session.user().is_unlimited() {
        return Ok(());
    }
    let asked = asked(row, args);
    match session.user().rules().check(&asked) {
        Ok(()) => Ok(()),
        Err(denied) => {
            let (reason, object) = match denied {
                Denied::Command => ("command", row.full_name.as_bytes()),
                Denied::Key(at) => ("key", asked.keys[at].0),
                Denied::Channel(at) => ("channel", asked.channels[at]),
            };
            let is_multi = when == When::InExec || session.multi.is_some();
            let refusal = Refusal {
                reason,
                context: if is_multi { "multi" } else { "toplevel" },
                object: object.to_vec(),
                user: session.user().name.clone(),
            };
            shared.acl.log.add(refusal, session.client.line(now), now);
            Err(text(row, denied, when))
        }
    }
}

fn text(row: &Row, denied: Denied, when: When) -> String {
    const CHANGED: &str = "NOPERM ACLs rules changed between the moment the transaction was \
                           accumulated and the EXEC call. This command is no longer allowed for \
                           the following reason: no permission to";
    const USER: &str = "NOPERM this user has no permissions to";
    const CHANNEL: &str = "access one of the channels used as arguments";
    match (when, denied) {
        (When::Now, Denied::Command) => format!("{USER} run the '{}' command", row.full_name),
        (When::Now, Denied::Key(_)) => format!("{USER} access one of the keys used as arguments"),
        (When::Now, Denied::Channel(_)) => format!("{USER} {CHANNEL}"),
        (When::InExec, Denied::Command) => format!("{CHANGED} execute the command or subcommand"),
        (When::InExec, Denied::Key(_)) => format!("{CHANGED} touch the specified keys"),
        (When::InExec, Denied::Channel(_)) => format!("{CHANGED} {CHANNEL}"),
    }
}

/// ACL DRYRUN's reply to a refusal.
pub fn dry_text(row: &Row, asked: &Asked<'_>, denied: Denied) -> Vec<u8> {
    const START: &str = "This user has no permissions to";
    match denied {
        Denied::Command => format!("{START} run the '{}' command", row.full_name).into_bytes(),
        Denied::Key(at) => quoting(&format!("{START} access the '"), asked.keys[at].0, "' key"),
        Denied::Channel(at) => {
            quoting(&format!("{START} access the '"), asked.channels[at], "' channel")
        }
    }
}

/// Whether the connection's user may run this command with any key: SORT looks up keys that are not
/// arguments.
pub fn reads_all_keys(call: &Call<'_, '_>, row: &Row) -> bool {
    let user = call.session.user();
    user.is_unlimited() || user.rules().reads_all_keys(&asked(row, call.args))
}
