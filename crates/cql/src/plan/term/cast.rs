//! `CAST(term AS type)` (`CastFcts`): between numbers, and from integers, booleans and UUIDs to text.
//!
//! How Java prints floating numbers, times and addresses is left to the server.

use cqlens_proto::types::CqlType;
use num_bigint::BigInt;

use super::arithmetic::{MAX_OPERAND, write_integer};
use super::fault::Fault;

/// The bytes of a value as a value of another type.
pub(super) fn convert(from: &CqlType, bytes: &[u8], to: &CqlType) -> Result<Vec<u8>, Fault> {
    use CqlType::{
        Ascii, BigInt as Long, Boolean, Counter, Decimal, Int, SmallInt, Text, TimeUuid, TinyInt, Uuid,
        Varint,
    };
    if *from == Varint && bytes.len() > MAX_OPERAND {
        return Err(Fault::NotFollowed);
    }
    let is_integer = |number: &CqlType| matches!(number, TinyInt | SmallInt | Int | Long | Counter | Varint);
    match (from, to) {
        _ if from == to => Ok(bytes.to_vec()),
        (Ascii, Text) => Ok(bytes.to_vec()),
        (from, Text | Ascii) if is_integer(from) => Ok(integer(bytes).to_string().into_bytes()),
        (from, to) if is_integer(from) && is_integer(to) => Ok(write_integer(integer(bytes), to)),
        (from, Decimal) if is_integer(from) => {
            Ok([&[0; 4][..], &integer(bytes).to_signed_bytes_be()].concat())
        }
        (Boolean, Text | Ascii) => Ok(if bytes == [0] {
            b"false".to_vec()
        } else {
            b"true".to_vec()
        }),
        (Uuid | TimeUuid, Text | Ascii) => {
            let bytes: [u8; 16] = bytes.try_into().map_err(|_| Fault::NotFollowed)?;
            Ok(cqlens_proto::types::Uuid(bytes).to_string().into_bytes())
        }
        _ => Err(Fault::NotFollowed),
    }
}

fn integer(bytes: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_become_text_and_each_other() {
        let five = 5_i32.to_be_bytes();
        assert_eq!(convert(&CqlType::Int, &five, &CqlType::Text), Ok(b"5".to_vec()));
        assert_eq!(
            convert(&CqlType::Int, &(-1_i32).to_be_bytes(), &CqlType::BigInt),
            Ok(vec![0xff; 8])
        );
        assert_eq!(
            convert(&CqlType::Int, &300_i32.to_be_bytes(), &CqlType::TinyInt),
            Ok(vec![44])
        );
        assert_eq!(
            convert(&CqlType::Double, &[0; 8], &CqlType::Text),
            Err(Fault::NotFollowed)
        );
    }
}
