//! Second ways to write a signature: each signature has one spelling, one algorithm and one place, and all others are refused.

use data_encoding::{BASE64, BASE64URL, BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::raw::Recorder;
use crate::support::proxy::{Proxy, Setup};
use crate::support::sender::{Delivery, SECRET, github, now, stripe};
use crate::support::wire::Wire;

fn hmac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut state = <M as KeyInit>::new_from_slice(key).unwrap();
    state.update(message);
    state.finalize().into_bytes().to_vec()
}

fn sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::<Hmac<Sha256>>(key, message)
}

const BODY: &[u8] = b"{\"id\":\"e1\"}";

/// A sender of our own beside the others, at `/own`.
fn own(setup: Setup, keys: &str, scheme: &str) -> Setup {
    let own = "[providers.own]\npath = \"/own\"\nevent_id = { json = \"/id\" }";
    setup.table(&format!("{own}\n{keys}\n[providers.own.scheme]\n{scheme}"))
}

/// The status of a delivery with this header line, byte by byte.
async fn status(proxy: &Proxy, path: &str, line: &[u8], body: &[u8]) -> u16 {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nx-github-delivery: e1\r\ncontent-length: {}\r\n", body.len());
    Wire::with(proxy.listen, &[head.as_bytes(), line, b"\r\n\r\n", body].concat()).await.answer().await.status
}

async fn refuses_all(proxy: Proxy, recorder: Recorder, path: &str, name: &str, values: &[Vec<u8>], right: &[u8]) {
    for value in values {
        let line = [name.as_bytes(), b": ", value].concat();
        let status = status(&proxy, path, &line, BODY).await;
        assert!(matches!(status, 400 | 401), "{:?}: {status}", String::from_utf8_lossy(value));
    }
    assert_eq!(recorder.text(), "");
    assert_eq!(status(&proxy, path, &[name.as_bytes(), b": ", right].concat(), BODY).await, 200);
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 1);
}

#[tokio::test]
async fn hex_is_written_in_one_way() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let hex = HEXLOWER.encode(&sha256(SECRET.as_bytes(), BODY));
    let digit = hex.chars().find(char::is_ascii_digit).unwrap();
    let wide = char::from_u32(0xff10 + digit.to_digit(10).unwrap()).unwrap().to_string();
    let values = [
        format!("sha256={}", hex.to_uppercase()),
        format!("SHA256={hex}"),
        format!("sha256= {hex}"),
        format!("sha256={hex} x"),
        format!("sha256={} {}", &hex[..32], &hex[32..]),
        format!("sha256=\t{hex}"),
        format!("sha256=0x{hex}"),
        format!("sha256=+{hex}"),
        format!("sha256={}", &hex[1..]),
        format!("sha256={}", &hex[..62]),
        format!("sha256={hex}0"),
        format!("sha256={hex}00"),
        format!("sha256={}", hex.replacen(digit, &wide, 1)),
        format!("sha256={hex},sha256={hex}"),
        format!("sha256=\"{hex}\""),
        format!("sha256=sha256={hex}"),
        format!("={hex}"),
        hex.clone(),
        "sha256=".to_owned(),
        "sha256".to_owned(),
        format!("sha256={}", "g".repeat(64)),
        format!("sha256={}", "0".repeat(64)),
        format!("sha256={}", "0".repeat(20_000)),
        format!("sha256={}", BASE64.encode(&sha256(SECRET.as_bytes(), BODY))),
    ];
    let values = values.map(String::into_bytes);
    refuses_all(proxy, recorder, "/github", "x-hub-signature-256", &values, format!("sha256={hex}").as_bytes()).await;
}

#[tokio::test]
async fn base64_is_written_in_one_way() {
    let recorder = Recorder::new().await;
    let keys = format!("secret = \"{SECRET}\"");
    let proxy = own(recorder.setup().await, &keys, "signature = { header = \"X-Sig\" }\nencoding = \"base64\"").start();
    let mac = sha256(SECRET.as_bytes(), BODY);
    let right = BASE64.encode(&mac);
    // 32 bytes leave two bits of the last letter unused: a lenient reader takes four letters for one.
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let last = letters.find(right.chars().nth(42).unwrap()).unwrap();
    let trailing = format!("{}{}=", &right[..42], letters.chars().nth(last | 1).unwrap());
    assert_ne!(trailing, right);
    let values = [
        trailing,
        right.trim_end_matches('=').to_owned(),
        format!("{right}="),
        format!("{right}=="),
        format!("{}==", right.trim_end_matches('=')),
        format!("{} {}", &right[..20], &right[20..]),
        format!("={right}"),
        format!("{}.{}", &right[..20], &right[20..]),
        format!("{right},{right}"),
        format!("\"{right}\""),
        BASE64URL.encode(&mac).replace('=', ""),
        HEXLOWER.encode(&mac),
        BASE64.encode(HEXLOWER.encode(&mac).as_bytes()),
        BASE64.encode(&mac[..31]),
        BASE64.encode(&[&mac[..], b"\0"].concat()),
        right.to_lowercase(),
    ];
    let mut values = values.map(String::into_bytes).to_vec();
    values.push([&right.as_bytes()[..20], b"\xc2\xa0", &right.as_bytes()[20..]].concat());
    values.push([right.as_bytes(), b"\xff"].concat());
    refuses_all(proxy, recorder, "/own", "x-sig", &values, right.as_bytes()).await;
    // The other alphabet, where it makes a difference.
    let body = (0..).map(|n| format!("{{\"id\":\"{n}\"}}")).find(|body| {
        let text = BASE64.encode(&sha256(SECRET.as_bytes(), body.as_bytes()));
        text.contains('+') && text.contains('/')
    });
    let body = body.unwrap();
    let recorder = Recorder::new().await;
    let proxy = own(recorder.setup().await, &keys, "signature = { header = \"X-Sig\" }\nencoding = \"base64\"").start();
    let url = BASE64URL.encode(&sha256(SECRET.as_bytes(), body.as_bytes()));
    assert_eq!(status(&proxy, "/own", format!("x-sig: {url}").as_bytes(), body.as_bytes()).await, 401);
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_timestamp_is_plain_digits() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let now = now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let signed = |text: &str| {
        let mac = sha256(SECRET.as_bytes(), &[text.as_bytes(), b".", BODY].concat());
        format!("t={text},v1={}", HEXLOWER.encode(&mac))
    };
    let wide: String = now.to_string().chars().map(|c| char::from_u32(0xff10 + c.to_digit(10).unwrap()).unwrap()).collect();
    // Each is signed rightly as it stands.
    let values = [
        format!("+{now}"),
        format!(" {now}"),
        format!("{now} "),
        format!("{now}.0"),
        format!("{now}e0"),
        format!("0x{now:x}"),
        format!("-{now}"),
        "1e9".to_owned(),
        format!("000{now}"),
        format!("{now}000000"),
        "99999999999999999999999999".to_owned(),
        "18446744073709551615".to_owned(),
        "".to_owned(),
        "0".to_owned(),
        "NaN".to_owned(),
        format!("{now}_"),
        wide,
    ];
    let values = values.map(|text| signed(&text).into_bytes());
    let mut twice = vec![format!("t={now},{}", signed(&now.to_string())).into_bytes()];
    twice.extend(values);
    refuses_all(proxy, recorder, "/stripe", "stripe-signature", &twice, signed(&now.to_string()).as_bytes()).await;
}

#[tokio::test]
async fn the_algorithm_is_the_configured_one_whatever_a_request_says() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let (sha1, sha512) = (hmac::<Hmac<Sha1>>(SECRET.as_bytes(), BODY), hmac::<Hmac<Sha512>>(SECRET.as_bytes(), BODY));
    let hex = HEXLOWER.encode(&sha256(SECRET.as_bytes(), BODY));
    let values = [
        format!("sha1={}", HEXLOWER.encode(&sha1)),
        format!("sha256={}", HEXLOWER.encode(&sha1)),
        format!("sha512={}", HEXLOWER.encode(&sha512)),
        format!("sha256={}", HEXLOWER.encode(&sha512)),
        format!("sha1={hex}"),
        format!("md5={hex}"),
        format!("none={hex}"),
        "none=".to_owned(),
        format!("sha256={}", HEXLOWER.encode(&sha256(b"", BODY))),
    ];
    let values = values.map(String::into_bytes);
    refuses_all(proxy, recorder, "/github", "x-hub-signature-256", &values, format!("sha256={hex}").as_bytes()).await;
}

#[tokio::test]
async fn a_token_is_believed_only_in_the_algorithm_and_by_the_key_that_are_configured() {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let public = pair.public_key_pem();
    let recorder = Recorder::new().await;
    let keys = format!("public_key = \"\"\"\n{public}\"\"\"");
    let scheme =
        "signature = { header = \"X-Jwt\" }\nalgorithm = \"jwt-es256\"\nmatch = [{ claim = \"b\", is = \"{sha256_hex(body)}\" }]";
    let proxy = own(recorder.setup().await, &keys, scheme).start();
    let claims = format!("{{\"b\":\"{}\"}}", HEXLOWER.encode(&<Sha256 as sha2::Digest>::digest(BODY)));
    let encode = |text: &[u8]| BASE64URL_NOPAD.encode(text);
    let token = |head: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let signed = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
        format!("{signed}.{}", encode(&sign(signed.as_bytes())))
    };
    let none = |_: &[u8]| Vec::new();
    let lines: String = public.lines().filter(|line| !line.starts_with('-')).collect();
    let der = BASE64.decode(lines.as_bytes()).unwrap();
    let mut values = vec![];
    for head in ["{\"alg\":\"none\"}", "{\"alg\":\"None\"}", "{\"alg\":\"\"}", "{}", "{\"alg\":null}", "{\"alg\":\"ES256\"}"] {
        values.push(token(head, &none));
        values.push(token(head, &|_| vec![0; 64]));
    }
    // The public key, which everybody has, as the secret of a MAC.
    for key in [public.as_bytes(), public.trim().as_bytes(), &der[..], pair.public_key_raw()] {
        for head in ["{\"alg\":\"HS256\"}", "{\"alg\":\"ES256\"}", "{\"alg\":\"HS256\",\"kid\":\"../../dev/null\"}"] {
            values.push(token(head, &|signed| sha256(key, signed)));
        }
    }
    // A key that the token brings along, or says where to find.
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let x = encode(&other.public_key_raw()[1..33]);
    let y = encode(&other.public_key_raw()[33..]);
    let sign = |pair: &rcgen::KeyPair, message: &[u8]| {
        let random = ring::rand::SystemRandom::new();
        let kind = &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = ring::signature::EcdsaKeyPair::from_pkcs8(kind, &pair.serialize_der(), &random).unwrap();
        key.sign(&random, message).unwrap().as_ref().to_vec()
    };
    for head in [
        format!("{{\"alg\":\"ES256\",\"jwk\":{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{x}\",\"y\":\"{y}\"}}}}"),
        "{\"alg\":\"ES256\",\"jku\":\"http://127.0.0.1/jwks\"}".to_owned(),
        "{\"alg\":\"ES256\",\"x5u\":\"http://127.0.0.1/x\"}".to_owned(),
        "{\"alg\":\"ES256\",\"kid\":\"' OR 1=1 --\"}".to_owned(),
        "{\"alg\":\"ES256\",\"alg\":\"none\"}".to_owned(),
        "{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}".to_owned(),
    ] {
        values.push(token(&head, &|signed| sign(&other, signed)));
    }
    let right = token("{\"alg\":\"ES256\"}", &|signed| sign(&pair, signed));
    values.extend([format!("{right}="), format!("{right}."), right.replacen('.', "..", 1), right.to_lowercase()]);
    let values: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
    refuses_all(proxy, recorder, "/own", "x-jwt", &values, right.as_bytes()).await;
}

#[tokio::test]
async fn of_several_signatures_one_must_hold_and_there_are_not_many() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let now = now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let hex = HEXLOWER.encode(&sha256(SECRET.as_bytes(), &[now.to_string().as_bytes(), b".", BODY].concat()));
    let wrong = |count: usize| format!("v1={},", "0".repeat(64)).repeat(count);
    let values = [
        format!("t={now},v0={hex}"),
        format!("t={now},v2={hex},v0={hex}"),
        format!("t={now},V1={hex}"),
        format!("t={now},v1 ={hex}"),
        format!("t={now},v1={hex}x"),
        format!("t={now},{}", wrong(64).trim_end_matches(',')),
        format!("t={now},{}v1={hex}", wrong(64)),
        format!("t={now},v1={hex},{}", wrong(64).trim_end_matches(',')),
        format!("t={now},{}v1={hex}", "x=1,".repeat(100)),
        format!("t={now}"),
        format!("v1={hex}"),
    ];
    let values = values.map(String::into_bytes);
    let right = format!("t={now},{}v0=x,v1={hex}", wrong(63));
    refuses_all(proxy, recorder, "/stripe", "stripe-signature", &values, right.as_bytes()).await;
}

#[tokio::test]
async fn a_thousand_signatures_in_one_header_are_refused_before_the_body() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let signature = stripe("e1").headers["stripe-signature"].to_str().unwrap().to_owned();
    let (_, one) = signature.split_once(',').unwrap();
    // Short ones, and more than a header of a signature may be long.
    for (many, code) in [(",v1=00".repeat(1000), "too_many_signatures"), (format!(",{one}").repeat(400), "malformed_signature")] {
        let delivery = stripe("e1").with("stripe-signature", &format!("{signature}{many}"));
        let mut wire = delivery.begin_head(proxy.listen).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (401, Some(code)));
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_header_of_the_proof_that_is_there_twice_is_refused_in_both_orders() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let right = github("e1").headers["x-hub-signature-256"].to_str().unwrap().to_owned();
    let wrong = format!("sha256={}", "0".repeat(64));
    for (first, second) in [(&right, &wrong), (&wrong, &right), (&right, &right)] {
        let delivery = github("e1").with("x-hub-signature-256", first).also("x-hub-signature-256", second);
        assert_eq!(proxy.send(&delivery).await.json()["code"], "repeated_value");
        let stripe_signature = stripe("e1").headers["stripe-signature"].to_str().unwrap().to_owned();
        assert_eq!(proxy.send(&stripe("e1").also("stripe-signature", &stripe_signature)).await.json()["code"], "repeated_value");
    }
    let ids = |first: &str, second: &str| github("e1").with("x-github-delivery", first).also("x-github-delivery", second);
    for delivery in [ids("e1", "e2"), ids("e2", "e1"), ids("e1", "e1")] {
        assert_eq!(proxy.send(&delivery).await.json()["code"], "bad_event_id");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

/// What cannot hold is told as one thing: which of several causes it was is nobody's to learn but by the log's codes.
#[tokio::test]
async fn an_answer_to_a_forgery_has_one_shape() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let forged: [Delivery; 4] = [
        github("e1").with("x-hub-signature-256", &format!("sha256={}", "0".repeat(64))),
        github("e1").with_body("{}"),
        github("e2").with("x-hub-signature-256", github("e1").headers["x-hub-signature-256"].to_str().unwrap()),
        github("unknown").with_body(""),
    ];
    let mut answers = Vec::new();
    for delivery in &forged {
        let answer = proxy.send(delivery).await;
        answers.push((answer.status, answer.body, answer.headers.len()));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 401), "{answers:?}");
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}
