//! JSON Web Tokens: three parts of base64url, of which the third signs the first two.

use data_encoding::BASE64URL_NOPAD;

use super::disproof::Disproof;
use super::json::{self, Sought};
use super::place::Pointer;

/// A token, taken apart and not yet believed.
#[derive(Debug)]
pub(super) struct Token<'a> {
    head: Vec<u8>,
    claims: Vec<u8>,
    /// What its signature is made over.
    pub signed: &'a str,
    pub signature: &'a str,
}

impl<'a> Token<'a> {
    pub fn parse(text: &'a str) -> Result<Self, Disproof> {
        let parse = || {
            let (signed, signature) = text.rsplit_once('.')?;
            let (head, claims) = signed.split_once('.')?;
            let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).ok();
            Some(Self { head: decode(head)?, claims: decode(claims)?, signed, signature })
        };
        parse().ok_or(Disproof::MalformedSignature)
    }

    /// Whether its head names the algorithm, and asks for nothing that is not understood.
    pub fn is_for(&self, algorithm: &str) -> bool {
        let named = self.part("alg").ok().flatten();
        let asks_more = !matches!(json::find(&self.head, &Pointer::of_step("crit")), Some(Sought::Absent));
        named.as_deref() == Some(algorithm.as_bytes()) && !asks_more
    }

    /// A field of its head.
    pub fn part(&self, name: &str) -> Result<Option<Vec<u8>>, Disproof> {
        text_at(&self.head, &Pointer::of_step(name))
    }

    pub fn claim(&self, pointer: &Pointer) -> Result<Option<Vec<u8>>, Disproof> {
        text_at(&self.claims, pointer)
    }

    /// Whether anything stands there, be it text or not.
    pub fn has_claim(&self, name: &str) -> bool {
        !matches!(json::find(&self.claims, &Pointer::of_step(name)), Some(Sought::Absent))
    }
}

fn text_at(document: &[u8], pointer: &Pointer) -> Result<Option<Vec<u8>>, Disproof> {
    match json::find(document, pointer) {
        Some(Sought::Found(raw)) => Ok(json::text_of(raw).map(|text| text.into_owned().into_bytes())),
        Some(Sought::Absent) => Ok(None),
        Some(Sought::Repeated) | None => Err(Disproof::MalformedSignature),
    }
}

/// A claim of a token in a text, such as `Bearer TOKEN`. Whether the token is right is asked elsewhere.
pub(super) fn claim_in(text: &[u8], pointer: &Pointer) -> Result<Option<Vec<u8>>, Disproof> {
    let text = std::str::from_utf8(text).map_err(|_| Disproof::MalformedSignature)?;
    let token = text.rsplit(' ').next().unwrap_or(text);
    Token::parse(token)?.claim(pointer)
}

/// Writes the part of a token that is signed.
pub(super) fn unsigned(head: &serde_json::Value, claims: &serde_json::Value) -> String {
    let part = |json: &serde_json::Value| BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    format!("{}.{}", part(head), part(claims))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_taken_apart_strictly() {
        let text =
            format!("{}.sig", unsigned(&json!({"alg": "HS256", "kid": "k"}), &json!({"sub": "x", "n": 5, "o": {"a": "b"}})));
        let token = Token::parse(&text).unwrap();
        assert!(token.is_for("HS256") && !token.is_for("none"));
        assert_eq!(token.part("kid"), Ok(Some(b"k".to_vec())));
        assert_eq!(token.claim(&Pointer::parse("/o/a").unwrap()), Ok(Some(b"b".to_vec())));
        assert_eq!(token.claim(&Pointer::of_step("n")), Ok(Some(b"5".to_vec())));
        assert_eq!(token.claim(&Pointer::of_step("z")), Ok(None));
        assert!(token.has_claim("o") && !token.has_claim("z"));
        assert_eq!((token.signed, token.signature), text.rsplit_once('.').unwrap());
        assert_eq!(claim_in(format!("Bearer {text}").as_bytes(), &Pointer::of_step("sub")), Ok(Some(b"x".to_vec())));
        for wrong in ["", "a.b", "a.b.c", &text.replace('.', "=."), &format!("{text}.x")] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_head_asks_for_and_nobody_understands_is_refused() {
        let text = format!("{}.sig", unsigned(&json!({"alg": "HS256", "crit": ["b64"]}), &json!({})));
        assert!(!Token::parse(&text).unwrap().is_for("HS256"));
    }
}
