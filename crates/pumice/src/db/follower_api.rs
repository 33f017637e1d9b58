//! Followers: databases that follow what another process writes, with files of their own.
//!
//! Thread safety: from any thread. Every call may suspend.

use std::path::Path;

use pumice_base::Result;

use crate::db::api::Db;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::options::DbOptions;
use crate::recovery::leader::Leader;
use crate::recovery::lock::Mode;
use crate::version::family::ColumnFamily;

impl Db {
    /// Opens a database for reading in its own directory `path`, which follows the database at
    /// `leader_path` while another process writes to that. It shows what the leader has flushed:
    /// logs are not read. It catches up every `follower_refresh_catchup_period_ms`, and when
    /// [`Db::try_catch_up_with_primary`] is called.
    ///
    /// The leader's tables and blob files get a second name in `path`, or are copied if that is on
    /// another file system, and are deleted there once neither the leader nor a cursor needs them.
    /// So the leader may delete its own at any time. `path` is made if `create_if_missing` is set;
    /// nothing else may keep files there. `db_paths` and `cf_paths` are those of the leader.
    ///
    /// Not all column families need to be named. Those that the leader creates later are seen by
    /// the next open. What a secondary refuses is refused, in the same words.
    ///
    /// A catch-up that fails changes nothing for readers. In the background it is tried
    /// `follower_catchup_retry_count` times, with pauses of `follower_catchup_retry_wait_ms`, and
    /// then reported in the info log.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// # let dir = std::env::temp_dir().join(format!("pumice-follower-{}", std::process::id()));
    /// # let (leads, follows) = (dir.join("leads"), dir.join("follows"));
    /// # std::fs::create_dir_all(&dir).unwrap();
    /// use pumice::{ColumnFamilyDescriptor, Db, Options};
    /// let leader = Db::builder(&leads).create(true).open()?;
    /// leader.put("a", "flushed")?;
    /// leader.flush()?;
    /// leader.put("a", "in the log")?;
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// let families = [ColumnFamilyDescriptor::new("default", options.cf)];
    /// let (follower, _) = Db::open_as_follower(&options.db, &follows, &leads, &families)?;
    /// assert_eq!(follower.get("a")?.as_deref(), Some(&b"flushed"[..]));
    /// leader.flush()?;
    /// follower.try_catch_up_with_primary()?; // Or some seconds later.
    /// assert_eq!(follower.get("a")?.as_deref(), Some(&b"in the log"[..]));
    /// # follower.close()?;
    /// # leader.close()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// NotFound if `path` is missing; InvalidArgument if it is not a follower's; IoError if another
    /// follower has it open; as [`Db::open_as_secondary`].
    pub fn open_as_follower(
        options: &DbOptions,
        path: impl AsRef<Path>,
        leader_path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let (mut options, mut families) = (options.clone(), families.to_vec());
        let (path, leader_path) = (path.as_ref(), leader_path.as_ref());
        let named = families.iter_mut().map(|family| (family.name.as_str(), &mut family.options));
        let leader = Leader::take_paths(leader_path, path, &mut options, named)?;
        Self::open_with(&options, path, &families, Mode::Follower(&leader))
    }
}
