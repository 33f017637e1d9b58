//! Changes tables by seed, and fixes their checksums.

use pumice_base::random::Rng;
use pumice_table::BlockKind;
use pumice_table::footer::FOOTER_LEN;

use crate::anatomy::{Anatomy, Field, Form, Place};

/// Changes `bytes` at random; returns a description.
pub fn damage(bytes: &mut [u8], anatomy: &Anatomy, rng: &mut Rng) -> String {
    if rng.one_in(16) {
        return damage_footer(bytes, anatomy, rng);
    }
    let (mut told, honest) = (Vec::new(), &bytes.to_vec());
    for _ in 0..1 + rng.uniform(3) / 2 {
        // There are more data blocks than of all other kinds together.
        let kinds = [
            BlockKind::Data,
            BlockKind::Index,
            BlockKind::MetaIndex,
            BlockKind::Properties,
            BlockKind::RangeDeletion,
            BlockKind::Filter,
            BlockKind::FilterIndex,
            BlockKind::Dictionary,
        ];
        let kind = kinds[rng.skewed(3) as usize % kinds.len()];
        let of_kind: Vec<&Place> = anatomy.places.iter().filter(|p| p.kind == kind).collect();
        let places = if of_kind.is_empty() { anatomy.places.iter().collect() } else { of_kind };
        let place = places[rng.uniform(places.len() as u64) as usize];
        let what = damage_block(bytes, (anatomy, honest), place, rng);
        told.push(format!("{:?}@{}: {what}", place.kind, place.handle.offset));
        anatomy.seal(bytes, place);
    }
    told.join(", ")
}

fn damage_block(
    bytes: &mut [u8],
    (anatomy, honest): (&Anatomy, &[u8]),
    place: &Place,
    rng: &mut Rng,
) -> String {
    match rng.uniform(12) {
        0 => return overwrite(bytes, anatomy, place, rng),
        1 => return grow_keys(&mut bytes[place.range()], rng),
        2 => return exchange_entries(bytes, &anatomy.fields(honest, place), rng),
        _ => {}
    }
    let fields = anatomy.fields(honest, place);
    let mut told = Vec::new();
    for _ in 0..1 + rng.skewed(2) {
        let field = fields[rng.uniform(fields.len() as u64) as usize];
        told.push(change(bytes, &field, rng));
    }
    told.join(" ")
}

/// Gives a field another value of the same length.
fn change(bytes: &mut [u8], field: &Field, rng: &mut Rng) -> String {
    let old = &mut bytes[field.at..field.at + field.len];
    match field.form {
        Form::Varint => {
            let most = if field.len >= 10 { u64::MAX } else { (1 << (7 * field.len)) - 1 };
            let now = pumice_base::coding::get_varint64(old).map_or(0, |(value, _)| value);
            let value = match rng.uniform(8) {
                0 => 0,
                1 => most,
                2 => most - rng.uniform(20),
                3 => now.wrapping_add(1),
                4 => now.wrapping_sub(1),
                5 => now << 1,
                _ => rng.next_u64(),
            } & most;
            for (i, byte) in old.iter_mut().enumerate() {
                let more = if i + 1 < field.len { 0x80 } else { 0 };
                *byte = (value >> (7 * i).min(63)) as u8 & 0x7f | more;
            }
            format!("varint at {} is {value}", field.at)
        }
        Form::Fixed32 => {
            let now = u32::from_le_bytes(std::array::from_fn(|i| old.get(i).map_or(0, |b| *b)));
            let value = match rng.uniform(9) {
                0 => 0,
                1 => u32::MAX,
                2 => now.wrapping_add(1),
                3 => now.wrapping_sub(1),
                4 => now ^ 1 << (28 + rng.uniform(4)),
                5 => now << 1,
                6 => now | 0x0fff_ffff,
                7 => rng.uniform(1 << 12) as u32,
                _ => rng.next_u32(),
            };
            let len = old.len().min(4);
            old[..len].copy_from_slice(&value.to_le_bytes()[..len]);
            format!("word at {} is {value:#x}", field.at)
        }
        Form::Bytes => {
            let at = rng.uniform(field.len as u64) as usize;
            let value = match rng.uniform(5) {
                0 => 0,
                1 => 0xff,
                2 => old[at] ^ 1 << rng.uniform(8),
                3 => rng.uniform(8) as u8,
                _ => rng.next_u64() as u8,
            };
            old[at] = value;
            format!("byte at {} is {value:#x}", field.at + at)
        }
    }
}

/// Puts the beginning of another block, or random bytes, over a part of this one.
fn overwrite(bytes: &mut [u8], anatomy: &Anatomy, place: &Place, rng: &mut Rng) -> String {
    let other = anatomy.places[rng.uniform(anatomy.places.len() as u64) as usize];
    let len = place.range().len();
    let from = if rng.one_in(2) { 0 } else { rng.uniform(len as u64 + 1) as usize };
    let most = (len - from).min(other.range().len());
    let source = match rng.one_in(3) {
        true => rng.bytes(most),
        false => bytes[other.range()][..most].to_vec(),
    };
    bytes[place.range()][from..from + most].copy_from_slice(&source);
    format!("{most} bytes from {from} on are those of {:?}", other.kind)
}

/// Makes a block of entries whose keys share all of the key before and add a byte.
fn grow_keys(block: &mut [u8], rng: &mut Rng) -> String {
    let values = rng.one_in(2);
    let mut made = Vec::new();
    let mut shared = 0u32;
    while made.len() + 16 < block.len() {
        pumice_base::coding::put_varint32(&mut made, shared);
        let suffix = if shared == 0 { 9 } else { rng.uniform(2) as u8 };
        made.push(suffix);
        made.extend(values.then_some(0));
        made.extend(std::iter::repeat_n(b'k', usize::from(suffix)));
        if !values {
            made.extend([0, 5].iter().take(if shared == 0 { 2 } else { 1 }));
        }
        shared += u32::from(suffix);
    }
    let (at, end) = (made.len(), block.len());
    if end < at + 8 {
        return "nothing".to_string();
    }
    // Entries end where the restart points begin: fill up with restart points.
    let restarts = (end - at - 4) / 4;
    let skipped = end - 4 - 4 * restarts - at;
    block[..at].copy_from_slice(&made);
    block[at..].fill(0);
    block[end - 4..].copy_from_slice(&(restarts as u32).to_le_bytes());
    format!("keys grow up to {shared} bytes, {restarts} restarts, {skipped} bytes between")
}

/// Swaps two ranges of the same length: entries out of order.
fn exchange_entries(bytes: &mut [u8], fields: &[Field], rng: &mut Rng) -> String {
    let keys: Vec<&Field> = fields.iter().filter(|f| f.form == Form::Bytes && f.len > 1).collect();
    if keys.len() < 2 {
        return "nothing".to_string();
    }
    let mut pick = || keys[rng.uniform(keys.len() as u64) as usize];
    let (a, b) = (pick(), pick());
    let len = a.len.min(b.len);
    for i in 0..len {
        bytes.swap(a.at + i, b.at + i);
    }
    format!("{len} bytes at {} and {} exchanged", a.at, b.at)
}

fn damage_footer(bytes: &mut [u8], anatomy: &Anatomy, rng: &mut Rng) -> String {
    let at = bytes.len() - FOOTER_LEN;
    if anatomy.footer.format_version >= 6 && rng.one_in(3) {
        // All blocks agree with another base context.
        let base = 1 + rng.next_u32() / 2;
        bytes[at + 9..at + 13].copy_from_slice(&base.to_le_bytes());
        let mut other = anatomy.clone();
        other.footer.base_context = base;
        anatomy.places.iter().for_each(|place| other.seal(bytes, place));
        anatomy.seal_footer(bytes);
        return format!("base context {base}");
    }
    let offset = 1 + rng.uniform(44) as usize;
    let field = match rng.uniform(3) {
        0 => Field { at: at + offset, len: 1, form: Form::Bytes },
        1 => Field { at: at + offset.min(40), len: 4, form: Form::Fixed32 },
        _ => {
            Field { at: at + offset.min(40), len: 1 + rng.uniform(3) as usize, form: Form::Varint }
        }
    };
    let told = change(bytes, &field, rng);
    anatomy.seal_footer(bytes);
    format!("footer: {told}")
}
