//! The texts that `sst_dump` prints.
use crate::properties::TableProperties;
use crate::table::Table;
/// a
pub fn properties_text(_p: &TableProperties) -> String { String::new() }
/// b
pub fn raw_text(_t: &std::sync::Arc<Table>, _o: &mut String) -> pumice_base::Result<()> { Ok(()) }
