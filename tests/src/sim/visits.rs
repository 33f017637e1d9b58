//! Read-only handles that are opened and closed while the writer works, and reads of tables that
//! fail or return a wrong bit.

use pumice::{Db, ReadOptions};
use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultOp, FaultRule};

use super::session::{Session, Stop};
use super::verdict::{Count, Failure, Kind};
use super::world::DIR;
use crate::stores::pumice::options;

impl Session {
    /// Opens the database read-only next to this handle and closes it again. It may find files half
    /// deleted or half written; only what it leaves behind is judged.
    ///
    /// # Errors
    /// Options that do not parse.
    pub fn visit(&self) -> Result<(), Stop> {
        self.tally.add(Count::Ops, 1);
        let (base, families) = options(&self.plan.settings, self.fs.shared())
            .map_err(pumice_base::Error::invalid_argument)?;
        if let Ok((reader, _)) = Db::open_read_only(&base.db, DIR, &families, false) {
            drop(reader.close());
        }
        Ok(())
    }

    /// Scans while one read of a table fails or returns a wrong bit: the scan gives the right data
    /// or an error. Only while nothing writes.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn judge_reads_under_faults(&self, rng: &mut Rng) -> Result<(), Failure> {
        let failed = |error: pumice::Error| Failure::new(Kind::Wrong, format!("reading: {error}"));
        // A background job that reads a wrong bit would rightly stop all writes.
        self.db.pause_background_work();
        let judged = self.scan_under_faults(rng);
        self.fs.clear_faults();
        self.db.continue_background_work().map_err(failed)?;
        judged
    }

    fn scan_under_faults(&self, rng: &mut Rng) -> Result<(), Failure> {
        let reads = ReadOptions::default();
        for (cf, family) in self.families.iter().enumerate() {
            let right = super::reads::scan(&self.db, family, &reads, false)
                .map_err(|e| Failure::new(Kind::Wrong, format!("reading: {e}")))?;
            let mut of_blobs = rng.clone().fork();
            for fault in [Fault::Eio, Fault::BitFlip] {
                for (files, rng) in [("*.sst", &mut *rng), ("*.blob", &mut of_blobs)] {
                    let skip = rng.uniform(6);
                    self.fs.add_fault(FaultRule::once(FaultOp::Read, files, skip, fault));
                    let found = super::reads::scan(&self.db, family, &reads, rng.one_in(2));
                    self.fs.clear_faults();
                    self.tally.add(Count::Reads, 1);
                    if found.is_ok_and(|found| found != right) {
                        let text = format!("family {cf}: a wrong scan without an error, {fault:?}");
                        return Err(Failure::new(Kind::Wrong, text));
                    }
                }
            }
        }
        Ok(())
    }

    /// How often a log or MANIFEST has failed to close.
    pub fn failed_closes(&self) -> usize {
        let log = self.fs.fault_log();
        let counts = |line: &&String| {
            let failed = !line.starts_with("Stall") && !line.starts_with("WallJump");
            let file = line.contains(".log") || line.contains("MANIFEST-");
            failed && file && line.contains(" at Close ")
        };
        log.iter().filter(counts).count()
    }
}
