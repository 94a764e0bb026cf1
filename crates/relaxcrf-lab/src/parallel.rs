//! Many images at once, one thread each: faster than all threads on one image, because no thread waits.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// Stack of every thread in bytes, independent of `RUST_MIN_STACK`.
pub const STACK: usize = 2 << 20;

/// Calls `work` once on each of `count` threads and divides `threads` rayon threads among them; returns when all have
/// finished.
pub fn workers(count: usize, threads: usize, work: impl Fn() + Sync) -> Result<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |worker: usize| {
            let own = (threads / count + usize::from(worker < threads % count)).max(1);
            let no_threads = move || format!("{own} threads cannot be started");
            let task = move || -> Result<()> {
                let pool = rayon::ThreadPoolBuilder::new().stack_size(STACK).num_threads(own).build();
                pool.with_context(no_threads)?.install(work);
                Ok(())
            };
            // Unlike `scope.spawn` this fails without a panic.
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, task).with_context(no_threads)
        };
        let started: Vec<_> = (0..count).map(start).collect();
        let ended = started.into_iter().map(|thread| thread?.join().unwrap_or_else(|p| resume_unwind(p)));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Calls `work` on every item, as many at a time as there are threads, and returns the results in order.
/// After a failure, items in progress are finished and no others begun.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = rayon::current_num_threads();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R>>>> = Mutex::new(items.iter().map(|_| None).collect());
    // With fewer images than threads, the other threads work inside the images.
    workers(threads.min(items.len()).max(1), threads, || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(|p| p.into_inner())[at] = Some(result);
        }
    })?;
    let results = results.into_inner().unwrap_or_else(|p| p.into_inner());
    // Failures first: items that were never begun did not fail.
    let mut done = Vec::with_capacity(items.len());
    for result in results.into_iter().flatten() {
        done.push(result?);
    }
    (done.len() == items.len()).then_some(done).context("some images were not processed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_map_keeps_the_order_and_returns_the_first_failure() {
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(map(&items, |&k| Ok(k * k)).unwrap(), items.iter().map(|k| k * k).collect::<Vec<_>>());
        assert!(map(&[] as &[usize], |&k| Ok(k)).unwrap().is_empty());
        let seen = AtomicUsize::new(0);
        let e = map(&items, |&k| {
            seen.fetch_add(1, Ordering::Relaxed);
            if k == 3 {
                return Err(anyhow::anyhow!("three"));
            }
            // Long enough that the failure is seen before the others are through.
            std::thread::sleep(std::time::Duration::from_millis(5));
            Ok(k)
        });
        assert_eq!(e.unwrap_err().to_string(), "three");
        assert!(seen.into_inner() < 50);
    }
}
