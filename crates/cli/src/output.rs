//! Buffered standard output that ends quietly when its reader is gone (`ldb scan | head`).

use std::io::{BufWriter, ErrorKind, StdoutLock, Write};

/// Where commands print.
pub struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    failed: Option<std::io::Error>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Output { stdout: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()), failed: None }
    }

    /// Prints the parts one after the other and ends the line. False: the reader is gone.
    pub fn line(&mut self, parts: &[&[u8]]) -> bool {
        for part in parts.iter().copied().chain([&b"\n"[..]]) {
            if self.failed.is_none()
                && let Err(error) = self.stdout.write_all(part)
            {
                self.failed = Some(error);
            }
        }
        self.failed.is_none()
    }

    /// Prints a text as it is.
    pub fn text(&mut self, text: &str) {
        if self.failed.is_none()
            && let Err(error) = self.stdout.write_all(text.as_bytes())
        {
            self.failed = Some(error);
        }
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// The write failed for another reason than a closed pipe.
    pub fn finish(mut self) -> Result<(), String> {
        let flushed = self.stdout.flush();
        match self.failed.map_or(flushed, Err) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(format!("writing to standard output: {error}"))
            }
            _ => Ok(()),
        }
    }
}
