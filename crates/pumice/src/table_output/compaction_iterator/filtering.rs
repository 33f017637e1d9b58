//! Applies the compaction filter to values and entities.
//!
//! Thread safety: one owner. The filter is the user's code.

use pumice_base::extension::{CompactionFilter, FilterDecision};
use pumice_base::{
    InternalIterator, Result, SequenceNumber, UserKey, ValueType, key, wide_columns,
};

use super::CompactionIterator;
use crate::read::elsewhere::Fetched;
use crate::table_output::value::Shown;

impl<I: InternalIterator> CompactionIterator<I> {
    /// Asks the filter about the value or entity that the input is on; true if `out` has an entry
    /// to write.
    pub(super) fn filter(&mut self, sequence: SequenceNumber, tag: u8) -> bool {
        let Some(filter) = self.settings.compaction_filter.clone() else { return false };
        match self.decision(&*filter, tag) {
            Ok(FilterDecision::Keep) => self.emit_input(sequence, tag),
            Ok(FilterDecision::ChangeValue(value)) => {
                self.change(sequence, ValueType::Value, value)
            }
            Ok(FilterDecision::ChangeWideColumnEntity(columns)) => {
                match wide_columns::encode_pairs(columns) {
                    Ok(entity) => self.change(sequence, ValueType::WideColumnEntity, entity),
                    Err(error) => {
                        self.status = Err(error);
                        false
                    }
                }
            }
            Ok(FilterDecision::Remove) => {
                self.counts.dropped_by_filter += 1;
                let needed = self.timed && !self.forgets_time(sequence);
                if sequence <= self.earliest_snapshot && !needed && self.nothing_below() {
                    self.input.next();
                    return false;
                }
                let key = key::internal_key(&self.current, sequence, self.deletion());
                self.push_and_step(key, Vec::new())
            }
            Err(error) => {
                self.status = Err(error);
                false
            }
        }
    }

    fn decision(&self, filter: &dyn CompactionFilter, tag: u8) -> Result<FilterDecision> {
        let (level, stored) = (self.settings.level, self.input.value());
        let shown = self.settings.times.keys.whole(&self.current);
        if tag == ValueType::BlobIndex as u8
            && let Some(decision) = filter.filter_blob_by_key(level, &shown)
        {
            return Ok(decision);
        }
        let fetched = self.settings.values.fetch(UserKey::new(&self.current), tag, stored)?;
        let (tag, stored) = fetched.as_ref().map_or((tag, stored), Fetched::stored);
        Ok(match self.settings.values.shown(tag, stored)? {
            Shown::Entity(columns) => filter.filter_entity(level, &shown, &columns),
            Shown::Plain(value) => filter.filter(level, &shown, value),
        })
    }

    fn change(&mut self, sequence: SequenceNumber, to: ValueType, value: Vec<u8>) -> bool {
        let at = self.value_sequence(sequence);
        let key = key::internal_key(&self.current, at, to);
        self.push_and_step(key, value)
    }
}
