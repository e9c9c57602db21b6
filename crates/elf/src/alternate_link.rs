//! The link of a debug file to its supplementary file, which `dwz` makes.

use profile::BuildId;

/// The path and the build-id of the supplementary file, from the content of `.gnu_debugaltlink`: the path, a zero, the build-id.
#[must_use]
pub fn alternate_link(content: &[u8]) -> Option<(&[u8], BuildId)> {
    let end = content.iter().position(|byte| *byte == 0)?;
    let (path, rest) = content.split_at_checked(end)?;
    Some((path, BuildId::new(rest.get(1..)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_path_and_a_build_id() {
        let (path, build_id) = alternate_link(b"../a.debug\0\x01\x02\x03\x04").unwrap();
        assert_eq!((path, build_id.to_string().as_str()), (&b"../a.debug"[..], "01020304"));
        for content in [&b""[..], b"path", b"path\0", b"path\0\x01\x02\x03"] {
            assert_eq!(alternate_link(content), None, "{content:?}");
        }
    }
}
