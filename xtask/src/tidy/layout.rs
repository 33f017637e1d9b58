//! One layout of folders: a module with files of its own is `x/mod.rs`, never `x.rs` next to `x/`.
//! Programs of tests have a `main.rs` in a folder likewise.

use std::collections::BTreeSet;

use super::Violation;
use super::source::Source;

/// Reports each file next to a folder of its name that has Rust files.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| Some(source.path.rsplit_once('/')?.0)).collect();
    let beside = |path: &str| path.strip_suffix(".rs").is_some_and(|stem| has(&folders, stem));
    let wrong = sources.iter().filter(|source| beside(&source.path));
    let message = "a module with a folder is that folder's mod.rs (a program of tests its main.rs)";
    wrong.map(|source| Violation::new(source.path.clone(), message)).collect()
}

/// Whether `folder` or a folder in it is among `folders`.
fn has(folders: &BTreeSet<&str>, folder: &str) -> bool {
    let inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    folders.contains(folder)
        || folders.range(folder..).take_while(|path| path.starts_with(folder)).any(|p| inside(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(paths: &[&str]) -> usize {
        check(
            &paths
                .iter()
                .map(|path| Source { path: path.to_string(), text: String::new() })
                .collect::<Vec<_>>(),
        )
        .len()
    }

    #[test]
    fn a_file_next_to_its_folder_is_found() {
        assert_eq!(judge(&["crates/a/src/x.rs", "crates/a/src/x/y.rs"]), 1);
        assert_eq!(
            judge(&["crates/a/src/x.rs", "crates/a/src/x-y/z.rs", "crates/a/src/x/y/z.rs"]),
            1
        );
        assert_eq!(judge(&["crates/a/src/x/mod.rs", "crates/a/src/x/y.rs"]), 0);
        assert_eq!(judge(&["crates/a/src/x.rs", "crates/a/src/xy/z.rs"]), 0);
    }
}
