//! Builds test programs and finds them: `cargo test --no-run` reports each in a line of JSON.
//!
//! Thread safety: plain functions. cargo itself lets one build at a time into a target folder and
//! profile; a second one waits inside cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One program of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub package: String,
    /// `PACKAGE::TARGET`.
    pub name: String,
    pub path: PathBuf,
    /// The package's folder, where cargo runs its tests.
    pub folder: PathBuf,
}

impl Program {
    /// What cargo would run.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // Tests of a procedural macro load the compiler's own libraries.
        if let Some(libraries) = compiler_libraries() {
            let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let all = std::iter::once(libraries).chain(std::env::split_paths(&own));
            if let Ok(value) = std::env::join_paths(all) {
                command.env("LD_LIBRARY_PATH", value);
            }
        }
        command
    }
}

fn compiler_libraries() -> Option<PathBuf> {
    static FOUND: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let find = || {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        Some(PathBuf::from(path.trim()).join("lib"))
    };
    FOUND.get_or_init(find).clone()
}

/// `cargo ARGS` in `root`.
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    command
}

/// The folder of build output.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// Makes `command` (a `cargo test`) only build, and report the programs.
pub fn only_build(command: &mut Command) -> &mut Command {
    command.args(["--no-run", "--message-format=json-render-diagnostics"])
}

/// Splits the output of such a command: the programs, and the messages for people.
pub fn programs(output: &str) -> (Vec<Program>, String) {
    let (mut found, mut words) = (Vec::new(), String::new());
    for line in output.lines() {
        if line.starts_with("{\"reason\":") {
            found.extend(program(line));
        } else {
            words.push_str(line);
            words.push('\n');
        }
    }
    (found, words)
}

/// Reads the line of one artifact; None when it is not a test program.
fn program(line: &str) -> Option<Program> {
    if text(line, "reason")? != "compiler-artifact" {
        return None;
    }
    let (_, profile) = line.split_once("\"profile\":{")?;
    if !profile.split_once('}')?.0.contains("\"test\":true") {
        return None;
    }
    let path = PathBuf::from(text(line, "executable")?);
    let folder = PathBuf::from(text(line, "manifest_path")?).parent()?.to_path_buf();
    // `path+file:///folder#name@0.1.0`, without the name where the folder has it.
    let id = text(line, "package_id")?;
    let (place, version) = id.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name.to_string(),
        None => place.rsplit('/').next()?.to_string(),
    };
    let (_, target) = line.split_once("\"target\":{")?;
    let name = format!("{package}::{}", text(target, "name")?);
    Some(Program { package, name, path, folder })
}

/// The string value of the first `"key":"..."`; None where the value is not a string.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":"))?;
    let mut characters = rest.strip_prefix('"')?.chars();
    let mut value = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            // Paths have no escapes other than quotes and backslashes.
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACT: &str = concat!(
        r#"{"reason":"compiler-artifact","#,
        r#""package_id":"path+file:///w/crates/base#pumice-base@0.1.0","#,
        r#""manifest_path":"/w/crates/base/Cargo.toml","target":{"kind":["lib"],"#,
        r#""crate_types":["lib"],"name":"pumice_base","test":true},"#,
        r#""profile":{"opt_level":"1","test":TEST},"features":[],"filenames":["/w/t/x"],"#,
        r#""executable":EXE,"fresh":true}"#
    );

    fn line(test: &str, executable: &str) -> String {
        ARTIFACT.replace("TEST", test).replace("EXE", executable)
    }

    #[test]
    fn test_programs_are_recognised() {
        let output = [
            "   Compiling pumice-base".to_string(),
            line("true", "\"/w/t/deps/pumice_base-1\""),
            line("false", "\"/w/t/pumice\""),
            line("false", "null"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_string(),
        ];
        let (found, words) = programs(&output.join("\n"));
        let wanted = Program {
            package: "pumice-base".to_string(),
            name: "pumice-base::pumice_base".to_string(),
            path: "/w/t/deps/pumice_base-1".into(),
            folder: "/w/crates/base".into(),
        };
        assert_eq!(found, [wanted]);
        assert_eq!(words, "   Compiling pumice-base\n");
    }

    #[test]
    fn packages_are_named_as_their_folders_where_the_id_has_no_name() {
        let line = line("true", "\"/x\"").replace("crates/base#pumice-base@0.1.0", "xtask#0.1.0");
        assert_eq!(programs(&line).0[0].name, "xtask::pumice_base");
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(text(r#"{"a":null,"b":"x\"y\\"}"#, "b").as_deref(), Some("x\"y\\"));
        assert_eq!(text(r#"{"a":null,"b":"x"}"#, "a"), None);
    }
}
