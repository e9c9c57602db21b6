//! The options of where names come from, which captures, `render` and `symbolize` share.

use clap::Args;

use crate::values::Text;

#[derive(Debug, Args)]
#[command(next_help_heading = "Debug files from debuginfod servers")]
pub struct SymbolArgs {
    /// Fetch the debug files that this machine does not have from this server (http or https), during the capture.
    /// Repeatable; asked in this order. Replaces DEBUGINFOD_URLS. Without a server, nothing is contacted
    #[arg(long, value_name = "URL")]
    pub debuginfod_url: Vec<Text>,

    /// The directory for fetched files, and in `names` what is kept of names for later runs, which several perf-agents may share
    /// [default: perf-agent/debuginfod and perf-agent/names in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    pub symbol_cache_dir: Option<Text>,

    /// Bytes that the fetched files may have together, suffix K, M or G, and the most that is kept of names (never more than 512M); those not
    /// used for longest go first [default: 2G]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub symbol_cache_max: Option<Text>,

    /// The time for one file, all servers and repetitions included [default: 30s]
    #[arg(long, value_name = "DUR", allow_hyphen_values = true)]
    pub symbol_fetch_timeout: Option<Text>,

    /// Give no names from elsewhere to frames in a file whose debug file is wanted and does not come
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub symbol_fail_closed: Option<bool>,
}

impl SymbolArgs {
    /// The options whose value the library reads, with their names.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &Text)> {
        let single = [
            ("symbol-cache-dir", &self.symbol_cache_dir),
            ("symbol-cache-max", &self.symbol_cache_max),
            ("symbol-fetch-timeout", &self.symbol_fetch_timeout),
        ];
        let single = single.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        self.debuginfod_url.iter().map(|url| ("debuginfod-url", url)).chain(single)
    }
}
