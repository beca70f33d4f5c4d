//! Keys and what they prove: MACs over bytes, encodings of signatures and secrets. Nothing here knows a request.
//!
//! Every comparison takes the same time wherever the difference lies, and every signature offered is compared.

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::config::Secret;
use crate::config::reader::choices;

choices!(
    /// How a signature is made. It comes from the configuration, never from the request.
    Algorithm { HmacSha256 = "hmac-sha256", HmacSha512 = "hmac-sha512", Token = "token" }
    pending {
        "hmac-sha1", "digest-md5", "digest-sha1", "digest-sha256", "digest-sha384", "ed25519", "ecdsa-p256-sha256",
        "ecdsa-sha1", "rsa-pkcs1-sha1", "rsa-pkcs1-sha256", "rsa-pkcs1-sha512", "rsa-pss-sha512", "basic", "jwt", "none",
    }
);

choices!(
    /// How a signature's bytes are written. Strict: one alphabet, no spaces, no second way to write the same bytes.
    Encoding { Hex = "hex", Base64 = "base64" } pending { "hex-any-case", "base64url", "base64-of-hex", "percent-base64url" }
);

choices!(
    /// How a secret's bytes are written.
    SecretEncoding { Utf8 = "utf8", Base64 = "base64", Hex = "hex" } pending { "sha1", "nfkd", "pem", "spki", "jwk" }
);

impl Algorithm {
    /// Whether these bytes are as many as a signature has. A token may have any number but none.
    pub(super) fn fits(self, signature: &[u8]) -> bool {
        match self {
            Self::HmacSha256 => signature.len() == 32,
            Self::HmacSha512 => signature.len() == 64,
            Self::Token => !signature.is_empty(),
        }
    }
}

impl Encoding {
    pub(super) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex => HEXLOWER.decode(text.as_bytes()).ok(),
            Self::Base64 => BASE64.decode(text.as_bytes()).ok(),
        }
    }

    pub(super) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => HEXLOWER.encode(bytes),
            Self::Base64 => BASE64.encode(bytes),
        }
    }
}

/// How a secret is written down: what stands before it, and its encoding.
#[derive(Clone, Debug)]
pub(super) struct SecretForm {
    /// Stripped where it is present.
    pub prefix: String,
    pub encoding: SecretEncoding,
}

impl SecretForm {
    /// The key's bytes. The error shows nothing of the secret.
    pub fn decode(&self, secret: &Secret) -> Result<Zeroizing<Vec<u8>>, String> {
        let written = secret.bytes();
        let rest = written.strip_prefix(self.prefix.as_bytes()).unwrap_or(written);
        let bytes = match self.encoding {
            SecretEncoding::Utf8 => Ok(rest.to_vec()),
            // Copies lose the padding now and then, and the bytes are the same without it.
            SecretEncoding::Base64 => BASE64.decode(rest).or_else(|_| BASE64_NOPAD.decode(rest)),
            SecretEncoding::Hex => HEXLOWER_PERMISSIVE.decode(rest),
        };
        let bytes = bytes.map_err(|_| format!("is not {}", self.wanted()))?;
        if bytes.is_empty() { Err("is empty".to_owned()) } else { Ok(Zeroizing::new(bytes)) }
    }

    fn wanted(&self) -> String {
        let prefix = if self.prefix.is_empty() { String::new() } else { format!(" after \"{}\"", self.prefix) };
        format!("{}{prefix}: look for a space or a newline that came along, or for a missing end", self.encoding.as_str())
    }
}

/// Key material, decoded as the scheme asks. A MAC's key is kept as its state, which is cloned for each use.
#[derive(Clone)]
pub struct Key(Material);

#[derive(Clone)]
enum Material {
    HmacSha256(Hmac<Sha256>),
    HmacSha512(Hmac<Sha512>),
    Token(Secret),
}

impl Key {
    pub(super) fn new(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, String> {
        let unusable = |_| "cannot be used as a key".to_owned();
        Ok(Self(match algorithm {
            Algorithm::HmacSha256 => Material::HmacSha256(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Algorithm::HmacSha512 => Material::HmacSha512(Hmac::new_from_slice(bytes).map_err(unusable)?),
            Algorithm::Token => Material::Token(Secret::new(bytes)),
        }))
    }

    /// Whether one of the signatures offered was made with this key over the pieces.
    pub(super) fn proves<P: AsRef<[u8]>>(&self, pieces: &[P], offered: &[Vec<u8>]) -> bool {
        match &self.0 {
            Material::HmacSha256(state) => any_equal(&mac(state, pieces), offered),
            Material::HmacSha512(state) => any_equal(&mac(state, pieces), offered),
            Material::Token(secret) => offered.iter().fold(false, |matched, one| matched | is_token(secret, one)),
        }
    }

    /// The signature of the pieces, or the token itself.
    pub(super) fn sign<P: AsRef<[u8]>>(&self, pieces: &[P]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match &self.0 {
            Material::HmacSha256(state) => mac(state, pieces),
            Material::HmacSha512(state) => mac(state, pieces),
            Material::Token(secret) => secret.bytes().to_vec(),
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn mac<M: Mac + Clone, P: AsRef<[u8]>>(state: &M, pieces: &[P]) -> Vec<u8> {
    let mut state = state.clone();
    for piece in pieces {
        state.update(piece.as_ref());
    }
    state.finalize().into_bytes().to_vec()
}

fn any_equal(expected: &[u8], offered: &[Vec<u8>]) -> bool {
    offered.iter().fold(Choice::from(0), |matched, one| matched | one.ct_eq(expected)).into()
}

/// Compares digests, which are of one length: comparing the tokens themselves would tell how long the secret is.
pub(super) fn is_token(secret: &Secret, offered: &[u8]) -> bool {
    Sha256::digest(secret.bytes()).ct_eq(&Sha256::digest(offered)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(prefix: &str, encoding: SecretEncoding) -> SecretForm {
        SecretForm { prefix: prefix.into(), encoding }
    }

    #[test]
    fn macs_are_those_of_the_standard() {
        // RFC 4231, test case 2.
        let data: [&[u8]; 3] = [b"what do ya want ", b"for ", b"nothing?"];
        let sha256 = Key::new(Algorithm::HmacSha256, b"Jefe").unwrap();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(Encoding::Hex.encode(&sha256.sign(&data)), expected);
        let sha512 = Key::new(Algorithm::HmacSha512, b"Jefe").unwrap();
        assert!(Encoding::Hex.encode(&sha512.sign(&data)).starts_with("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd6"));
    }

    #[test]
    fn encodings_are_strict() {
        assert_eq!(Encoding::Hex.decode("00ff"), Some(vec![0, 255]));
        assert_eq!(Encoding::Base64.decode("AP8="), Some(vec![0, 255]));
        for wrong in ["00FF", "0", "00 ff", "0x00", "zz", "00ff\n"] {
            assert_eq!(Encoding::Hex.decode(wrong), None, "{wrong}");
        }
        for wrong in ["AP8", "AP9=", "A-8=", "AP8=\n", " AP8=", "AP8=="] {
            assert_eq!(Encoding::Base64.decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_decoded_and_never_empty() {
        let base64 = form("whsec_", SecretEncoding::Base64);
        assert_eq!(base64.decode(&Secret::new("whsec_AP8=")).unwrap().as_slice(), [0, 255]);
        assert_eq!(base64.decode(&Secret::new("AP8=")).unwrap().as_slice(), [0, 255]);
        assert_eq!(base64.decode(&Secret::new("whsec_AP8")).unwrap().as_slice(), [0, 255]);
        assert!(base64.decode(&Secret::new("whsec_AP8=\n")).unwrap_err().contains("newline"));
        assert_eq!(form("", SecretEncoding::Utf8).decode(&Secret::new("whsec_x")).unwrap().as_slice(), b"whsec_x");
        for empty in ["", "whsec_"] {
            assert!(base64.decode(&Secret::new(empty)).is_err());
        }
    }

    #[test]
    fn a_token_is_proven_by_itself_alone() {
        let key = Key::new(Algorithm::Token, b"token").unwrap();
        let pieces: [&[u8]; 0] = [];
        assert!(key.proves(&pieces, &[b"token".to_vec()]));
        for other in ["", "toke", "tokens", "Token"] {
            assert!(!key.proves(&pieces, &[other.as_bytes().to_vec()]));
        }
        assert_eq!(format!("{key:?}"), "Key(..)");
    }
}
