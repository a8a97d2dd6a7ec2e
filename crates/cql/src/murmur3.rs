//! Tokens of routing keys, as `org.apache.cassandra.dht.Murmur3Partitioner` computes them.
//!
//! Cassandra hashes with "almost" MurmurHash3 x64 128: the bytes of the tail are read as signed, so a tail
//! byte of 0x80 or more floods the higher bits with ones. The token is the first half of the hash, with the
//! smallest long moved to the largest one: the smallest is reserved for the ring's minimum. Other
//! partitioners are not computed.

/// The ring's minimum token: no key owns it, except the empty routing key.
pub const MINIMUM: i64 = i64::MIN;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;
const BLOCK: usize = 16;
/// The sign of each byte.
const NEGATIVE_BYTES: u64 = 0x8080_8080_8080_8080;

/// The token of a routing key (the serialized partition key, see [`push_component`] for composite ones).
///
/// An empty key has the [`MINIMUM`] token. Source: `Murmur3Partitioner.getToken`.
#[inline]
pub fn token(routing_key: &[u8]) -> i64 {
    if routing_key.is_empty() {
        return MINIMUM;
    }
    match hash(routing_key).cast_signed() {
        i64::MIN => i64::MAX,
        hash => hash,
    }
}

/// Appends one component of a composite routing key: its length as an unsigned short, its bytes, a zero byte.
///
/// A partition key of one column is its own routing key and has no such framing. A component longer than
/// 65,535 bytes cannot be part of a key: nothing is appended and the answer is `false`. Source:
/// `CompositeType.build`.
pub fn push_component(routing_key: &mut Vec<u8>, component: &[u8]) -> bool {
    let Ok(length) = u16::try_from(component.len()) else {
        return false;
    };
    routing_key.extend_from_slice(&length.to_be_bytes());
    routing_key.extend_from_slice(component);
    routing_key.push(0);
    true
}

/// The first half of Cassandra's `MurmurHash.hash3_x64_128` with seed 0.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<BLOCK>();
    for block in blocks {
        let (low, high) = halves(block);
        h1 ^= mix_k1(low);
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(high);
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    if tail.len() > 8 {
        h2 ^= mix_k2(signed_tail(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= mix_k1(signed_tail(&tail[..tail.len().min(8)]));
    }
    // Lossless: usize is at most 64 bits wide everywhere that Rust runs.
    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    fmix(h1).wrapping_add(fmix(h2))
}

#[inline]
fn halves(block: &[u8; BLOCK]) -> (u64, u64) {
    let [low, high] = block.as_chunks::<8>().0 else {
        return (0, 0);
    };
    (u64::from_le_bytes(*low), u64::from_le_bytes(*high))
}

/// The tail's bytes, little endian, each *sign extended* before it is shifted: Cassandra's deviation from
/// Murmur3. So each negative byte turns over all bytes above it.
#[inline]
fn signed_tail(tail: &[u8]) -> u64 {
    let word = little_endian(tail);
    let signs = (word & NEGATIVE_BYTES) >> 7;
    // In each byte, whether an odd number of those up to it are negative.
    let odd = signs ^ signs << 8;
    let odd = odd ^ odd << 16;
    let odd = odd ^ odd << 32;
    word ^ (odd << 8).wrapping_mul(0xff)
}

/// Up to eight bytes as a number.
#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    if let Ok(all) = bytes.try_into() {
        return u64::from_le_bytes(all);
    }
    // The first four and the last four, which may overlap.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return half(first) | half(last) << (8 * (bytes.len() - 4));
    }
    let bytes = bytes.iter().rev();
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn mix_k1(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline]
fn fmix(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_keys_have_the_tokens_that_cassandra_gives_them() {
        // `SELECT token(k) FROM t` for an int key, Cassandra 5.0.
        for (key, expected) in [
            (0_i32, -3_485_513_579_396_041_028),
            (1, -4_069_959_284_402_364_209),
            (2, -3_248_873_570_005_575_792),
            (10, -6_715_243_485_458_697_746),
            (i32::MAX, -765_994_672_030_311_617),
        ] {
            assert_eq!(token(&key.to_be_bytes()), expected, "key {key}");
        }
    }

    #[test]
    fn bytes_of_the_tail_are_signed() {
        assert_eq!(token(&[0xff, 0x7f]), 7_965_412_786_603_682_042);
        assert_ne!(signed_tail(&[0x00, 0x80]), 0x8000);
        assert_eq!(signed_tail(&[0x80]), u64::MAX << 7);
    }

    #[test]
    fn a_tail_is_the_sum_of_its_signed_bytes() {
        for seed in 0..4_096_u64 {
            let bytes = fmix(seed + 1).to_le_bytes();
            let tail = &bytes[..usize::try_from(seed % 8).unwrap_or(0) + 1];
            let each = tail.iter().zip((0..).step_by(8));
            let expected = each.fold(0, |word, (byte, shift)| {
                word ^ i64::from(byte.cast_signed()) << shift
            });
            assert_eq!(signed_tail(tail), expected.cast_unsigned(), "{tail:x?}");
        }
    }

    #[test]
    fn texts_of_every_tail_length_hash_like_cassandra() {
        assert_eq!(token(b"a"), -8_839_064_797_231_613_815);
        assert_eq!(token(b"O'Brien"), 3_200_378_534_734_996_441);
    }

    #[test]
    fn a_composite_key_frames_each_component() {
        let mut key = Vec::new();
        assert!(push_component(&mut key, &1_i32.to_be_bytes()));
        assert!(push_component(&mut key, &0x8000_4756_u32.to_be_bytes()));
        assert_eq!(key, [0, 4, 0, 0, 0, 1, 0, 0, 4, 0x80, 0, 0x47, 0x56, 0]);
        assert_eq!(token(&key), -4_752_521_608_788_023_278);
    }

    #[test]
    fn a_component_that_no_length_can_express_is_refused() {
        let mut key = Vec::new();
        assert!(!push_component(&mut key, &vec![0; 65_536]));
        assert!(key.is_empty());
    }

    #[test]
    fn the_empty_key_has_the_minimum_token() {
        assert_eq!(token(&[]), MINIMUM);
    }
}
