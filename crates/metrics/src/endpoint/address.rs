//! The address to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An address to listen on, not resolved or bound yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

/// The text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address to listen on; write PORT or :PORT for this machine only, or HOST:PORT")]
pub struct AddressError {
    /// The text.
    pub text: String,
}

impl ListenAddress {
    /// `PORT` and `:PORT` mean 127.0.0.1. `HOST:PORT` takes a name, an IPv4 address, or an IPv6 address in brackets.
    ///
    /// # Errors
    /// [`AddressError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        Self::understood(text).ok_or_else(|| AddressError { text: text.to_owned() })
    }

    fn understood(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let port = port.parse().ok()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.to_string(),
            None if host.is_empty() => "127.0.0.1".to_owned(),
            None => Some(host).filter(|host| is_name(host))?.to_owned(),
        };
        Some(Self { host, port })
    }

    /// The host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 lets the system choose one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can reach it. A name other than `localhost` is not resolved here; see
    /// [`Endpoint::is_loopback`](super::Endpoint::is_loopback) for the bound address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

/// Whether the characters are those of an IPv4 address or a name.
fn is_name(host: &str) -> bool {
    host.len() <= 253 && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_listens_on_this_machine_only() {
        for (text, address, loopback) in [
            ("9090", "127.0.0.1:9090", true),
            (":9090", "127.0.0.1:9090", true),
            (":0", "127.0.0.1:0", true),
            ("localhost:1", "localhost:1", true),
            ("127.8.8.8:1", "127.8.8.8:1", true),
            ("[::1]:1", "[::1]:1", true),
            ("0.0.0.0:9090", "0.0.0.0:9090", false),
            ("[::]:9090", "[::]:9090", false),
            ("10.1.2.3:65535", "10.1.2.3:65535", false),
            ("node-7.example.org:80", "node-7.example.org:80", false),
        ] {
            let parsed = ListenAddress::parse(text).unwrap();
            assert_eq!((parsed.to_string().as_str(), parsed.is_loopback()), (address, loopback), "{text}");
            assert_eq!(ListenAddress::parse(address), Ok(parsed));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let texts = [
            "",
            ":",
            "host",
            "host:",
            ":65536",
            ":-1",
            ":+1",
            "1.2.3.4",
            "::1:80",
            "[::1]",
            "[::1:80",
            "::1]:80",
            "[x]:80",
            "a b:80",
            "http://host:80",
            "host:80/metrics",
            "host:8o",
            "hö:1",
            " 9090",
        ];
        for text in texts {
            let error = ListenAddress::parse(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
