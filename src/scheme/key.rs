//! Keys and what they prove. Nothing here knows a request.
//!
//! Every comparison takes the same time wherever the difference lies, and every signature offered is compared.

use std::borrow::Cow;
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use smallvec::SmallVec;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::algorithm::{Digest, Primitive, Verifier};
use super::encoding::SignatureBytes;
use super::public_key;
use super::signing::Signer;
use crate::config::Secret;

/// What is signed, in pieces that are borrowed wherever they can be.
pub(super) type Message<'a> = SmallVec<[Chunk<'a>; 8]>;

#[derive(Debug)]
pub(super) enum Chunk<'a> {
    Bytes(Cow<'a, [u8]>),
    /// The secret itself, which each key knows of its own.
    Secret,
}

impl Chunk<'_> {
    /// What anybody may see of it.
    pub fn public_bytes(&self) -> &[u8] {
        self.bytes(&[])
    }

    fn bytes<'b>(&'b self, secret: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Secret => secret,
        }
    }
}

/// One secret or public key as a scheme uses it. A MAC's key is kept as its state, which is cloned for each use.
#[derive(Clone)]
pub(super) enum Material {
    HmacSha1(Hmac<Sha1>),
    HmacSha256(Hmac<Sha256>),
    HmacSha384(Hmac<Sha384>),
    HmacSha512(Hmac<Sha512>),
    Digest(Digest, Secret),
    Public(Verifier, Vec<u8>),
    /// A private key: it signs, and verifies by its public half.
    Private(Signer),
    Token(Secret),
}

impl Material {
    pub fn new(primitive: Primitive, bytes: &[u8]) -> Result<Self, String> {
        let unusable = |_| "cannot be used as a key".to_owned();
        Ok(match primitive {
            Primitive::Hmac(Digest::Sha1) => Self::HmacSha1(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Primitive::Hmac(Digest::Sha256) => Self::HmacSha256(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Primitive::Hmac(Digest::Sha384) => Self::HmacSha384(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Primitive::Hmac(Digest::Sha512) => Self::HmacSha512(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Primitive::Hmac(Digest::Md5) => return Err("is for an algorithm that there is not".to_owned()),
            Primitive::Digest(digest) => Self::Digest(digest, Secret::new(bytes)),
            Primitive::Public(verifier) => Self::Public(verifier, public_key::read(verifier, bytes)?),
            Primitive::Token => Self::Token(Secret::new(bytes)),
        })
    }

    /// Whether one of the signatures offered was made with this key over the message.
    #[inline]
    pub fn proves(&self, message: &[Chunk<'_>], offered: &[SignatureBytes]) -> bool {
        match self {
            Self::HmacSha1(state) => any_equal(&mac(state, message), offered),
            Self::HmacSha256(state) => any_equal(&mac(state, message), offered),
            Self::HmacSha384(state) => any_equal(&mac(state, message), offered),
            Self::HmacSha512(state) => any_equal(&mac(state, message), offered),
            Self::Digest(kind, secret) => any_equal(&digest(*kind, secret, message), offered),
            Self::Public(verifier, key) => is_signed(*verifier, key, message, offered),
            Self::Private(signer) => is_signed(signer.verifier(), signer.public_key(), message, offered),
            Self::Token(secret) => offered.iter().fold(false, |matched, one| matched | is_token(secret, one)),
        }
    }

    /// The signature of the message, or the token itself.
    pub fn sign(&self, message: &[Chunk<'_>]) -> Result<Zeroizing<Vec<u8>>, String> {
        Ok(Zeroizing::new(match self {
            Self::HmacSha1(state) => mac(state, message).to_vec(),
            Self::HmacSha256(state) => mac(state, message).to_vec(),
            Self::HmacSha384(state) => mac(state, message).to_vec(),
            Self::HmacSha512(state) => mac(state, message).to_vec(),
            Self::Digest(kind, secret) => digest(*kind, secret, message).to_vec(),
            Self::Public(..) => return Err("signs with a private key, and this is the public one".to_owned()),
            Self::Private(signer) => signer.sign(&contiguous(message))?,
            Self::Token(secret) => secret.bytes().to_vec(),
        }))
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Material(..)")
    }
}

#[inline]
fn mac<M: Mac + Clone>(state: &M, message: &[Chunk<'_>]) -> hmac::digest::Output<M> {
    let mut state = state.clone();
    for chunk in message {
        // A secret among the bytes of its own MAC is refused when the scheme is read.
        state.update(chunk.bytes(&[]));
    }
    state.finalize().into_bytes()
}

fn digest(kind: Digest, secret: &Secret, message: &[Chunk<'_>]) -> SignatureBytes {
    fn run<D: sha2::Digest>(secret: &Secret, message: &[Chunk<'_>]) -> SignatureBytes {
        let mut state = D::new();
        message.iter().for_each(|chunk| state.update(chunk.bytes(secret.bytes())));
        SmallVec::from_slice(&state.finalize())
    }
    match kind {
        Digest::Md5 => run::<Md5>(secret, message),
        Digest::Sha1 => run::<Sha1>(secret, message),
        Digest::Sha256 => run::<Sha256>(secret, message),
        Digest::Sha384 => run::<Sha384>(secret, message),
        Digest::Sha512 => run::<Sha512>(secret, message),
    }
}

fn any_equal(expected: &[u8], offered: &[SignatureBytes]) -> bool {
    offered.iter().fold(Choice::from(0), |matched, one| matched | is_equal(one, expected)).into()
}

#[cfg(test)]
thread_local! {
    /// Comparisons on this thread: time does not tell in a test how much was done, and this does.
    pub(super) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Compares eight bytes at a time, all of them whatever the first of them say.
fn is_equal(one: &[u8], other: &[u8]) -> Choice {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
    if one.len() != other.len() {
        return Choice::from(0);
    }
    let ((ones, rest), (others, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let differs =
        |differs: u64, (one, other): (&[u8; 8], &[u8; 8])| differs | (u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other));
    let words = ones.iter().zip(others).fold(0, differs);
    let bytes = rest.iter().zip(other_rest).fold(0, |differs, (one, other)| differs | (one ^ other));
    (words | u64::from(bytes)).ct_eq(&0)
}

/// Compares digests, which are of one length: comparing the tokens themselves would tell how long the secret is.
pub(super) fn is_token(secret: &Secret, offered: &[u8]) -> bool {
    Sha256::digest(secret.bytes()).ct_eq(&Sha256::digest(offered)).into()
}

fn is_signed(verifier: Verifier, key: &[u8], message: &[Chunk<'_>], offered: &[SignatureBytes]) -> bool {
    let algorithm: &'static dyn VerificationAlgorithm = match verifier {
        Verifier::Ed25519 => &ED25519,
        Verifier::EcdsaP256Sha256 => &ECDSA_P256_SHA256_ASN1,
        Verifier::EcdsaP256Sha256Fixed => &ECDSA_P256_SHA256_FIXED,
        Verifier::RsaPkcs1Sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Verifier::RsaPkcs1Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        Verifier::RsaPkcs1Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        Verifier::RsaPssSha256 => &RSA_PSS_2048_8192_SHA256,
        Verifier::RsaPssSha512 => &RSA_PSS_2048_8192_SHA512,
    };
    let (key, message) = (UnparsedPublicKey::new(algorithm, key), contiguous(message));
    offered.iter().any(|signature| key.verify(&message, signature).is_ok())
}

/// The message in one piece, which public keys ask for.
fn contiguous<'m>(message: &'m [Chunk<'_>]) -> Cow<'m, [u8]> {
    match message {
        [only] => Cow::Borrowed(only.bytes(&[])),
        several => Cow::Owned(several.iter().flat_map(|chunk| chunk.bytes(&[])).copied().collect()),
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    fn message(pieces: &[&'static str]) -> Message<'static> {
        pieces.iter().map(|piece| Chunk::Bytes(Cow::Borrowed(piece.as_bytes()))).collect()
    }

    fn signed(primitive: Primitive, secret: &[u8], message: &[Chunk<'_>]) -> String {
        HEXLOWER.encode(&Material::new(primitive, secret).unwrap().sign(message).unwrap())
    }

    #[test]
    fn macs_are_those_of_the_standards() {
        // RFC 4231, test case 2; RFC 2202, test case 2.
        let data = message(&["what do ya want ", "for ", "nothing?"]);
        for (digest, expected) in [
            (Digest::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Digest::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (Digest::Sha384, "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"),
        ] {
            assert_eq!(signed(Primitive::Hmac(digest), b"Jefe", &data), expected);
        }
        assert!(signed(Primitive::Hmac(Digest::Sha512), b"Jefe", &data).starts_with("164b7a7bfcf819e2e395fbe73b56e0a3"));
    }

    #[test]
    fn a_mac_is_the_same_however_its_message_is_cut() {
        let text = "what is signed, over and over. ".repeat(20);
        let whole = [Chunk::Bytes(Cow::Borrowed(text.as_bytes()))];
        let expected = signed(Primitive::Hmac(Digest::Sha256), b"Jefe", &whole);
        for size in [1, 7, 64, 127, 128, 129, 300] {
            let cut: Message<'_> = text.as_bytes().chunks(size).map(|chunk| Chunk::Bytes(Cow::Borrowed(chunk))).collect();
            assert_eq!(signed(Primitive::Hmac(Digest::Sha256), b"Jefe", &cut), expected, "{size}");
        }
    }

    #[test]
    fn a_digest_is_made_over_the_secret_where_it_stands() {
        let data = [Chunk::Secret, Chunk::Bytes(Cow::Borrowed(b"c"))];
        // FIPS 180 and RFC 1321: the digests of "abc".
        for (digest, expected) in [
            (Digest::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Digest::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (Digest::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            assert_eq!(signed(Primitive::Digest(digest), b"ab", &data), expected);
        }
    }

    #[test]
    fn signatures_are_equal_in_every_byte_or_not_at_all() {
        for length in [16, 20, 32, 48, 64] {
            let bytes: Vec<u8> = (0..length).collect();
            assert!(bool::from(is_equal(&bytes, &bytes)));
            for position in 0..bytes.len() {
                let mut other = bytes.clone();
                other[position] ^= 0x80;
                assert!(!bool::from(is_equal(&bytes, &other)), "{length}: {position}");
            }
            assert!(!bool::from(is_equal(&bytes, &bytes[1..])));
        }
    }

    #[test]
    fn a_token_is_proven_by_itself_alone() {
        let token = Material::new(Primitive::Token, b"token").unwrap();
        let offer = |text: &str| [SignatureBytes::from_slice(text.as_bytes())];
        assert!(token.proves(&[], &offer("token")));
        for other in ["", "toke", "tokens", "Token"] {
            assert!(!token.proves(&[], &offer(other)));
        }
        assert_eq!(format!("{token:?}"), "Material(..)");
    }
}
