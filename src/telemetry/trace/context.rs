//! The `traceparent` header of W3C Trace Context: whose part of which trace a request is.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `00-` trace id `-` span id `-` flags: of later versions this much is fixed, too.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whether whoever began the trace wants it recorded.
    pub is_sampled: bool,
}

/// Never nought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub u128);

/// Never nought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Context {
    /// What a request came with. One that cannot be read, or comes twice, is as good as none.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(&TRACEPARENT).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Self::parse(value.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (fixed, rest) = text.split_at_checked(LENGTH)?;
        let mut parts = fixed.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = u8::try_from(hex(version, 2)?).ok()?;
        // The first version has nothing behind its flags; what a later one has there is its own.
        let is_known = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
        if version == u8::MAX || !is_known || parts.next().is_some() {
            return None;
        }
        let (trace, span) = (hex(trace, 32)?, u64::try_from(hex(span, 16)?).ok()?);
        let is_sampled = hex(flags, 2)? & u128::from(SAMPLED) != 0;
        (trace != 0 && span != 0).then_some(Self { trace: TraceId(trace), span: SpanId(span), is_sampled })
    }

    pub fn header(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))).ok()
    }
}

/// Lower case only, as the standard has it.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard.
    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_as_it_is_written() {
        let context = Context::parse(GIVEN).unwrap();
        assert_eq!((context.trace.0, context.span.0), (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));
        assert!(context.is_sampled);
        assert_eq!(context.header().unwrap(), GIVEN);
        let later = GIVEN.replacen("00", "cc", 1);
        assert_eq!(Context::parse(&later), Some(context));
        assert_eq!(Context::parse(&format!("{later}-more")), Some(context));
        assert!(!Context::parse(&GIVEN.replace("-01", "-02")).unwrap().is_sampled);
    }

    #[test]
    fn what_is_no_context_is_none() {
        let zero = |digits: usize| "0".repeat(digits);
        let wrong = [
            String::new(),
            "00".to_owned(),
            GIVEN.to_uppercase(),
            GIVEN.replacen("00", "ff", 1),
            format!("{GIVEN}-more"),
            format!("{GIVEN}x"),
            GIVEN.replacen("00", "cc", 1) + "more",
            GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &zero(32)),
            GIVEN.replace("b7ad6b7169203331", &zero(16)),
            GIVEN.replace("0af7", "+af7"),
            GIVEN.replacen('-', "_", 1),
        ];
        for text in &wrong {
            assert_eq!(Context::parse(text), None, "{text}");
        }
        let mut twice = HeaderMap::new();
        twice.append(TRACEPARENT, HeaderValue::from_static(GIVEN));
        assert!(Context::of(&twice).is_some());
        twice.append(TRACEPARENT, HeaderValue::from_static(GIVEN));
        assert_eq!(Context::of(&twice), None);
    }
}
