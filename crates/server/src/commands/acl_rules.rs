//! Parsing users: the arguments of ACL SETUSER, the lines of an ACL file and of the configuration;
//! and what happens to the connections of users that change.
//!
//! Thread safety: see the module above. Files are read and written on the caller's task; calls
//! suspend.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice_port::os::{self, File, OpenFlags};

use super::args::{lossy, quoting};
use super::catalog;
use crate::protocol::request::split_words;
use crate::session::Shared;
use crate::session::acl::DEFAULT;
use crate::session::acl::user::{Rules, User};
use crate::session::clients::Client;

/// Rules with each selector in one piece: `(+get ~a)` may have come as two words.
///
/// # Errors
/// The reply: a parenthesis is not closed.
pub fn joined(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut rule = word.to_vec();
        while rule.starts_with(b"(") && !rule.ends_with(b")") {
            let Some(more) = words.next() else {
                let what = "Unmatched parenthesis in acl selector starting at '";
                return Err(quoting(what, word, "'."));
            };
            rule.push(b' ');
            rule.extend_from_slice(more);
        }
        rules.push(rule);
    }
    Ok(rules)
}

/// The name can be a user's.
pub fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|b| b.is_ascii_whitespace() || *b == 0 || *b == 0x0b)
}

/// Takes all rules, or reports the invalid one.
///
/// # Errors
/// In Redis's words, without the leading code.
pub fn apply(rules: &mut Rules, words: &[Vec<u8>], all_channels: bool) -> Result<(), Vec<u8>> {
    for word in words {
        rules.apply(catalog(), word, all_channels).map_err(|why| {
            let what = "Error in ACL SETUSER modifier '";
            quoting(what, word, &format!("': {}", why.text()))
        })?;
    }
    Ok(())
}

/// The user that a line `user NAME RULE...` defines.
fn user_of_line(line: &[u8], all_channels: bool) -> Result<(Vec<u8>, Rules), String> {
    let words = split_words(line).ok_or("unbalanced quotes in acl line")?;
    let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
    let [first, name, words @ ..] = words.as_slice() else {
        return Err("line should start with user keyword followed by a name".to_string());
    };
    if *first != b"user" {
        return Err("line should start with user keyword".to_string());
    }
    if !is_name(name) {
        return Err(format!("username '{}' contains invalid characters", lossy(name)));
    }
    let mut rules = Rules::new(all_channels);
    joined(words)
        .and_then(|words| apply(&mut rules, &words, all_channels))
        .map_err(|why| lossy(&why))?;
    Ok((name.to_vec(), rules))
}

/// The users of an ACL file, or of all `user` lines of the configuration.
///
/// # Errors
/// The error of each bad line.
fn users_of(place: &str, text: &[u8], all_channels: bool) -> Result<Users, String> {
    let (mut users, mut errors) = (BTreeMap::new(), String::new());
    for (index, line) in text.split(|&b| b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let added = user_of_line(line, all_channels).and_then(|(name, rules)| {
            let text = lossy(&name);
            match users.insert(name, rules) {
                None => Ok(()),
                Some(_) => {
                    Err(format!("Duplicate user '{text}' found. A user can only be defined once"))
                }
            }
        });
        if let Err(why) = added {
            errors += &format!("{place}:{}: {why}. ", index + 1);
        }
    }
    match errors.is_empty() {
        true => Ok(users),
        false => Err(errors),
    }
}

type Users = BTreeMap<Vec<u8>, Rules>;

/// The users named by the ACL file or the configuration's lines, before any client connects.
/// Suspends.
///
/// # Errors
/// An error text; no user has changed.
pub fn load_at_start(shared: &Shared) -> Result<(), String> {
    let lines = shared.config.users();
    let all_channels = shared.acl.all_channels();
    let users = match (shared.config.acl_file(), lines.is_empty()) {
        (None, true) => return Ok(()),
        (None, false) => users_of("user", lines.join("\n").as_bytes(), all_channels)?,
        (Some(file), true) => read(&file, all_channels)?,
        (Some(_), false) => {
            return Err("users are named in the configuration and in 'aclfile': one place is \
                        enough"
                .to_string());
        }
    };
    shared.acl.replace(with_default(shared, users));
    Ok(())
}

/// Includes a user `default`: if it is not named it has the password of `requirepass`.
fn with_default(shared: &Shared, mut users: Users) -> Users {
    users.entry(DEFAULT.to_vec()).or_insert_with(|| {
        let mut rules = Rules::unlimited();
        rules.set_only_password(shared.config.get("requirepass").as_bytes());
        rules
    });
    users
}

fn read(path: &Path, all_channels: bool) -> Result<Users, String> {
    let text = os::read_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    users_of(&path.display().to_string(), &text, all_channels)
}

/// ACL LOAD: replaces all users by those of the file. Suspends.
///
/// # Errors
/// The reply; no user has changed.
pub fn load(shared: &Shared, path: &Path) -> Result<Vec<Arc<User>>, String> {
    let users = read(path, shared.acl.all_channels()).map_err(|why| {
        format!(
            "ERR {why}WARNING: ACL errors detected, no change to the previously active ACL rules \
             was performed"
        )
    })?;
    Ok(shared.acl.replace(with_default(shared, users)))
}

/// The lines of all users.
pub fn lines(shared: &Shared) -> Vec<Vec<u8>> {
    let users = shared.acl.users();
    users.iter().map(|user| user.rules().line(catalog(), &user.name)).collect()
}

/// ACL SAVE: the file gets the current users, or stays as it was. Suspends.
///
/// # Errors
/// What the operating system says.
pub fn save(shared: &Shared, path: &Path) -> std::io::Result<()> {
    let mut text = lines(shared).join(&b'\n');
    text.push(b'\n');
    replace_file(path, &text)
}

/// A file gets a new text and keeps its mode, or stays as it was. Suspends.
///
/// # Errors
/// What the operating system says.
pub fn replace_file(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}-{}", os::pid(), pumice_port::time::wall_micros()));
    let new = Path::new(&name);
    let written = write_durably(new, path, text).and_then(|()| os::rename(new, path));
    if written.is_err() {
        // There may be none.
        os::unlink(new).ok();
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    os::sync_dir(folder.unwrap_or(Path::new(".")))
}

/// Writes a new file, with the mode of the `old` one if there is one: passwords stay as hidden.
fn write_durably(path: &Path, old: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = File::open(path, OpenFlags { exclusive: true, ..OpenFlags::CREATE })?;
    match os::copy_mode(old, path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    file.write_all(text)?;
    file.sync_all()?;
    file.close()
}

/// Ends the connections of `user` except `own`, which has to get its reply; returns whether `own`
/// is one of them. Does not suspend.
pub fn end_connections(shared: &Shared, user: &Arc<User>, own: &Client) -> bool {
    let mut is_own = false;
    for client in shared.clients.list().into_iter().filter(|client| client.is_of(user)) {
        match client.id == own.id {
            true => is_own = true,
            false => client.hang_up(),
        }
    }
    is_own
}

/// Ends the connections of `user` that listen to channels it may no longer use; returns whether
/// `own` is one of them. Does not suspend.
pub fn end_listeners(shared: &Shared, user: &Arc<User>, own: &Client) -> bool {
    let rules = user.rules();
    let mut is_own = false;
    shared.channels.for_each(|name, is_pattern, client| {
        if client.is_of(user) && !rules.allows_channel(name, is_pattern) {
            match client.id == own.id {
                true => is_own = true,
                false => client.hang_up(),
            }
        }
    });
    is_own
}
