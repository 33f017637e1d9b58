//! Names of databases and of their incarnations.
//!
//! The identity (a UUID) stays with a database for its life; the session id names one open and
//! goes into every table written in it (docs/format/README.md#identity and
//! docs/format/table.md#unique-ids).

use std::fmt::Write;
use std::path::Path;

use pumice_base::Result;
use pumice_env::{FileSystem, filename};
use pumice_port::os::read_random_bytes;
use pumice_table::SESSION_ID_LEN;

use crate::options::DbOptions;

/// The value of `db_host_id` that stands for the host's name.
const HOST_NAME_PLACEHOLDER: &str = "__hostname__";

/// A fresh random (version 4) UUID.
fn new_db_id() -> String {
    let mut bytes = [0u8; 16];
    read_random_bytes(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut id = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        write!(id, "{byte:02x}").expect("writing to a String cannot fail");
    }
    id
}

/// A fresh session id.
pub(crate) fn new_session_id() -> String {
    let mut bytes = [0u8; 16];
    read_random_bytes(&mut bytes);
    let (high, low) = bytes.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    pumice_table::session_id([number(high), number(low)])
}

/// Whether `text` has the form of a session id.
pub(crate) fn is_session_id(text: &str) -> bool {
    let in_id = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    text.len() == SESSION_ID_LEN && text.as_bytes().iter().all(in_id)
}

/// The database's identity: the MANIFEST's, else the file's, else a new one.
///
/// # Errors
/// I/O.
pub(crate) fn identity(
    fs: &dyn FileSystem,
    path: &Path,
    in_manifest: Option<&str>,
    exists: bool,
) -> Result<String> {
    if let Some(id) = in_manifest {
        return Ok(id.to_string());
    }
    let file = filename::identity_file(path);
    if exists && fs.exists(&file)? {
        let text = String::from_utf8_lossy(&fs.read_file(&file)?).trim().to_string();
        if !text.is_empty() {
            return Ok(text);
        }
    }
    Ok(new_db_id())
}

/// The host that properties of tables made with `options` name.
pub(crate) fn host_id(options: &DbOptions) -> String {
    match options.db_host_id.as_str() {
        HOST_NAME_PLACEHOLDER => pumice_port::os::hostname(),
        given => given.to_string(),
    }
}
