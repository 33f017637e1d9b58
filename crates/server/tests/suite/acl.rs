//! Users: their permissions, their connections, ACL files, wrong passwords.

use pumice_server::Config;
use pumice_server::IoMode;
use pumice_server::serve::Running;

use super::connections::{Caller, start};
use super::{Quiet, Scratch, text};

const COMMAND: &str = "-NOPERM this user has no permissions to run the";
const KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments";
const CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

#[pumice_test_macros::test]
fn a_user_may_what_its_rules_say_from_its_next_command_on() {
    let scratch = Scratch::new("rules");
    let server = Quiet::open(scratch.path());
    let (admin, user) = (&mut server.client(), &mut server.client());
    server.talk(admin, &[("ACL SETUSER u on >p ~k* %R~r* +@all -@dangerous", "+OK")]);
    let no = |name: &str| format!("{COMMAND} '{name}' command");
    server.talk(
        user,
        &[
            ("AUTH u x", WRONG),
            ("AUTH nobody p", WRONG),
            ("AUTH u p", "+OK"),
            ("ACL WHOAMI", "$1|u"),
            ("SET k1 v", "+OK"),
            ("SET x1 v", KEY),
            ("MSET k1 v r1 v", KEY),
            ("GET r1", "$-1"),
            ("FLUSHALL", &no("flushall")),
            ("CONFIG GET x", &no("config|get")),
            ("CLIENT ID", ":2"),
            ("PUBLISH c m", CHANNEL),
        ],
    );
    server.talk(admin, &[("ACL SETUSER u -get +flushall &c", "+OK")]);
    server.talk(user, &[("GET r1", &no("get")), ("FLUSHALL", "+OK"), ("PUBLISH c m", ":0")]);
    // A transaction: a command that cannot be queued aborts it, one that is forbidden later fails
    // alone.
    server.talk(
        user,
        &[
            ("MULTI", "+OK"),
            ("SET x v", KEY),
            ("SET k v", "+QUEUED"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET k v", "+QUEUED"),
            ("STRLEN k", "+QUEUED"),
        ],
    );
    server.talk(admin, &[("ACL SETUSER u resetkeys %R~k", "+OK")]);
    let reply = server.say(user, "EXEC");
    assert!(reply.starts_with("*2|-NOPERM ACLs rules changed between"), "{reply}");
    assert!(reply.ends_with("touch the specified keys|:0"), "{reply}");
    // RESET logs the connection out.
    server.talk(user, &[("RESET", "+RESET"), ("ACL WHOAMI", "$7|default"), ("SET x v", "+OK")]);
    let log = server.say(admin, "ACL LOG");
    for what in ["|auth|", "|command|", "|key|", "|channel|", "|toplevel|", "|multi|", "user=u "] {
        assert!(log.contains(what), "{what}: {log}");
    }
    server.talk(admin, &[("ACL LOG RESET", "+OK"), ("ACL LOG", "*0")]);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn refusals_that_are_alike_are_counted() {
    let scratch = Scratch::new("alike");
    let mut server = Quiet::open(scratch.path());
    let admin = &mut server.client();
    (0..5).for_each(|_| assert_eq!(server.say(admin, "AUTH u x"), WRONG));
    assert!(server.say(admin, "ACL LOG").starts_with("*1|*14|$5|count|:5|$6|reason|$4|auth"));
    server.now += 61_000;
    server.talk(admin, &[("AUTH u x", WRONG)]);
    assert!(server.say(admin, "ACL LOG").starts_with("*2|*14|$5|count|:1|"));
    server.talk(admin, &[("CONFIG SET acllog-max-len 1", "+OK")]);
    assert!(server.say(admin, "ACL LOG").starts_with("*1|"));
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn sort_looks_up_other_keys_only_for_who_may_read_all() {
    let scratch = Scratch::new("sort");
    let server = Quiet::open(scratch.path());
    let (admin, user) = (&mut server.client(), &mut server.client());
    server.talk(admin, &[("RPUSH k 1", ":1"), ("SET secret1 v", "+OK")]);
    server.talk(admin, &[("ACL SETUSER u on nopass ~k +@all", "+OK")]);
    let denied =
        |what| format!("-ERR {what} option of SORT denied due to insufficient ACL permissions.");
    server.talk(
        user,
        &[
            ("AUTH u x", "+OK"),
            ("SORT k GET secret*", &denied("GET")),
            ("SORT_RO k BY secret*", &denied("BY")),
            ("SORT k GET #", &denied("GET")),
            ("SORT k BY nosort", "*1|$1|1"),
        ],
    );
    server.talk(admin, &[("ACL SETUSER u %R~*", "+OK")]);
    server.talk(user, &[("SORT k GET secret*", "*1|$1|v")]);
    server.shared.keyspace.close().unwrap();
}

/// Every command for users that may only read, only write, only administer: only the command table
/// decides.
#[pumice_test_macros::test]
fn every_command_obeys_categories() {
    let scratch = Scratch::new("matrix");
    let server = Quiet::open(scratch.path());
    let (admin, user) = (&mut server.client(), &mut server.client());
    for category in ["read", "write", "admin", "nothing"] {
        let rule = if category == "nothing" { "-@all".into() } else { format!("+@{category}") };
        let line = format!("ACL SETUSER u reset on nopass allkeys allchannels {rule}");
        server.talk(admin, &[(&line, "+OK"), ("ACL SETUSER u +auth", "+OK")]);
        server.talk(user, &[("AUTH u x", "+OK")]);
        let rows = pumice_server::commands::all();
        let each = rows.iter().flat_map(|row| match row.subcommands {
            [] => std::slice::from_ref(row),
            subs => subs,
        });
        for row in each {
            let mut args: Vec<_> = row.full_name.split('|').map(str::to_string).collect();
            let words = row.arity.unsigned_abs() as usize;
            args.extend((args.len()..words).map(|_| "1".to_string()));
            // These change the connection's user, or end the server.
            if row.is(pumice_server::commands::NO_AUTH) || row.full_name == "shutdown" {
                continue;
            }
            let may = row.category_names().contains(&category);
            let dry = [&["ACL", "DRYRUN", "u"].map(str::to_string)[..], &args].concat();
            let reply = text(&server.ask(admin, &dry));
            assert_eq!(reply == "+OK", may, "{category}: {args:?}: {reply}");
            if !may {
                let reply = text(&server.ask(user, &args));
                // An EXEC says first that the transaction is over.
                let why = reply.replace("EXECABORT Transaction discarded because of: ", "");
                assert!(why.starts_with(COMMAND), "{category}: {args:?}: {reply}");
            }
        }
    }
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn connections_of_users_that_are_deleted_end() {
    let scratch = Scratch::new("deleted");
    let running = start(scratch.path(), &[]);
    let mut admin = Caller::to(&running);
    assert_eq!(admin.line("ACL SETUSER u on >p +@all ~* &a*"), "+OK");
    assert_eq!(admin.line("ACL SETUSER other on >p +@all ~* &*"), "+OK");
    let mut users: Vec<_> = (0..3).map(|_| Caller::to(&running)).collect();
    users.iter_mut().for_each(|caller| assert_eq!(caller.line("AUTH u p"), "+OK"));
    let mut other = Caller::to(&running);
    assert_eq!(other.line("AUTH other p"), "+OK");
    // One listens, one waits for a key, one does nothing.
    users[0].send(b"SUBSCRIBE ab\r\n");
    users[0].until(":1\r\n");
    users[1].send(b"BLPOP l 0\r\n");
    // Rules that still allow the channel end no connection, others do.
    assert_eq!(admin.line("ACL SETUSER u resetchannels &ab"), "+OK");
    assert_eq!(admin.line("PUBLISH ab m"), ":1");
    users[0].until("m\r\n");
    assert_eq!(admin.line("ACL SETUSER u resetchannels &b"), "+OK");
    assert_eq!(users[0].until_closed(), "");
    assert_eq!(users[2].line("PING"), "+PONG");
    assert_eq!(admin.line("ACL DELUSER u nobody"), ":1");
    assert_eq!((users[1].until_closed(), users[2].until_closed()), (String::new(), String::new()));
    assert_eq!(Caller::to(&running).line("AUTH u p"), WRONG);
    // A user that deletes itself gets the reply first.
    assert_eq!(other.line("ACL DELUSER other"), ":1");
    assert_eq!(other.until_closed(), "");
    assert_eq!(admin.line("PING"), "+PONG");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn users_are_loaded_from_a_file_and_saved() {
    let scratch = Scratch::new("file");
    let path = scratch.path().join("users.acl");
    let file = path.to_str().unwrap();
    std::fs::write(&path, "# users\n\nuser default off\nuser a on >secret ~a* (+get ~b) +@read\n")
        .unwrap();
    let running = start(scratch.path(), &[("aclfile", file)]);
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("PING"), "-NOAUTH Authentication required.");
    assert_eq!(caller.line("AUTH a secret"), "+OK");
    assert_eq!(caller.line("GET b"), "$-1");
    assert_eq!(caller.line("LLEN b"), KEY);
    assert_eq!(caller.line("ACL SAVE"), format!("{COMMAND} 'acl|save' command"));
    // The default user exists but cannot log in: an administrator is needed.
    std::fs::write(&path, "user default on nopass +@all ~* &*\nuser a on >other ~a* +@read\n")
        .unwrap();
    let shared = running.shared();
    let users = pumice_server::commands::acl_rules::load(shared, &path).unwrap();
    assert_eq!(users.len(), 1);
    let mut admin = Caller::to(&running);
    assert_eq!(admin.line("ACL SETUSER b on >x +@all -@admin %W~b* &c"), "+OK");
    assert_eq!(admin.line("ACL SAVE"), "+OK");
    let saved = std::fs::read_to_string(&path).unwrap();
    assert_eq!(saved.lines().count(), 3, "{saved}");
    assert!(!saved.contains(">x") && !saved.contains("other"), "{saved}");
    assert!(saved.contains(" %W~b* resetchannels &c +@all -@admin\n"), "{saved}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2, "only data and users");
    // The loaded users equal the saved ones: no connection is ended.
    let mut user = Caller::to(&running);
    assert_eq!(user.line("AUTH b x"), "+OK");
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    assert_eq!(user.line("STRLEN b1"), ":0");
    // A bad line changes nothing.
    std::fs::write(&path, "user b on nopass\nuser c +nosuch\nuser b on\n").unwrap();
    let reply = admin.line("ACL LOAD");
    assert!(reply.contains(":2: Error in ACL SETUSER modifier '+nosuch': Unknown"), "{reply}");
    assert!(reply.contains(":3: Duplicate user 'b' found."), "{reply}");
    assert_eq!(user.line("STRLEN b1"), ":0");
    // Connections of changed or deleted users have to reconnect.
    std::fs::write(&path, "user b on nopass\n").unwrap();
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    assert_eq!(user.until_closed(), "");
    running.stop().unwrap();
    let why = |settings: &[(&str, &str)]| {
        let config = Config::new();
        config.set("dir", scratch.path().join("db").to_str().unwrap()).unwrap();
        config.set("port", "0").unwrap();
        settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
        Running::start(config, IoMode::Auto).err().unwrap()
    };
    assert!(why(&[("aclfile", "/no/such/file")]).contains("/no/such/file: "));
    assert!(why(&[("user", "a +nosuch")]).contains("user:1: Error in ACL SETUSER modifier"));
    assert!(why(&[("user", "a"), ("aclfile", file)]).contains("one place"));
}

#[pumice_test_macros::test]
fn lines_of_the_configuration_make_users() {
    let scratch = Scratch::new("lines");
    let users = ["alice on >a +@all ~* &*", "bob on >b +get ~b*"];
    let settings = [("requirepass", "pw"), ("user", users[0]), ("user", users[1])];
    let running = start(scratch.path(), &settings);
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("AUTH x"), WRONG);
    assert_eq!(caller.line("AUTH bob b"), "+OK");
    assert_eq!(caller.line("GET b"), "$-1");
    assert_eq!(caller.line("GET a"), KEY);
    caller.send(b"HELLO 3 AUTH alice a\r\n");
    caller.until("modules\r\n*0\r\n");
    assert_eq!(caller.line("SET a 1"), "+OK");
    assert_eq!(caller.line("AUTH pw"), "+OK");
    caller.send(b"CLIENT INFO\r\n");
    assert!(caller.until("\n\r\n").contains(" cmd=client|info user=default "));
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn wrong_passwords_of_an_address_are_bounded() {
    let scratch = Scratch::new("guess");
    let mut server = Quiet::open(scratch.path());
    let (admin, guesser) = (&mut server.client(), &mut server.client());
    server.talk(admin, &[("CONFIG SET auth-failures 6", "+OK"), ("ACL SETUSER u on >p", "+OK")]);
    (0..6).for_each(|_| assert_eq!(server.say(guesser, "AUTH u x"), WRONG));
    let refused = "-ERR too many wrong passwords from this address, try again in 10 seconds";
    // Also the right one, on any connection, so an attacker learns nothing.
    server.talk(guesser, &[("AUTH u p", refused)]);
    server.talk(&mut server.client(), &[("HELLO 2 AUTH u p", refused)]);
    let log = server.say(admin, "ACL LOG");
    assert!(log.starts_with("*2|") && log.contains("|:7|") && log.contains("|$5|HELLO|"), "{log}");
    server.now += 10_000;
    server.talk(guesser, &[("AUTH u p", "+OK"), ("AUTH u p", "+OK"), ("AUTH u x", WRONG)]);
    server.talk(guesser, &[("AUTH u p", refused)]);
    server.shared.keyspace.close().unwrap();
}
