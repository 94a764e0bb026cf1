//! Threads: one pool per process and size, built when first needed.
//!
//! A forked child inherits the memory of a pool but none of its threads; work handed to it would wait forever,
//! and a lock that another thread held at the moment of the fork stays locked. So pools belong to the process
//! that built them: a child notices by its process id (and by the fork hook that Python calls, in case ids are
//! reused), leaves the inherited pools and their lock untouched, and builds its own.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::{ArgumentError, InternalError, exception, internal};

/// More threads than this are a mistake in an argument or an environment variable.
const MOST_THREADS: usize = 4096;

/// How often signals are looked at while nothing else happens.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Forks seen by this process and its ancestors.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// What `set_num_threads` was given; 0 for nothing.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
static REGISTRY: LazyLock<ArcSwap<Registry>> = LazyLock::new(|| ArcSwap::from_pointee(Registry::new()));

/// The pools of one process, by number of threads.
struct Registry {
    process: (u32, usize),
    pools: Mutex<HashMap<usize, Arc<ThreadPool>>>,
}

impl Registry {
    fn new() -> Self {
        Self { process: this_process(), pools: Mutex::default() }
    }
}

fn this_process() -> (u32, usize) {
    (std::process::id(), FORKS.load(Ordering::Relaxed))
}

/// The registry of this process.
fn registry() -> Arc<Registry> {
    loop {
        let current = REGISTRY.load_full();
        if current.process == this_process() {
            return current;
        }
        let previous = REGISTRY.compare_and_swap(&current, Arc::new(Registry::new()));
        // Dropping inherited pools would talk to threads that do not exist here.
        std::mem::forget(Arc::clone(&previous));
        std::mem::forget(current);
    }
}

/// A pool with so many threads, or with the default number.
fn pool(threads: Option<usize>) -> PyResult<Arc<ThreadPool>> {
    let threads = match threads {
        None => get_num_threads(),
        Some(n) => checked(n)?,
    };
    let registry = registry();
    let mut pools = registry.pools.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Ok(Arc::clone(pool));
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|k| format!("relaxcrf-{k}"))
        .build()
        .map_err(|e| InternalError::new_err(format!("cannot start {threads} threads: {e}")))?;
    let pool = Arc::new(pool);
    pools.insert(threads, Arc::clone(&pool));
    Ok(pool)
}

fn checked(threads: usize) -> PyResult<usize> {
    if (1..=MOST_THREADS).contains(&threads) {
        return Ok(threads);
    }
    Err(ArgumentError::new_err(format!("threads is {threads}, but must be 1 to {MOST_THREADS}, or None")))
}

/// Threads used when a call does not say.
#[pyfunction]
pub fn get_num_threads() -> usize {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen > 0 {
        return chosen;
    }
    ["RELAXCRF_NUM_THREADS", "RAYON_NUM_THREADS"]
        .iter()
        .filter_map(|name| std::env::var(name).ok()?.trim().parse().ok())
        .find(|n| (1..=MOST_THREADS).contains(n))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Sets the threads used when a call does not say; `None` goes back to the environment and the machine.
#[pyfunction]
#[pyo3(signature = (threads))]
pub fn set_num_threads(threads: Option<usize>) -> PyResult<()> {
    CHOSEN.store(threads.map(checked).transpose()?.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// To be called in a child process after a fork.
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs work that may fail on bad input, without the interpreter lock, on a pool of this process.
pub fn run<T: Send>(
    py: Python,
    threads: Option<usize>,
    work: impl FnOnce() -> relaxcrf::Result<T> + Send,
) -> PyResult<T> {
    let pool = pool(threads)?;
    py.detach(|| pool.install(|| guarded(work))).map_err(|p| internal(p.as_ref()))?.map_err(exception)
}

/// Runs `work` on the pool while the calling thread does `meanwhile`, both without the interpreter lock.
pub fn run_beside<T: Send, U: Send>(
    py: Python,
    threads: Option<usize>,
    work: impl FnOnce() -> relaxcrf::Result<T> + Send,
    meanwhile: impl FnOnce() -> U + Send,
) -> PyResult<(T, U)> {
    let pool = pool(threads)?;
    let (done, beside) = py.detach(|| {
        let mut done = None;
        let beside = pool.in_place_scope(|scope| {
            scope.spawn(|_| done = Some(guarded(work)));
            meanwhile()
        });
        (done, beside)
    });
    let done = done.ok_or_else(|| InternalError::new_err("the work was never started"))?;
    Ok((done.map_err(|p| internal(p.as_ref()))?.map_err(exception)?, beside))
}

/// As [`run`] for long work that looks at a flag now and then and returns early when it is set: Ctrl-C sets it,
/// and is then raised.
pub fn run_until_signal<T: Send>(
    py: Python,
    threads: Option<usize>,
    work: impl FnOnce(&AtomicBool) -> relaxcrf::Result<T> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let stopped = &stop;
    let (alive, ended) = channel::<()>();
    let work = move || {
        // Dropped when the work ends, however it ends.
        let _alive = alive;
        work(stopped)
    };
    let watch = move || {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SIGNAL_INTERVAL) {
            if let Err(e) = Python::attach(|py| py.check_signals()) {
                stopped.store(true, Ordering::Relaxed);
                return Some(e);
            }
        }
        None
    };
    match run_beside(py, threads, work, watch)? {
        (_, Some(interrupt)) => Err(interrupt),
        (value, None) => Ok(value),
    }
}

/// No panic crosses into Python. What the work touched is dropped, so nothing half-done can be seen.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(work))
}

/// Fails as a bug in native code would: for the tests of the boundary.
#[pyfunction]
pub fn raise_internal_error(py: Python) -> PyResult<()> {
    run(py, None, || -> relaxcrf::Result<()> { panic!("raised on purpose") })
}
