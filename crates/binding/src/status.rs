//! Texts of errors as RocksDB's C interface gives them, where they differ from the engine's.
//!
//! Thread safety: pure functions.

use pumice::{Error, ErrorKind, SubCode};

/// The text of `error` for a program.
pub fn text(error: &Error) -> String {
    // The engine names the operator behind the subcode; RocksDB says no more than this.
    if error.kind() == ErrorKind::Corruption && error.subcode() == SubCode::MergeOperatorFailed {
        return "Corruption: Merge operator failed".to_string();
    }
    error.to_string()
}

/// The error of a write: RocksDB puts single writes into batches, and finds a column family that is
/// gone when it inserts them.
pub fn of_write(error: Error) -> Error {
    match error.kind() {
        ErrorKind::ColumnFamilyDropped => {
            Error::invalid_argument("Invalid column family specified in write batch")
        }
        _ => error,
    }
}

/// The error of an open: RocksDB does not say which file names the comparator.
pub fn of_open(error: Error) -> Error {
    let message = error.message();
    let Some((file, _)) = message.split_once(" does not match existing comparator ") else {
        return error;
    };
    let Some(at) = file.find("MANIFEST-").and_then(|at| Some(at + file[at..].find(": ")? + 2))
    else {
        return error;
    };
    Error::new(error.kind(), &message[at..])
}

/// The error without the engine's explanation, where RocksDB has none.
pub fn without_message(error: Error) -> Error {
    Error::new(error.kind(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_rocksdb() {
        let failed = Error::corruption("by X").with_subcode(SubCode::MergeOperatorFailed);
        assert_eq!(text(&failed), "Corruption: Merge operator failed");
        assert_eq!(text(&Error::busy("locked")), "Resource busy: locked");
        let dropped = of_write(Error::column_family_dropped("cf"));
        let wanted = "Invalid argument: Invalid column family specified in write batch";
        assert_eq!(text(&dropped), wanted);
        assert_eq!(text(&of_write(Error::busy("x"))), "Resource busy: x");
        let rest = "a: does not match existing comparator b";
        let other = of_open(Error::invalid_argument(format!("/db/MANIFEST-000002: {rest}")));
        assert_eq!(text(&other), format!("Invalid argument: {rest}"));
        assert_eq!(text(&of_open(Error::busy("x"))), "Resource busy: x");
        assert_eq!(text(&without_message(Error::not_found("Backup not found"))), "NotFound: ");
    }
}
