//! A client: commands out, replies in. A reply that is not well-formed is an error.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

use super::PATIENCE;

/// A reply of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Simple and bulk strings, doubles, booleans, large numbers.
    Text(Vec<u8>),
    Error(String),
    Number(i64),
    Nothing,
    /// Arrays, sets, messages; maps as keys and values in turn.
    List(Vec<Value>),
}

/// As tests compare it: elements between blanks, lists in brackets.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{}", String::from_utf8_lossy(text)),
            Value::Error(text) => write!(f, "-{text}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Nothing => write!(f, "nil"),
            Value::List(values) => {
                let values: Vec<_> = values.iter().map(Value::to_string).collect();
                write!(f, "[{}]", values.join(" "))
            }
        }
    }
}

impl Value {
    /// The elements of a list.
    pub fn list(self) -> Vec<Value> {
        match self {
            Value::List(values) => values,
            other => panic!("no list: {other}"),
        }
    }
}

/// No reply is nested deeper.
const DEPTH: usize = 32;

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("no RESP: {what}"))
}

/// Reads one reply.
pub fn read_value(from: &mut impl BufRead, depth: usize) -> io::Result<Value> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let shown = String::from_utf8_lossy(&line).into_owned();
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(if line.ends_with(b"\n") {
            bad(&shown)
        } else {
            ErrorKind::UnexpectedEof.into()
        });
    };
    let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line"))?;
    let number = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok());
    let number = || number().ok_or_else(|| bad(&shown));
    if depth > DEPTH {
        return Err(bad("too deep"));
    }
    let mut elements = |count: i64| -> io::Result<Value> {
        (0..count).map(|_| read_value(from, depth + 1)).collect::<io::Result<_>>().map(Value::List)
    };
    match kind {
        b'+' | b',' | b'#' | b'(' => Ok(Value::Text(rest.to_vec())),
        b'-' => Ok(Value::Error(String::from_utf8_lossy(rest).into_owned())),
        b':' => number().map(Value::Number),
        b'_' => Ok(Value::Nothing),
        b'$' | b'=' => match number()? {
            -1 => Ok(Value::Nothing),
            len @ 0.. => {
                let mut text = vec![0; len as usize + 2];
                from.read_exact(&mut text)?;
                let text = text.strip_suffix(b"\r\n").ok_or_else(|| bad("the end of a string"))?;
                // A verbatim string names its kind first.
                let skipped = if *kind == b'=' { 4 } else { 0 };
                Ok(Value::Text(text.get(skipped..).ok_or_else(|| bad(&shown))?.to_vec()))
            }
            _ => Err(bad(&shown)),
        },
        b'*' | b'~' | b'>' => match number()? {
            -1 => Ok(Value::Nothing),
            count @ 0.. => elements(count),
            _ => Err(bad(&shown)),
        },
        b'%' => match number()? {
            count @ 0.. => elements(count * 2),
            _ => Err(bad(&shown)),
        },
        _ => Err(bad(&shown)),
    }
}

/// A command as clients send it.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend(arg.as_ref());
        bytes.extend(b"\r\n");
    }
    bytes
}

/// The words of a line as a command.
pub fn encode_line(line: &str) -> Vec<u8> {
    encode(&line.split_whitespace().collect::<Vec<_>>())
}

/// A connection that waits a bounded time.
pub struct Client {
    pub reader: BufReader<TcpStream>,
}

impl Client {
    pub fn to(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client { reader: BufReader::new(stream) })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    pub fn receive(&mut self) -> io::Result<Value> {
        read_value(&mut self.reader, 0)
    }

    /// The reply to a command given as words separated by blanks.
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(&encode_line(line)).unwrap();
        self.receive().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// As [`Client::ask`], as text.
    pub fn say(&mut self, line: &str) -> String {
        self.ask(line).to_string()
    }

    /// Reads until the server has hung up.
    pub fn until_closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("it has not hung up: {error}"),
        }
    }
}
