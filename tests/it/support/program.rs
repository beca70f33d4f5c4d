//! The program's process: what it was told, what it has written, how it ended.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::eventually;

/// The program under test.
pub fn hookonce() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookonce"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// A process under way, killed when dropped.
pub struct Program {
    child: Child,
    out: Written,
    err: Written,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (Written::by(child.stdout.take().unwrap()), Written::by(child.stderr.take().unwrap()));
        Self { child, out, err }
    }

    /// What it has written to standard output.
    pub fn out(&self) -> String {
        self.out.text()
    }

    /// What it has written to standard error: its log.
    pub fn err(&self) -> String {
        self.err.text()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        signal(self.process(), name);
    }

    /// Stops it as a debugger or an overloaded machine would; it is at a standstill afterwards.
    pub async fn pause(&self) {
        pause(self.process()).await;
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// SIGKILL: nothing can be said or done any more.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for it to end by itself; everything it wrote has been read then.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = Mutex::new(&mut self.child);
        let status = eventually("the end of the program", async || child.lock().unwrap().try_wait().unwrap()).await;
        self.out.finish();
        self.err.finish();
        status
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// SIGSTOP, waited for: the signal is only on its way when `kill` returns.
pub async fn pause(process: u32) {
    signal(process, "STOP");
    eventually("a process at a standstill", async || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        // The name before it stands in parentheses and may hold anything.
        stat.rsplit_once(") ").unwrap().1.starts_with('T').then_some(())
    })
    .await;
}

/// One output of a process, collected while it runs so that it never waits for its reader.
struct Written {
    text: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
}

impl Written {
    fn by(mut output: impl Read + Send + 'static) -> Self {
        let text: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared = Arc::clone(&text);
        let reading = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { text, reading: Some(reading) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn finish(&mut self) {
        if let Some(reading) = self.reading.take() {
            reading.join().unwrap();
        }
    }
}
