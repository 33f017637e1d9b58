//! The docs name files that exist: each `crates/...`, `tests/...`, `xtask/...` or `docs/...`
//! path between backticks, and each relative link, in the Markdown files at the top and in docs/.

use std::path::Path;

use super::Violation;

/// Reports what the docs name and is not there.
pub fn check(root: &Path) -> std::io::Result<Vec<Violation>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(name);
        }
    }
    super::list_files(root, "docs", ".md", &mut pages)?;
    pages.sort();
    let mut violations = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(&page))?;
        for (index, line) in text.lines().enumerate() {
            let named = code_paths(line).map(|path| root.join(path));
            let folder = root.join(&page).parent().map(Path::to_path_buf).unwrap_or_default();
            let linked = links(line).map(|link| folder.join(link));
            for path in named.chain(linked).filter(|path| !path.exists()) {
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                let place = format!("{page}:{}", index + 1);
                violations.push(Violation::new(place, format!("there is no {path}")));
            }
        }
    }
    Ok(violations)
}

fn code_paths(line: &str) -> impl Iterator<Item = &str> {
    const TOPS: [&str; 4] = ["crates/", "tests/", "xtask/", "docs/"];
    let between = line.split('`').skip(1).step_by(2);
    between.filter(|text| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        plain && TOPS.iter().any(|top| text.starts_with(top))
    })
}

/// Targets of `[text](target)` that are files of this repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_are_found() {
        let line = "see `crates/wal/src/lib.rs`, `cargo test`, [a](docs/x.md#y), [b](https://z)";
        assert_eq!(code_paths(line).collect::<Vec<_>>(), ["crates/wal/src/lib.rs"]);
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/x.md"]);
    }
}
