//! What a database holds, column family by column family, as a value and as bytes.
//!
//! Child processes hand contents to their parent in a file of this form: per column family a
//! count, then length-prefixed keys and values; numbers are 32-bit little-endian. Only the
//! suites read it, so a short file is a bug and panics.

use crate::{Entry, Store, store};

/// Entries in key order, per column family.
pub type Contents = Vec<Vec<Entry>>;

/// Reads everything forward, checks that a backward walk and key-by-key reads agree.
///
/// # Errors
/// The store's error, or a text that names the first difference.
pub fn read(store: &mut dyn Store, families: usize) -> Result<Contents, String> {
    let mut contents = Vec::new();
    for cf in 0..families {
        let forward = store::scan(store, cf, false)?;
        let backward = store::scan(store, cf, true)?;
        same(&forward, &backward).map_err(|e| format!("cf {cf}, backward scan: {e}"))?;
        for (key, value) in &forward {
            let found = store.get(cf, key, None)?;
            if found.as_ref() != Some(value) {
                let key = String::from_utf8_lossy(key);
                return Err(format!("cf {cf}: get({key}) is not what the scan found"));
            }
        }
        contents.push(forward);
    }
    Ok(contents)
}

/// Compares entry by entry.
///
/// # Errors
/// A text that names the first difference.
pub fn same(expected: &[Entry], found: &[Entry]) -> Result<(), String> {
    let show = |entry: Option<&Entry>| match entry {
        None => "nothing".to_string(),
        Some((key, value)) => {
            let cut = &value[..value.len().min(24)];
            let (key, cut) = (String::from_utf8_lossy(key), String::from_utf8_lossy(cut));
            format!("{key}={cut:?} ({} bytes)", value.len())
        }
    };
    for index in 0..expected.len().max(found.len()) {
        let (a, b) = (expected.get(index), found.get(index));
        if a != b {
            return Err(format!("entry {index}: expected {}, found {}", show(a), show(b)));
        }
    }
    Ok(())
}

/// The bytes of `contents`.
pub fn encode(contents: &Contents) -> Vec<u8> {
    let mut out = Vec::new();
    put_len(&mut out, contents.len());
    for family in contents {
        put_len(&mut out, family.len());
        for (key, value) in family {
            for bytes in [key, value] {
                put_len(&mut out, bytes.len());
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

/// The contents whose bytes `encode` made.
///
/// # Panics
/// The bytes end early.
pub fn decode(mut bytes: &[u8]) -> Contents {
    let families = take_len(&mut bytes);
    (0..families)
        .map(|_| {
            let entries = take_len(&mut bytes);
            (0..entries).map(|_| (take_bytes(&mut bytes), take_bytes(&mut bytes))).collect()
        })
        .collect()
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("test data is below 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

fn take_len(bytes: &mut &[u8]) -> usize {
    let (head, rest) = bytes.split_first_chunk::<4>().expect("contents end early");
    *bytes = rest;
    u32::from_le_bytes(*head) as usize
}

fn take_bytes(bytes: &mut &[u8]) -> Vec<u8> {
    let len = take_len(bytes);
    let (head, rest) = bytes.split_at(len);
    *bytes = rest;
    head.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_survive_their_encoding() {
        let contents =
            vec![vec![(b"a".to_vec(), b"".to_vec()), (b"b".to_vec(), vec![0; 300])], vec![]];
        assert_eq!(decode(&encode(&contents)), contents);
    }

    #[test]
    fn the_first_difference_is_named() {
        let a = vec![(b"a".to_vec(), b"1".to_vec())];
        let b = vec![(b"a".to_vec(), b"2".to_vec())];
        assert!(same(&a, &a).is_ok());
        assert!(same(&a, &b).is_err_and(|text| text.contains("entry 0")));
        assert!(same(&a, &[]).is_err());
    }
}
