//! Hints about what will be read soon.
#![allow(unsafe_code)]

/// Fetches an element into the nearest cache, if the processor likes; any index will do.
#[inline(always)]
pub(crate) fn prefetch<T>(values: &[T], index: usize) {
    let address = values.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction takes any address, reads nothing that shows, and is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
