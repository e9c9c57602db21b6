//! Fetching of debug files: its settings as given, their checks, and what follows from them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use debuginfod::{
    Fetcher, Server, ServerError, Settings, check_cache_dir, client_cache_dir, servers_of_environment,
};
use symbolization::Fetch;
use symbols::RecordStore;

use super::duration::{self, parse_duration};
use super::setting::Setting;
use super::size::parse_size;
use crate::error::Error;

/// The variable that names servers.
const VARIABLE: &str = "DEBUGINFOD_URLS";
/// Upper bounds of elfutils' client: bytes and seconds for one file, 0 for none.
const MAX_SIZE: &str = "DEBUGINFOD_MAXSIZE";
const MAX_TIME: &str = "DEBUGINFOD_MAXTIME";

/// Fetching of debug files from debuginfod servers: off unless a server is named. For captures,
/// [`AgentBuilder::debuginfod_url`](crate::Builder::debuginfod_url) and its neighbours set the same.
///
/// ```
/// use perfagent::{Debuginfod, Symbolizer};
///
/// let fetching = Debuginfod::new().url("https://debuginfod.example.org");
/// let symbolizer = Symbolizer::new().debuginfod(fetching)?;
/// # Ok::<(), perfagent::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it has no effect until it is given to a symbolizer"]
pub struct Debuginfod {
    urls: Vec<String>,
    from_env: bool,
    pub(super) cache_dir: Setting<PathBuf>,
    pub(super) cache_max: Setting<u64>,
    pub(super) timeout: Setting<Duration>,
    pub(super) fail_closed: Setting<bool>,
}

/// What follows from checked settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetching {
    /// None: nothing is fetched.
    pub(crate) settings: Option<Settings>,
    pub(crate) fail_closed: bool,
    /// What is to be said about the settings.
    pub(crate) warnings: Vec<String>,
    /// The directory that was given for files of symbols, and the bound.
    records_in: Option<PathBuf>,
    records_max: Option<u64>,
}

impl Debuginfod {
    /// No server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a server; the first one is asked first.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Take the servers of the environment variable `DEBUGINFOD_URLS` if none is added; off by default.
    pub fn from_env(mut self, on: bool) -> Self {
        self.from_env = on;
        self
    }

    /// The directory for fetched files; by default `perf-agent/debuginfod` in the user's cache directory. What is learned of the symbols of files is
    /// kept in `names` there; by default in `perf-agent/names` in the user's cache directory.
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir.set(Setting::Value(dir.into()));
        self
    }

    /// Bytes that the fetched files there may have together, 2 GiB by default; and again bytes that what is learned of files may have, never more
    /// than 512 MiB. Those that were not used for longest go first.
    pub fn cache_max_bytes(mut self, bytes: u64) -> Self {
        self.cache_max.set(Setting::Value(bytes));
        self
    }

    /// The time for one file, all servers and repetitions included; 30 s by default.
    pub fn fetch_timeout(mut self, time: Duration) -> Self {
        self.timeout.set(Setting::Value(time));
        self
    }

    /// Give no names from elsewhere to frames in a file whose debug file is wanted and does not come; off by default.
    pub fn fail_closed(mut self, on: bool) -> Self {
        self.fail_closed.set(Setting::Value(on));
        self
    }

    /// `--symbol-cache-max` as text.
    pub fn cache_max_text(mut self, text: &str) -> Self {
        let bytes = parse_size(text);
        self.cache_max.set(bytes.map_or_else(|| Setting::Unreadable(text.to_owned()), Setting::Value));
        self
    }

    /// `--symbol-fetch-timeout` as text.
    pub fn fetch_timeout_text(mut self, text: &str) -> Self {
        let time = parse_duration(text).ok();
        self.timeout.set(time.map_or_else(|| Setting::Unreadable(text.to_owned()), Setting::Value));
        self
    }

    /// Refuses what makes no sense. Changes nothing.
    pub(super) fn check(&self) -> Result<(), Error> {
        for url in &self.urls {
            url.parse::<Server>().map_err(|error| refused_url(url, error))?;
        }
        let (option, hint) = ("--symbol-cache-max", "plain bytes, or with a suffix K, M or G: 2G");
        match &self.cache_max {
            Setting::Unreadable(text) => {
                return Err(Error::invalid(option, format!("{option} `{text}` is not a size"), hint));
            }
            Setting::Value(0) => {
                return Err(Error::invalid(option, format!("{option} must be more than 0"), hint));
            }
            _ => {}
        }
        let (option, hint) =
            ("--symbol-fetch-timeout", format!("durations look like {}", duration::EXAMPLES));
        match &self.timeout {
            Setting::Unreadable(text) => {
                return Err(Error::invalid(option, format!("{option} `{text}` is not a duration"), hint));
            }
            Setting::Value(time) if time.is_zero() => {
                return Err(Error::invalid(option, format!("{option} must be longer than zero"), hint));
            }
            _ => {}
        }
        let Some(dir) = self.cache_dir.value() else { return Ok(()) };
        let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        check_cache_dir(&absolute).map_err(|error| {
            Error::invalid(
                "--symbol-cache-dir",
                format!("--symbol-cache-dir {}: {error}", dir.display()),
                "name a directory of your own (mode 700), or one that does not exist yet",
            )
        })
    }

    /// What checked settings lead to. Reads the environment if that was asked for.
    pub(super) fn effective(&self) -> Fetching {
        let mut warnings = Vec::new();
        let mut servers: Vec<Server> = self.urls.iter().filter_map(|url| url.parse().ok()).collect();
        if servers.is_empty() && self.from_env {
            let text = std::env::var_os(VARIABLE).unwrap_or_default();
            let (found, refused) = servers_of_environment(&text.to_string_lossy());
            servers = found;
            warnings.extend(refused.iter().map(|word| {
                format!("{VARIABLE}: `{word}` is not used: only http:// and https:// addresses are")
            }));
        }
        let fail_closed = self.fail_closed.is_on();
        if fail_closed && servers.is_empty() {
            warnings.push("--symbol-fail-closed has no effect without a debuginfod server".to_owned());
        }
        let timeout = self.timeout.value().copied().unwrap_or(Settings::TIMEOUT);
        let mut settings = Settings {
            servers,
            cache_dir: self.cache_dir.value().cloned(),
            cache_max: self.cache_max.value().copied().unwrap_or(Settings::CACHE_MAX),
            timeout,
            ..Settings::default()
        };
        if self.from_env {
            settings.client_cache = client_cache_dir();
            let bounds = [MAX_SIZE, MAX_TIME].map(|name| std::env::var_os(name).map(|text| (name, text)));
            let mut bound = |given: &Option<(&str, OsString)>| match bound_of(given.as_ref()?.1.as_os_str()) {
                Ok(bound) => bound,
                Err(text) => {
                    warnings.push(format!("{}: `{text}` is not used: it is no number", given.as_ref()?.0));
                    None
                }
            };
            let [size, time] = [bound(&bounds[0]), bound(&bounds[1])];
            settings.file_max = settings.file_max.min(size.unwrap_or(u64::MAX));
            settings.timeout = timeout.min(time.map_or(timeout, Duration::from_secs));
        }
        Fetching {
            settings: (!settings.servers.is_empty()).then_some(settings),
            fail_closed,
            warnings,
            records_in: self.cache_dir.value().cloned(),
            records_max: self.cache_max.value().copied(),
        }
    }

    /// What follows from these settings.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]
    pub(crate) fn checked(&self) -> Result<Fetching, Error> {
        self.check()?;
        Ok(self.effective())
    }
}

impl Fetching {
    /// What fetches; none if no server is known. Contacts nobody.
    pub(crate) fn fetch(&self) -> Option<Fetch> {
        let settings = self.settings.clone()?;
        Some(Fetch { fetcher: Arc::new(Fetcher::new(settings)), fail_closed: self.fail_closed })
    }

    /// Where what is learned of files is kept for later runs: `names` in the given directory, else in perf-agent's directory of the user's
    /// cache. None if there is no such directory that nobody else can write to or read.
    pub(crate) fn record_store(&self) -> Option<Arc<RecordStore>> {
        let given = self.records_in.as_ref().map(|dir| dir.join("names"));
        let dir = given.or_else(RecordStore::default_dir)?;
        let max = self.records_max.map_or(RecordStore::CAP_BYTES, |max| max.min(RecordStore::CAP_BYTES));
        let opened = RecordStore::open(&dir, max);
        opened.inspect_err(|error| tracing::debug!(target: "perfagent", "{error}")).ok().map(Arc::new)
    }

    /// The servers, without user names and passwords.
    pub(crate) fn servers(&self) -> Vec<String> {
        let servers = self.settings.iter().flat_map(|settings| &settings.servers);
        servers.map(ToString::to_string).collect()
    }

    /// The directory of the cache that was given.
    pub(crate) fn cache_dir(&self) -> Option<&Path> {
        self.settings.as_ref()?.cache_dir.as_deref()
    }
}

/// The bound in a variable; none for 0. The text itself if it is no number.
fn bound_of(text: &OsStr) -> Result<Option<u64>, String> {
    let text = text.to_string_lossy();
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let bound: u64 = text.parse().map_err(|_| text.chars().take(100).collect::<String>())?;
    Ok((bound > 0).then_some(bound))
}

fn refused_url(url: &str, error: ServerError) -> Error {
    let message = format!("--debuginfod-url `{url}` is no address of a server: {error}");
    Error::invalid("--debuginfod-url", message, "for example: --debuginfod-url https://debuginfod.debian.net")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: &Debuginfod) -> String {
        settings.checked().unwrap_err().to_string()
    }

    #[test]
    fn without_a_server_nothing_is_fetched() {
        assert_eq!(Debuginfod::new().checked().unwrap(), Fetching::default());
        let closed = Debuginfod::new().fail_closed(true).checked().unwrap();
        assert!(closed.fetch().is_none());
        assert!(closed.warnings[0].contains("--symbol-fail-closed"), "{closed:?}");
    }

    #[test]
    fn servers_keep_their_order_and_defaults_are_those_of_the_documentation() {
        let fetching = Debuginfod::new().url("http://a").url("https://b/").checked().unwrap();
        assert_eq!(fetching.servers(), ["http://a", "https://b"]);
        let settings = fetching.settings.unwrap();
        assert_eq!((settings.cache_max, settings.timeout), (2 << 30, Duration::from_secs(30)));
    }

    #[test]
    fn bounds_of_the_environment_are_numbers_and_zero_is_none() {
        let bound = |text: &str| bound_of(text.as_ref());
        assert_eq!([bound("0"), bound(" 7 "), bound("")], [Ok(None), Ok(Some(7)), Ok(None)]);
        assert_eq!(bound("-1"), Err("-1".to_owned()));
        assert_eq!(bound(&"x".repeat(1000)).unwrap_err().len(), 100);
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        let new = Debuginfod::new;
        for (settings, words) in [
            (new().url("ftp://h"), "ftp://h"),
            (new().cache_max_text("2X"), "2X"),
            (new().cache_max_bytes(0), "more than 0"),
            (new().fetch_timeout_text("soon"), "soon"),
            (new().fetch_timeout(Duration::ZERO), "longer than zero"),
            (new().cache_dir("/bin/sh"), "/bin/sh"),
        ] {
            let text = refusal(&settings);
            assert!(text.contains(words), "{text}");
        }
    }
}
