//! Entities compared with RocksDB: with 10.10.1 through its C library, which has no calls for
//! columns but takes a batch's records as bytes, and with Debian's `ldb` and `sst_dump` 7.8.3.

use std::path::Path;
use std::process::Command;

use crate::common::Scratch;
use pumice::{CompactRangeOptions, Db, Options};
use pumice_peer::{
    CompactRangeSettings, Peer, ReadOptions, ReadSettings, WriteBatch, WriteOptions, WriteSettings,
};

fn options() -> Options {
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.set("merge_operator", "stringappend").unwrap();
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.format_version = 5;
    options
}

fn columns(db: &Db, key: &str) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let found = db.get_entity(key).unwrap()?;
    let columns = found.iter().map(|column| text(column.name) + "=" + &text(column.value));
    Some(columns.collect::<Vec<_>>().join(" "))
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// RocksDB on the same directory.
struct Theirs<'a> {
    peer: &'a Peer,
    db: pumice_peer::Db,
    write: WriteOptions,
    read: ReadOptions,
}

impl<'a> Theirs<'a> {
    fn open(peer: &'a Peer, path: &Path) -> Self {
        let mut options = pumice_peer::Options::new(peer);
        let text = "create_if_missing=true;merge_operator=stringappend;\
                    disable_auto_compactions=true";
        options.set_many(text).unwrap();
        let db = pumice_peer::Db::open(&options, path).unwrap();
        let write = WriteOptions::new(peer, &WriteSettings::default());
        let read = ReadOptions::new(peer, &ReadSettings::default());
        Theirs { peer, db, write, read }
    }

    /// Writes an entity, encoded here by hand: columns by name ascending.
    fn put_entity(&self, key: &str, columns: &[(&str, &str)]) {
        let sized = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let mut entity = vec![1, columns.len() as u8];
        for (name, value) in columns {
            entity.extend(sized(name));
            entity.push(value.len() as u8);
        }
        columns.iter().for_each(|(_, value)| entity.extend_from_slice(value.as_bytes()));
        let mut data = vec![0; 12];
        data[8] = 1;
        data.push(0x16);
        data.extend(sized(key));
        data.push(entity.len() as u8);
        data.extend(entity);
        self.db.write(&self.write, &WriteBatch::from_data(self.peer, &data)).unwrap();
    }

    fn merge(&self, key: &str, operand: &str) {
        let cf = self.db.default_column_family();
        self.db.merge(&self.write, cf, key.as_bytes(), operand.as_bytes()).unwrap();
    }

    fn get(&self, key: &str) -> Option<String> {
        let mut value = Vec::new();
        let cf = self.db.default_column_family();
        let found = self.db.get(&self.read, cf, key.as_bytes(), &mut value).unwrap();
        found.then(|| String::from_utf8(value).unwrap())
    }

    /// Keys and values, `key=value`, in order.
    fn scan(&self) -> String {
        let mut iter = self.db.iter(&self.read, self.db.default_column_family());
        let mut all = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            let entry = [iter.key(), iter.value()].join(&b'=');
            all.push(String::from_utf8(entry).unwrap());
            iter.next();
        }
        iter.status().unwrap();
        all.join(" ")
    }

    fn compact(&self) {
        let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
        self.db.compact_range(self.db.default_column_family(), None, None, &forced);
    }
}

fn peer() -> Option<Peer> {
    pumice_peer::installed_library().map(|library| Peer::load(library).unwrap())
}

#[pumice_test_macros::test]
fn they_go_to_rocksdb_and_back() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("back");
    let db = Db::open(&options(), &dir.0).unwrap();
    for key in ["a", "b", "c"] {
        db.put_entity(key, [("n", "1"), ("", "d")]).unwrap();
    }
    db.flush().unwrap();
    db.put_entity("logged", [("z", "26")]).unwrap();
    db.close().unwrap();
    drop(db);

    // Theirs: our tables and log are read, changed, rewritten.
    let theirs = Theirs::open(&peer, &dir.0);
    assert_eq!(theirs.scan(), "a=d b=d c=d logged=");
    assert_eq!((theirs.get("a"), theirs.get("logged")), (Some("d".into()), Some(String::new())));
    theirs.merge("b", "theirs");
    theirs.db.delete(&theirs.write, theirs.db.default_column_family(), b"c").unwrap();
    theirs.put_entity("new", &[("", "e"), ("m", "2"), ("n", "3")]);
    assert_eq!(theirs.scan(), "a=d b=d,theirs logged= new=e");
    theirs.compact();
    assert_eq!(theirs.scan(), "a=d b=d,theirs logged= new=e");
    theirs.put_entity("unflushed", &[("m", "4")]);
    drop(theirs);

    // Ours again.
    let db = Db::open(&options(), &dir.0).unwrap();
    let check = |db: &Db| {
        assert_eq!(columns(db, "a").as_deref(), Some("=d n=1"));
        assert_eq!(columns(db, "b").as_deref(), Some("=d,theirs n=1"));
        assert_eq!(columns(db, "c"), None);
        assert_eq!(columns(db, "logged").as_deref(), Some("z=26"));
        assert_eq!(columns(db, "new").as_deref(), Some("=e m=2 n=3"));
        assert_eq!(columns(db, "unflushed").as_deref(), Some("m=4"));
    };
    check(&db);
    compact(&db);
    check(&db);
    db.close().unwrap();
    drop(db);
    assert_eq!(Theirs::open(&peer, &dir.0).scan(), "a=d b=d,theirs logged= new=e unflushed=");
}

/// What operands over entities become, in reads and compactions of either engine.
#[pumice_test_macros::test]
fn merges_come_out_alike() {
    let Some(peer) = peer() else { return };
    let (of_ours, of_theirs) = (Scratch::new("ours"), Scratch::new("theirs"));
    let db = Db::open(&options(), &of_ours.0).unwrap();
    let theirs = Theirs::open(&peer, &of_theirs.0);
    let entities: [(&str, &[(&str, &str)]); 4] = [
        ("both", &[("", "d"), ("n", "1")]),
        ("default", &[("", "d")]),
        ("none", &[]),
        ("other", &[("n", "1")]),
    ];
    for (key, columns) in entities {
        db.put_entity(key, columns.iter().copied()).unwrap();
        theirs.put_entity(key, columns);
    }
    let both = |operand: &str| {
        for (key, _) in entities {
            db.merge(key, operand).unwrap();
            theirs.merge(key, operand);
            assert_eq!(db.get(key).unwrap().map(|v| v.into_vec()), theirs.get(key).map(Into::into));
        }
    };
    both("x");
    both("y");
    compact(&db);
    theirs.compact();
    both("z");
    db.close().unwrap();
    drop((db, theirs));
    // Each engine has compacted its own: the columns are the same.
    let (db, other) =
        (Db::open(&options(), &of_ours.0).unwrap(), Db::open(&options(), &of_theirs.0).unwrap());
    for (key, _) in entities {
        assert_eq!(columns(&db, key), columns(&other, key), "{key}");
    }
    assert_eq!(columns(&other, "other").as_deref(), Some("=,x,y,z n=1"));
    assert_eq!(columns(&other, "none").as_deref(), Some("=,x,y,z"));
    for db in [&db, &other] {
        compact(db);
        assert_eq!(columns(db, "both").as_deref(), Some("=d,x,y,z n=1"));
        db.close().unwrap();
    }
}

/// Standard output of a tool of Debian's; None if it is not installed.
fn debian(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool).args(arguments).output().ok()?;
    let (stdout, stderr) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{tool} {arguments:?}: {stderr}");
    Some(String::from_utf8(stdout).unwrap())
}

#[pumice_test_macros::test]
fn debians_tools_read_and_compact_them() {
    let dir = Scratch::new("debian");
    let path = format!("--db={}", dir.0.display());
    let db = Db::open(&options(), &dir.0).unwrap();
    db.put_entity("a", [("n", "1"), ("", "d")]).unwrap();
    db.flush().unwrap();
    db.put_entity("b", [("z", "26")]).unwrap();
    // 7.8 refuses operands on top of entities, and reads their merged result.
    db.merge("a", "m").unwrap();
    compact(&db);
    db.put_entity("c", [("logged", "3")]).unwrap();
    db.close().unwrap();
    drop(db);
    let Some(output) = debian("ldb", &[&path, "scan"]) else { return };
    assert_eq!(output, "a : d,m\nb : \nc : \n");
    assert_eq!(debian("ldb", &[&path, "get", "a"]).unwrap(), "d,m\n");
    debian("ldb", &[&path, "compact"]).unwrap();
    let file = format!("--file={}", dir.0.display());
    let output = debian("sst_dump", &[&file, "--command=scan", "--output_hex"]).unwrap();
    // As Debian's compaction left them.
    assert!(output.contains("'61' seq:0, type:22 => 01020003016E01642C6D31"), "{output}");
    assert!(output.contains("'62' seq:0, type:22 => 0101017A023236"), "{output}");
    debian("sst_dump", &[&file, "--command=verify"]).unwrap();
    let db = Db::open(&options(), &dir.0).unwrap();
    for _ in 0..2 {
        assert_eq!(columns(&db, "a").as_deref(), Some("=d,m n=1"));
        assert_eq!(columns(&db, "b").as_deref(), Some("z=26"));
        assert_eq!(columns(&db, "c").as_deref(), Some("logged=3"));
        compact(&db);
    }
    db.close().unwrap();
}
