//! Asks the system for memory before it is used, so that a lack of it is an error and not the end of the process.

use crate::error::{Error, Result};

/// What is not worth asking for beforehand. (Also, an allocator may keep smaller blocks that it is given back.)
const SMALL: u64 = 64 << 20;

/// Small things that come with large ones, and what allocators set aside for each thread.
const HEADROOM: u64 = 24 << 20;

/// Fails if the system does not give as much, and a little more for small things: an error, where the first allocation that
/// fails later would end the process.
pub fn require(what: &str, bytes: u64) -> Result<()> {
    if is_given(bytes) {
        return Ok(());
    }
    let got = format!("{} MiB", bytes.saturating_add(HEADROOM).div_ceil(1 << 20));
    Err(Error::value(what, got, "no more than the system gives (a smaller problem, tiles, a higher limit?)"))
}

/// Whether the system has so much to give, and a little more. Memory that is asked for is given back at once, and none of it
/// is touched.
pub fn is_given(bytes: u64) -> bool {
    let size = bytes.saturating_add(HEADROOM);
    // The allocator may hold more than the limit leaves: only asking tells.
    let doubtful = left_by_limit().is_some_and(|left| left < size);
    if bytes < SMALL && !doubtful {
        return true;
    }
    let mut room: Vec<u8> = Vec::new();
    let given = usize::try_from(size).is_ok_and(|n| room.try_reserve_exact(n).is_ok());
    // Nobody uses it, which must not be a reason to leave the question out.
    std::hint::black_box(&room);
    given
}

/// Bytes of address space that a limit (`ulimit -v`) leaves to the process; none without a limit.
#[cfg(target_os = "linux")]
fn left_by_limit() -> Option<u64> {
    let most = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse::<u64>().ok()?;
    Some(most.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// Other systems do not say.
#[cfg(not(target_os = "linux"))]
fn left_by_limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_system_gives_is_refused() {
        // More than a processor of today can address.
        let error = require("memory for a test", 1 << 60).unwrap_err().to_string();
        // With the headroom, which is asked for as well.
        assert!(error.starts_with("memory for a test is 1099511627800 MiB, but must be"), "{error}");
        assert!(require("memory for a test", SMALL).is_ok());
        assert!(require("memory for a test", u64::MAX).is_err());
    }
}
