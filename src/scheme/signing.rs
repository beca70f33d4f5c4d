//! Private keys, for those who play the provider: `sign`, `send` and tests.

use std::fmt;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};

use super::algorithm::Verifier;
use super::public_key::pem;

#[derive(Clone)]
pub(super) struct Signer {
    verifier: Verifier,
    pair: Pair,
}

#[derive(Clone)]
enum Pair {
    Ed25519(Arc<Ed25519KeyPair>),
    Ecdsa(Arc<EcdsaKeyPair>),
    Rsa(Arc<RsaKeyPair>),
}

impl Signer {
    /// Reads a private key in PKCS#8, as PEM or DER.
    pub fn new(verifier: Verifier, bytes: &[u8]) -> Result<Self, String> {
        let der = match pem(bytes) {
            Some((label, der)) if label == "PRIVATE KEY" => der,
            Some((label, _)) => return Err(format!("is a \"{label}\"; a \"PRIVATE KEY\" (PKCS#8) is needed")),
            None => bytes.to_vec(),
        };
        let unreadable =
            |error: ring::error::KeyRejected| format!("is not a private key in PKCS#8 that fits the algorithm: {error}");
        let pair = match verifier {
            Verifier::Ed25519 => Pair::Ed25519(Arc::new(Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(unreadable)?)),
            Verifier::EcdsaP256Sha256 | Verifier::EcdsaP256Sha256Fixed => {
                let form = match verifier {
                    Verifier::EcdsaP256Sha256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
                    _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
                };
                Pair::Ecdsa(Arc::new(EcdsaKeyPair::from_pkcs8(form, &der, &SystemRandom::new()).map_err(unreadable)?))
            }
            _ => Pair::Rsa(Arc::new(RsaKeyPair::from_pkcs8(&der).map_err(unreadable)?)),
        };
        Ok(Self { verifier, pair })
    }

    pub fn verifier(&self) -> Verifier {
        self.verifier
    }

    pub fn public_key(&self) -> &[u8] {
        match &self.pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "could not be signed with".to_owned();
        match &self.pair {
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::Ecdsa(pair) => Ok(pair.sign(&SystemRandom::new(), message).map_err(failed)?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let padding: &'static dyn RsaEncoding = match self.verifier {
                    Verifier::RsaPkcs1Sha512 => &RSA_PKCS1_SHA512,
                    Verifier::RsaPssSha256 => &RSA_PSS_SHA256,
                    Verifier::RsaPssSha512 => &RSA_PSS_SHA512,
                    Verifier::RsaPkcs1Sha1 => return Err("signs with SHA-1, which is verified here and never made".to_owned()),
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &SystemRandom::new(), message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}
