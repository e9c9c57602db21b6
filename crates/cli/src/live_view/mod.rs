//! `perf-agent live`: a terminal view of a running capture.
//!
//! One thread follows the capture (follow.rs); this one reads keys and draws. The terminal is as it was before on every way out: the end of this
//! function, an error, a panic, a signal, and a terminal that is gone.

mod backend;
mod follow;
mod write;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use live::{App, Effect, Keys, Mode, Theme};
use perfagent::{Agent, CancelToken, Config, Error, Report};
use ratatui_core::terminal::Terminal;

use self::backend::ScreenBackend;
use self::follow::{Update, follow};
use crate::args::LiveArgs;
use crate::console::console;
use crate::exit_status::ExitStatuses;
use crate::screen::{Input, Screen};
use crate::signals::Interrupts;
use crate::{ending, header, messages, request, starting};

/// Time between two looks at signals and at what the capture says.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time in which the rest of a key's bytes comes.
const REST_OF_KEY: Duration = Duration::from_millis(30);
/// Updates that wait for the screen.
const UPDATES: usize = 16;

/// Runs the view until a key or a signal ends it.
pub fn run(args: &LiveArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    if let Some(option) = request::of_no_use_for_live(args) {
        messages::error(
            &format!("live has no use for {option}"),
            Some("leave it out, or capture without live"),
        );
        return ExitCode::from(statuses.rejected);
    }
    let agent = match request::live_builder(args).temporary_files(&interrupts.temporary_files).build() {
        Ok(agent) => agent,
        Err(error) => return failed(&error, statuses),
    };
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let error = "live: standard input and standard output are not both a terminal";
        messages::error(
            error,
            Some("without a terminal, write a profile: perf-agent --profile --duration 10s …"),
        );
        return ExitCode::from(statuses.rejected);
    }
    let config = agent.config();
    match starting::while_starting(&agent, || agent.start_cancellable(&interrupts.stop)) {
        Ok(()) => {}
        Err(Error::Cancelled) => return ExitCode::SUCCESS,
        Err(error) => return failed(&error, statuses),
    }
    let target = header::target(&config, &agent.targets());
    match view(&agent, &config, &target, interrupts) {
        Ok((report, facts)) => {
            ending::facts_only(&report, &facts);
            ExitCode::from(statuses.of_report(&report, true))
        }
        Err(error) => failed(&error, statuses),
    }
}

fn failed(error: &Error, statuses: ExitStatuses) -> ExitCode {
    messages::library_error(error);
    ExitCode::from(statuses.of_error(error))
}

/// Shows the capture until the end is asked for. Gives the report of the capture, which has ended then, and the facts about all of it.
fn view(
    agent: &Agent,
    config: &Config,
    target: &str,
    interrupts: &Interrupts,
) -> Result<(Report, Vec<String>), Error> {
    let end = CancelToken::new();
    let (updates, updated) = sync_channel(UPDATES);
    std::thread::scope(|scope| {
        let following = std::thread::Builder::new().name("live".to_owned());
        let own = updates.clone();
        let following = following.spawn_scoped(scope, || follow(agent, config, target, &end, own));
        let following =
            following.map_err(|source| system("start the thread that follows the capture", source))?;
        let mut app = App::new(&modes(config));
        let shown = show(&mut app, &updated, interrupts, &updates);
        end.cancel();
        // What the other thread still says is not waited for.
        drop(updated);
        let report = following.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        shown.map(|()| (report, app.facts()))
    })
}

fn system(attempt: &str, source: std::io::Error) -> Error {
    Error::System { attempt: attempt.to_owned(), source }
}

/// Draws and reacts to keys until the end is asked for, or the terminal is gone.
fn show(
    app: &mut App,
    updated: &Receiver<Update>,
    interrupts: &Interrupts,
    updates: &std::sync::mpsc::SyncSender<Update>,
) -> Result<(), Error> {
    let screen = Screen::enter().map_err(|source| system("set up the terminal", source))?;
    let mut terminal = Terminal::new(ScreenBackend::new(&screen, &interrupts.stop))
        .map_err(|source| system("draw on the terminal", source))?;
    let theme = if console().screen_colours { Theme::Colours } else { Theme::Plain };
    let mut keys = Keys::default();
    let mut is_old = true;
    let mut size = screen.size();
    while !interrupts.stop.is_cancelled() {
        for update in updated.try_iter() {
            is_old = true;
            match update {
                Update::Interval(interval) => app.add(&interval),
                Update::Status(status) => app.set_status(status),
                Update::Said(message) => app.say(message),
                // The thread tells the error itself.
                Update::Failed => return Ok(()),
            }
        }
        is_old |= std::mem::replace(&mut size, screen.size()) != size;
        if is_old && terminal.draw(|frame| live::draw(app, theme, frame.area(), frame.buffer_mut())).is_err()
        {
            // Nobody sees it any more.
            return Ok(());
        }
        is_old = false;
        let wait = if keys.is_waiting() { REST_OF_KEY } else { LOOK_EVERY };
        let pressed = match screen.read(wait) {
            Input::Gone => return Ok(()),
            Input::Nothing => keys.give_up().into_iter().collect(),
            Input::Bytes(bytes) => keys.feed(&bytes),
        };
        for key in pressed {
            is_old = true;
            match app.press(key) {
                None => {}
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Write(path, profile)) => {
                    if let Err(error) =
                        write::begin(path, *profile, &interrupts.temporary_files, updates.clone())
                    {
                        app.say(error);
                    }
                }
            }
        }
    }
    Ok(())
}

fn modes(config: &Config) -> Vec<Mode> {
    let on = config.cpu_profile().then_some(Mode::OnCpu);
    let off = config.off_cpu_profile().then_some(Mode::OffCpu);
    on.into_iter().chain(off).collect()
}
