//! The follower's own links and copies: they live as long as they are needed.

use std::path::Path;
use std::sync::Arc;

use super::{OWN, compact, follow, follow_with, leader, tables};
use crate::common::{
    DIR, contents, eventually, fill, flush, get, key, let_files_go, memory, names, options,
};
use pumice::{Db, FileSystem, IngestExternalFileOptions, Options, SstFileWriter};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_env::write_file;

/// With and without a limit on open files: the second opens a table again when it is read.
#[pumice_test_macros::test]
fn the_leader_may_delete_what_a_cursor_reads() {
    for max_open_files in [-1, 10] {
        let (_, fs) = memory();
        let (leader, expected) = leader(&fs);
        let mut with = options(&fs);
        with.db.max_open_files = max_open_files;
        let (follower, _) = follow_with(&with, &[]).unwrap();
        let old = tables(&fs, OWN);
        eventually("the leader has no others", || old == tables(&fs, DIR));
        for name in &old {
            let links = fs.num_file_links(&Path::new(OWN).join(name)).unwrap();
            assert_eq!(links, 2, "one is the leader's");
        }
        let mut cursor = follower.cursor().unwrap();
        cursor.seek_to_first();
        fill(&leader, 0..100, "c");
        compact(&leader);
        let_files_go(&leader);
        // The job that replaced them may hold them for a moment more.
        eventually("the leader deletes them", || {
            tables(&fs, DIR).iter().all(|name| !old.contains(name))
        });
        follower.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&follower), contents(&leader));
        let own = tables(&fs, OWN);
        assert!(old.iter().all(|name| own.contains(name)), "the cursor needs them");
        let mut seen = 0;
        while cursor.valid() {
            let (key, value) = cursor.key().zip(cursor.value()).unwrap();
            assert_eq!((key, value), (&expected[seen].0[..], &expected[seen].1[..]));
            seen += 1;
            cursor.next();
        }
        cursor.status().unwrap();
        assert_eq!(seen, expected.len());
        drop(cursor);
        eventually("they are deleted", || tables(&fs, OWN) == tables(&fs, DIR));
        follower.close().unwrap();
        leader.close().unwrap();
    }
}

/// A table that only moves to another level is the same file.
#[pumice_test_macros::test]
fn a_table_that_moves_is_kept() {
    let (_, fs) = memory();
    let leader = Db::open(&options(&fs), DIR).unwrap();
    fill(&leader, 0..50, "a");
    flush(&leader);
    let follower = follow(&fs);
    let mut cursor = follower.cursor().unwrap();
    cursor.seek_to_first();
    let own = tables(&fs, OWN);
    let level = |db: &Db| db.live_files_metadata()[0].level;
    compact(&leader);
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!((level(&follower), tables(&fs, OWN)), (level(&leader), own));
    assert!(level(&leader) > 0);
    // The cursor of the version before it keeps the file when the leader has no more use for it.
    fill(&leader, 0..50, "b");
    compact(&leader);
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(tables(&fs, OWN).len(), 2);
    assert_eq!(cursor.value(), Some(&b"a"[..]));
    drop(cursor);
    eventually("it is deleted", || tables(&fs, OWN).len() == 1);
    assert_eq!(contents(&follower), contents(&leader));
    leader.close().unwrap();
}

#[pumice_test_macros::test]
fn it_has_copies_where_there_can_be_no_links() {
    for fault in [Fault::Exdev, Fault::Unsupported] {
        let (memory, fs) = memory();
        let (leader, flushed) = leader(&fs);
        memory.add_fault(FaultRule::always(FaultOp::Link, "*", fault));
        let follower = follow(&fs);
        for name in tables(&fs, OWN) {
            assert_eq!(fs.num_file_links(&Path::new(OWN).join(name)).unwrap(), 1);
        }
        compact(&leader);
        let_files_go(&leader);
        assert_eq!(contents(&follower), flushed);
        // A copy that fails on the way is no table.
        memory.add_fault(FaultRule::once(FaultOp::Write, "/own/*.dbtmp", 0, Fault::ShortWrite));
        drop(follower.try_catch_up_with_primary());
        follower.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&follower), contents(&leader));
        assert_eq!(tables(&fs, OWN), tables(&fs, DIR));
        // They are not copied again by the next open.
        follower.close().unwrap();
        drop(follower);
        memory.add_fault(FaultRule::always(FaultOp::Write, "/own/*.dbtmp", Fault::Eio));
        assert_eq!(contents(&follow(&fs)), contents(&leader));
        leader.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn one_that_is_opened_again_keeps_what_is_still_good() {
    let (memory, fs) = memory();
    let (leader, _) = leader(&fs);
    memory.add_fault(FaultRule::always(FaultOp::Link, "*", Fault::Exdev));
    follow(&fs).close().unwrap();
    memory.clear_faults();
    let [whole, torn] = <[String; 2]>::try_from(tables(&fs, OWN)).unwrap();
    // A crash left a name without its bytes, half a copy, and a table that is in no version.
    memory.damage(&Path::new(OWN).join(&torn), |bytes| bytes.truncate(10)).unwrap();
    fs.create("/own/000099.dbtmp".as_ref(), &Default::default()).unwrap().close().unwrap();
    fs.create("/own/000098.sst".as_ref(), &Default::default()).unwrap().close().unwrap();
    let follower = follow(&fs);
    let links = |name: &str| fs.num_file_links(&Path::new(OWN).join(name)).unwrap();
    assert_eq!((links(&whole), links(&torn)), (1, 2), "the copy, and a link in place of the other");
    assert_eq!(tables(&fs, OWN), tables(&fs, DIR));
    assert!(!names(&fs, OWN).iter().any(|name| name.ends_with(".dbtmp")));
    flush(&leader);
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&follower), contents(&leader));
    leader.close().unwrap();
}

#[pumice_test_macros::test]
fn column_families_ingested_files_and_blobs_are_followed() {
    let (_, fs) = memory();
    let mut with = options(&fs);
    with.cf.enable_blob_files = true;
    with.cf.min_blob_size = 100;
    let leader = Db::open(&with, DIR).unwrap();
    let other = leader.create_column_family(&with.cf, "other").unwrap();
    leader.put("k", "blob".repeat(100)).unwrap();
    leader.put_cf(&other, "k", "1").unwrap();
    leader.flush_all().unwrap();
    let (follower, handles) = follow_with(&with, &["other"]).unwrap();
    assert_eq!(get(&follower, b"k").unwrap().len(), 400);
    let blobs = || {
        let is_blob = |name: &String| name.ends_with(".blob");
        [DIR, OWN].map(|dir| names(&fs, dir).into_iter().filter(is_blob).collect::<Vec<_>>())
    };
    let [theirs, own] = blobs();
    assert_eq!((theirs.len(), own), (1, theirs));
    let mut writer = SstFileWriter::new(&with).unwrap();
    writer.open("/external.sst").unwrap();
    writer.put(key(1), b"ingested").unwrap();
    writer.finish().unwrap();
    let how = IngestExternalFileOptions::default();
    leader.ingest_external_file(&how, &["/external.sst"]).unwrap();
    leader.delete("k").unwrap();
    compact(&leader);
    leader.drop_column_family(&other).unwrap();
    let_files_go(&leader);
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&follower), [(key(1), b"ingested".to_vec())]);
    assert!(follower.column_family("other").is_none());
    assert_eq!(follower.get_cf(&handles[1], "k").unwrap().as_deref(), Some(&b"1"[..]));
    drop((handles, other));
    eventually("the files of the family go", || {
        let [theirs, own] = blobs();
        tables(&fs, OWN) == tables(&fs, DIR) && theirs == own
    });
    leader.close().unwrap();
    follower.close().unwrap();
}

/// A copy of the leader's directory as it is, or that copy in its place.
fn copy_all(fs: &Arc<dyn FileSystem>, from: &str, to: &str) {
    fs.create_dir_all(to.as_ref()).unwrap();
    for name in fs.list(to.as_ref()).unwrap() {
        fs.remove(&Path::new(to).join(name)).unwrap();
    }
    for name in fs.list(from.as_ref()).unwrap() {
        let bytes = fs.read_file(&Path::new(from).join(&name)).unwrap();
        write_file(&**fs, &Path::new(to).join(&name), &bytes, true).unwrap();
    }
}

/// A leader with one table, of which `/backup` is a copy, and then with a second one.
fn saved_leader(fs: &Arc<dyn FileSystem>, with: &Options) -> Db {
    let leader = Db::open(with, DIR).unwrap();
    fill(&leader, 0..50, "a");
    flush(&leader);
    leader.close().unwrap();
    drop(leader);
    copy_all(fs, DIR, "/backup");
    let leader = Db::open(with, DIR).unwrap();
    fill(&leader, 0..50, "b");
    flush(&leader);
    leader
}

/// The leader as of `/backup`, and a second table of the same number and length.
fn restored_leader(fs: &Arc<dyn FileSystem>, with: &Options, leader: Db) -> Db {
    let numbers = tables(fs, DIR);
    leader.close().unwrap();
    drop(leader);
    copy_all(fs, "/backup", DIR);
    let leader = Db::open(with, DIR).unwrap();
    fill(&leader, 0..50, "c");
    flush(&leader);
    assert_eq!(tables(fs, DIR), numbers, "the same numbers again");
    leader
}

#[pumice_test_macros::test]
fn files_of_a_leader_that_was_restored_are_taken_again() {
    for (blobs, copies) in [(false, false), (false, true), (true, false), (true, true)] {
        let (memory, fs) = memory();
        let mut with = options(&fs);
        with.cf.disable_auto_compactions = true;
        (with.cf.enable_blob_files, with.cf.min_blob_size) = (blobs, 0);
        let leader = saved_leader(&fs, &with);
        if copies {
            memory.add_fault(FaultRule::always(FaultOp::Link, "*", Fault::Exdev));
        }
        follow(&fs).close().unwrap();
        let leader = restored_leader(&fs, &with, leader);
        let follower = follow(&fs);
        assert_eq!(contents(&follower), contents(&leader), "blobs {blobs}, copies {copies}");
        follower.close().unwrap();
        leader.close().unwrap();
    }
}

/// One whose MANIFEST has the name of the old one. What was read stays.
#[pumice_test_macros::test]
fn a_leader_that_is_replaced_is_an_error() {
    for restored in [true, false] {
        let (_, fs) = memory();
        let mut with = options(&fs);
        with.cf.disable_auto_compactions = true;
        let leader = saved_leader(&fs, &with);
        let follower = follow(&fs);
        let secondary = Db::builder(DIR).options(options(&fs)).secondary("/secondary");
        let secondary = secondary.open().unwrap();
        let (before, manifest) = (contents(&follower), fs.read_file("/db/CURRENT".as_ref()));
        let leader = if restored {
            restored_leader(&fs, &with, leader)
        } else {
            leader.close().unwrap();
            drop(leader);
            Db::destroy(&with, DIR).unwrap();
            let leader = saved_leader(&fs, &with);
            fill(&leader, 0..300, "c");
            flush(&leader);
            leader
        };
        assert_eq!(fs.read_file("/db/CURRENT".as_ref()), manifest);
        let error = follower.try_catch_up_with_primary().unwrap_err();
        let words = ["there is another database now", "the leader was replaced"];
        assert!(error.message().contains(words[usize::from(restored)]), "{error}");
        assert_eq!(contents(&follower), before);
        match secondary.try_catch_up_with_primary() {
            // The same database, with other tables.
            Ok(()) if restored => assert_eq!(contents(&secondary), contents(&leader)),
            Ok(()) => panic!("another database"),
            Err(error) => assert!(error.message().contains(words[0]), "{error}"),
        }
        follower.close().unwrap();
        drop(follower);
        let follower = follow(&fs);
        assert_eq!(contents(&follower), contents(&leader));
        leader.close().unwrap();
    }
}
