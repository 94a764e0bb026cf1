//! Decoders that are not ours: what they do not survive is a damaged file, not the end of the program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use relaxcrf::error::{Error, Result};

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a picture decoder, whose panics become errors: a panic hook need not say anything then.
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// The result of a decoder; an error about the file at `path` if it panics.
pub(super) fn guarded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = DECODING.replace(true);
    // What the decoder has in hand is dropped, and nothing else can have been left half done.
    let result = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(outer);
    let damaged = |_| {
        Error::file(path, "the picture cannot be read: it is damaged in a way that its decoder cannot say")
    };
    result.map_err(damaged)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoder_panic_is_an_error_that_names_the_file() {
        let path = Path::new("odd.jpg");
        let error = guarded::<()>(path, || {
            assert!(is_decoding());
            panic!("in a decoder")
        });
        assert!(
            error.unwrap_err().to_string().contains("odd.jpg: the picture cannot be read: it is damaged")
        );
        assert!(!is_decoding());
        assert_eq!(guarded(path, || Ok(7)).unwrap(), 7);
        assert!(
            guarded::<()>(path, || Err(Error::file(path, "is odd")))
                .unwrap_err()
                .to_string()
                .contains("is odd")
        );
    }
}
