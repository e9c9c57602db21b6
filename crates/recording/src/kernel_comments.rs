//! The kernel of a recording in the comments of a profile: what a later look-up of its kernel frames needs.
//!
//! | comment | what |
//! |---|---|
//! | `perf-agent.kernel.release=RELEASE` | as `uname -r` prints it |
//! | `perf-agent.kernel.boot_id=ID` | which start of the machine |
//! | `perf-agent.kernel.text=0xADDRESS`, `….stext=…` | where the kernel was loaded |
//! | `perf-agent.kernel.module=0xADDRESS SIZE BUILD-ID NAME` | a module with frames of the profile; `-` for a build-id that is not known |
//!
//! Any comments may be given: those that are not understood are ignored. If two differ, as in a merged profile of two machines, nothing is known.

use profile::{Avma, BuildId};

use crate::kernel_image::{KernelImage, KernelModule};

const PREFIX: &str = "perf-agent.kernel.";
/// Modules that are read at most.
const MAX_MODULES: usize = 4096;
/// Longer texts are not read.
const MAX_TEXT: usize = 256;

/// The comments about a kernel whose code at `addresses` is in a profile.
#[must_use]
pub fn write(kernel: &KernelImage, addresses: &[Avma]) -> Vec<String> {
    let mut comments = Vec::new();
    let mut put = |key: &str, value: String| comments.push(format!("{PREFIX}{key}={value}"));
    if !kernel.release.is_empty() {
        put("release", kernel.release.clone());
    }
    if let Some(boot_id) = &kernel.boot_id {
        put("boot_id", boot_id.clone());
    }
    for (key, mark) in [("text", kernel.text), ("stext", kernel.stext)] {
        if let Some(Avma(address)) = mark {
            put(key, format!("{address:#x}"));
        }
    }
    for module in kernel.modules.iter().filter(|module| addresses.iter().any(|at| module.holds(*at))) {
        let KernelModule { name, text, size, build_id } = module;
        let build_id = build_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        put("module", format!("{:#x} {size} {build_id} {name}", text.0));
    }
    comments
}

/// The kernel that comments tell of. Its build-id is that of the profile's mapping.
#[must_use]
pub fn read(comments: &[String], build_id: Option<BuildId>) -> KernelImage {
    let mut all = Found::default();
    let pairs = comments.iter().filter_map(|comment| comment.strip_prefix(PREFIX)?.split_once('='));
    for (key, value) in pairs.filter(|(_, value)| value.len() <= MAX_TEXT) {
        match key {
            "release" => all.enter(|all| &mut all.release, Some(value.to_owned())),
            "boot_id" => all.enter(|all| &mut all.boot_id, Some(value.to_owned())),
            "text" => all.enter(|all| &mut all.text, hex(value)),
            "stext" => all.enter(|all| &mut all.stext, hex(value)),
            "module" if all.modules.len() < MAX_MODULES => all.modules.extend(module(value)),
            _ => {}
        }
    }
    if all.is_contradictory {
        return KernelImage { build_id, ..KernelImage::default() };
    }
    let Found { release, boot_id, text, stext, mut modules, .. } = all;
    modules.sort_by(|one, other| (one.text, &one.name).cmp(&(other.text, &other.name)));
    KernelImage { build_id, release: release.unwrap_or_default(), boot_id, text, stext, modules }
}

#[derive(Default)]
struct Found {
    release: Option<String>,
    boot_id: Option<String>,
    text: Option<Avma>,
    stext: Option<Avma>,
    modules: Vec<KernelModule>,
    is_contradictory: bool,
}

impl Found {
    fn enter<T: PartialEq>(&mut self, field: impl Fn(&mut Self) -> &mut Option<T>, value: Option<T>) {
        let Some(value) = value else { return };
        let known = field(self);
        if known.as_ref().is_some_and(|known| *known != value) {
            self.is_contradictory = true;
        } else {
            *known = Some(value);
        }
    }
}

fn hex(text: &str) -> Option<Avma> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Avma)
}

fn module(text: &str) -> Option<KernelModule> {
    let mut words = text.splitn(4, ' ');
    let (text, size, build_id, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some(KernelModule {
        name: name.to_owned(),
        text: hex(text)?,
        size: size.parse().ok()?,
        build_id: build_id.parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> KernelImage {
        let module = |name: &str, text, build_id: Option<&str>| KernelModule {
            name: name.to_owned(),
            text: Avma(text),
            size: 0x1000,
            build_id: build_id.map(|id| id.parse().unwrap()),
        };
        KernelImage {
            build_id: Some("01020304".parse().unwrap()),
            release: "6.1.0-13-amd64".to_owned(),
            boot_id: Some("0123-4567".to_owned()),
            text: Some(Avma(0xffff_ffff_8100_0000)),
            stext: Some(Avma(0xffff_ffff_8100_0040)),
            modules: vec![module("ext4", 0xc000_0000, Some("aabbccdd")), module("nf", 0xc000_2000, None)],
        }
    }

    #[test]
    fn a_kernel_is_read_as_it_was_written_with_the_modules_that_have_frames() {
        let kernel = kernel();
        let comments = write(&kernel, &[Avma(0xc000_0fff), Avma(0xc000_2000)]);
        assert_eq!(read(&comments, kernel.build_id.clone()), kernel);
        let comments = write(&kernel, &[Avma(0xc000_1000), Avma(0xc000_2fff)]);
        assert_eq!(read(&comments, kernel.build_id.clone()).modules, kernel.modules[1..]);
        assert_eq!(read(&write(&KernelImage::default(), &[]), None), KernelImage::default());
    }

    #[test]
    fn comments_that_contradict_each_other_tell_nothing_and_strange_ones_are_ignored() {
        let kernel = kernel();
        let mut comments = write(&kernel, &[]);
        comments.extend(comments.clone());
        assert_eq!(read(&comments, None).text, kernel.text);
        for other in ["boot_id=other", "text=0x1"] {
            let comments = [&comments[..], &[format!("perf-agent.kernel.{other}")]].concat();
            assert_eq!(read(&comments, None), KernelImage::default(), "{other}");
        }
        let long = format!("release={}", "x".repeat(1000));
        for strange in ["text=1", "text=0xzz", "text", "module=0x1 2 -", "module=1 2 - x", "other=1", &long] {
            let comments = [format!("perf-agent.kernel.{strange}"), "perf-agent.frames=1".to_owned()];
            assert_eq!(read(&comments, None), KernelImage::default(), "{strange}");
        }
    }
}
