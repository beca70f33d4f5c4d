//! How secrets and public keys are written down: what stands before them, and their encoding.

use data_encoding::HEXLOWER_PERMISSIVE;
use icu_normalizer::DecomposingNormalizerBorrowed;
use sha1::{Digest as _, Sha1};
use zeroize::Zeroizing;

use super::encoding::decode_copied_base64;
use crate::config::Secret;
use crate::config::reader::choices;

choices!(
    /// How a secret's bytes are written.
    SecretEncoding {
        Utf8 = "utf8",
        Base64 = "base64",
        Hex = "hex",
        /// The text in Unicode's form NFKD.
        Nfkd = "nfkd",
        /// The SHA-1 of the text is the key.
        Sha1 = "sha1",
    }
);

#[derive(Clone, Debug)]
pub(super) struct SecretForm {
    /// Stripped where it is present.
    pub prefix: String,
    pub encoding: SecretEncoding,
}

impl SecretForm {
    /// The forms that providers give their secrets, in words.
    pub const ALL: [(&'static str, Self); 4] = [
        ("as it is written", Self { prefix: String::new(), encoding: SecretEncoding::Utf8 }),
        ("decoded from base64", Self { prefix: String::new(), encoding: SecretEncoding::Base64 }),
        ("decoded from hex", Self { prefix: String::new(), encoding: SecretEncoding::Hex }),
        ("as its SHA-1", Self { prefix: String::new(), encoding: SecretEncoding::Sha1 }),
    ];

    /// The key's bytes. The error shows nothing of the secret.
    pub fn decode(&self, secret: &Secret) -> Result<Zeroizing<Vec<u8>>, String> {
        let written = secret.bytes();
        let rest = written.strip_prefix(self.prefix.as_bytes()).unwrap_or(written);
        // A key in PEM tells by itself how it is written.
        let bytes = if rest.starts_with(b"-----BEGIN ") { Some(rest.to_vec()) } else { self.encoding.decode(rest) };
        let bytes = Zeroizing::new(bytes.ok_or_else(|| format!("is not {}", self.wanted()))?);
        if bytes.is_empty() { Err("is empty".to_owned()) } else { Ok(bytes) }
    }

    fn wanted(&self) -> String {
        let prefix = if self.prefix.is_empty() { String::new() } else { format!(" after \"{}\"", self.prefix) };
        format!("{}{prefix}: look for a space or a newline that came along, or for a missing end", self.encoding.as_str())
    }
}

impl SecretEncoding {
    fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.to_vec()),
            Self::Base64 => decode_copied_base64(text),
            Self::Hex => HEXLOWER_PERMISSIVE.decode(text).ok(),
            Self::Nfkd => {
                let normal = DecomposingNormalizerBorrowed::new_nfkd();
                Some(normal.normalize(std::str::from_utf8(text).ok()?).into_owned().into_bytes())
            }
            Self::Sha1 if text.is_empty() => Some(Vec::new()),
            Self::Sha1 => Some(Sha1::digest(text).to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(prefix: &str, encoding: SecretEncoding, secret: &str) -> Result<Vec<u8>, String> {
        let form = SecretForm { prefix: prefix.into(), encoding };
        form.decode(&Secret::new(secret)).map(|bytes| bytes.to_vec())
    }

    #[test]
    fn secrets_are_decoded_and_never_empty() {
        for secret in ["whsec_AP8=", "AP8=", "whsec_AP8"] {
            assert_eq!(decoded("whsec_", SecretEncoding::Base64, secret).unwrap(), [0, 255]);
        }
        assert!(decoded("whsec_", SecretEncoding::Base64, "whsec_AP8=\n").unwrap_err().contains("newline"));
        assert_eq!(decoded("", SecretEncoding::Utf8, "whsec_x").unwrap(), b"whsec_x");
        assert_eq!(decoded("", SecretEncoding::Hex, "00fF").unwrap(), [0, 255]);
        for encoding in [SecretEncoding::Utf8, SecretEncoding::Base64, SecretEncoding::Hex, SecretEncoding::Sha1] {
            assert!(decoded("whsec_", encoding, "").is_err() && decoded("whsec_", encoding, "whsec_").is_err());
        }
    }

    #[test]
    fn a_text_may_be_decomposed_or_digested_first() {
        assert_eq!(decoded("", SecretEncoding::Nfkd, "s\u{e9}cret").unwrap(), "se\u{301}cret".as_bytes());
        assert_eq!(decoded("", SecretEncoding::Sha1, "abc").unwrap()[..3], [0xa9, 0x99, 0x3e]);
    }

    #[test]
    fn a_key_in_pem_needs_no_encoding() {
        assert!(decoded("", SecretEncoding::Hex, "-----BEGIN PUBLIC KEY-----").is_ok());
    }
}
