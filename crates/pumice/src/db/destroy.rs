//! tmp
pub fn destroy(o:&crate::options::DbOptions,p:&std::path::Path)->pumice_base::Result<()>{ for n in o.file_system.list(p)? { drop(o.file_system.remove(&p.join(n))); } o.file_system.remove_dir(p) }
