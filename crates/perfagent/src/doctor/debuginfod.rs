//! The check of debuginfod: which servers the environment names, and whether fetched files can be kept. Contacts nobody.

use std::ffi::OsString;
use std::path::Path;

use debuginfod::{check_cache_dir, default_cache_dir, servers_of_environment};

use super::check::{Check, Status};

/// What `DEBUGINFOD_URLS` leads to.
pub(super) fn servers() -> Check {
    judge(std::env::var_os("DEBUGINFOD_URLS"), default_cache_dir().as_deref())
}

fn judge(urls: Option<OsString>, cache: Option<&Path>) -> Check {
    let check = |status, value: String| {
        Check::new("debuginfod", "names of code whose debug files are not on this machine", status, value)
    };
    let text = urls.unwrap_or_default();
    let (servers, refused) = servers_of_environment(&text.to_string_lossy());
    if let Some(word) = refused.first() {
        return check(
            Status::Warn,
            format!("DEBUGINFOD_URLS: `{}` is no http or https address", word.escape_debug()),
        )
        .fixed_by("export DEBUGINFOD_URLS=\"https://debuginfod.elfutils.org\"");
    }
    if servers.is_empty() {
        return check(
            Status::Ok,
            "no server: nothing is fetched (DEBUGINFOD_URLS, --debuginfod-url)".to_owned(),
        );
    }
    let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let Some(cache) = cache else {
        return check(Status::Warn, format!("{servers}; fetched files are not kept: HOME is not set"))
            .fixed_by("set HOME or XDG_CACHE_HOME, or give --symbol-cache-dir DIR");
    };
    match check_cache_dir(cache) {
        Ok(()) => check(Status::Ok, format!("{servers}; cache {}", cache.display())),
        Err(error) => check(Status::Warn, format!("{servers}; fetched files are not kept: {error}"))
            .fixed_by("give --symbol-cache-dir a directory of your own (mode 700)"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn servers_and_the_cache_are_judged_without_contacting_anybody() {
        let dir = tempfile::tempdir().unwrap();
        let judge = |urls: &str, cache| judge(Some(urls.into()), cache);
        let of = |check: Check| (check.status, check.value);
        let (status, value) = of(judge("", Some(dir.path())));
        assert!(status == Status::Ok && value.starts_with("no server"), "{value}");
        let (status, value) = of(judge("http://a https://u:secret@b", Some(dir.path())));
        assert_eq!(
            (status, value),
            (Status::Ok, format!("http://a https://b; cache {}", dir.path().display()))
        );
        let (status, value) = of(judge("http://a", None));
        assert!(status == Status::Warn && value.contains("HOME"), "{value}");
        let (status, value) = of(judge("ftp://a\u{1b}", Some(dir.path())));
        assert!(status == Status::Warn && value.contains("`ftp://a") && !value.contains('\u{1b}'), "{value}");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let (status, value) = of(judge("http://a", Some(dir.path())));
        assert!(status == Status::Warn && value.contains("writable by other users"), "{value}");
    }
}
