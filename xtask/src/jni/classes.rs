//! Class files: the native methods of one, and the names of their functions.
//!
//! Bytes that are no class file give None; nothing else of a class is read.

use std::collections::BTreeMap;
/// (class below org.rocksdb, name, signature) to the jars that have it.
pub type Natives = BTreeMap<(String, String, String), Vec<&'static str>>;

const ACC_NATIVE: u16 = 0x0100;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }
    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
    fn u32(&mut self) -> Option<usize> {
        let bytes = self.take(4)?;
        usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
    }
}

/// An entry of the constant pool that names are found by.
enum Constant<'a> {
    Text(&'a [u8]),
    Class(u16),
    Other,
}

fn constants<'a>(reader: &mut Reader<'a>) -> Option<Vec<Constant<'a>>> {
    let count = usize::from(reader.u16()?);
    let mut pool = vec![Constant::Other];
    while pool.len() < count {
        let tag = reader.u8()?;
        let constant = match tag {
            1 => {
                let length = usize::from(reader.u16()?);
                Constant::Text(reader.take(length)?)
            }
            7 => Constant::Class(reader.u16()?),
            3 | 4 | 9..=12 | 17 | 18 => reader.take(4).map(|_| Constant::Other)?,
            5 | 6 => reader.take(8).map(|_| Constant::Other)?,
            8 | 16 | 19 | 20 => reader.take(2).map(|_| Constant::Other)?,
            15 => reader.take(3).map(|_| Constant::Other)?,
            _ => return None,
        };
        pool.push(constant);
        // Long and double take two places.
        if matches!(tag, 5 | 6) {
            pool.push(Constant::Other);
        }
    }
    Some(pool)
}

fn text(pool: &[Constant<'_>], index: u16) -> Option<String> {
    match pool.get(usize::from(index))? {
        Constant::Text(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Constant::Class(name) => text(pool, *name),
        Constant::Other => None,
    }
}

/// The fields or the methods: flags, name, signature of each.
fn members(reader: &mut Reader<'_>) -> Option<Vec<(u16, u16, u16)>> {
    let count = reader.u16()?;
    let mut members = Vec::new();
    for _ in 0..count {
        members.push((reader.u16()?, reader.u16()?, reader.u16()?));
        for _ in 0..reader.u16()? {
            reader.u16()?;
            let length = reader.u32()?;
            reader.take(length)?;
        }
    }
    Some(members)
}

/// The native methods of a class file.
pub fn natives(bytes: &[u8]) -> Option<Vec<(String, String, String)>> {
    let mut reader = Reader(bytes);
    if reader.u32()? != 0xCAFE_BABE {
        return None;
    }
    reader.take(4)?;
    let pool = constants(&mut reader)?;
    reader.u16()?;
    let class = text(&pool, reader.u16()?)?;
    reader.u16()?;
    let interfaces = usize::from(reader.u16()?);
    reader.take(2 * interfaces)?;
    members(&mut reader)?;
    let class = class.strip_prefix("org/rocksdb/").unwrap_or(&class);
    let mut natives = Vec::new();
    for (flags, name, signature) in members(&mut reader)? {
        if flags & ACC_NATIVE != 0 {
            natives.push((class.to_string(), text(&pool, name)?, text(&pool, signature)?));
        }
    }
    Some(natives)
}

/// The name of the function, with its signature, as the virtual machine looks for it.
pub fn export_name(class: &str, name: &str, signature: &str) -> String {
    let arguments = signature.trim_start_matches('(').split(')').next().unwrap_or_default();
    let (class, name) = (mangled(class), mangled(name));
    format!("Java_org_rocksdb_{class}_{name}__{}", mangled(arguments))
}

fn mangled(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            '/' => name.push('_'),
            '_' => name.push_str("_1"),
            ';' => name.push_str("_2"),
            '[' => name.push_str("_3"),
            letter if letter.is_ascii_alphanumeric() => name.push(letter),
            other => name.push_str(&format!("_0{:04x}", other as u32)),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let name = export_name("WriteBatch$Handler", "create_0", "([BLjava/lang/String;)V");
        let wanted = "Java_org_rocksdb_WriteBatch_00024Handler_create_10___3BLjava_lang_String_2";
        assert_eq!(name, wanted);
    }

    #[test]
    fn what_is_no_class_file_is_none() {
        for bytes in [&b""[..], b"PK\x03\x04", &0xCAFE_BABEu32.to_be_bytes()] {
            assert!(natives(bytes).is_none());
        }
    }
}
