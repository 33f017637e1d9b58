//! Recognises a stored filter by its last five bytes and queries it.
//!
//! | first metadata byte | meaning |
//! |---|---|
//! | 0 | always matches |
//! | ff | Bloom of format 5 and later |
//! | fe | Ribbon |
//! | 80..fd | unknown: always matches |
//! | 1..7f | legacy Bloom with that many probes |
//!
//! Invariant 1: a reader is used only with the bytes it was made from; others give wrong answers
//! but never a panic.

use pumice_base::hash::hash64;

use crate::METADATA_LEN;
use crate::bloom_line::{self, LINE};
use crate::legacy::LegacyParams;
use crate::ribbon::{self, RibbonParams};

/// The parsed parameters of a filter, kept beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterReader(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AlwaysTrue,
    AlwaysFalse,
    Bloom { lines: u32, probes: u8 },
    Legacy(LegacyParams),
    Ribbon(RibbonParams),
}

impl FilterReader {
    /// Parses the metadata of a filter. Never fails: filters that cannot be read always match.
    pub fn new(contents: &[u8]) -> Self {
        FilterReader(Kind::parse(contents))
    }

    /// The filter says nothing about any key, so it need not be kept.
    pub fn always_matches(&self) -> bool {
        self.0 == Kind::AlwaysTrue
    }

    /// False only if `key` was not added to the filter.
    #[inline]
    pub fn may_match(&self, contents: &[u8], key: &[u8]) -> bool {
        self.may_match_hashed(contents, key, hash64(key))
    }

    /// [`FilterReader::may_match`] for a caller that knows `hash`, the `hash64` of `key`.
    #[inline]
    pub fn may_match_hashed(&self, contents: &[u8], key: &[u8], hash: u64) -> bool {
        match &self.0 {
            Kind::Legacy(params) => params.may_match(data_of(contents), key),
            _ => self.may_match_hash(contents, hash),
        }
    }

    /// [`FilterReader::may_match`] by the key's `hash64`, which serves all filters but the legacy
    /// one: that has another hash and matches here always.
    #[inline]
    pub fn may_match_hash(&self, contents: &[u8], hash: u64) -> bool {
        match &self.0 {
            Kind::Bloom { lines, probes } => {
                let at = bloom_line::line_of(hash, *lines) * LINE;
                let line = contents.get(at..).and_then(|rest| rest.first_chunk::<LINE>());
                line.is_none_or(|line| bloom_line::line_matches(line, hash, *probes))
            }
            Kind::Ribbon(params) => params.may_match(data_of(contents), hash),
            Kind::AlwaysFalse => false,
            Kind::AlwaysTrue | Kind::Legacy(_) => true,
        }
    }
}

fn data_of(contents: &[u8]) -> &[u8] {
    &contents[..contents.len().saturating_sub(METADATA_LEN)]
}

impl Kind {
    fn parse(contents: &[u8]) -> Self {
        let data_len = data_of(contents).len();
        let Some(metadata) = contents.last_chunk::<METADATA_LEN>().filter(|_| data_len > 0) else {
            // No keys were added.
            return Kind::AlwaysFalse;
        };
        let known = match *metadata {
            [bloom_line::MARKER, 0, probes, 0, 0] => {
                let lines = u32::try_from(data_len / LINE).ok().filter(|lines| *lines > 0);
                // The top bits of the byte are the logarithm of a line in units of 64 bytes.
                let probes = Some(probes).filter(|p| (1..=bloom_line::MAX_PROBES).contains(p));
                lines.zip(probes).map(|(lines, probes)| Kind::Bloom { lines, probes })
            }
            [ribbon::MARKER, seed, b0, b1, b2] => {
                let blocks = u32::from_le_bytes([b0, b1, b2, 0]);
                RibbonParams::parse(seed, blocks, data_len).map(Kind::Ribbon)
            }
            [1..0x80, ..] => LegacyParams::parse(*metadata, data_len).map(Kind::Legacy),
            _ => None,
        };
        known.unwrap_or(Kind::AlwaysTrue)
    }
}
