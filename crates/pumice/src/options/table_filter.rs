//! Which tables a cursor reads.
//!
//! Thread safety: as the user's function, which any thread may call.

use std::fmt;
use std::sync::Arc;

use pumice_table::TableProperties;

/// Which tables a cursor reads: see [`ReadOptions::table_filter`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-tablefilter-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{ReadOptions, TableFilter};
/// db.put("a", "1")?;
/// db.flush()?;
/// let none_large = TableFilter::new(|table| table.num_entries < 1000);
/// let options = ReadOptions { table_filter: Some(none_large), ..ReadOptions::default() };
/// let mut cursor = db.cursor_opt(&options)?;
/// cursor.seek_to_first();
/// assert_eq!(cursor.key(), Some(&b"a"[..]));
/// # drop(cursor);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableFilter(Arc<dyn Fn(&TableProperties) -> bool + Send + Sync>);

impl TableFilter {
    /// Reads the tables with whose properties `wants` is true.
    pub fn new(wants: impl Fn(&TableProperties) -> bool + Send + Sync + 'static) -> Self {
        TableFilter(Arc::new(wants))
    }

    /// Whether a table with these properties is read.
    pub fn wants(&self, properties: &TableProperties) -> bool {
        (self.0)(properties)
    }
}

impl fmt::Debug for TableFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableFilter")
    }
}

/// The same object.
impl PartialEq for TableFilter {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}
