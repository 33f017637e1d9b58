//! The blob files of a column family in reports.
//!
//! Thread safety: plain data.

use crate::stats::human::general;

/// The blob files of a version.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlobView {
    /// How many there are.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of blobs that no table refers to.
    pub garbage_bytes: u64,
}

impl BlobView {
    /// Bytes for each byte that is referred to; 0 without files.
    pub fn space_amplification(&self) -> f64 {
        match self.bytes.saturating_sub(self.garbage_bytes) {
            0 => 0.0,
            live => self.bytes as f64 / live as f64,
        }
    }

    /// `rocksdb.blob-stats`.
    pub fn report(&self) -> String {
        let BlobView { files, bytes, garbage_bytes } = self;
        let amplification = general(self.space_amplification());
        format!(
            "Number of blob files: {files}\nTotal size of blob files: {bytes}\n\
             Total size of garbage in blob files: {garbage_bytes}\n\
             Blob file space amplification: {amplification}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn text_of_rocksdb() {
        let view = BlobView { files: 2, bytes: 260, garbage_bytes: 0 };
        let lines = "Number of blob files: 2\nTotal size of blob files: 260\n\
            Total size of garbage in blob files: 0\nBlob file space amplification: 1\n";
        assert_eq!(view.report(), lines);
        assert_eq!(BlobView { files: 1, bytes: 5, garbage_bytes: 5 }.space_amplification(), 0.0);
    }
}
