//! JSON, as much as the report needs: a value, its text, and back.
//!
//! Objects keep the order of their members. Numbers are 64-bit floats; one that JSON cannot write
//! (not a number, infinite) becomes null.
//!
//! Thread safety: plain data. It does not read numbers beyond a float's precision exactly.

use std::fmt::Write;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// Members in their order.
    Object(Vec<(String, Json)>),
}

/// Values in values, at most: what is read may be damaged.
const DEPTH_MAX: usize = 64;

impl Json {
    /// Text.
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// An object.
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.map(|(name, value)| (name.to_string(), value)).into())
    }

    /// The member of that name, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => {
                members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The text, if this is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements; none if this is no array.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    /// The members; none if this is no object.
    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) if number.is_finite() => {
                // A String takes all.
                write!(out, "{number}").unwrap_or_default();
            }
            Json::Number(_) => out.push_str("null"),
            Json::Text(text) => write_text(out, text),
            Json::List(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (number, (name, value)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    write_text(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Reads one value that is the whole text.
    ///
    /// # Errors
    /// What is wrong, with its place in bytes.
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        if reader.at < reader.bytes.len() {
            Err(reader.wrong("something follows"))
        } else {
            Ok(value)
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // `<` as a number, so that the text can stand in a page's script.
            letter if letter < ' ' || letter == '<' => {
                write!(out, "\\u{:04x}", u32::from(letter)).unwrap_or_default();
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("JSON, byte {}: {what}", self.at)
    }

    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Takes `word` if it comes next.
    fn takes(&mut self, word: &str) -> bool {
        let comes = self.bytes[self.at..].starts_with(word.as_bytes());
        if comes {
            self.at += word.len();
        }
        comes
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("too deep"));
        }
        self.blanks();
        for (word, value) in
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.takes(word) {
                return Ok(value);
            }
        }
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'[') => self.list(depth),
            Some(b'{') => self.members(depth),
            Some(_) => self.number(),
            None => Err(self.wrong("it ends too early")),
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let len = rest.iter().take_while(is_part).count();
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let number = text.parse().map_err(|_| self.wrong("no value"))?;
        self.at += len;
        Ok(Json::Number(number))
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.takes("]") {
                return Ok(Json::List(items));
            }
            if !items.is_empty() && !self.takes(",") {
                return Err(self.wrong("',' or ']' is missing"));
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn members(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.blanks();
            if self.takes("}") {
                return Ok(Json::Object(members));
            }
            if !members.is_empty() && !self.takes(",") {
                return Err(self.wrong("',' or '}' is missing"));
            }
            self.blanks();
            let name = self.string()?;
            self.blanks();
            if !self.takes(":") {
                return Err(self.wrong("':' is missing"));
            }
            members.push((name, self.value(depth + 1)?));
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.takes("\"") {
            return Err(self.wrong("'\"' is missing"));
        }
        let mut bytes = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.wrong("a text has no end"))?;
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    let letter = self.escape()?;
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).map_err(|_| self.wrong("a text is not UTF-8"))
    }

    fn escape(&mut self) -> Result<char, String> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.wrong("a text has no end"))?;
        self.at += 1;
        Ok(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'"' | b'\\' | b'/' => char::from(byte),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4);
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                self.at += 4;
                number.and_then(char::from_u32).ok_or_else(|| self.wrong("no letter"))?
            }
            _ => return Err(self.wrong("an escape that is not known")),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can wait.
    #[test]
    fn values_come_back() {
        let value = Json::object([
            ("a", Json::List(vec![Json::Null, Json::Bool(true), Json::Number(-1.5e-3)])),
            ("b \"\\\n", Json::text("<é\u{1}>")),
            ("c", Json::object([])),
            ("d", Json::Number(12_345_678.0)),
        ]);
        let line = value.line();
        assert_eq!(Json::parse(&line), Ok(value.clone()));
        assert!(!line.contains('<') && !line.contains('\n') && line.contains("12345678"));
        assert_eq!(value.get("a").unwrap().items()[2].as_number(), Some(-0.0015));
        assert_eq!(Json::Number(f64::NAN).line(), "null");
        assert_eq!(Json::parse(" [ 1 , {\"x\" : \"\\u0041\\/\"} ] ").unwrap().items().len(), 2);
    }

    // Plain #[test]: nothing here can wait.
    #[test]
    fn damage_is_an_error() {
        let whole = Json::object([("a", Json::List(vec![Json::Number(1.0), Json::text("x\\")]))]);
        let line = whole.line();
        for end in 0..line.len() {
            assert!(Json::parse(&line[..end]).is_err(), "{}", &line[..end]);
        }
        for bad in ["", "{1:2}", "[1 2]", "\"\\q\"", "\"\\u12\"", "1 1", "nul", "--", "{\"a\" 1}"] {
            assert!(Json::parse(bad).unwrap_err().starts_with("JSON, byte "), "{bad}");
        }
        assert!(Json::parse(&"[".repeat(100_000)).unwrap_err().contains("too deep"));
    }
}
