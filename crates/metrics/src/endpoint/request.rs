//! Reads the head of a request.

use crate::Exposition;

/// What the client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The metrics, in a format that the client accepts.
    Metrics(Exposition),
    /// The health check.
    Health,
    /// Any other path or method.
    Other,
}

/// The bytes are not the head of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP request")]
pub struct Malformed;

/// Reads the head of a request and ignores the bytes after it. None if the end of the head is missing.
///
/// # Errors
/// [`Malformed`] if it is not a request of HTTP/1.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Malformed> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| Malformed)?;
    let mut lines = head.split("\r\n");
    let target = target(lines.next().unwrap_or_default())?;
    let mut accept: Option<Ranges> = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Malformed)?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Malformed);
        }
        if name.eq_ignore_ascii_case("accept") {
            accept.get_or_insert_default().add(value);
        }
    }
    Ok(Some(match target {
        Some("/metrics") => {
            Request::Metrics(accept.map_or(Exposition::OpenMetrics, |ranges| ranges.choice()))
        }
        Some("/healthz") => Request::Health,
        _ => Request::Other,
    }))
}

/// The path of a GET request, without its query; none for other methods.
fn target(line: &str) -> Result<Option<&str>, Malformed> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1"), None) =
        (method, target, version, words.next())
    else {
        return Err(Malformed);
    };
    if method.is_empty() || target.is_empty() {
        return Err(Malformed);
    }
    let path = target.split(['?', '#']).next();
    Ok(path.filter(|_| method == "GET"))
}

/// The client's weight for each format, from the most specific range that covers it.
#[derive(Debug, Default)]
struct Ranges {
    openmetrics: Wanted,
    text: Wanted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    specificity: u8,
    thousandths: u16,
}

impl Wanted {
    fn offer(&mut self, specificity: u8, thousandths: u16) {
        *self = (*self).max(Self { specificity, thousandths });
    }
}

impl Ranges {
    /// Adds the value of an `Accept` header. Unknown ranges are ignored.
    fn add(&mut self, value: &str) {
        for range in value.split(',') {
            let mut parameters = range.split(';').map(str::trim);
            let media = parameters.next().unwrap_or_default().to_ascii_lowercase();
            let (mut thousandths, mut version) = (1000, None);
            for parameter in parameters {
                match parameter.split_once('=') {
                    Some((name, weight)) if name.trim().eq_ignore_ascii_case("q") => {
                        thousandths = thousandths_of(weight.trim());
                    }
                    Some((name, number)) if name.trim().eq_ignore_ascii_case("version") => {
                        version = Some(number.trim().trim_matches('"'));
                    }
                    _ => {}
                }
            }
            match (media.as_str(), version) {
                ("*/*", _) => {
                    self.openmetrics.offer(1, thousandths);
                    self.text.offer(1, thousandths);
                }
                ("application/*", _) => self.openmetrics.offer(2, thousandths),
                ("text/*", _) => self.text.offer(2, thousandths),
                ("application/openmetrics-text", None) => self.openmetrics.offer(3, thousandths),
                ("application/openmetrics-text", Some("1.0.0")) => self.openmetrics.offer(4, thousandths),
                ("text/plain", None) => self.text.offer(3, thousandths),
                ("text/plain", Some("0.0.4")) => self.text.offer(4, thousandths),
                _ => {}
            }
        }
    }

    /// OpenMetrics if the client accepts it and does not prefer text.
    fn choice(&self) -> Exposition {
        let (openmetrics, text) = (self.openmetrics.thousandths, self.text.thousandths);
        if openmetrics > 0 && openmetrics >= text { Exposition::OpenMetrics } else { Exposition::Prometheus }
    }
}

/// A weight between 0 and 1; 0 if the text is not a weight.
fn thousandths_of(weight: &str) -> u16 {
    let weight: f64 = weight.parse().unwrap_or(0.0);
    if (0.0..=1.0).contains(&weight) { (weight * 1000.0).round() as u16 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(path: &str, headers: &str) -> Result<Option<Request>, Malformed> {
        parse(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())
    }

    #[test]
    fn only_two_paths_are_known() {
        let metrics = Request::Metrics(Exposition::OpenMetrics);
        assert_eq!(get("/metrics", ""), Ok(Some(metrics)));
        assert_eq!(get("/metrics?name=x", ""), Ok(Some(metrics)));
        assert_eq!(get("/healthz", "Accept: text/html\r\n"), Ok(Some(Request::Health)));
        for path in
            ["/", "/metrics/", "/Metrics", "//metrics", "/metrics%20", "/healthz/..", "http://x/metrics", "*"]
        {
            assert_eq!(get(path, ""), Ok(Some(Request::Other)), "{path}");
        }
        for method in ["POST", "HEAD", "get", "OPTIONS"] {
            let head = format!("{method} /metrics HTTP/1.1\r\n\r\n");
            assert_eq!(parse(head.as_bytes()), Ok(Some(Request::Other)), "{method}");
        }
    }

    #[test]
    fn the_accept_header_chooses_the_format() {
        use Exposition::{OpenMetrics, Prometheus};
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (prometheus, OpenMetrics),
            ("*/*", OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            ("APPLICATION/OpenMetrics-Text; Version=1.0.0; charset=utf-8", OpenMetrics),
            ("text/plain, application/openmetrics-text", OpenMetrics),
            ("text/plain", Prometheus),
            ("text/plain;version=0.0.4", Prometheus),
            ("text/plain;q=0.5;version=0.0.4,*/*;q=0.1", Prometheus),
            ("text/*, application/*;q=0.9", Prometheus),
            ("application/openmetrics-text;version=0.0.1,text/plain;q=0.1", Prometheus),
            ("application/openmetrics-text;q=0, */*", Prometheus),
            ("application/openmetrics-text;q=2", Prometheus),
            ("application/json", Prometheus),
            ("", Prometheus),
            (",;,=;q", Prometheus),
        ] {
            let request = get("/metrics", &format!("Accept: {accept}\r\n"));
            assert_eq!(request, Ok(Some(Request::Metrics(expected))), "{accept}");
        }
        let two = get("/metrics", "accept: text/plain;q=0.5\r\nACCEPT: application/openmetrics-text\r\n");
        assert_eq!(two, Ok(Some(Request::Metrics(OpenMetrics))));
    }

    #[test]
    fn cut_and_broken_heads_are_detected() {
        let whole = b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n";
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Ok(None), "{len}");
        }
        for head in [
            "\r\n\r\n",
            "GET /metrics\r\n\r\n",
            "GET  /metrics HTTP/1.1\r\n\r\n",
            "GET /metrics HTTP/2.0\r\n\r\n",
            "GET /metrics HTTP/1.1 x\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n",
            "GET /metrics HTTP/1.1\r\n: x\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nAccept : x\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nAccept: x\r\n folded: y\r\n\r\n",
        ] {
            assert_eq!(parse(head.as_bytes()), Err(Malformed), "{head:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_stood(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_accepted_range_is_stood(accept in "[a-z*/;,=q0-9. ]{0,80}") {
            let request = get("/metrics", &format!("Accept: {accept}\r\n"));
            prop_assert!(matches!(request, Ok(Some(Request::Metrics(_)))), "{:?}", request);
        }
    }
}
