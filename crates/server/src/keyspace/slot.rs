//! Hash slots: which of 16,384 a key belongs to, as Redis Cluster has it.
//!
//! CRC16 (XMODEM) of the key, or of the text between its first `{` and the next `}` if that is not
//! empty, modulo 16,384. Thread safety: pure functions.

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &b| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ b)])
}

/// The part of a key that decides its slot.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&b| b == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// The slot of `key`.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn slots_are_redis_clusters() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"bar"), 5061);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"{open"), crc16(b"{open") % SLOTS);
    }
}
