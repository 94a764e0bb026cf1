//! Threads: pools that are leased to one call at a time, and kept for the next.
//!
//! Calls from several Python threads never share a pool, so none waits for another, and a callback may call the
//! library again. A call that does not ask for a number of threads gets its share of the default when others
//! are at work: results do not depend on it.
//!
//! A forked child inherits the memory of a pool but none of its threads; work handed to it would wait forever,
//! and a lock that another thread held at the moment of the fork stays locked. So pools belong to the process
//! that built them: a child notices by its process id (and by the fork hook that Python calls, in case ids are
//! reused), leaves the inherited pools and their lock untouched, and builds its own.
//!
//! An interpreter that ends stops every other thread that asks for its lock, wherever that is; in the middle of native code
//! this ends the process by force. So before it ends the calls of other threads are ended, and waited for.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOverflowError, PySystemExit, PyTypeError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::{ArgumentError, InternalError, exception, internal};

/// More threads than this are a mistake in an argument or an environment variable.
const MOST_THREADS: usize = 4096;
/// Pools of one size that are kept while nobody needs them.
const MOST_IDLE: usize = 16;

/// Of every thread, whatever `RUST_MIN_STACK` says.
const STACK: usize = 2 << 20;

/// How often signals are looked at while nothing else happens.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the interpreter waits for calls of other threads before it ends. Only a callback takes as long.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The thread that ends the interpreter, once it does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// Forks seen by this process and its ancestors.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// What `set_num_threads` was given; 0 for nothing.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
static REGISTRY: LazyLock<ArcSwap<Registry>> = LazyLock::new(|| ArcSwap::from_pointee(Registry::new()));

/// The pools of one process that wait for work, by number of threads.
struct Registry {
    process: (u32, usize),
    idle: Mutex<HashMap<usize, Vec<ThreadPool>>>,
    /// Calls at work.
    active: AtomicUsize,
}

impl Registry {
    fn new() -> Self {
        Self { process: this_process(), idle: Mutex::default(), active: AtomicUsize::new(0) }
    }

    /// Only threads that hold the interpreter's lock take this one, so it is never held at the moment of a fork.
    fn idle(&self) -> MutexGuard<'_, HashMap<usize, Vec<ThreadPool>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pool in use by one call.
struct Lease {
    registry: Arc<Registry>,
    threads: usize,
    pool: Option<ThreadPool>,
}

impl Lease {
    /// A pool with so many threads, or with a share of the default number.
    fn new(threads: Option<Threads>) -> PyResult<Self> {
        check_ending()?;
        let registry = registry();
        let others = registry.active.fetch_add(1, Ordering::Relaxed);
        let threads = threads.map_or_else(|| (get_num_threads() / (others + 1)).max(1), |t| t.0);
        let kept = registry.idle().get_mut(&threads).and_then(Vec::pop);
        let mut lease = Self { registry, threads, pool: kept };
        if lease.pool.is_none() {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|k| format!("relaxcrf-{k}"))
                .stack_size(STACK)
                .build()
                .map_err(|e| {
                    ArgumentError::new_err(format!(
                        "threads is {threads}, but that many cannot be started: {e}"
                    ))
                })?;
            lease.pool = Some(pool);
        }
        Ok(lease)
    }

    /// Whether this process was forked since from the one that has the threads.
    fn is_inherited(&self) -> bool {
        self.registry.process != this_process()
    }

    fn pool(&self) -> &ThreadPool {
        self.pool.as_ref().unwrap_or_else(|| unreachable!("a lease has its pool until it is dropped"))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.registry.active.fetch_sub(1, Ordering::Relaxed);
        let Some(pool) = self.pool.take() else { return };
        if self.is_inherited() {
            // A callback forked: the threads are the parent's.
            return std::mem::forget(pool);
        }
        let mut idle = self.registry.idle();
        let kept = idle.entry(self.threads).or_default();
        if kept.len() < MOST_IDLE {
            kept.push(pool);
        }
    }
}

/// Tells a process from one that was forked from it.
pub fn this_process() -> (u32, usize) {
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

/// A number of threads as Python gives it.
#[derive(Clone, Copy)]
pub struct Threads(usize);

impl<'py> FromPyObject<'_, 'py> for Threads {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<usize>() {
            Ok(threads) if (1..=MOST_THREADS).contains(&threads) => Ok(Self(threads)),
            // What the object's own methods raise is the caller's.
            Err(e) if !is_about_the_number(&e, given.py()) => Err(e),
            // Too many, too few, or no whole number.
            _ => {
                // Python refuses to write out numbers of thousands of digits.
                let shown = given.repr().map_or("a huge number".into(), |text| text.to_string());
                let shown: String = shown.chars().take(80).collect();
                let text = format!("threads is {shown}, but must be 1 to {MOST_THREADS}, or None");
                Err(ArgumentError::new_err(text))
            }
        }
    }
}

fn is_about_the_number(e: &PyErr, py: Python) -> bool {
    e.is_instance_of::<PyOverflowError>(py) || e.is_instance_of::<PyTypeError>(py)
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
pub fn set_num_threads(threads: Option<Threads>) {
    CHOSEN.store(threads.map_or(0, |t| t.0), Ordering::Relaxed);
}

/// To be called in a child process after a fork.
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// To be called when the interpreter is about to end: ends the calls of other threads and waits for them.
#[pyfunction]
pub fn before_exit(py: Python) {
    ENDING.get_or_init(|| thread::current().id());
    let (registry, began) = (registry(), Instant::now());
    py.detach(|| {
        while registry.active.load(Ordering::Relaxed) > 0 && began.elapsed() < LONGEST_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Ends the thread, quietly, if another one ends the interpreter.
fn check_ending() -> PyResult<()> {
    match ENDING.get() {
        Some(&by) if by != thread::current().id() => Err(PySystemExit::new_err("the interpreter is ending")),
        _ => Ok(()),
    }
}

/// Runs work that may fail on bad input, without the interpreter lock, on a pool of this process.
pub fn run<T: Send>(
    py: Python,
    threads: Option<Threads>,
    work: impl FnOnce() -> relaxcrf::Result<T> + Send,
) -> PyResult<T> {
    let lease = Lease::new(threads)?;
    py.detach(|| lease.pool().install(|| guarded(work))).map_err(|p| internal(p.as_ref()))?.map_err(exception)
}

/// Runs `work` on the pool while the calling thread does `meanwhile`, both without the interpreter lock.
///
/// The work holds all it needs, so that a child that was forked in `meanwhile` need not wait for it: its threads are the
/// parent's. The child gets an exception instead.
pub fn run_beside<T: Send + 'static, U: Send>(
    py: Python,
    threads: Option<Threads>,
    work: impl FnOnce() -> relaxcrf::Result<T> + Send + 'static,
    meanwhile: impl FnOnce() -> U + Send,
) -> PyResult<(T, U)> {
    let lease = Lease::new(threads)?;
    let (put, take) = channel();
    let leased = &lease;
    let (done, beside) = py.detach(move || {
        leased.pool().spawn(move || {
            // Nobody listens any more if `meanwhile` failed.
            let _ = put.send(guarded(work));
        });
        let beside = guarded(meanwhile);
        if leased.is_inherited() {
            return (None, beside);
        }
        (take.recv().ok(), beside)
    });
    let beside = beside.map_err(|p| internal(p.as_ref()))?;
    let done = done.ok_or_else(|| {
        ArgumentError::new_err(
            "a callback has forked this process and returned, but the threads that work on the run are the parent's: \
             let the child end with os._exit, or fork before the run",
        )
    })?;
    Ok((done.map_err(|p| internal(p.as_ref()))?.map_err(exception)?, beside))
}

/// As [`run`] for long work that looks at a flag now and then and returns early when it is set: Ctrl-C sets it,
/// and is then raised.
pub fn run_until_signal<T: Send>(
    py: Python,
    threads: Option<Threads>,
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
            if let Err(e) = Python::attach(check_interrupt) {
                stopped.store(true, Ordering::Relaxed);
                return Some(e);
            }
        }
        None
    };
    let lease = Lease::new(threads)?;
    let mut done = None;
    let (pool, put) = (lease.pool(), &mut done);
    let interrupt = py.detach(move || {
        pool.in_place_scope(move |scope| {
            scope.spawn(move |_| *put = Some(guarded(work)));
            watch()
        })
    });
    let done = done.ok_or_else(|| InternalError::new_err("the work was never started"))?;
    let value = done.map_err(|p| internal(p.as_ref()))?.map_err(exception)?;
    interrupt.map_or(Ok(value), Err)
}

thread_local! {
    /// What ends the calls of this thread.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Ends the calls of other threads: Python tells signals to its main thread only.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// From now on calls of this thread end, as if by Ctrl-C, once this is set.
    fn watch(&self) {
        STOP.set(Some(Arc::clone(&self.0)));
    }

    /// Ends all calls of the threads that watch.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Fails on Ctrl-C, whatever else a signal handler raises, a [`Stop`], and the end of the interpreter.
pub fn check_interrupt(py: Python) -> PyResult<()> {
    py.check_signals()?;
    check_ending()?;
    let stopped = STOP.with_borrow(|stop| stop.as_ref().is_some_and(|s| s.load(Ordering::Relaxed)));
    if stopped { Err(PyKeyboardInterrupt::new_err("stopped")) } else { Ok(()) }
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
