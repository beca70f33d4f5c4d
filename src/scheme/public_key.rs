//! Public keys as providers hand them out: PEM, a certificate, DER, or the bare key.

use std::time::SystemTime;

use data_encoding::BASE64;

use super::algorithm::Verifier;

const UNREADABLE: &str = "is not a public key that can be read";
/// The longest key that is looked at: a certificate with an RSA key of 8192 bits and room to spare.
const BYTES_MAX: usize = 32 * 1024;

/// The key as it is verified with: the point of a curve, or an RSA key's modulus and exponent.
pub(super) fn read(verifier: Verifier, bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(UNREADABLE.to_owned());
    }
    let der = match pem(bytes) {
        Some((label, der)) if label == "CERTIFICATE" => of_certificate(&der).ok_or("is a certificate that cannot be read")?,
        Some((label, der)) if label == "PUBLIC KEY" || label == "RSA PUBLIC KEY" => der,
        Some((label, _)) => return Err(format!("is a \"{label}\", not a public key")),
        None => bytes.to_vec(),
    };
    let key = of_spki(&der).unwrap_or(&der);
    let is_right = match verifier {
        Verifier::Ed25519 => key.len() == 32,
        // Uncompressed: a four and two numbers.
        Verifier::EcdsaP256Sha256 | Verifier::EcdsaP256Sha256Fixed => key.len() == 65 && key[0] == 4,
        // A sequence of two numbers; what it holds is looked at when it is used.
        _ => key.len() > 256 && key[0] == SEQUENCE,
    };
    if is_right { Ok(key.to_vec()) } else { Err(UNREADABLE.to_owned()) }
}

/// The first block of a PEM text, whatever stands around it.
pub(super) fn pem(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (inner, _) = rest.split_once(&format!("-----END {label}-----"))?;
    // Variables hold their newlines as `\n` now and then.
    let digits: String = inner.replace("\\n", "").chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    Some((label.to_owned(), BASE64.decode(digits.as_bytes()).ok()?))
}

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// The bits of a SubjectPublicKeyInfo: a sequence of the algorithm and a bit string.
fn of_spki(der: &[u8]) -> Option<&[u8]> {
    let (inner, rest) = tagged(der, SEQUENCE)?;
    let (_, after) = tagged(inner, SEQUENCE)?;
    let (bits, end) = tagged(after, BIT_STRING)?;
    let (unused, key) = bits.split_first()?;
    (rest.is_empty() && end.is_empty() && *unused == 0).then_some(key)
}

/// The SubjectPublicKeyInfo of a certificate. Who signed the certificate is not asked: it comes from a pinned place.
fn of_certificate(der: &[u8]) -> Option<Vec<u8>> {
    // Number, algorithm, issuer, validity, subject; then the key.
    let fields = fields_behind(der, 5)?;
    let (_, rest) = tagged(fields, SEQUENCE)?;
    Some(fields[..fields.len() - rest.len()].to_vec())
}

/// When a certificate ends.
pub fn not_after(der: &[u8]) -> Option<SystemTime> {
    let (validity, _) = tagged(fields_behind(der, 3)?, SEQUENCE)?;
    let (_, end) = any(validity)?;
    let (text, _) = any(end)?;
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    // RFC 5280, 4.1.2.5: two digits of the year until 2049, four from then on.
    let digits = match (digits.len(), digits) {
        (12, year) if *year >= *"5" => format!("19{year}"),
        (12, year) => format!("20{year}"),
        _ => digits.to_owned(),
    };
    let part = |from: usize, to: usize| digits.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

/// What follows the first `count` fields of a certificate, its version not counted.
fn fields_behind(der: &[u8], count: usize) -> Option<&[u8]> {
    let (certificate, _) = tagged(der, SEQUENCE)?;
    let (mut fields, _) = tagged(certificate, SEQUENCE)?;
    if fields.first() == Some(&0xa0) {
        fields = any(fields)?.1;
    }
    for _ in 0..count {
        fields = any(fields)?.1;
    }
    Some(fields)
}

/// What stands in the value with this tag, and what follows it.
fn tagged(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    if der.first() == Some(&tag) { any(der) } else { None }
}

fn any(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410, section 10.1 and 10.2: a public key, and a certificate with the same kind of key.
    const ED25519: &str =
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn a_key_is_read_in_all_its_forms() {
        let bare = read(Verifier::Ed25519, ED25519.as_bytes()).unwrap();
        assert_eq!(bare[..3], [0x19, 0xbf, 0x44]);
        let der = pem(ED25519.as_bytes()).unwrap().1;
        assert_eq!(read(Verifier::Ed25519, &der).unwrap(), bare);
        assert_eq!(read(Verifier::Ed25519, &bare).unwrap(), bare);
        assert_eq!(read(Verifier::Ed25519, ED25519.replace('\n', "\\n").as_bytes()).unwrap(), bare);
    }

    #[test]
    fn what_is_no_public_key_is_told_apart() {
        for wrong in ["", "x", "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"] {
            assert_eq!(read(Verifier::Ed25519, wrong.as_bytes()).unwrap_err(), UNREADABLE, "{wrong}");
        }
        let private = "-----BEGIN PRIVATE KEY-----\nMCow\n-----END PRIVATE KEY-----";
        assert_eq!(read(Verifier::Ed25519, private.as_bytes()).unwrap_err(), "is a \"PRIVATE KEY\", not a public key");
        assert!(read(Verifier::EcdsaP256Sha256, ED25519.as_bytes()).is_err());
        assert!(read(Verifier::RsaPkcs1Sha256, ED25519.as_bytes()).is_err());
        assert!(read(Verifier::Ed25519, &[0; BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, seconds) in [(2027, 1_798_761_600), (2049, 2_493_072_000), (2060, 2_840_140_800)] {
            let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&key).unwrap();
            assert_eq!(not_after(certificate.der()), Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)));
        }
        assert_eq!(not_after(b"\x30\x03\x30\x01\x00"), None);
    }

    #[test]
    fn the_key_of_a_certificate_is_the_one_it_was_made_for() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["sns.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let of_certificate = read(Verifier::EcdsaP256Sha256, certificate.pem().as_bytes()).unwrap();
        assert_eq!(of_certificate, read(Verifier::EcdsaP256Sha256, key.public_key_pem().as_bytes()).unwrap());
    }
}
