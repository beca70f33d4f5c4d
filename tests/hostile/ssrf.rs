//! Being sent elsewhere: whatever a request, an answer or a published key names, only configured hosts are spoken to.

use crate::raw::{Recorder, Says};
use crate::support::sender::github;
use crate::support::wire::Wire;

#[tokio::test]
async fn a_target_that_names_another_host_goes_to_the_configured_one() {
    let (recorder, other) = (Recorder::new().await, Recorder::new().await);
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    let elsewhere = other.address;
    for (nth, host) in
        ["169.254.169.254", "[::1]:80", "localhost:6379", "metadata.internal", &elsewhere.to_string()].iter().enumerate()
    {
        let delivery = github(&format!("e{nth}"));
        let bytes = String::from_utf8(delivery.bytes()).unwrap();
        let absolute = bytes.replacen("POST /github", &format!("POST http://{host}/github"), 1);
        assert_eq!(Wire::with(proxy.listen, absolute.as_bytes()).await.answer().await.status, 200, "{host}");
        // By its own path such a host has nothing here.
        let metadata = format!("GET http://{host}/latest/meta-data/ HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(Wire::with(proxy.listen, metadata.as_bytes()).await.answer().await.status, 404, "{host}");
        let passed = format!("GET http://{host}/app/x HTTP/1.1\r\nhost: {host}\r\nx-forwarded-host: {host}\r\n\r\n");
        assert_eq!(Wire::with(proxy.listen, passed.as_bytes()).await.answer().await.status, 200, "{host}");
    }
    assert!(proxy.stop().await);
    assert_eq!(other.connections(), 0);
    assert!(recorder.requests().iter().all(|request| request.target().starts_with('/')));
}

#[tokio::test]
async fn a_redirect_is_passed_back_and_followed_by_nobody() {
    let inner = Recorder::new().await;
    let location = format!("http://{}/admin", inner.address);
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let recorder = Recorder::saying(move |_| Says::staying(answer.clone())).await;
        let proxy = recorder.setup().await.start();
        let answer = proxy.send(&github("e1")).await;
        assert_eq!((answer.status, answer.header("location"), answer.outcome()), (status, Some(&location[..]), "failed"));
        assert_eq!(proxy.event("github", "e1").await.unwrap()["state"], "failed");
        assert!(proxy.stop().await);
        assert_eq!(recorder.requests().len(), 1);
    }
    assert_eq!(inner.connections(), 0);
}

/// SNS names the certificate it signed with in the body, which is anybody's to write before it has verified.
#[tokio::test]
async fn a_certificate_is_fetched_from_nowhere_but_the_providers_own_hosts() {
    let (recorder, inner) = (Recorder::new().await, Recorder::new().await);
    let sns = "[providers.sns]\npreset = \"aws-sns\"\npath = \"/sns\"";
    let proxy = recorder.setup().await.table(sns).start();
    let to = inner.address;
    for url in [
        format!("http://{to}/x.pem"),
        format!("https://{to}/x.pem"),
        format!("https://sns.us-east-1.amazonaws.com@{to}/x.pem"),
        format!("https://{to}/sns.us-east-1.amazonaws.com/x.pem"),
        format!("https://{to}#sns.us-east-1.amazonaws.com/x.pem"),
        format!("https://{to}\\sns.us-east-1.amazonaws.com/x.pem"),
        "https://sns.us-east-1.amazonaws.com.evil.example/x.pem".to_owned(),
        "https://evil.amazonaws.com/x.pem".to_owned(),
        "https://sns.evil.s3.amazonaws.com/x.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com:8443/x.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com/../x.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com/x.pem?y".to_owned(),
        "https://SNS.us-east-1.amazonaws.com/x.pem".to_owned(),
        "file:///etc/passwd.pem".to_owned(),
        "http://169.254.169.254/x.pem".to_owned(),
        "".to_owned(),
    ] {
        let body = serde_json::json!({
            "Type": "Notification", "MessageId": "e1", "TopicArn": "a", "Message": "m", "Timestamp": "2026-11-16T00:00:00.000Z",
            "SignatureVersion": "1", "Signature": "AAAA", "SigningCertURL": url,
        });
        let answer = proxy.send(&crate::support::sender::Delivery::plain("POST", "/sns").with_body(body.to_string())).await;
        // Nothing was fetched, so that nothing of ours can be at fault.
        assert!((400..500).contains(&answer.status), "{url}: {answer:?}");
    }
    let metrics = proxy.metrics().await;
    let fetches: Vec<&str> = metrics.text().lines().filter(|line| line.starts_with("hookonce_key_fetches_total")).collect();
    assert!(fetches.len() == 2 && fetches.iter().all(|line| line.ends_with(" 0")), "{fetches:?}");
    assert!(proxy.stop().await);
    assert_eq!((recorder.text(), inner.connections()), (String::new(), 0));
}
