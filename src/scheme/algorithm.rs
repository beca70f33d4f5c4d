//! The algorithms there are. They come from the configuration, never from the request.

use crate::config::reader::choices;

choices!(
    /// How a signature is made.
    Algorithm {
        HmacSha1 = "hmac-sha1",
        HmacSha256 = "hmac-sha256",
        HmacSha384 = "hmac-sha384",
        HmacSha512 = "hmac-sha512",
        /// Plain digests: what is signed holds the secret.
        DigestMd5 = "digest-md5",
        DigestSha1 = "digest-sha1",
        DigestSha256 = "digest-sha256",
        DigestSha384 = "digest-sha384",
        DigestSha512 = "digest-sha512",
        Ed25519 = "ed25519",
        EcdsaP256Sha256 = "ecdsa-p256-sha256",
        RsaPkcs1Sha1 = "rsa-pkcs1-sha1",
        RsaPkcs1Sha256 = "rsa-pkcs1-sha256",
        RsaPkcs1Sha512 = "rsa-pkcs1-sha512",
        RsaPssSha256 = "rsa-pss-sha256",
        RsaPssSha512 = "rsa-pss-sha512",
        JwtHs256 = "jwt-hs256",
        JwtHs384 = "jwt-hs384",
        JwtHs512 = "jwt-hs512",
        JwtRs256 = "jwt-rs256",
        JwtRs512 = "jwt-rs512",
        JwtEs256 = "jwt-es256",
        JwtEdDsa = "jwt-eddsa",
        Token = "token",
    }
);

/// What a key does, whatever it is wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primitive {
    Hmac(Digest),
    /// Over bytes among which the secret is.
    Digest(Digest),
    Public(Verifier),
    Token,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verifier {
    Ed25519,
    /// The signature is DER.
    EcdsaP256Sha256,
    /// The signature is both numbers, one behind the other.
    EcdsaP256Sha256Fixed,
    RsaPkcs1Sha1,
    RsaPkcs1Sha256,
    RsaPkcs1Sha512,
    RsaPssSha256,
    RsaPssSha512,
}

impl Digest {
    fn bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

impl Primitive {
    /// Whether these bytes are as many as a signature has. A token may have any number but none.
    pub fn fits(self, signature: &[u8]) -> bool {
        match self {
            Self::Hmac(digest) | Self::Digest(digest) => signature.len() == digest.bytes(),
            Self::Public(Verifier::Ed25519 | Verifier::EcdsaP256Sha256Fixed) => signature.len() == 64,
            Self::Public(Verifier::EcdsaP256Sha256) => (8..=72).contains(&signature.len()),
            // 2048 to 8192 bits.
            Self::Public(_) => (256..=1024).contains(&signature.len()),
            Self::Token => !signature.is_empty(),
        }
    }
}

impl Algorithm {
    pub(super) fn primitive(self) -> Primitive {
        match self {
            Self::HmacSha1 => Primitive::Hmac(Digest::Sha1),
            Self::HmacSha256 | Self::JwtHs256 => Primitive::Hmac(Digest::Sha256),
            Self::HmacSha384 | Self::JwtHs384 => Primitive::Hmac(Digest::Sha384),
            Self::HmacSha512 | Self::JwtHs512 => Primitive::Hmac(Digest::Sha512),
            Self::DigestMd5 => Primitive::Digest(Digest::Md5),
            Self::DigestSha1 => Primitive::Digest(Digest::Sha1),
            Self::DigestSha256 => Primitive::Digest(Digest::Sha256),
            Self::DigestSha384 => Primitive::Digest(Digest::Sha384),
            Self::DigestSha512 => Primitive::Digest(Digest::Sha512),
            Self::Ed25519 | Self::JwtEdDsa => Primitive::Public(Verifier::Ed25519),
            Self::EcdsaP256Sha256 => Primitive::Public(Verifier::EcdsaP256Sha256),
            Self::JwtEs256 => Primitive::Public(Verifier::EcdsaP256Sha256Fixed),
            Self::RsaPkcs1Sha1 => Primitive::Public(Verifier::RsaPkcs1Sha1),
            Self::RsaPkcs1Sha256 | Self::JwtRs256 => Primitive::Public(Verifier::RsaPkcs1Sha256),
            Self::RsaPkcs1Sha512 | Self::JwtRs512 => Primitive::Public(Verifier::RsaPkcs1Sha512),
            Self::RsaPssSha256 => Primitive::Public(Verifier::RsaPssSha256),
            Self::RsaPssSha512 => Primitive::Public(Verifier::RsaPssSha512),
            Self::Token => Primitive::Token,
        }
    }

    /// What a token's head must name as its algorithm. `None`: the signature is no JSON Web Token.
    pub(super) fn jwt_name(self) -> Option<&'static str> {
        match self {
            Self::JwtHs256 => Some("HS256"),
            Self::JwtHs384 => Some("HS384"),
            Self::JwtHs512 => Some("HS512"),
            Self::JwtRs256 => Some("RS256"),
            Self::JwtRs512 => Some("RS512"),
            Self::JwtEs256 => Some("ES256"),
            Self::JwtEdDsa => Some("EdDSA"),
            _ => None,
        }
    }

    /// Whether it verifies with a public key, so that there is nothing to keep secret.
    pub(super) fn is_public(self) -> bool {
        matches!(self.primitive(), Primitive::Public(_))
    }
}
