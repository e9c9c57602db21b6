//! The page around the data: markup, style and script in one file, with the policy that allows only these.

use std::io::{self, Write};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::markup::escaped;

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The parts of the script, which share one scope, in their order.
const SCRIPT_PARTS: [&str; 25] = [
    include_str!("page/data.js"),
    include_str!("page/tree.js"),
    include_str!("page/shapes.js"),
    include_str!("page/inverted.js"),
    include_str!("page/functions.js"),
    include_str!("page/selection.js"),
    include_str!("page/chance.js"),
    include_str!("page/difference.js"),
    include_str!("page/views.js"),
    include_str!("page/amounts.js"),
    include_str!("page/colors.js"),
    include_str!("page/graph.js"),
    include_str!("page/details.js"),
    include_str!("page/current.js"),
    include_str!("page/search.js"),
    include_str!("page/chips.js"),
    include_str!("page/messages.js"),
    include_str!("page/state.js"),
    include_str!("page/table.js"),
    include_str!("page/movers.js"),
    include_str!("page/sidebar.js"),
    include_str!("page/timeline.js"),
    include_str!("page/ledger.js"),
    include_str!("page/keys.js"),
    include_str!("page/page.js"),
];

/// The parts as one function, without comments and indentation: no text of theirs goes over several lines.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let lines = SCRIPT_PARTS.iter().flat_map(|part| part.lines()).map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    format!("\"use strict\";\n(() => {{\n{}\n}})();\n", code.collect::<Vec<_>>().join("\n"))
});

/// Allows our own script and style by their hashes, and nothing else: no request, no frame, no markup from text.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(&SCRIPT),
        hash(STYLE)
    )
});

/// Writes the page with its data.
pub(super) fn write(title: &str, data: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let data = STANDARD.encode(data);
    let title = escaped(title);
    let mut rest = MARKUP;
    while let Some((before, marked)) = rest.split_once("{{") {
        let (mark, after) = marked.split_once("}}").unwrap_or((marked, ""));
        out.write_all(before.as_bytes())?;
        let text: &str = match mark {
            "POLICY" => &POLICY,
            "STYLE" => STYLE,
            "SCRIPT" => &SCRIPT,
            "TITLE" => &title,
            "DATA" => &data,
            _ => return Err(io::Error::other(format!("the page has no {mark}"))),
        };
        out.write_all(text.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_cannot_end_early_and_makes_no_markup() {
        for part in SCRIPT_PARTS {
            // A text over several lines would lose its blanks.
            for line in part.lines() {
                assert!(line.matches('`').count() % 2 == 0 && !line.contains("/*"), "{line}");
            }
            for word in [
                "</script",
                "<!--",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!part.contains(word), "{word}");
            }
        }
        assert!(!STYLE.contains("</style"));
        let code = MARKUP.len() + STYLE.len() + SCRIPT.len();
        assert!(code < 100_000, "{code}");
    }

    #[test]
    fn the_title_is_text() {
        let mut out = Vec::new();
        write("</title><script>alert(1)</script>{{DATA}}", b"x", &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{DATA}}</title>"));
        assert_eq!(page.matches("alert(1)").count(), 1);
    }
}
