//! The server as a service: it tells its manager when it is ready, takes Debian's redis.conf, and
//! writes its settings back.

use std::os::unix::net::UnixDatagram;

use super::{PATIENCE, Scratch, Server, command};

/// A datagram that the manager gets.
fn told(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 512];
    let len = manager.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

// Plain #[test]: other processes do the work.
#[test]
fn the_service_manager_is_told() {
    let scratch = Scratch::new("notify");
    let path = scratch.0.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut with_manager = command(&scratch.0, &[]);
    let server = Server::run(with_manager.env("NOTIFY_SOCKET", &path));
    let ready = told(&manager);
    assert!(ready.starts_with("READY=1\nSTATUS=serving ./pumice-data\n"), "{ready}");
    assert!(ready.contains(&format!("MAINPID={}\n", server.child.id())), "{ready}");
    // Who is told that it is ready may connect.
    assert_eq!(server.connect().say("PING"), "PONG");
    server.signal("-TERM");
    assert!(told(&manager).starts_with("STOPPING=1\n"));
    let (status, printed) = server.end();
    assert!(status.success(), "{printed}");
}

// Plain #[test]: other processes do the work.
#[test]
fn a_manager_that_is_gone_does_not_keep_the_server_from_serving() {
    let scratch = Scratch::new("no-manager");
    let mut command = command(&scratch.0, &[]);
    let server = Server::run(command.env("NOTIFY_SOCKET", scratch.0.join("nobody")));
    assert_eq!(server.connect().say("PING"), "PONG");
    server.end_well();
}

/// The lines of Debian 12's redis.conf that are no comments, with another directory and port.
const DEBIANS: &str = include_str!("debian_redis.conf");

// Plain #[test]: other processes do the work.
#[test]
fn debians_redis_conf_starts_and_is_rewritten() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("conf");
    let (dir, file) = (scratch.0.join("lib"), scratch.0.join("redis.conf"));
    std::fs::create_dir_all(&dir).unwrap();
    let text = DEBIANS.replace("/var/lib/redis", dir.to_str().unwrap());
    std::fs::write(&file, format!("{text}aclfile users.acl\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    // A relative name lies in `dir`.
    std::fs::write(dir.join("users.acl"), "user ann on >secret ~* &* +@all\n").unwrap();
    let mut command = command(&scratch.0, &[]);
    let errors = std::fs::File::create(scratch.0.join("errors")).unwrap();
    let server = Server::run(command.arg(&file).stderr(errors));
    let said = std::fs::read_to_string(scratch.0.join("errors")).unwrap();
    assert!(said.contains("'appendonly no': appendonly is yes"), "{said}");
    assert!(said.contains("without effect here: activerehashing, always-show-logo"), "{said}");
    let mut client = server.connect();
    assert_eq!(client.say("AUTH ann secret"), "OK");
    assert_eq!(client.say("CONFIG SET timeout 77"), "OK");
    assert_eq!(client.say("CONFIG REWRITE"), "OK");
    server.end_well();
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("\ntimeout 77\n") && !written.contains("\ntimeout 0\n"), "{written}");
    assert!(written.contains("\nhz 10\n") && written.contains("\nappendonly no\n"), "{written}");
    assert!(!written.contains("user ann"), "{written}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
