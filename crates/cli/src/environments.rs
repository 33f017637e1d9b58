//! `--env_uri` and `--fs_uri` of RocksDB's tools: which environment or file system to use. There is
//! the operating system's alone, under the names that RocksDB has for it.
//!
//! Thread safety: pure functions.

/// RocksDB's names of the operating system's environment and file system, and of the default.
const NAMES: [&str; 6] =
    ["posix", "default", "PosixEnv", "DefaultEnv", "PosixFileSystem", "DefaultFileSystem"];

/// Checks what was given.
///
/// # Errors
/// Both were given, in RocksDB's words, or a name of something else.
pub fn check(env: Option<&str>, fs: Option<&str>) -> Result<(), String> {
    let given = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_string);
    match (given(env), given(fs)) {
        (Some(_), Some(_)) => {
            Err("Invalid argument: cannot specify both fs_uri and env_uri".to_string())
        }
        (Some(name), None) => registered("environment", &name),
        (None, Some(name)) => registered("file system", &name),
        (None, None) => Ok(()),
    }
}

fn registered(kind: &str, name: &str) -> Result<(), String> {
    let id = name.strip_prefix("id=").unwrap_or(name);
    match NAMES.iter().any(|known| known.eq_ignore_ascii_case(id)) {
        true => Ok(()),
        false => Err(format!("Invalid argument: no {kind} is registered as '{name}', only posix")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    // Plain #[test]: nothing in it waits.
    #[test]
    fn the_systems_own_is_there_under_its_names() {
        for name in ["", "posix", "PosixEnv", "id=PosixFileSystem", "default"] {
            assert_eq!(check(Some(name), None), Ok(()), "{name}");
            assert_eq!(check(None, Some(name)), Ok(()), "{name}");
        }
        assert!(check(Some("mem"), Some("")).is_err_and(|error| error.contains("'mem'")));
        assert!(check(None, Some("hdfs://x")).is_err_and(|error| error.contains("file system")));
        assert!(check(Some("posix"), Some("posix")).is_err_and(|error| error.contains("both")));
    }
}
