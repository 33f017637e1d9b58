//! The status page, by hand and in a browser; and that slow clients of either page delay no other.
//!
//! The browser is Debian's chromium-headless-shell, which `cargo xtask peers` installs where it
//! can; `PUMICE_BROWSER` names another one, which then must exist. Without one the browser test
//! reports that it was skipped.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_port::net::{Direction, Listener, Stream};
use pumice_port::thread;
use pumice_server::{Config, IoMode, Running};

use super::Scratch;
use super::connections::Caller;

/// A server with a separate port for the setting.
pub fn start_with(scratch: &Scratch, setting: &str) -> Running {
    let threads = std::env::var("PUMICE_RUNTIME").is_ok_and(|name| name == "fibers-threads");
    for _ in 0..100 {
        let any = Listener::bind_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = any.address().unwrap().port().to_string();
        drop(any);
        let config = Config::new();
        config.set("dir", scratch.path().join("db").to_str().unwrap()).unwrap();
        config.set("port", "0").unwrap();
        config.set(setting, &port).unwrap();
        match Running::start(config, if threads { IoMode::Threads } else { IoMode::Auto }) {
            Ok(running) => return running,
            // Another process took the port.
            Err(why) => assert!(why.contains("in use"), "{why}"),
        }
    }
    panic!("no port is free");
}

fn connect(running: &Running) -> Caller {
    let address = running.status().or(running.metrics()).unwrap();
    Caller::new(Stream::connect_tcp(address, 20_000_000_000).unwrap())
}

/// The reply to a request.
fn get(running: &Running, path: &str) -> String {
    let mut caller = connect(running);
    caller.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    caller.until_closed()
}

#[pumice_test_macros::test]
fn the_page_and_its_parts_come_from_the_server_alone() {
    let scratch = Scratch::new("status");
    let running = start_with(&scratch, "status-port");
    let mut caller = Caller::to(&running);
    (0..5).for_each(|i| assert_eq!(caller.line(&format!("SET k{i} v")), "+OK"));
    running.shared().keyspace.db().flush_opt(&Default::default()).unwrap();
    let mut parts = String::new();
    for (path, kind) in [
        ("/", "text/html"),
        ("/?x=1", "text/html"),
        ("/status.css", "text/css"),
        ("/status.js", "text/javascript"),
        ("/status.json", "application/json"),
    ] {
        let reply = get(&running, path);
        assert!(reply.starts_with(&format!("HTTP/1.1 200 OK|Content-Type: {kind}")), "{reply}");
        assert!(reply.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"));
        parts += reply.split_once("||").unwrap().1;
    }
    // The name of SVG's namespace is not fetched.
    let parts = parts.replace("http://www.w3.org/2000/svg", "");
    assert!(!parts.contains("http:") && !parts.contains("https:") && !parts.contains("@import"));
    let figures = get(&running, "/status.json");
    for figure in
        ["\"commands\":5,", "\"keys\":5,", "\"clients\":1,", "\"is_stopped\":0,", "\"levels\":[[1,"]
    {
        assert!(figures.contains(figure), "{figure}: {figures}");
    }
    assert!(get(&running, "/metrics").starts_with("HTTP/1.1 404"));
    assert!(get(&running, "/../etc/passwd").starts_with("HTTP/1.1 404"));
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn who_is_slow_keeps_nobody_waiting() {
    for setting in ["status-port", "metrics-port"] {
        let scratch = Scratch::new("slow-pages");
        let running = start_with(&scratch, setting);
        let path = if setting == "status-port" { "/status.json" } else { "/metrics" };
        let slow: Vec<_> = (0..50)
            .map(|_| {
                let caller = connect(&running);
                // Half a request and no more; it may be dropped at once.
                caller.stream.send_all(b"GET / HTT").ok();
                caller
            })
            .collect();
        assert!(get(&running, path).starts_with("HTTP/1.1 200 OK"));
        // The oldest was dropped for the newest.
        let mut slow = slow.into_iter();
        assert_eq!(slow.next().unwrap().until_closed(), "");
        // The remaining ones do not delay the shutdown, nor does a client that does not read its
        // answer.
        let lazy = connect(&running);
        lazy.send(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
        lazy.stream.shutdown(Direction::Send).unwrap();
        running.stop().unwrap();
        drop(slow);
    }
}

/// The browser; None if there is none and none is required.
fn browser() -> Option<String> {
    if let Ok(named) = std::env::var("PUMICE_BROWSER") {
        return Some(named);
    }
    let names = ["chromium-headless-shell", "chromium", "google-chrome"];
    // Not every machine lets a browser run.
    let shows_a_page = |name: &&str| {
        let page = "data:text/html,<p>it works</p>";
        let mut child = Command::new("timeout");
        child.args(["120", name, "--headless", "--no-sandbox", "--disable-gpu"]);
        child.args(["--disable-dev-shm-usage", "--dump-dom", page]);
        let output = child.output();
        output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("works"))
    };
    names.into_iter().find(shows_a_page).map(str::to_string)
}

/// A page as a browser has it.
struct Seen(String);

impl Seen {
    /// The page after this many milliseconds of the browser's time, checked for errors.
    fn by(browser: &str, scratch: &Scratch, running: &Running) -> Seen {
        let profile = scratch.path().join("profile");
        let url = format!("http://{}/", running.status().unwrap());
        let mut child = Command::new("timeout");
        child.args(["120", browser, "--headless", "--no-sandbox", "--disable-gpu"]);
        child.args(["--no-first-run", "--disable-dev-shm-usage", "--enable-logging=stderr"]);
        child.args(["--dump-dom", "--virtual-time-budget=8000", &url]);
        child.arg(format!("--user-data-dir={}", profile.display()));
        let output = child.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let console = text(&output.stderr);
        assert!(output.status.success(), "{}: {console}", output.status);
        assert!(!console.contains("CONSOLE"), "{console}");
        Seen(text(&output.stdout))
    }
    /// The text after a marker, up to the next tag or quote.
    fn behind(&self, mark: &str) -> &str {
        let page = &self.0;
        let from = page.find(mark).unwrap_or_else(|| panic!("no {mark}: {page}"));
        page[from + mark.len()..].split(['<', '"']).next().unwrap()
    }
    /// Commands arrived between its last two requests, which may be close together.
    fn shows_load(&self) -> bool {
        let now = self.behind("id=\"now-commands\">");
        let is_drawn =
            |line: &str| self.behind(&format!("class=\"{line}\" d=\"")).matches('L').count() >= 2;
        now != "–"
            && now != "0"
            && self.behind("id=\"now-p99\">") != "–"
            && is_drawn("series s0")
            && is_drawn("series s1")
    }
}

/// Signals the end, after a failure too: the writer continues until then.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// Plain #[test]: it waits for another process, and a fiber would block its loop meanwhile.
#[test]
fn a_browser_draws_what_happens() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no browser works here (cargo xtask peers)");
        return;
    };
    let scratch = Scratch::new("browser");
    let running = start_with(&scratch, "status-port");
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("SET k v"), "+OK");
    running.shared().keyspace.db().flush_opt(&Default::default()).unwrap();
    let is_over = AtomicBool::new(false);
    let page = thread::scope(|scope| {
        scope.spawn(|| {
            let mut caller = Caller::to(&running);
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(caller.line("SET k v"), "+OK");
            }
        });
        let _end = Ending(&is_over);
        let mut all = (0..20).map(|_| Seen::by(&browser, &scratch, &running));
        all.find(Seen::shows_load).expect("the load is not seen")
    });
    assert_eq!(page.behind("id=\"connection\" role=\"status\" class=\"\">"), "live");
    assert_eq!(page.behind("id=\"now-keys\">"), "1");
    assert!(page.behind("id=\"controller-now\">").starts_with("Writes have no limit."));
    assert!(page.behind("id=\"controller\">").len() > 10);
    // A bar for the file, and every plot has a text of what it shows.
    assert!(page.0.contains("data-level=\"0\"") && page.0.contains("1 file, "), "{}", page.0);
    assert_eq!(page.0.matches("aria-label=\"").count(), 7, "tiles, five plots, levels");
    running.stop().unwrap();
}
