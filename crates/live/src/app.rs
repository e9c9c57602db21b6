//! The state of the view: what was captured, what is shown of it, and what keys change.

use std::collections::HashSet;

use profile::Profile;

use crate::interval::{Interval, Mode};
use crate::keys::Key;
use crate::prompt::{Prompt, Purpose, Typed};
use crate::query::{self, Query, Scope, Selected, has_text};
use crate::range::Range;
use crate::rows::{Mark, Row, Target};
use crate::window::Window;
use crate::{callers, export, functions, owners, tree};

/// Places that Esc leads back to, at most.
const MAX_BACK: usize = 64;

/// What a list lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    #[default]
    Functions,
    Tree,
    Processes,
    Threads,
    /// The callers and callees of the function with this key.
    Callers(u64),
}

/// What is asked of the program behind the view.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The end.
    Quit,
    /// What is seen, to be written to this path, in the format of its extension.
    Write(String, Box<Profile>),
}

/// What the program behind the view says at each refresh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Whose capture it is.
    pub target: String,
    /// Length of the capture in seconds.
    pub seconds: u64,
    /// What the agent itself uses, in percent of a CPU.
    pub agent_pct: f64,
    /// Memory of the agent, in MiB.
    pub agent_mib: u64,
    /// Places in code whose names are still looked for.
    pub names_left: u64,
    /// Why the capture has ended, if it has.
    pub ended: Option<String>,
}

/// A window for each mode that is captured.
#[derive(Clone, Debug, Default)]
struct Windows(Vec<(Mode, Window)>);

impl Windows {
    fn of(&self, mode: Mode) -> Option<&Window> {
        self.0.iter().find(|(known, _)| *known == mode).map(|(_, window)| window)
    }
}

/// Where the view is.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    list: List,
    scope: Option<Scope>,
    cursor: Option<u64>,
}

/// What is drawn, made anew when something changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) rows: Vec<Row>,
    /// The list beside, on wide screens.
    pub(crate) beside: Vec<Row>,
    pub(crate) processes: Vec<Row>,
    pub(crate) whole: u64,
    /// Shares of a CPU, or threads that wait, second by second.
    pub(crate) history: Vec<f64>,
    pub(crate) figures: crate::Figures,
}

/// The view.
#[derive(Debug, Default)]
pub struct App {
    windows: Windows,
    /// What is shown while the view is paused. The capture goes on.
    frozen: Option<Windows>,
    pub(crate) status: Status,
    pub(crate) mode: Mode,
    pub(crate) query: Query,
    pub(crate) list: List,
    back: Vec<Place>,
    /// The row under the cursor, by its key; none: the first one.
    cursor: Option<u64>,
    flipped: HashSet<u64>,
    pub(crate) search: String,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) is_help: bool,
    pub(crate) message: String,
    pub(crate) shown: Shown,
    /// Rows that fit onto the screen, as drawn last.
    pub(crate) page: usize,
}

impl App {
    /// A view of these modes; the first one is shown first.
    #[must_use]
    pub fn new(modes: &[Mode]) -> Self {
        let windows = Windows(modes.iter().map(|mode| (*mode, Window::default())).collect());
        let mode = modes.first().copied().unwrap_or_default();
        Self { windows, mode, page: 20, ..Self::default() }
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval) {
        for part in &interval.parts {
            let window = self.windows.0.iter_mut().find(|(mode, _)| *mode == part.mode);
            if let Some((_, window)) = window {
                window.add(&part.profile, part.figures);
            }
        }
        if self.frozen.is_none() {
            self.refresh();
        }
    }

    /// Takes over what the program behind the view says.
    pub fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    /// Says something at the foot until the next key.
    pub fn say(&mut self, message: String) {
        self.message = message;
    }

    /// What was captured of each mode since the start, one line each.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        let line = |(mode, window): &(Mode, Window)| {
            let figures = window.figures(Range::Start);
            let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.1}"));
            format!(
                "{}: {}, {} s, {} {}, {} % rooted, {} % named, {} lost",
                mode.name(),
                self.status.target,
                self.status.seconds,
                figures.samples,
                if *mode == Mode::OnCpu { "samples" } else { "waits" },
                share(figures.rooted_pct()),
                share(figures.named_pct()),
                figures.lost
            )
        };
        self.windows.0.iter().map(line).collect()
    }

    /// Whether the picture stands still.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Whether the other mode is captured too.
    pub(crate) fn has_other_mode(&self) -> bool {
        self.windows.0.len() > 1
    }

    /// Reacts to a key.
    pub fn press(&mut self, key: Key) -> Option<Effect> {
        self.message.clear();
        if key == Key::Ctrl('c') {
            return Some(Effect::Quit);
        }
        if let Some(prompt) = &mut self.prompt {
            let typed = prompt.press(key);
            let prompt = prompt.clone();
            return self.typed(typed, prompt);
        }
        if self.is_help {
            self.is_help = false;
            return (key == Key::Char('q')).then_some(Effect::Quit);
        }
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?') => self.is_help = true,
            Key::Char(' ') => self.pause(),
            Key::Char('/') => self.prompt = Some(Prompt::new(Purpose::Search, "")),
            Key::Char('f') => self.prompt = Some(Prompt::new(Purpose::Filter, &self.query.filter)),
            Key::Char('w') => self.prompt = Some(Prompt::new(Purpose::Write, "")),
            Key::Char('n') => self.find(false),
            Key::Char('N') => self.find(true),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-self.page_step()),
            Key::PageDown => self.step(self.page_step()),
            Key::Home | Key::Char('g') => self.cursor = None,
            Key::End | Key::Char('G') => self.cursor = self.shown.rows.last().map(|row| row.key),
            Key::Right | Key::Char('l') => self.open(Some(true)),
            Key::Left | Key::Char('h') => self.fold(),
            Key::Enter => self.enter(),
            Key::Esc | Key::Backspace => self.leave(),
            _ => self.change(key),
        }
        None
    }

    /// Reacts to keys that change what is listed.
    fn change(&mut self, key: Key) {
        match key {
            Key::Tab if self.has_other_mode() => self.mode = self.mode.other(),
            Key::Tab => {
                let (this, other) = (self.mode.name(), self.mode.other().name());
                self.message =
                    format!("{other} time is not captured: start with --profile --offcpu (this is {this})");
            }
            Key::Char('1') => self.go(List::Functions),
            Key::Char('2') => self.go(List::Tree),
            Key::Char('3') => self.go(List::Processes),
            Key::Char('4') => self.go(List::Threads),
            Key::Char('t') if self.list == List::Processes => self.go(List::Threads),
            Key::Char('t') => self.go(List::Processes),
            Key::Char('s') => self.query.by_total = !self.query.by_total,
            Key::Char('r') => self.query.range = self.query.range.next(),
            Key::Char('0') => {
                self.query =
                    Query { range: self.query.range, by_total: self.query.by_total, ..Query::default() };
                self.go(List::Functions);
                self.back.clear();
                self.flipped.clear();
            }
            _ => return,
        }
        self.refresh();
    }

    fn pause(&mut self) {
        self.frozen = match self.frozen.take() {
            None => Some(self.windows.clone()),
            Some(_) => None,
        };
        self.refresh();
    }

    /// Reacts to a key of a line that is being typed.
    fn typed(&mut self, typed: Typed, prompt: Prompt) -> Option<Effect> {
        if typed != Typed::Goes {
            self.prompt = None;
        }
        match (prompt.purpose, typed) {
            (Purpose::Filter, Typed::Dropped) => self.query.filter.clear(),
            (Purpose::Filter, _) => self.query.filter = prompt.text.to_lowercase(),
            (Purpose::Search, Typed::Dropped) => self.search.clear(),
            (Purpose::Search, Typed::Goes) => self.search = prompt.text.to_lowercase(),
            (Purpose::Search, Typed::Done) => self.find_from_cursor(),
            (Purpose::Write, Typed::Done) if !prompt.text.is_empty() => return self.write(prompt.text),
            (Purpose::Write, _) => {}
        }
        self.refresh();
        None
    }

    fn write(&mut self, path: String) -> Option<Effect> {
        let window = self.window()?;
        let query = Query { by_total: false, ..self.query.clone() };
        Some(Effect::Write(path, Box::new(export::profile(window, self.mode, &query))))
    }

    fn window(&self) -> Option<&Window> {
        self.frozen.as_ref().unwrap_or(&self.windows).of(self.mode)
    }

    fn place(&self) -> Place {
        Place { list: self.list, scope: self.query.scope.clone(), cursor: self.cursor }
    }

    fn go(&mut self, list: List) {
        if list != self.list {
            if self.back.len() >= MAX_BACK {
                self.back.remove(0);
            }
            self.back.push(self.place());
            (self.list, self.cursor) = (list, None);
        }
    }

    /// Follows the row under the cursor.
    fn enter(&mut self) {
        let Some(row) = self.row() else { return };
        match row.target.clone() {
            Target::Frame(key) => self.go(List::Callers(key)),
            Target::Node => return self.open(None),
            Target::Owner(scope) => {
                self.go(List::Functions);
                self.query.scope = Some(scope);
            }
        }
        self.refresh();
    }

    /// Back to where the view was; then without filters.
    fn leave(&mut self) {
        if !self.search.is_empty() {
            self.search.clear();
        } else if let Some(Place { list, scope, cursor }) = self.back.pop() {
            (self.list, self.query.scope, self.cursor) = (list, scope, cursor);
        } else if !self.query.filter.is_empty() {
            self.query.filter.clear();
        } else {
            self.query.scope = None;
        }
        self.refresh();
    }

    /// Opens or folds the node under the cursor; `Some(true)` opens only.
    fn open(&mut self, only: Option<bool>) {
        let Some(Row { key, mark: mark @ (Mark::Open | Mark::Folded), .. }) = self.row().cloned() else {
            return;
        };
        if only == Some(true) && mark == Mark::Open {
            return self.step(1);
        }
        if !self.flipped.remove(&key) {
            self.flipped.insert(key);
        }
        self.cursor = Some(key);
        self.refresh();
    }

    /// Folds the node under the cursor, or goes to the one above it.
    fn fold(&mut self) {
        let (at, rows) = (self.position(), &self.shown.rows);
        let Some(row) = rows.get(at) else { return };
        if row.mark == Mark::Open {
            return self.open(None);
        }
        let above = rows[..at].iter().rfind(|other| other.depth < row.depth);
        if let Some(above) = above {
            self.cursor = Some(above.key);
        }
    }

    fn step(&mut self, by: isize) {
        let last = self.shown.rows.len().saturating_sub(1);
        let to = self.position().saturating_add_signed(by).min(last);
        self.cursor = if to == 0 { None } else { self.shown.rows.get(to).map(|row| row.key) };
    }

    fn page_step(&self) -> isize {
        isize::try_from(self.page.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// The number of the row under the cursor.
    pub(crate) fn position(&self) -> usize {
        let is_meant = |row: &Row| Some(row.key) == self.cursor;
        let start = || match self.list {
            List::Callers(_) => self.shown.rows.iter().position(|row| row.mark == Mark::Middle),
            _ => None,
        };
        self.shown.rows.iter().position(is_meant).or_else(start).unwrap_or(0)
    }

    fn row(&self) -> Option<&Row> {
        self.shown.rows.get(self.position())
    }

    fn find_from_cursor(&mut self) {
        if !self.row().is_some_and(|row| has_text(&row.name, &self.search)) {
            self.find(false);
        }
    }

    /// To the next row, or the one before, whose name has the text that is searched.
    fn find(&mut self, is_backward: bool) {
        if self.search.is_empty() {
            return;
        }
        let (at, rows) = (self.position(), &self.shown.rows);
        let count = rows.len();
        let order = (1..=count).map(|by| if is_backward { at + count - by } else { at + by } % count);
        let mut order = order;
        match order.find(|number| has_text(&rows[*number].name, &self.search)) {
            Some(found) => self.cursor = Some(rows[found].key),
            None => self.message = format!("no name here has \"{}\"", self.search),
        }
    }

    /// Makes anew what is drawn.
    fn refresh(&mut self) {
        let Some(window) = self.window() else { return };
        let selected = Selected::of(window, &self.query);
        let rows_of = |list: List| match list {
            List::Functions => functions::rows(&selected, self.query.by_total),
            List::Tree => tree::rows(&selected, &self.flipped),
            List::Processes => owners::rows(&selected, false),
            List::Threads => owners::rows(&selected, true),
            List::Callers(key) => callers::rows(&selected, key),
        };
        let beside = if self.list == List::Tree { List::Functions } else { List::Tree };
        self.shown = Shown {
            rows: rows_of(self.list),
            beside: rows_of(beside),
            processes: owners::rows(&selected, false),
            whole: selected.whole,
            history: query::history(window, &self.query),
            figures: window.figures(Range::Start),
        };
    }
}
