//! `/metrics`, as Prometheus reads it.

use std::io::Write;
use std::process::Stdio;

use crate::support::consumer::Consumer;
use crate::support::proxy::in_front_of;
use crate::support::sender::stripe;
use crate::tools::tool;

#[tokio::test]
async fn what_is_scraped_is_without_fault() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    proxy.send(&stripe("evt_1")).await;
    let mut promtool = tool("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(proxy.metrics().await.text().as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
