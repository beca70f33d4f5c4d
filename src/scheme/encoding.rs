//! How bytes are written as text: signatures, secrets, digests. Strict: one alphabet, no spaces, and no second way to
//! write the same bytes.

use data_encoding::{
    BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, DecodePartial, Encoding as Alphabet, HEXLOWER, HEXLOWER_PERMISSIVE,
    HEXUPPER,
};
use smallvec::{SmallVec, smallvec};

use crate::config::reader::choices;

/// A signature's bytes: those of MACs stay on the stack.
pub(super) type SignatureBytes = SmallVec<[u8; 64]>;

choices!(
    /// How a signature's bytes are written.
    Encoding {
        Hex = "hex",
        HexUpper = "hex-upper",
        HexAnyCase = "hex-any-case",
        Base64 = "base64",
        Base64Unpadded = "base64-unpadded",
        Base64Url = "base64url",
        /// The hex digits, taken as text, in base64.
        Base64OfHex = "base64-of-hex",
        /// As it is: for tokens.
        Text = "text",
    }
);

impl Encoding {
    pub(super) fn decode(self, text: &str) -> Option<SignatureBytes> {
        match self {
            Self::Hex => decode_hex(text.as_bytes()),
            Self::HexUpper => decode(&HEXUPPER, text.as_bytes()),
            Self::HexAnyCase => decode(&HEXLOWER_PERMISSIVE, text.as_bytes()),
            Self::Base64 => decode_base64(text.as_bytes()),
            Self::Base64Unpadded => decode(&BASE64_NOPAD, text.as_bytes()),
            // Padding is the writer's choice in this alphabet.
            Self::Base64Url if text.ends_with('=') => decode(&BASE64URL, text.as_bytes()),
            Self::Base64Url => decode(&BASE64URL_NOPAD, text.as_bytes()),
            Self::Base64OfHex => decode(&HEXLOWER, &decode(&BASE64, text.as_bytes())?),
            Self::Text => Some(SmallVec::from_slice(text.as_bytes())),
        }
    }

    /// `None` where the bytes are no text and should be.
    pub(super) fn encode(self, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Self::Hex | Self::HexAnyCase => HEXLOWER.encode(bytes),
            Self::HexUpper => HEXUPPER.encode(bytes),
            Self::Base64 => BASE64.encode(bytes),
            Self::Base64Unpadded => BASE64_NOPAD.encode(bytes),
            Self::Base64Url => BASE64URL_NOPAD.encode(bytes),
            Self::Base64OfHex => BASE64.encode(HEXLOWER.encode(bytes).as_bytes()),
            Self::Text => std::str::from_utf8(bytes).ok()?.to_owned(),
        })
    }
}

/// What nearly everybody sends, and without a table: many digits are looked at at once.
fn decode_hex(text: &[u8]) -> Option<SignatureBytes> {
    let mut digits = [0_u8; HEX_DIGITS_MAX];
    // No signature in hex is longer than that of SHA-512 but those of RSA.
    let Some(digits) = digits.get_mut(..text.len()) else { return decode(&HEXLOWER, text) };
    let mut is_right = text.len().is_multiple_of(2);
    for (digit, letter) in digits.iter_mut().zip(text) {
        let (number, letter) = (letter.wrapping_sub(b'0'), letter.wrapping_sub(b'a'));
        *digit = if number < 10 { number } else { letter.wrapping_add(10) };
        is_right &= (number < 10) | (letter < 6);
    }
    let (pairs, _) = digits.as_chunks::<2>();
    let mut bytes = [0_u8; HEX_DIGITS_MAX / 2];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        // The first of the two is the low half here. Put together so, several pairs are as well.
        let pair = u16::from_le_bytes(*pair);
        *byte = (pair << 4 | pair >> 8) as u8;
    }
    is_right.then(|| SignatureBytes::from_slice(&bytes[..pairs.len()]))
}

const HEX_DIGITS_MAX: usize = 128;

/// The 32 bytes of SHA-256 in a third of the time; others as ever.
fn decode_base64(text: &[u8]) -> Option<SignatureBytes> {
    const WRONG: u32 = 1 << 31;
    const DIGITS: [u32; 256] = {
        let mut digits = [WRONG; 256];
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut digit = 0;
        while digit < 64 {
            digits[alphabet[digit] as usize] = digit as u32;
            digit += 1;
        }
        digits
    };
    let Some((text, [a, b, c, b'='])) = <&[u8; 44]>::try_from(text).ok().and_then(|text| text.split_last_chunk::<4>()) else {
        return decode(&BASE64, text);
    };
    let digit = |letter: &u8| DIGITS[usize::from(*letter)];
    let (mut bytes, mut wrong) = ([0_u8; 32], 0);
    for ([a, b, c, d], three) in text.as_chunks::<4>().0.iter().zip(bytes.as_chunks_mut::<3>().0) {
        let (a, b, c, d) = (digit(a), digit(b), digit(c), digit(d));
        wrong |= a | b | c | d;
        let [_, bits @ ..] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
        *three = bits;
    }
    let (a, b, c) = (digit(a), digit(b), digit(c));
    // Two bits are left over, and have one way to be written.
    let is_right = (wrong | a | b | c) & WRONG == 0 && c & 3 == 0;
    let [_, last @ .., _] = (a << 18 | b << 12 | c << 6).to_be_bytes();
    bytes[30..].copy_from_slice(&last);
    is_right.then(|| SignatureBytes::from_slice(&bytes))
}

fn decode(alphabet: &Alphabet, text: &[u8]) -> Option<SignatureBytes> {
    // The library takes several texts, each with its padding, for one.
    if memchr::memchr(b'=', text).is_some_and(|padding| padding + 2 < text.len()) {
        return None;
    }
    let mut bytes: SignatureBytes = smallvec![0; alphabet.decode_len(text.len()).ok()?];
    let length = alphabet.decode_mut(text, &mut bytes).map_err(|DecodePartial { .. }| ()).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Bytes that a person has copied: the padding gets lost now and then, and the bytes are the same without it.
pub(super) fn decode_copied_base64(text: &[u8]) -> Option<Vec<u8>> {
    [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD].iter().find_map(|alphabet| alphabet.decode(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_strict() {
        let bytes = [0, 255, 254];
        for (encoding, right, wrong) in [
            (
                Encoding::Hex,
                "00fffe",
                &["00FFFE", "00fff", "00 fffe", "0x00fffe", "00fffz", "00fffe\n", "00fff`", "00fffg", "00ff:e", "00ff/e"][..],
            ),
            (Encoding::HexUpper, "00FFFE", &["00fffe"]),
            (Encoding::HexAnyCase, "00fFfE", &["00fFf"]),
            (Encoding::Base64, "AP/+", &["AP_-", "AP/+\n", " AP/+", "AP/+="]),
            (Encoding::Base64Url, "AP_-", &["AP/+", "AP_-="]),
            (Encoding::Base64OfHex, "MDBmZmZl", &["MDBGRkZF", "AP/+"]),
        ] {
            assert_eq!(encoding.decode(right).as_deref(), Some(&bytes[..]), "{right}");
            assert_eq!(encoding.decode(&encoding.encode(&bytes).unwrap()).as_deref(), Some(&bytes[..]), "{encoding:?}");
            for wrong in wrong {
                assert_eq!(encoding.decode(wrong), None, "{encoding:?}: {wrong}");
            }
        }
    }

    #[test]
    fn what_is_read_faster_is_read_the_same() {
        let bytes: Vec<u8> = (0..32).map(|byte: u8| byte.wrapping_mul(73) ^ 0xa5).collect();
        for (encoding, alphabet) in [(Encoding::Base64, BASE64), (Encoding::Hex, HEXLOWER)] {
            let right = alphabet.encode(&bytes);
            assert_eq!(encoding.decode(&right).as_deref(), Some(&bytes[..]));
            for (position, byte) in (0..right.len()).flat_map(|position| (b' '..=b'~').map(move |byte| (position, byte))) {
                let mut other = right.clone().into_bytes();
                other[position] = byte;
                let other = String::from_utf8(other).unwrap();
                // What is padded in its middle is two texts in one, which the library reads and we do not.
                let theirs = alphabet.decode(other.as_bytes()).ok().filter(|bytes| bytes.len() >= 32);
                assert_eq!(encoding.decode(&other).map(|bytes| bytes.to_vec()), theirs, "{other}");
            }
        }
    }

    #[test]
    fn padding_is_exact_where_there_is_any() {
        assert_eq!(Encoding::Base64.decode("AP8=").as_deref(), Some(&[0, 255][..]));
        for wrong in ["AP8", "AP9=", "AP8==", "AP8=AP8="] {
            assert_eq!(Encoding::Base64.decode(wrong), None, "{wrong}");
        }
        assert_eq!(Encoding::Base64Unpadded.decode("AP8").as_deref(), Some(&[0, 255][..]));
        assert_eq!(Encoding::Base64Unpadded.decode("AP8="), None);
        for right in ["AP8", "AP8="] {
            assert_eq!(Encoding::Base64Url.decode(right).as_deref(), Some(&[0, 255][..]), "{right}");
        }
        assert_eq!(Encoding::Base64Url.decode("AP9="), None);
    }
}
