//! The request of an ingestion, and what is refused before a file is opened.
//!
//! Pure functions of the call and the column families' options.

use std::collections::BTreeSet;
use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::ingest::{IngestExternalFileArg, checksums, replace};
use crate::version::family::CfData;

/// The files for one column family.
pub(crate) struct Request<'a> {
    pub cf: Arc<CfData>,
    pub arg: &'a IngestExternalFileArg,
}

/// Refuses calls that are invalid whatever the files are.
pub(crate) fn check_requests(requests: &[Request<'_>]) -> Result<()> {
    if requests.is_empty() {
        return Err(Error::invalid_argument("ingestion arg list is empty"));
    }
    let mut ids = BTreeSet::new();
    if !requests.iter().all(|request| ids.insert(request.cf.id)) {
        return Err(Error::invalid_argument("ingestion args have duplicate column families"));
    }
    let fill_cache = requests[0].arg.options.fill_cache;
    for (at, Request { arg, .. }) in requests.iter().enumerate() {
        if arg.external_files.is_empty() {
            return Err(Error::invalid_argument(format!("external_files[{at}] is empty")));
        }
        if arg.options.fill_cache != fill_cache {
            return Err(Error::invalid_argument(
                "fill_cache should be the same across ingestion options.",
            ));
        }
    }
    requests.iter().try_for_each(check_request)
}

fn check_request(Request { cf, arg }: &Request<'_>) -> Result<()> {
    let options = &arg.options;
    if options.ingest_behind && !cf.options().cf_allow_ingest_behind {
        return Err(Error::invalid_argument(format!(
            "Can't ingest_behind file in ColumnFamily {} with cf_allow_ingest_behind=false",
            cf.name
        )));
    }
    if let Some(range) = &arg.atomic_replace_range {
        replace::range_of(range, options)?;
    }
    if options.allow_db_generated_files && options.write_global_seqno {
        return Err(Error::not_supported(
            "write_global_seqno is deprecated and does not work with allow_db_generated_files.",
        ));
    }
    if options.move_files && options.link_files {
        return Err(Error::invalid_argument("`move_files` and `link_files` can not both be true."));
    }
    checksums::check_lists(arg)?;
    if cf.is_dropped() {
        return Err(dropped());
    }
    Ok(())
}

#[cold]
pub(crate) fn dropped() -> Error {
    Error::invalid_argument("cannot ingest an external file into a dropped CF")
}
