//! A primary that changes its files whenever a secondary looks at them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::follow;
use crate::common::watched::Watched;
use crate::common::{DIR, contents, flush, key, memory, options};
use pumice::{Db, ErrorKind, FileSystem};

#[pumice_test_macros::test]
fn a_catch_up_with_a_primary_that_never_rests_gives_up_and_changes_nothing() {
    let (_, fs) = memory();
    let mut settings = options(&fs);
    settings.cf.disable_auto_compactions = true;
    let primary = Db::open(&settings, DIR).unwrap();
    primary.put(key(0), "at first").unwrap();
    flush(&primary);

    let (busy, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let looked = {
        let (primary, busy, looks) = (primary.clone(), Arc::clone(&busy), Arc::clone(&looks));
        move |path: &Path| {
            let is_manifest = path.file_name().is_some_and(|n| n.as_encoded_bytes()[0] == b'M');
            // A round looks at its begin and at its end: it changes in between.
            if is_manifest && busy.load(Relaxed) && looks.fetch_add(1, Relaxed) % 2 == 1 {
                primary.put(key(looks.load(Relaxed)), "later").unwrap();
                flush(&primary);
            }
        }
    };
    let (watched, counts) = (Arc::clone(&fs), Arc::default());
    let range_synced = Arc::new(|_: &Path, _, _, _| {});
    let watched = Watched { inner: watched, range_synced, looked: Arc::new(looked), counts };
    let (secondary, _) = follow(&(Arc::new(watched) as Arc<dyn FileSystem>), &[]);
    let before = contents(&secondary);
    assert_eq!(before.len(), 1);

    busy.store(true, Relaxed);
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TryAgain, "{error}");
    assert!(error.message().ends_with("/db: the database changes while it is read"), "{error}");
    assert_eq!(looks.load(Relaxed), 2 * 200, "that many rounds");
    assert_eq!(contents(&secondary), before);

    busy.store(false, Relaxed);
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
    assert_eq!(contents(&secondary).len(), 201);
    secondary.close().unwrap();
    primary.close().unwrap();
}
