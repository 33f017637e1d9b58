//! Where replies end, in RESP2 and RESP3.
//!
//! Thread safety: plain functions.

/// A reply that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The length of the reply in bytes.
    pub bytes: usize,
    /// The reply is an error.
    pub is_error: bool,
}

/// The reply at the front of `bytes`; None when more has to come.
///
/// # Errors
/// Bytes that are not a reply, in words.
pub fn first(bytes: &[u8]) -> Result<Option<Whole>, String> {
    let (mut at, mut missing) = (0, 1_u64);
    while missing > 0 {
        missing -= 1;
        let Some(line) = line(&bytes[at..]) else { return Ok(None) };
        let Some((kind, rest)) = line.split_first() else { return Err("an empty line".into()) };
        at += line.len() + 2;
        let announced = || {
            let number = std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok());
            let number = number.filter(|n| *n <= 1 << 30);
            number.ok_or_else(|| format!("'{}' is not a length", String::from_utf8_lossy(rest)))
        };
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'=' | b'!' => match u64::try_from(announced()?) {
                Ok(length) => at += length as usize + 2,
                Err(_) => continue,
            },
            b'*' | b'~' | b'>' => missing += u64::try_from(announced()?).unwrap_or(0),
            b'%' => missing += 2 * u64::try_from(announced()?).unwrap_or(0),
            other => return Err(format!("'{}' begins no reply", char::from(*other))),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(Whole { bytes: at, is_error: matches!(bytes.first(), Some(b'-' | b'!')) }))
}

/// The line at the front without its end.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\r')?;
    (end + 1 < bytes.len()).then_some(&bytes[..end])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can wait.
    #[test]
    fn a_reply_ends_where_it_ends() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":7\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$5\r\na\r\nbc\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*3\r\n$1\r\na\r\n$-1\r\n*1\r\n:1\r\n",
            "%1\r\n+a\r\n*1\r\n_\r\n",
        ] {
            let bytes = format!("{reply}+next\r\n");
            let is_error = reply.starts_with('-');
            let whole = Whole { bytes: reply.len(), is_error };
            assert_eq!(first(bytes.as_bytes()), Ok(Some(whole)), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(first(&bytes.as_bytes()[..cut]), Ok(None), "{reply:?} up to {cut}");
            }
        }
        assert!(first(b"hello\r\n").unwrap_err().contains("'h' begins no reply"));
        assert!(first(b"$x\r\n").unwrap_err().contains("'x' is not a length"));
    }
}
