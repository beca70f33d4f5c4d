//! Spellings of a path: what a consumer could take for a provider's path is passed through by none of them, and none of them
//! leads to the admin side.

use std::collections::BTreeSet;

use crate::raw::{Recorder, Request};
use crate::support::proxy::Proxy;
use crate::support::sender::{Delivery, github};
use crate::support::wire::Wire;

const SPELLINGS: &[&str] = &[
    "/github/",
    "//github",
    "///github",
    "/github//",
    "/GITHUB",
    "/GitHub",
    "/./github",
    "/github/.",
    "/github/./",
    "/x/../github",
    "/../github",
    "/github/x/..",
    "/github/a//../..",
    "/x//../../github",
    "/github/..;/..",
    "/github/%2e%2e/..",
    "/%67ithub",
    "/%2567ithub",
    "/%252567ithub",
    "/github%2f",
    "/github%2F",
    "/%2fgithub",
    "/%252fgithub",
    "/%25252fgithub",
    "/%2e/github",
    "/%2e%2e/github",
    "/x/%2e%2e%2fgithub",
    "/x%2f..%2fgithub",
    "/..%2fgithub",
    "/.%2e/github",
    "/github;x=y",
    "/github;",
    "/github;/x",
    "/;x/github",
    "/github%3bx",
    "/github%00",
    "/github%00.png",
    "/%00/github",
    "/\\github",
    "/github\\",
    "/x\\..\\github",
    "/%5cgithub",
    "/github%5c",
    "/%c0%afgithub",
    "/github%c0%af",
    "/%e0%80%afgithub",
    "/%f0%80%80%afgithub",
    "/%c1%a7ithub",
    "/%c0%2fgithub",
    "/g%00ithub",
    "/g%c4%b1thub",
    "/g%c4%b0thub",
    "/%u002fgithub",
    "/%u0067ithub",
    "/%ef%bc%8fgithub",
    "/github%ef%bc%8f",
    "/%e2%88%95github",
    "/%ef%bd%87ithub",
    "/github%20",
    "/github%09",
    "/github%0a",
    "/github%0d%0a",
    "/%20github",
    "/github.",
    "/github%2e",
    "/github.%20",
    "/github%3f",
    "/github%3fx=y",
    "/github%253fx",
    "/github%23",
    "/github%23x",
    "/github.json",
    "/github.php",
    "/github%2ejson",
];

async fn status(proxy: &Proxy, target: &str) -> u16 {
    let delivery = github("e1");
    let bytes = format!(
        "POST {target} HTTP/1.1\r\nhost: localhost\r\nx-github-delivery: e1\r\nx-hub-signature-256: {}\r\ncontent-length: {}\r\n\r\n{}",
        delivery.headers["x-hub-signature-256"].to_str().unwrap(),
        delivery.body.len(),
        std::str::from_utf8(&delivery.body).unwrap(),
    );
    Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await.status
}

/// Ways out of a path that is listed.
const OUT: &[&str] = &[
    "/..",
    "/%2e%2e",
    "/%252e%252e",
    "/%25252e%25252e",
    "/%2525252e%2525252e",
    "/..;",
    "/..;a=b",
    "/.%2e",
    "%2f..",
    "%252f..",
    "\\..",
    "%5c..",
    "/%c0%ae%c0%ae",
    "/%c0%2e%c0%2e",
    "%c0%af..",
    "%c0%af%c0%ae%c0%ae",
    "/%e0%80%ae%e0%80%ae",
    "/%f0%80%80%ae%f0%80%80%ae",
    "/%u002e%u002e",
    "%u2215..",
    "/%ef%bc%8e%ef%bc%8e",
    "/%e2%80%a5",
    "%ef%bc%8f..",
    "%e2%88%95..",
    "%ef%bc%bc..",
    "/..%00",
    "/..%20",
    "/%09..",
    "/...",
    "/a//../..",
    "/a/..;/..",
    "/./a/../..",
];

#[tokio::test]
async fn what_could_be_taken_for_a_providers_path_reaches_nobody() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\", \"/x/*\", \"/health\"]").start();
    for spelling in SPELLINGS {
        let status = status(&proxy, spelling).await;
        assert!(matches!(status, 400 | 404), "{spelling}: {status}");
    }
    for out in OUT {
        for path in [format!("/app{out}/github"), format!("/app/deep/er{out}{out}{out}/github"), format!("/app{out}%2fgithub")] {
            let status = status(&proxy, &path).await;
            assert!(matches!(status, 400 | 404), "{path}: {status}");
        }
    }
    for path in ["//github", "/x/../github", "/github/", "/GITHUB", "/app/%c0%ae%c0%ae/github"] {
        for host in ["localhost", "other"] {
            assert_eq!(status(&proxy, &format!("http://{host}{path}")).await, 404, "{path}");
        }
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

/// Some frameworks take the path from a header, whatever the request line says.
#[tokio::test]
async fn a_header_that_names_a_providers_path_reaches_nobody() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    for name in ["x-original-url", "x-rewrite-url", "x_original_url"] {
        for value in ["/github", "/GitHub/?a", "/x/..//github?a=b", "http://localhost/github", "github", "//github", "/github#x"]
        {
            let told = Delivery::plain("POST", "/app/x").with(name, "/app/y").also(name, value);
            assert_eq!(proxy.send(&told).await.status, 404, "{name}: {value}");
        }
    }
    assert_eq!(recorder.text(), "");
    let told = Delivery::plain("GET", "/app").with("x-original-url", "/app/other?next=/github");
    assert_eq!(proxy.send(&told).await.status, 200);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn another_path_goes_through_as_it_was_sent() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\", \"/.well-known/*\"]").start();
    let others = [
        "/app",
        "/app/",
        "/app/%7Euser/a%20b",
        "/app/github",
        "/.well-known/x",
        "/app/caf%C3%A9/caf%E9",
        "/app/a;b=c/d..e/f.",
        "/app/x?next=/github/../",
        "/app//a:b@c",
    ];
    for other in others {
        assert_eq!(status(&proxy, other).await, 200, "{other}");
    }
    assert!(proxy.stop().await);
    let requests = recorder.requests();
    let seen: BTreeSet<&str> = requests.iter().map(Request::target).collect();
    assert_eq!(seen, BTreeSet::from(others));
}

#[tokio::test]
async fn no_spelling_leads_to_the_admin_side() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    for path in
        ["/metrics", "/healthz", "/readyz", "/api/config", "/api/events", "/api/stream", "/github/../metrics", "/%6detrics"]
    {
        assert_eq!(status(&proxy, path).await, 404, "{path}");
        let absolute = format!("http://{}{path}", proxy.admin);
        assert_eq!(status(&proxy, &absolute).await, 404, "{absolute}");
    }
    // And on the admin side every path is spelt in one way.
    for path in ["//metrics", "/x/../api/config", "/api/%63onfig", "/API/config", "/api/config/", "/api//config", "/api/config;x"]
    {
        let bytes = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        assert_eq!(Wire::with(proxy.admin, bytes.as_bytes()).await.answer().await.status, 404, "{path}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}
