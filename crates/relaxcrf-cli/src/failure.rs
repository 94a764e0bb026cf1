//! How the program ends when something is wrong.

use std::io;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::spellings;
use crate::terminal::complain;

/// The exit code of a command that ran; its error goes to standard error.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the output closed it, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Shows help or version if asked for, else the mistake in the command line.
pub fn explain_usage(usage: &clap::Error) -> ExitCode {
    if usage.use_stderr() && usage.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        if let Some(text) = spellings::explain(usage) {
            complain(&text);
            return ExitCode::from(2);
        }
        let text = usage.render().to_string();
        complain(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    } else {
        // If this fails, there is no place to report it.
        let _ = usage.print();
    }
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

/// Runs the program; a panic becomes one line that asks for a report, and exit code 1.
pub fn guard(program: impl FnOnce() -> ExitCode + panic::UnwindSafe) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        // A panic of a decoder becomes an error of its file.
        if relaxcrf_io::is_decoding() {
            return;
        }
        // Several threads may panic; the first message is enough.
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            complain(&apology(info));
        }
    }));
    panic::catch_unwind(program).unwrap_or(ExitCode::FAILURE)
}

fn apology(info: &PanicHookInfo) -> String {
    let place = info.location().map_or("an unknown place".into(), |l| format!("{}:{}", l.file(), l.line()));
    let payload = info.payload();
    let fixed = payload.downcast_ref::<&str>().copied();
    let what = fixed.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let what = what.replace('\n', " ");
    format!(
        "internal error at {place}: {what}; this is a mistake in relaxcrf, please report it with the command you ran"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_exit_code_1_and_a_message_with_its_place() {
        let code = guard(|| panic!("two\nlines"));
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
        let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let sink = std::sync::Arc::clone(&seen);
        panic::set_hook(Box::new(move |info| *sink.lock().unwrap() = apology(info)));
        let _ = panic::catch_unwind(|| panic!("two\nlines"));
        let _ = panic::take_hook();
        let text = seen.lock().unwrap().clone();
        assert!(text.contains("failure.rs") && text.contains("two lines") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn broken_pipe_counts_as_success() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(format!("{:?}", exit_code(Err(broken.into()))), format!("{:?}", ExitCode::SUCCESS));
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(format!("{:?}", exit_code(Err(denied.into()))), format!("{:?}", ExitCode::FAILURE));
    }
}
