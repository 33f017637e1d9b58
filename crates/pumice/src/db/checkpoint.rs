//! tmp
impl crate::db::DbInner { pub fn checkpoint(&self,_:&std::path::Path)->pumice_base::Result<()>{Ok(())} }
