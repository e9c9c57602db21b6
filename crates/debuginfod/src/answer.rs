//! What the head of an answer means: pure, for any bytes that a server may send.

use std::time::Duration;

/// A URL is not longer than this.
const MAX_URL: usize = 4096;
/// A server that asks for more patience than this is not waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The head of an answer, as far as it matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The status.
    pub status: u16,
    /// Where to look instead.
    pub location: Option<&'a str>,
    /// When to ask again.
    pub retry_after: Option<&'a str>,
    /// The length of the content.
    pub content_length: Option<&'a str>,
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The content is what was asked for. Its length, if the server tells it.
    Content(Option<u64>),
    /// The server does not have it.
    NotFound,
    /// It is larger than allowed.
    TooLarge,
    /// Ask there.
    Redirect(String),
    /// Ask again, after the time that the server asks for if it does.
    Again(Option<Duration>),
    /// The server will not help.
    Refused,
}

/// What to do after an answer to a request for `url`. `max`: bytes that the content may have.
#[must_use]
pub fn step(url: &str, head: &Head<'_>, max: u64) -> Step {
    match head.status {
        200 => match head.content_length.map(|text| text.trim().parse::<u64>()) {
            Some(Ok(length)) if length > max => Step::TooLarge,
            Some(Ok(length)) => Step::Content(Some(length)),
            Some(Err(_)) => Step::Refused,
            None => Step::Content(None),
        },
        404 | 410 => Step::NotFound,
        301 | 302 | 303 | 307 | 308 => {
            head.location.and_then(|location| target(url, location)).map_or(Step::Refused, Step::Redirect)
        }
        429 | 500..=599 => Step::Again(head.retry_after.and_then(retry_after)),
        _ => Step::Refused,
    }
}

/// Where a redirection leads. `None` if it leads nowhere, or from a protected connection to one that is not.
fn target(url: &str, location: &str) -> Option<String> {
    let location = location.trim();
    let is_plain = location.bytes().all(|b| b.is_ascii_graphic());
    if location.is_empty() || !is_plain {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let target = if let Some((other, rest)) = location.split_once("://").filter(|(other, _)| is_scheme(other))
    {
        format!("{}://{rest}", other.to_ascii_lowercase())
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = path.rfind('/').map_or("", |at| &path[..at]);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let target = target.split('#').next().unwrap_or_default();
    let (scheme_after, rest) = target.split_once("://")?;
    let may_follow = scheme_after == "https" || (scheme_after == "http" && scheme == "http");
    let has_host = !rest.starts_with('/') && !rest.is_empty();
    (may_follow && has_host && target.len() <= MAX_URL).then(|| target.to_owned())
}

fn is_scheme(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Seconds. Dates are not read: the usual pauses apply then.
fn retry_after(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_secs).filter(|pause| *pause <= MAX_RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(url: &str, location: &str) -> Option<String> {
        let head = Head { status: 302, location: Some(location), ..Head::default() };
        match step(url, &head, 100) {
            Step::Redirect(url) => Some(url),
            Step::Refused => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn redirections_are_resolved_and_never_leave_a_protected_connection() {
        let url = "http://h:8/a/b";
        for (location, target) in [
            ("/c", "http://h:8/c"),
            ("c", "http://h:8/a/c"),
            ("//o/c", "http://o/c"),
            ("https://o/c#part", "https://o/c"),
            ("HTTP://o/", "http://o/"),
        ] {
            assert_eq!(redirect(url, location).as_deref(), Some(target), "{location}");
        }
        assert_eq!(redirect("http://h", "c").as_deref(), Some("http://h/c"));
        assert_eq!(redirect("https://h/", "https://o/").as_deref(), Some("https://o/"));
        for location in
            ["http://o/c", "ftp://o/", "file:///etc/passwd", "", "http:///x", "a b", "\u{e9}", "https://"]
        {
            assert_eq!(redirect("https://h/a", location), None, "{location:?}");
        }
        assert_eq!(redirect(url, &"x".repeat(5000)), None);
    }

    #[test]
    fn each_status_has_its_meaning() {
        let step_of = |status| step("http://h/", &Head { status, ..Head::default() }, 100);
        assert_eq!(step_of(200), Step::Content(None));
        assert_eq!(step_of(404), Step::NotFound);
        for status in [429, 500, 503, 599] {
            assert_eq!(step_of(status), Step::Again(None), "{status}");
        }
        for status in [0, 100, 201, 204, 206, 302, 304, 400, 401, 403, 600, u16::MAX] {
            assert_eq!(step_of(status), Step::Refused, "{status}");
        }
    }

    #[test]
    fn lengths_and_pauses_are_read_with_their_limits() {
        let length = |text| {
            step("http://h/", &Head { status: 200, content_length: Some(text), ..Head::default() }, 100)
        };
        assert_eq!([length("0"), length(" 100 ")], [Step::Content(Some(0)), Step::Content(Some(100))]);
        assert_eq!([length("101"), length("18446744073709551615")], [Step::TooLarge, Step::TooLarge]);
        assert_eq!([length("-1"), length("1e3"), length("")], [Step::Refused, Step::Refused, Step::Refused]);
        let pause =
            |text| step("http://h/", &Head { status: 503, retry_after: Some(text), ..Head::default() }, 100);
        assert_eq!(pause("7"), Step::Again(Some(Duration::from_secs(7))));
        for text in ["-1", "99999999999999999999", "3601", "Wed, 21 Oct 2015 07:28:00 GMT", "é"] {
            assert_eq!(pause(text), Step::Again(None), "{text}");
        }
    }
}
