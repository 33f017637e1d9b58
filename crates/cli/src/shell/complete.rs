//! `pumice completions SHELL`: a script that completes commands and flags, from the tables.
//!
//! In bash `source <(pumice completions bash)`; in zsh a file `_pumice` in a directory of `$fpath`;
//! in fish a file `pumice.fish` in `~/.config/fish/completions`. The Debian package has all three
//! in their places. Words that are no flags are completed as files.
//!
//! Thread safety: plain functions.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use super::commands::SUBCOMMANDS;
use crate::arguments::Flag;
use crate::ldb;
use crate::nearest::hint;
use crate::output::Output;

pub const USAGE: &str = "\
pumice completions: prints a script that completes command lines

USAGE: pumice completions bash|zsh|fish

  bash   source <(pumice completions bash)
  zsh    pumice completions zsh > DIR/_pumice, with DIR in $fpath
  fish   pumice completions fish > ~/.config/fish/completions/pumice.fish
";

/// Makes the script of a shell.
type Script = fn() -> String;

const SHELLS: [(&str, Script); 3] = [("bash", bash), ("zsh", zsh), ("fish", fish)];

/// Runs the subcommand with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    let [word] = args else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if word == "--help" || word == "-h" {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((_, script)) = SHELLS.iter().find(|(name, _)| word == name) else {
        let near = hint(&word.to_string_lossy(), SHELLS.map(|(name, _)| name));
        eprintln!("pumice completions: there is no shell '{}'{near}\n\n{USAGE}", word.display());
        return ExitCode::FAILURE;
    };
    let mut out = Output::stdout();
    out.text(&script());
    match out.finish() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pumice completions: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What may follow: the name of a subcommand or of one of ldb's commands, and its words.
struct Place {
    /// The subcommand.
    command: &'static str,
    /// ldb's command, if it is one.
    of_ldb: Option<&'static str>,
    flags: Vec<Flag>,
}

/// All subcommands, and all commands of ldb.
fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for command in SUBCOMMANDS {
        let mut flags = (command.flags)();
        flags.push(Flag::long("help", false, "print the help text"));
        places.push(Place { command: command.name, of_ldb: None, flags });
    }
    for (name, flags) in ldb::commands_flags() {
        places.push(Place { command: "ldb", of_ldb: Some(name), flags });
    }
    places
}

/// Flags as shells complete them: those with a value end in `=`.
fn typed(flags: &[Flag]) -> String {
    let typed = flags.iter().map(|flag| {
        let is_long = flag.name.starts_with("--");
        format!("{}{}", flag.name, if flag.takes_value && is_long { "=" } else { "" })
    });
    typed.collect::<Vec<_>>().join(" ")
}

fn names() -> String {
    SUBCOMMANDS.iter().map(|command| command.name).collect::<Vec<_>>().join(" ")
}

fn ldb_names() -> String {
    ldb::commands_flags().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

/// The `case` of both shells: `words` becomes what may follow the command and ldb's command.
fn cases(into: &mut String) {
    for Place { command, of_ldb, flags } in places() {
        let pattern = match (command, of_ldb) {
            ("ldb", None) => "'ldb '*".to_string(),
            (command, None) => format!("'{command} '*"),
            (command, Some(name)) => format!("'{command} {name}'"),
        };
        let line = format!("        {pattern}) words+=' {}' ;;", typed(&flags));
        writeln!(into, "    case \"$command $below\" in\n{line}\n    esac")
            .expect("a String takes everything");
    }
}

fn bash() -> String {
    let mut text = String::from(
        "# bash completion for pumice; made by `pumice completions bash`.\n\
         _pumice() {\n\
         \x20   local cur=${COMP_LINE:0:COMP_POINT} command= below= words= word\n\
         \x20   cur=${cur##*[[:space:]]}\n\
         \x20   for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\
         \x20       case $word in\n\
         \x20           -*|=) ;;\n\
         \x20           *) if [[ -z $command ]]; then command=$word\n\
         \x20              elif [[ -z $below ]]; then below=$word; fi ;;\n\
         \x20       esac\n\
         \x20   done\n",
    );
    writeln!(
        text,
        "    if [[ -z $command ]]; then words='{} --help --version'; fi\n    \
         if [[ $command == ldb && -z $below ]]; then words='{}'; fi",
        names(),
        ldb_names()
    )
    .expect("a String takes everything");
    cases(&mut text);
    text.push_str(
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\
         \x20   if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi 2>/dev/null\n\
         }\n\
         complete -o default -F _pumice pumice\n",
    );
    text
}

fn zsh() -> String {
    let mut text = String::from(
        "#compdef pumice\n# zsh completion for pumice; made by `pumice completions zsh`.\n\
         _pumice() {\n\
         \x20   local command= below= words_= word\n\
         \x20   for word in \"${(@)words[2,CURRENT-1]}\"; do\n\
         \x20       case $word in\n\
         \x20           -*) ;;\n\
         \x20           *) if [[ -z $command ]]; then command=$word\n\
         \x20              elif [[ -z $below ]]; then below=$word; fi ;;\n\
         \x20       esac\n\
         \x20   done\n",
    );
    writeln!(
        text,
        "    if [[ -z $command ]]; then words_='{} --help --version'; fi\n    \
         if [[ $command == ldb && -z $below ]]; then words_='{}'; fi",
        names(),
        ldb_names()
    )
    .expect("a String takes everything");
    let mut tests = String::new();
    cases(&mut tests);
    // `words` is zsh's own: what was typed.
    text.push_str(&tests.replace("words+=", "words_+="));
    text.push_str(
        "    compadd -S '' -- ${(M)${=words_}:#*=}\n\
         \x20   compadd -- ${${=words_}:#*=}\n\
         \x20   _files\n\
         }\n\
         _pumice \"$@\"\n",
    );
    text
}

/// `text` in single quotes of fish.
fn fish_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', " "))
}

fn fish() -> String {
    let mut text =
        String::from("# fish completion for pumice; made by `pumice completions fish`.\n");
    let mut line = |condition: &str, rest: String| {
        writeln!(text, "complete -c pumice -n {} {rest}", fish_quoted(condition))
            .expect("a String takes everything");
    };
    for command in SUBCOMMANDS {
        let rest = format!("-f -a {} -d {}", command.name, fish_quoted(command.summary));
        line("__fish_use_subcommand", rest);
    }
    for Place { command, of_ldb, flags } in places() {
        let seen = format!("__fish_seen_subcommand_from {command}");
        let condition = match of_ldb {
            None => seen,
            Some(name) => {
                let all = ldb_names();
                let none = format!("{seen}; and not __fish_seen_subcommand_from {all}");
                line(&none, format!("-f -a {name}"));
                format!("{seen}; and __fish_seen_subcommand_from {name}")
            }
        };
        for flag in flags {
            let bare = flag.name.trim_start_matches('-');
            let kind = if flag.name.starts_with("--") { "-l" } else { "-s" };
            let value = if flag.takes_value { " -r" } else { "" };
            let meaning = match flag.meaning.is_empty() {
                true => String::new(),
                false => format!(" -d {}", fish_quoted(&flag.meaning)),
            };
            line(&condition, format!("{kind} {bare}{value}{meaning}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn every_command_and_flag_is_in_every_script() {
        let scripts = [bash(), zsh(), fish()];
        for Place { command, of_ldb, flags } in places() {
            for script in &scripts {
                assert!(script.contains(command));
                assert!(script.contains(of_ldb.unwrap_or_default()));
            }
            for flag in flags {
                let bare = flag.name.trim_start_matches('-');
                assert!(scripts[0].contains(&flag.name) && scripts[1].contains(&flag.name));
                assert!(scripts[2].contains(&format!(" {bare}")), "{bare}");
            }
        }
        assert_eq!(fish_quoted("a'b\\"), "'a\\'b\\\\'");
    }
}
