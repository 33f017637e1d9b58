//! MyRocks: what MariaDB's engine RocksDB (Debian's `mariadb-plugin-rocksdb`) leaves when it is
//! killed, opened here with its comparator, and by MariaDB again after that.
//!
//! Without the package the test says that it is skipped; `cargo xtask peers` installs it.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pumice::options::DbOptions;
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Comparator, CustomComparator, Db, FlushOptions,
    TransactionDb, TransactionDbOptions,
};

use crate::stores::temp_folder;

/// The order of MyRocks's keys: that of their bytes.
struct MyRocksOrder;

impl CustomComparator for MyRocksOrder {
    fn name(&self) -> &str {
        "RocksDB_SE_v3.10"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

/// A server on a folder; killed when dropped.
struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        let process = Command::new("mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-networking"])
            .args(["--plugin-load-add=ha_rocksdb", &option("datadir", "data")])
            .args([option("socket", "socket"), option("pid-file", "pid")])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("server.log")).unwrap())
            .spawn()
            .unwrap();
        let server = Server { process, folder: folder.to_path_buf() };
        server.call("mariadb-admin", &["--wait=600", "ping"]);
        server
    }

    fn call(&self, program: &str, arguments: &[&str]) -> String {
        let socket = format!("--socket={}", self.folder.join("socket").display());
        let output = Command::new(program)
            .args(["--no-defaults", "--user=root", &socket])
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let log = std::fs::read_to_string(self.folder.join("server.log")).unwrap();
        assert!(output.status.success(), "{arguments:?}: {errors}\n{log}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sql(&self, text: &str) -> String {
        self.call("mariadb", &["--batch", "--skip-column-names", "--execute", text])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn is_installed() -> bool {
    let plugin = Path::new("/usr/lib/mysql/plugin/ha_rocksdb.so");
    plugin.is_file() && Command::new("mariadbd").arg("--version").output().is_ok()
}

fn open(path: &Path) -> (TransactionDb, Vec<pumice::ColumnFamily>) {
    let db_options = DbOptions::default();
    let mut cf = ColumnFamilyOptions {
        comparator: Comparator::Custom(Arc::new(MyRocksOrder)),
        ..ColumnFamilyOptions::default()
    };
    // Its RocksDB is older than the newest format.
    cf.table_factory.set("format_version", "5").unwrap();
    let names = Db::list_column_families(&db_options, path).unwrap();
    assert!(names.contains(&"__system__".to_string()), "{names:?}");
    let family = |name: String| {
        let mut cf = cf.clone();
        if name == "__system__" {
            // The dictionary's; it has no operands in this test.
            cf.set_merge_operator("Rdb_system_merge_op", |_, _, _| None);
        }
        ColumnFamilyDescriptor::new(name, cf)
    };
    let families: Vec<_> = names.into_iter().map(family).collect();
    TransactionDb::open_cf(&db_options, &TransactionDbOptions::default(), path, &families).unwrap()
}

const WORK: &str = "
    create database d;
    use d;
    create table t (id int primary key, v varchar(100), key(v)) engine=rocksdb;
    insert into t select seq, concat('value', seq) from seq_1_to_2000;
    update t set v = 'changed' where id % 7 = 0;
    delete from t where id % 5 = 0;
    set global rocksdb_force_flush_memtable_now = 1;
    insert into t values (10001, 'late'), (10002, 'later');
    xa start 'x1';
    insert into t values (20001, 'prepared');
    xa end 'x1';
    xa prepare 'x1';";
/// Rows afterwards, without the prepared one. Each is an entry of either index.
const ROWS: usize = 1602;

// Plain #[test]: it starts processes, and what it opens waits for nothing of theirs.
#[test]
fn a_killed_myrocks_opens_and_goes_on() {
    if !is_installed() {
        eprintln!("SKIPPED: no MyRocks; `cargo xtask peers` installs mariadb-plugin-rocksdb");
        return;
    }
    let folder = temp_folder();
    let data = format!("--datadir={}", folder.path().join("data").display());
    let made = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal", &data])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    let server = Server::start(folder.path());
    server.sql(WORK);
    drop(server);

    let path = folder.path().join("data/#rocksdb");
    let (db, families) = open(&path);
    let entries = db.iter().unwrap().map(|entry| entry.map(drop));
    assert_eq!(entries.collect::<pumice::Result<Vec<()>>>().unwrap().len(), 2 * ROWS);
    let prepared = db.prepared_transactions();
    assert_eq!(prepared.len(), 1, "{:?}", prepared.iter().map(|t| t.name()).collect::<Vec<_>>());
    drop(prepared);
    for family in &families {
        db.db().flush_cf_opt(&FlushOptions::default(), family).unwrap();
    }
    db.db().close().unwrap();
    drop((families, db));

    let server = Server::start(folder.path());
    let rows = format!("{ROWS}\n");
    assert_eq!(server.sql("select count(*) from d.t force index (primary)"), rows);
    assert_eq!(server.sql("select count(*) from d.t force index (v) where v > ''"), rows);
    assert!(server.sql("xa recover").contains("x1"));
    server.sql("xa commit 'x1'");
    assert_eq!(server.sql("select v from d.t where id = 20001"), "prepared\n");
}
