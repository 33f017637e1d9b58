//! What a write's options are refused for, out of the way of those that are taken.
//!
//! Thread safety: pure functions.

use pumice_base::{Error, Result};
use pumice_env::IoPriority;

use crate::options::requests::WriteOptions;
use crate::state::parts::Settings;

#[cold]
pub(crate) fn needs_wal(options: &WriteOptions) -> Error {
    Error::invalid_argument(if options.sync {
        "Sync writes has to enable WAL."
    } else {
        "WriteOptions::disableWAL option is not supported if DBOptions::recycle_log_file_num > 0"
    })
}

/// RocksDB's rules for `rate_limiter_priority`.
#[cold]
pub(crate) fn check_pace(
    settings: &Settings,
    options: &WriteOptions,
    priority: IoPriority,
) -> Result<()> {
    if priority != IoPriority::User {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER \
             due to implementation constraints",
        ));
    }
    if options.disable_wal || settings.options.load().manual_wal_flush {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority currently only supports rate-limiting \
             automatic WAL flush, which requires `WriteOptions::disableWAL` and \
             `DBOptions::manual_wal_flush` both set to false",
        ));
    }
    Ok(())
}
