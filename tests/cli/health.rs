//! `hookonce health`: for container health checks, which read nothing but the exit code.

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::redis::quiet_port;
use crate::{Ended, ended, with};

async fn health(words: &[&str], admin: &str) -> Ended {
    let mut command = with(&["health"]);
    command.args(words).args(["--admin", admin]);
    ended(command).await
}

#[tokio::test]
async fn a_running_instance_is_alive_and_ready() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    let admin = instance.admin.to_string();
    for (words, told) in [(&[][..], "alive\n"), (&["--ready"], "ready\n")] {
        let end = health(words, &admin).await;
        assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (Some(0), told, ""));
    }
    // The address may come from the variable or the file of the instance too.
    let mut by_variable = with(&["health", "--ready"]);
    by_variable.env("HOOKONCE__ADMIN", &admin);
    assert_eq!(ended(by_variable).await.code, Some(0));
    let file = tempfile::NamedTempFile::new().unwrap();
    // Whatever else is wrong with it: the secrets of the instance need not be here.
    let text = format!("admin = \"0.0.0.0:{}\"\n[providers.stripe]\nsecret = {{ env = \"NOT_HERE\" }}\n", instance.admin.port());
    std::fs::write(file.path(), text).unwrap();
    let by_file = ended(with(&["health", "--config", file.path().to_str().unwrap()])).await;
    assert_eq!(by_file.code, Some(0), "{by_file:?}");
}

#[tokio::test]
async fn a_draining_instance_is_alive_and_not_ready() {
    let consumer = Consumer::answering(200).await;
    let mut instance = Instance::start(&in_front_of(&consumer).table("[drain]\ndelay = \"60s\"")).await;
    instance.program.signal("TERM");
    eventually("the end of readiness", async || (!instance.is_ready().await).then_some(())).await;
    let admin = instance.admin.to_string();
    assert_eq!(health(&[], &admin).await.code, Some(0));
    let end = health(&["--ready"], &admin).await;
    assert_eq!((end.code, end.out.as_str()), (Some(1), ""));
    assert!(end.err.contains("503"), "{}", end.err);
    instance.program.signal("TERM");
    instance.ended().await;
}

#[tokio::test]
async fn an_absent_instance_is_neither() {
    let admin = format!("127.0.0.1:{}", quiet_port());
    for words in [&[][..], &["--ready"]] {
        let end = health(words, &admin).await;
        assert_eq!((end.code, end.out.as_str()), (Some(1), ""));
        assert!(end.err.contains(&admin) && end.err.contains("does not answer"), "{}", end.err);
    }
    let end = health(&[], "nonsense").await;
    assert_eq!(end.code, Some(2), "{end:?}");
}
