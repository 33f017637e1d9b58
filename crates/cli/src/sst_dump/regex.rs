//! Regular expressions as egrep has them, for texts of some thousand bytes: `.`, sets, `^`, `$`, groups,
//! `|`, `*`, `+`, `?`, `{m,n}`, `\\x` for a plain x. No classes such as `[:digit:]`, no references.
//!
//! A search tries one way after the other, so that some expressions take exponential time; who
//! writes one is who waits. Thread safety: plain data.

/// An expression.
#[derive(Debug)]
pub struct Regex(Vec<Vec<Node>>);

#[derive(Clone, Debug)]
enum Node {
    Char(char),
    Any,
    /// Characters in one of the ranges; with true those in none.
    Set(bool, Vec<(char, char)>),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    /// At least and at most so many.
    Repeat(Box<Node>, usize, usize),
}

impl Regex {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Regex, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0 };
        let found = parser.alternatives();
        match found {
            Ok(alternatives) if parser.at == chars.len() => Ok(Regex(alternatives)),
            Ok(_) => Err(format!("regular expression '{text}': ')' without '('")),
            Err(what) => Err(format!("regular expression '{text}': {what}")),
        }
    }

    /// Some part of `text` matches.
    pub fn is_found_in(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        (0..=chars.len()).any(|at| any_of(&self.0, &chars, at, &mut |_| true))
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn next(&mut self, what: &'static str) -> Result<char, &'static str> {
        let next = self.peek().ok_or(what)?;
        self.at += 1;
        Ok(next)
    }

    fn alternatives(&mut self) -> Result<Vec<Vec<Node>>, &'static str> {
        let mut all = vec![self.sequence()?];
        while self.take('|') {
            all.push(self.sequence()?);
        }
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Vec<Node>, &'static str> {
        let mut nodes = Vec::new();
        while self.peek().is_some_and(|next| next != '|' && next != ')') {
            let mut node = self.one()?;
            while let Some((least, most)) = self.times()? {
                node = Node::Repeat(Box::new(node), least, most);
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn one(&mut self) -> Result<Node, &'static str> {
        Ok(match self.next("it ends too early")? {
            '.' => Node::Any,
            '^' => Node::Start,
            '$' => Node::End,
            '[' => self.set()?,
            '\\' => Node::Char(self.next("a backslash at the end")?),
            '*' | '+' | '?' | '{' => return Err("nothing to repeat"),
            '(' => {
                let inside = self.alternatives()?;
                if !self.take(')') {
                    return Err("'(' without ')'");
                }
                Node::Group(inside)
            }
            plain => Node::Char(plain),
        })
    }

    /// The set behind its `[`. A `]` that comes first is one of its characters.
    fn set(&mut self) -> Result<Node, &'static str> {
        const OPEN: &str = "'[' without ']'";
        let is_negated = self.take('^');
        let mut ranges = Vec::new();
        while ranges.is_empty() || self.peek() != Some(']') {
            let first = self.next(OPEN)?;
            if first == '[' && matches!(self.peek(), Some(':' | '.' | '=')) {
                return Err("classes in sets are not supported");
            }
            let is_range = self.peek() == Some('-')
                && self.chars.get(self.at + 1).is_some_and(|end| *end != ']');
            let last = if is_range {
                self.at += 1;
                self.next(OPEN)?
            } else {
                first
            };
            if last < first {
                return Err("a range that ends before it begins");
            }
            ranges.push((first, last));
        }
        self.at += 1;
        Ok(Node::Set(is_negated, ranges))
    }

    /// How often what stands before may come, if that is said.
    fn times(&mut self) -> Result<Option<(usize, usize)>, &'static str> {
        let times = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                self.at += 1;
                return self.bounds().map(Some);
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(times))
    }

    fn bounds(&mut self) -> Result<(usize, usize), &'static str> {
        const WRONG: &str = "'{' without m}, m,} or m,n}";
        let mut text = String::new();
        while !self.take('}') {
            text.push(self.next(WRONG)?);
        }
        let number = |text: &str| text.parse::<usize>().map_err(|_| WRONG);
        let (least, most) = match text.split_once(',') {
            None => (number(&text)?, number(&text)?),
            Some((least, "")) => (number(least)?, usize::MAX),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        if least > most { Err(WRONG) } else { Ok((least, most)) }
    }
}

/// One of the alternatives matches at `at`, and `then` what follows it.
fn any_of(
    all: &[Vec<Node>],
    text: &[char],
    at: usize,
    then: &mut dyn FnMut(usize) -> bool,
) -> bool {
    all.iter().any(|nodes| in_order(nodes, text, at, then))
}

fn in_order(nodes: &[Node], text: &[char], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
    match nodes.split_first() {
        None => then(at),
        Some((first, rest)) => one(first, text, at, &mut |next| in_order(rest, text, next, then)),
    }
}

fn one(node: &Node, text: &[char], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
    let found = |accepts: &dyn Fn(char) -> bool| text.get(at).is_some_and(|c| accepts(*c));
    match node {
        Node::Char(wanted) => found(&|c| c == *wanted) && then(at + 1),
        Node::Any => found(&|_| true) && then(at + 1),
        Node::Set(is_negated, ranges) => {
            let is_in = |c| ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
            found(&|c| is_in(c) != *is_negated) && then(at + 1)
        }
        Node::Start => at == 0 && then(at),
        Node::End => at == text.len() && then(at),
        Node::Group(all) => any_of(all, text, at, then),
        Node::Repeat(node, least, most) => repeated(node, (*least, *most), text, at, then),
    }
}

fn repeated(
    node: &Node,
    (least, most): (usize, usize),
    text: &[char],
    at: usize,
    then: &mut dyn FnMut(usize) -> bool,
) -> bool {
    let left = (least.saturating_sub(1), most.saturating_sub(1));
    // A part that takes nothing is not repeated for ever.
    let more = most > 0
        && one(node, text, at, &mut |next| {
            (next > at || least > 0) && repeated(node, left, text, next, then)
        });
    more || (least == 0 && then(at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn expressions_find_what_egrep_finds() {
        for (expression, text, expected) in [
            ("", "", true),
            ("algo: ZSTD", "# SST file compression algo: ZSTD\n", true),
            ("algo: (LZ4|ZSTD)", "compression algo: LZ4HC", true),
            ("algo: (LZ4|ZSTD)$", "compression algo: LZ4HC", false),
            ("^a.c$", "abc", true),
            ("^a.c$", "abcd", false),
            ("ab*c", "ac", true),
            ("ab+c", "ac", false),
            ("ab?c", "abbc", false),
            ("entries: [1-9][0-9]*", "# entries: 0", false),
            ("entries: [1-9][0-9]*", "# entries: 30", true),
            ("x[^a-c]y", "xby xdy", true),
            ("[]x-]+z", "]-xz", true),
            ("^(ab){2,3}$", "ababab", true),
            ("^(ab){2,3}$", "abababab", false),
            ("^a{2}$", "aa", true),
            ("^a{2,}$", "a", false),
            ("(a*)*b", "aaac", false),
            ("a\\.b", "axb", false),
            ("a\\.b", "a.b", true),
            ("a|", "b", true),
        ] {
            let regex = Regex::parse(expression).unwrap();
            assert_eq!(regex.is_found_in(text), expected, "{expression} in {text}");
        }
        for wrong in
            ["(", ")", "a)", "*a", "[", "[a", "[b-a]", "a{", "a{x}", "a{2,1}", "[[:digit:]]", "\\"]
        {
            assert!(Regex::parse(wrong).is_err(), "{wrong}");
        }
    }
}
