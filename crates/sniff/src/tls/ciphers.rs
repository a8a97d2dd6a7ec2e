//! Keys of records: derived from the secrets of a session (RFC 5246 §5 and §6.3, RFC 8446 §7), and records opened
//! with them.

use ring::{aead, hkdf, hmac};
use tls_parser::{TlsCipherEnc, TlsCipherEncMode, TlsCipherSuite, TlsPRF};

use super::key_log::{ClientRandom, Secret};

/// The header of a record: type, version, length.
pub(super) const HEADER: usize = 5;

/// What a cipher suite decides of records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suite {
    aead: &'static aead::Algorithm,
    is_sha384: bool,
    is_chacha: bool,
}

impl Suite {
    /// The suite, unless records of it cannot be opened here: CBC, CCM and what is rare.
    pub(super) fn of(suite: &TlsCipherSuite) -> Option<Self> {
        let is_chacha = suite.enc == TlsCipherEnc::Chacha20_Poly1305;
        Some(Self {
            aead: match (suite.enc, suite.enc_mode, suite.enc_size) {
                (TlsCipherEnc::Aes, TlsCipherEncMode::Gcm, 128) => &aead::AES_128_GCM,
                (TlsCipherEnc::Aes, TlsCipherEncMode::Gcm, 256) => &aead::AES_256_GCM,
                _ if is_chacha => &aead::CHACHA20_POLY1305,
                _ => return None,
            },
            is_sha384: suite.prf == TlsPRF::Sha384,
            is_chacha,
        })
    }

    /// The keys of client and server in TLS 1.2.
    pub(super) fn keys_of_master(
        self,
        master: &Secret,
        client: &ClientRandom,
        server: &ClientRandom,
    ) -> Option<[RecordKey; 2]> {
        let key_length = self.aead.key_len();
        // GCM has the rest of its nonce in the record.
        let iv_length = if self.is_chacha { aead::NONCE_LEN } else { SALT };
        let mut block = vec![0; 2 * (key_length + iv_length)];
        let algorithm = if self.is_sha384 {
            hmac::HMAC_SHA384
        } else {
            hmac::HMAC_SHA256
        };
        let seed = [&b"key expansion"[..], server, client].concat();
        expand(hmac::Key::new(algorithm, master.bytes()), &seed, &mut block);
        let (keys, ivs) = block.split_at(2 * key_length);
        let of = |index: usize| {
            let key = keys.get(index * key_length..)?.get(..key_length)?;
            let mut iv = [0; aead::NONCE_LEN];
            iv.get_mut(..iv_length)?
                .copy_from_slice(ivs.get(index * iv_length..)?.get(..iv_length)?);
            RecordKey::new(self, key, iv, Layout::Tls12)
        };
        Some([of(0)?, of(1)?])
    }

    /// The key of one side in TLS 1.3.
    pub(super) fn key_of_traffic(self, secret: &Secret) -> Option<RecordKey> {
        let mut key = vec![0; self.aead.key_len()];
        let mut iv = [0; aead::NONCE_LEN];
        self.expand_label(secret, b"key", &mut key)?;
        self.expand_label(secret, b"iv", &mut iv)?;
        RecordKey::new(self, &key, iv, Layout::Tls13)
    }

    /// The secret after a key update.
    pub(super) fn next_secret(self, secret: &Secret) -> Option<Secret> {
        let mut next = vec![0; secret.bytes().len()];
        self.expand_label(secret, b"traffic upd", &mut next)?;
        Secret::new(&next)
    }

    /// HKDF-Expand-Label with an empty context.
    fn expand_label(self, secret: &Secret, label: &[u8], out: &mut [u8]) -> Option<()> {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let algorithm = if self.is_sha384 {
            hkdf::HKDF_SHA384
        } else {
            hkdf::HKDF_SHA256
        };
        let length = u16::try_from(out.len()).ok()?.to_be_bytes();
        let label_length = [u8::try_from(TLS13.len() + label.len()).ok()?];
        let info = [&length[..], &label_length, TLS13, label, &[0]];
        let prk = hkdf::Prk::new_less_safe(algorithm, secret.bytes());
        prk.expand(&info, Length(out.len())).ok()?.fill(out).ok()
    }
}

const TLS13: &[u8] = b"tls13 ";

/// The part of GCM's nonce that is not in the record.
const SALT: usize = 4;
const EXPLICIT_NONCE: usize = 8;

/// P_hash: HMACs of what came before, and of those with the seed.
fn expand(key: hmac::Key, seed: &[u8], out: &mut [u8]) {
    let mut before = hmac::sign(&key, seed);
    for part in out.chunks_mut(before.as_ref().len()) {
        let bytes = hmac::sign(&key, &[before.as_ref(), seed].concat());
        part.copy_from_slice(bytes.as_ref().get(..part.len()).unwrap_or_default());
        before = hmac::sign(&key, before.as_ref());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Tls12,
    Tls13,
}

/// The key of one direction, with the number of the next record.
#[derive(Debug)]
pub(super) struct RecordKey {
    suite: Suite,
    key: aead::LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    layout: Layout,
    /// The number of the next record.
    pub(super) number: u64,
}

/// What a record contains.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The type of what it contains.
    pub(super) kind: u8,
    pub(super) bytes: Vec<u8>,
}

impl RecordKey {
    fn new(suite: Suite, key: &[u8], iv: [u8; aead::NONCE_LEN], layout: Layout) -> Option<Self> {
        let key = aead::UnboundKey::new(suite.aead, key).ok()?;
        Some(Self {
            suite,
            key: aead::LessSafeKey::new(key),
            iv,
            layout,
            number: 0,
        })
    }

    /// Bytes that encryption adds to a record of application data, without padding.
    pub(super) fn overhead(&self) -> usize {
        let tag = self.suite.aead.tag_len();
        match self.layout {
            Layout::Tls13 => tag + 1,
            Layout::Tls12 if self.suite.is_chacha => tag,
            Layout::Tls12 => tag + EXPLICIT_NONCE,
        }
    }

    /// Opens the next record, which is `header` and `payload`. `None`, with nothing changed, if it is none of this
    /// key and number.
    pub(super) fn open(&mut self, header: [u8; HEADER], payload: &[u8]) -> Option<Opened> {
        self.open_as(self.number, header, payload)
            .inspect(|_| self.number += 1)
    }

    /// The same for a record that has one of the next `count` numbers.
    pub(super) fn open_later(&mut self, count: u64, header: [u8; HEADER], payload: &[u8]) -> Option<Opened> {
        let mut numbers = self.number..self.number.saturating_add(count);
        numbers.find_map(|number| {
            let opened = self.open_as(number, header, payload)?;
            self.number = number + 1;
            Some(opened)
        })
    }

    fn open_as(&self, number: u64, header: [u8; HEADER], payload: &[u8]) -> Option<Opened> {
        let mut nonce = self.iv;
        let mut sealed = payload;
        if self.layout == Layout::Tls12 && !self.suite.is_chacha {
            let (explicit, rest) = payload.split_at_checked(EXPLICIT_NONCE)?;
            nonce.get_mut(SALT..)?.copy_from_slice(explicit);
            sealed = rest;
        } else {
            for (byte, number) in nonce.iter_mut().skip(SALT).zip(number.to_be_bytes()) {
                *byte ^= number;
            }
        }
        let length = sealed.len().checked_sub(self.suite.aead.tag_len())?;
        let associated = match self.layout {
            Layout::Tls13 => header.to_vec(),
            Layout::Tls12 => {
                let length = u16::try_from(length).ok()?.to_be_bytes();
                [&number.to_be_bytes()[..], &header[..3], &length].concat()
            }
        };
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let mut bytes = sealed.to_vec();
        self.key
            .open_in_place(nonce, aead::Aad::from(associated), &mut bytes)
            .ok()?;
        bytes.truncate(length);
        let kind = match self.layout {
            Layout::Tls12 => header[0],
            // The type stands behind the content, and padding of zeros behind that.
            Layout::Tls13 => {
                let end = bytes.iter().rposition(|byte| *byte != 0)?;
                let kind = bytes.get(end).copied()?;
                bytes.truncate(end);
                kind
            }
        };
        Some(Opened { kind, bytes })
    }
}
