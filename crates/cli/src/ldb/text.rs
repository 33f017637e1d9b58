//! Keys and values as text: plain, or `0x` and upper-case hexadecimal digits.

use super::Failure;

/// The bytes that `text` means.
///
/// # Errors
/// `hex` is wanted, and `text` is not `0x` with an even number of hexadecimal digits.
pub fn parse(text: &str, hex: bool) -> Result<Vec<u8>, Failure> {
    if !hex {
        return Ok(text.as_bytes().to_vec());
    }
    let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        return Err(format!("Invalid hex input {text}.  Must start with 0x"));
    };
    let nibble = |digit: u8| (digit as char).to_digit(16);
    let bytes: Option<Vec<u8>> = match digits.len() % 2 {
        0 => digits
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| Some((nibble(pair[0])? * 16 + nibble(pair[1])?) as u8))
            .collect(),
        _ => None,
    };
    bytes.ok_or_else(|| format!("Invalid hex input {text}.  It needs pairs of hexadecimal digits"))
}

/// `bytes` for people.
pub fn show(bytes: &[u8], hex: bool) -> Vec<u8> {
    if !hex {
        return bytes.to_vec();
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(2 + bytes.len() * 2);
    out.extend_from_slice(b"0x");
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_ways() {
        assert_eq!(parse("0x00fFa1", true).unwrap(), [0, 255, 0xa1]);
        assert_eq!(show(&[0, 255, 0xa1], true), b"0x00FFA1");
        assert_eq!(parse("0x61", false).unwrap(), b"0x61");
        for wrong in ["61", "0x6", "0xzz", "0x+1", ""] {
            assert!(parse(wrong, true).is_err(), "{wrong}");
        }
    }
}
