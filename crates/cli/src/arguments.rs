//! Command lines of the tools: `--name=value`, `--name`, and plain words.
//!
//! `--name value` is not a form these tools have. A value is looked up by name with its type;
//! undeclared options are refused.

use std::collections::BTreeMap;

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Arguments {
    /// `--name=value`; a bare `--name` has no value.
    options: BTreeMap<String, Option<String>>,
    /// Words without dashes, in order.
    pub words: Vec<String>,
}

impl Arguments {
    /// Splits `args`.
    pub fn parse(args: &[String]) -> Self {
        let mut parsed = Arguments::default();
        for arg in args {
            match arg.strip_prefix("--") {
                Some(option) => {
                    let (name, value) = match option.split_once('=') {
                        Some((name, value)) => (name, Some(value.to_string())),
                        None => (option, None),
                    };
                    parsed.options.insert(name.to_string(), value);
                }
                None => parsed.words.push(arg.clone()),
            }
        }
        parsed
    }

    /// The first option that is not in `known`, those with a value first: what it is called, which
    /// is "option", or "flag" without a value, and its name.
    pub fn first_unknown(&self, known: &[&str]) -> Option<(&'static str, &str)> {
        let mut unknown = self.options.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        let first = unknown.clone().find(|(_, value)| value.is_some()).or_else(|| unknown.next());
        first.map(|(name, value)| (if value.is_some() { "option" } else { "flag" }, name.as_str()))
    }

    /// The option was given, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// The option was given as `--name`, or with a true value.
    pub fn flag(&self, name: &str) -> bool {
        match self.options.get(name) {
            None => false,
            Some(None) => true,
            Some(Some(value)) => matches!(value.as_str(), "1" | "true" | "yes" | "t" | "y"),
        }
    }

    /// Name and value of the option, if the value says neither yes nor no.
    pub fn unclear<'a>(&'a self, name: &'a str) -> Option<(&'a str, &'a str)> {
        const CLEAR: &[&str] = &["1", "true", "yes", "t", "y", "0", "false", "no", "f", "n"];
        self.text(name).filter(|value| !CLEAR.contains(value)).map(|value| (name, value))
    }

    /// The value of the option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.as_deref()
    }

    /// The value of the option as a number, if it was given.
    ///
    /// # Errors
    /// It has no value, or one that is not such a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        match self.options.get(name) {
            None => Ok(None),
            Some(value) => match value.as_deref().map(str::parse) {
                Some(Ok(number)) => Ok(Some(number)),
                _ => Err(format!("{name} has an invalid value")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn options_flags_words() {
        let args = ["--db=a=b", "put", "--hex", "k", "--n=7", "--x=no", "-v"];
        let parsed = Arguments::parse(&args.map(String::from));
        assert_eq!(parsed.words, ["put", "k", "-v"]);
        assert_eq!(parsed.text("db"), Some("a=b"));
        assert!(parsed.flag("hex") && !parsed.flag("x") && parsed.has("x") && !parsed.flag("y"));
        assert_eq!(parsed.number::<u64>("n"), Ok(Some(7)));
        assert_eq!(parsed.number::<u64>("m"), Ok(None));
        assert_eq!(parsed.number::<u64>("hex"), Err("hex has an invalid value".into()));
        assert_eq!(parsed.first_unknown(&["db", "hex", "n"]), Some(("option", "x")));
        assert_eq!(parsed.first_unknown(&["db", "n", "x"]), Some(("flag", "hex")));
    }
}
