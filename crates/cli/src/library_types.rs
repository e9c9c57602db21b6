//! What options mean to the library. The files that define options know clap alone, so that manual pages are made without the library.

use perfagent::{Debuginfod, Drawing, Merge};

use crate::file_args::{DrawingArgs, Towers};
use crate::symbol_args::SymbolArgs;

/// How flame graphs are drawn.
pub fn drawing(args: &DrawingArgs) -> Drawing {
    let merge = match args.merge {
        Some(Towers::Pid) => Merge::Pid,
        Some(Towers::All) => Merge::All,
        Some(Towers::Comm) | None => Merge::Comm,
    };
    Drawing::default().merge(merge).inverted(args.inverted == Some(true))
}

/// What is asked of debuginfod servers.
pub fn debuginfod(args: &SymbolArgs) -> Debuginfod {
    let settings = Debuginfod::new().from_env(true).fail_closed(args.symbol_fail_closed == Some(true));
    args.texts().fold(settings, |settings, (name, text)| {
        let text: &str = text.as_ref();
        match name {
            "debuginfod-url" => settings.url(text),
            "symbol-cache-dir" => settings.cache_dir(text),
            "symbol-cache-max" => settings.cache_max_text(text),
            _ => settings.fetch_timeout_text(text),
        }
    })
}
