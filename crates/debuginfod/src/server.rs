//! Addresses of servers.

use std::fmt;
use std::str::FromStr;

use crate::entry::Artifact;

/// No address is longer.
const MAX_LEN: usize = 2048;
/// So many servers of the environment are used.
const MAX_SERVERS: usize = 32;

/// The address of a server: `http://` or `https://`, host, and perhaps a path. `Display` leaves out user names and passwords.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Server(String);

/// Why a text is no address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another scheme, or none.
    #[error("it does not begin with http:// or https://")]
    Scheme,
    /// The host is missing.
    #[error("it has no host")]
    Host,
    /// Blanks, control characters, `?`, `#`, or no ASCII.
    #[error("it has a character that an address may not have")]
    Character,
    /// Too long.
    #[error("it is longer than 2048 bytes")]
    Length,
}

impl Server {
    /// The URL of a file.
    pub(crate) fn url(&self, artifact: &Artifact) -> String {
        format!("{}/buildid/{}/{}", self.0, artifact.build_id, artifact.kind.word())
    }
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        if text.len() > MAX_LEN {
            return Err(ServerError::Length);
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'"' | b'<' | b'>' | b'\\'))
        {
            return Err(ServerError::Character);
        }
        let (scheme, rest) = text.split_once("://").ok_or(ServerError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(ServerError::Scheme);
        }
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        if host.is_empty() || host.starts_with(':') {
            return Err(ServerError::Host);
        }
        Ok(Self(format!("{scheme}://{}", rest.trim_end_matches('/'))))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str(&self.0) };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        write!(f, "{scheme}://{host}{path}")
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

/// The servers that the text of `DEBUGINFOD_URLS` names, and the words that name none. Words of the form `ima:…` are settings of other
/// clients; they are left out silently.
#[must_use]
pub fn servers_of_environment(text: &str) -> (Vec<Server>, Vec<String>) {
    let (mut servers, mut refused) = (Vec::new(), Vec::new());
    for word in text.split_ascii_whitespace().filter(|word| !word.starts_with("ima:")) {
        match word.parse() {
            Ok(server) if servers.contains(&server) => {}
            Ok(server) if servers.len() < MAX_SERVERS => servers.push(server),
            _ => refused.push(word.chars().take(100).collect()),
        }
    }
    (servers, refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    fn server(text: &str) -> Server {
        text.parse().unwrap()
    }

    #[test]
    fn urls_are_made_of_the_address_and_the_build_id() {
        let artifact = Artifact { kind: Kind::Debuginfo, build_id: "01020304".parse().unwrap() };
        for text in ["http://h:8002", "http://h:8002/", "HTTP://h:8002//"] {
            assert_eq!(server(text).url(&artifact), "http://h:8002/buildid/01020304/debuginfo");
        }
        let artifact = Artifact { kind: Kind::Executable, ..artifact };
        assert_eq!(server("https://h/a/b/").url(&artifact), "https://h/a/b/buildid/01020304/executable");
    }

    #[test]
    fn other_schemes_and_broken_addresses_are_refused() {
        for (text, error) in [
            ("", ServerError::Scheme),
            ("debuginfod.example.org", ServerError::Scheme),
            ("file:///srv", ServerError::Scheme),
            ("ftp://h", ServerError::Scheme),
            ("http://", ServerError::Host),
            ("http:///x", ServerError::Host),
            ("http://u@/x", ServerError::Host),
            ("http://:80", ServerError::Host),
            ("http://h/a b", ServerError::Character),
            ("http://h/?x", ServerError::Character),
            ("http://h\r\nX: y", ServerError::Character),
            ("http://é", ServerError::Character),
        ] {
            assert_eq!(text.parse::<Server>(), Err(error), "{text:?}");
        }
        assert_eq!(format!("http://{}", "h".repeat(3000)).parse::<Server>(), Err(ServerError::Length));
    }

    #[test]
    fn passwords_are_not_shown() {
        let server = server("https://me:secret@h:8/p");
        assert_eq!(server.to_string(), "https://h:8/p");
        assert!(!format!("{server:?}").contains("secret"));
    }

    #[test]
    fn the_environment_is_split_at_blanks() {
        let (servers, refused) =
            servers_of_environment("  https://a ima:enforcing\thttp://b/ ftp://c https://a ");
        assert_eq!(servers, [server("https://a"), server("http://b")]);
        assert_eq!(refused, ["ftp://c"]);
        assert_eq!(servers_of_environment(" "), (Vec::new(), Vec::new()));
    }
}
