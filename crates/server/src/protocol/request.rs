//! Requests: RESP arrays of bulk strings, and inline commands (words on a line).
//!
//! The parser examines the bytes received so far and returns where the next command's arguments lie
//! in them; it remembers how far it got, so a request that arrives byte by byte is scanned once. An
//! announced length is only checked against the limits, never reserved: memory grows with the bytes
//! received.
//!
//! Invariants:
//! 1. `begun`, `at` and all ranges lie within the bytes that the last call was given; the caller
//!    removes bytes only as [`Parser::removed`] says.
//! 2. After an error the connection can no longer be parsed.
//!
//! Thread safety: plain data.

use std::ops::Range;

/// What a request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an inline command, and of the line that announces a length.
    pub inline_bytes: usize,
    /// Arguments of a request.
    pub arguments: usize,
    /// Bytes of one argument.
    pub bulk_bytes: usize,
    /// Bytes of all arguments of a request.
    pub request_bytes: usize,
    /// The client has not authenticated: the refusals have other texts.
    pub unauthenticated: bool,
}

impl Limits {
    /// As [`Limits::OPEN`], with this many bytes for one argument and twice as many for a request.
    pub const fn open(bulk_bytes: usize) -> Limits {
        Limits { bulk_bytes, request_bytes: bulk_bytes.saturating_mul(2), ..Limits::OPEN }
    }

    /// For clients that may talk to the database.
    pub const OPEN: Limits = Limits {
        inline_bytes: 64 << 10,
        arguments: 1 << 20,
        bulk_bytes: 512 << 20,
        request_bytes: 1 << 30,
        unauthenticated: false,
    };
    /// For clients that have not authenticated.
    pub const BEFORE_AUTH: Limits = Limits {
        arguments: 10,
        bulk_bytes: 16 << 10,
        request_bytes: 64 << 10,
        unauthenticated: true,
        ..Limits::OPEN
    };
}

/// Number of argument positions for which a parser keeps memory between requests.
const ARGUMENTS_KEPT: usize = 64;

/// Why a connection's bytes are malformed; the text that follows `ERR Protocol error: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl ProtocolError {
    fn new(text: impl Into<String>) -> ProtocolError {
        ProtocolError(text.into())
    }
}

/// Splits a connection's bytes into commands.
#[derive(Debug, Default)]
pub struct Parser {
    /// Everything before was parsed.
    at: usize,
    /// Where the command being parsed begins: everything before is finished.
    begun: usize,
    /// There is no line end before here.
    searched: usize,
    /// Arguments of the array that are still to come.
    missing: usize,
    /// Length of the bulk string that has been announced.
    bulk: Option<usize>,
    /// Sum of the announced arguments.
    announced_bytes: usize,
    /// Where the arguments lie.
    arguments: Vec<Range<usize>>,
    /// Words of an inline command with escapes, which are not contiguous in the input.
    words: Vec<Vec<u8>>,
    is_inline: bool,
}

impl Parser {
    /// A parser at the beginning of a connection.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Looks for a whole command at the front of `input`, which begins where the last one ended.
    /// True when there is one: [`Parser::arguments`] returns it, then [`Parser::next`] ends it.
    /// Empty requests are skipped.
    ///
    /// # Errors
    /// Bytes that are not a request, or exceed the limits.
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        loop {
            if self.missing == 0 && self.bulk.is_none() && self.arguments.is_empty() {
                let Some(&first) = input.get(self.at) else { return Ok(false) };
                if first != b'*' {
                    match self.inline(input, limits)? {
                        Some(true) => return Ok(true),
                        Some(false) => {
                            self.begun = self.at;
                            continue;
                        }
                        None => return Ok(false),
                    }
                }
                let Some(line) = self.line(input, limits, "too big mbulk count string")? else {
                    return Ok(false);
                };
                self.missing = count(&input[line.start + 1..line.end], limits)?;
                if self.missing == 0 {
                    self.begun = self.at;
                }
                continue;
            }
            if !self.bulks(input, limits)? {
                return Ok(false);
            }
            return Ok(true);
        }
    }

    /// Parses the announced arguments that have arrived. True when all have.
    fn bulks(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        while self.missing > 0 {
            let bytes = match self.bulk {
                Some(bytes) => bytes,
                None => {
                    let Some(line) = self.line(input, limits, "too big bulk count string")? else {
                        return Ok(false);
                    };
                    let bytes = bulk_length(&input[line], limits)?;
                    self.announced_bytes = self.announced_bytes.saturating_add(bytes);
                    if self.announced_bytes > limits.request_bytes {
                        return Err(ProtocolError::new("too big request"));
                    }
                    self.bulk = Some(bytes);
                    bytes
                }
            };
            if input.len() - self.at < bytes + 2 {
                return Ok(false);
            }
            self.arguments.push(self.at..self.at + bytes);
            self.at += bytes + 2;
            self.searched = self.at;
            self.bulk = None;
            self.missing -= 1;
        }
        Ok(true)
    }

    /// The line at `at` without its end, which is then passed.
    fn line(
        &mut self,
        input: &[u8],
        limits: &Limits,
        too_big: &str,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let from = self.searched.max(self.at);
        let Some(offset) = input[from..].iter().position(|&b| b == b'\r') else {
            if input.len() - self.at > limits.inline_bytes {
                return Err(ProtocolError::new(too_big));
            }
            self.searched = input.len();
            return Ok(None);
        };
        let end = from + offset;
        // The line feed must have arrived too; its value is not checked.
        if end + 1 >= input.len() {
            self.searched = end;
            return Ok(None);
        }
        let line = self.at..end;
        self.at = end + 2;
        self.searched = self.at;
        Ok(Some(line))
    }

    /// An inline command; Some(false) for an empty line.
    fn inline(&mut self, input: &[u8], limits: &Limits) -> Result<Option<bool>, ProtocolError> {
        let from = self.searched.max(self.at);
        let Some(offset) = input[from..].iter().position(|&b| b == b'\n') else {
            if input.len() - self.at > limits.inline_bytes {
                return Err(ProtocolError::new("too big inline request"));
            }
            self.searched = input.len();
            return Ok(None);
        };
        let end = from + offset;
        if end - self.at > limits.inline_bytes {
            return Err(ProtocolError::new("too big inline request"));
        }
        let line = &input[self.at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.words =
            split_words(line).ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        check_arguments(self.words.len(), limits)?;
        self.at = end + 1;
        self.searched = self.at;
        self.is_inline = !self.words.is_empty();
        Ok(Some(self.is_inline))
    }

    /// The arguments of the command that [`Parser::parse`] found in `input`.
    pub fn arguments<'a>(&'a self, input: &'a [u8], into: &mut Vec<&'a [u8]>) {
        if self.is_inline {
            into.extend(self.words.iter().map(Vec::as_slice));
        } else {
            into.extend(self.arguments.iter().map(|range| &input[range.clone()]));
        }
    }

    /// Where the arguments of that command lie in the input; None if they were typed as a line.
    pub fn ranges(&self) -> Option<&[Range<usize>]> {
        (!self.is_inline).then_some(&self.arguments)
    }

    /// In an input of this many bytes, nothing follows the command that [`Parser::parse`] found.
    pub fn is_all(&self, input_bytes: usize) -> bool {
        self.at == input_bytes
    }

    /// Ends the command.
    pub fn next(&mut self) {
        self.begun = self.at;
        self.arguments.clear();
        self.arguments.shrink_to(ARGUMENTS_KEPT);
        self.words.clear();
        self.announced_bytes = 0;
        self.is_inline = false;
    }

    /// How many bytes at the front of the input are finished, also while the next command is
    /// incomplete. The caller may remove them, and then calls [`Parser::removed`].
    pub fn done_bytes(&self) -> usize {
        self.begun
    }

    /// The caller removed [`Parser::done_bytes`] bytes.
    pub fn removed(&mut self) {
        let bytes = std::mem::take(&mut self.begun);
        if bytes == 0 {
            return;
        }
        self.at -= bytes;
        self.searched = self.searched.saturating_sub(bytes);
        for range in &mut self.arguments {
            *range = range.start - bytes..range.end - bytes;
        }
    }

    /// Bytes still missing of the argument being received: an upper bound for the room to make.
    pub fn lacking(&self, input_bytes: usize) -> usize {
        self.bulk.map_or(0, |bytes| (self.at + bytes + 2).saturating_sub(input_bytes))
    }
}

/// The second arguments, usually keys, of the commands at the front of `input`, as far as they are
/// short arrays that have arrived whole. Checks little: what it shows is only a hint.
pub struct KeysAhead<'a>(pub &'a [u8]);

/// Arguments of the longest command that [`KeysAhead`] shows.
const ARGUMENTS_AHEAD: usize = 5;

impl<'a> KeysAhead<'a> {
    /// The number after `mark`, and what follows its line.
    fn number(input: &'a [u8], mark: u8) -> Option<(usize, &'a [u8])> {
        const DIGITS: usize = 7;
        let (&first, input) = input.split_first()?;
        let end = input.iter().take(DIGITS + 1).position(|&b| b == b'\r')?;
        let mut number = 0;
        for &digit in &input[..end] {
            number = number * 10 + usize::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        }
        (first == mark).then_some((number, input.get(end + 2..)?))
    }
}

impl<'a> Iterator for KeysAhead<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let (count, mut rest) = Self::number(self.0, b'*')?;
        if !(2..=ARGUMENTS_AHEAD).contains(&count) {
            return None;
        }
        let mut key = &[][..];
        for number in 0..count {
            let (bytes, input) = Self::number(rest, b'$')?;
            rest = input.get(bytes + 2..)?;
            if number == 1 {
                key = &input[..bytes];
            }
        }
        self.0 = rest;
        Some(key)
    }
}

/// The number of an array's elements; an empty or null array is not a request.
fn count(digits: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let number = super::number::integer(digits);
    let number = number.filter(|&n| n <= 1 << 20);
    let number = number.ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
    let number = usize::try_from(number).unwrap_or(0);
    check_arguments(number, limits)?;
    Ok(number)
}

fn check_arguments(number: usize, limits: &Limits) -> Result<(), ProtocolError> {
    if number > limits.arguments {
        let text = match limits.unauthenticated {
            true => "unauthenticated multibulk length",
            false => "invalid multibulk length",
        };
        return Err(ProtocolError::new(text));
    }
    Ok(())
}

fn bulk_length(line: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let digits = match line.split_first() {
        Some((b'$', digits)) => digits,
        other => {
            let got = other.map_or('\r', |(&first, _)| char::from(first));
            return Err(ProtocolError::new(format!("expected '$', got '{got}'")));
        }
    };
    let number = super::number::integer(digits).and_then(|n| usize::try_from(n).ok());
    let number = number.filter(|&n| n <= Limits::OPEN.bulk_bytes);
    let number = number.ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
    if number > limits.bulk_bytes {
        let text = match limits.unauthenticated {
            true => "unauthenticated bulk length",
            false => "invalid bulk length",
        };
        return Err(ProtocolError::new(text));
    }
    Ok(number)
}

/// Words between blanks; `"..."` with escapes and `'...'` may hold blanks. None when quotes are
/// unbalanced, or directly followed by other bytes.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|b| b.is_ascii_whitespace() || *b == 0x0b) {
            at += 1;
        }
        match line.get(at) {
            None | Some(0) => return Some(words),
            Some(_) => words.push(word(line, &mut at)?),
        }
    }
}

fn word(line: &[u8], at: &mut usize) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    loop {
        match line.get(*at) {
            None | Some(0) => return Some(word),
            Some(&b) if b.is_ascii_whitespace() || b == 0x0b => return Some(word),
            Some(&quote @ (b'"' | b'\'')) => {
                *at += 1;
                quoted(line, at, quote, &mut word)?;
                let follows = line.get(*at);
                return match follows {
                    Some(b) if !b.is_ascii_whitespace() && *b != 0 => None,
                    _ => Some(word),
                };
            }
            Some(&b) => {
                word.push(b);
                *at += 1;
            }
        }
    }
}

/// The rest of a quoted word, its end included.
fn quoted(line: &[u8], at: &mut usize, quote: u8, word: &mut Vec<u8>) -> Option<()> {
    loop {
        let &byte = line.get(*at)?;
        *at += 1;
        if byte == quote {
            return Some(());
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        let next = line.get(*at).copied();
        if quote == b'\'' {
            if next == Some(b'\'') {
                word.push(b'\'');
                *at += 1;
            } else {
                word.push(b'\\');
            }
            continue;
        }
        let hex = |i: usize| line.get(i).and_then(|b| char::from(*b).to_digit(16));
        if let (Some(b'x'), Some(high), Some(low)) = (next, hex(*at + 1), hex(*at + 2)) {
            word.push((high * 16 + low) as u8);
            *at += 3;
            continue;
        }
        word.push(match next? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            other => other,
        });
        *at += 1;
    }
}
