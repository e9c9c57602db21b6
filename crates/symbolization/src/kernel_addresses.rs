//! Where code of a recording's kernel is in the kernel that runs here.

use std::collections::HashMap;
use std::ops::Range;

use profile::Avma;
use recording::{KernelImage, KernelModule};
use symbols::KernelText;

/// Why the kernels have something to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The machine was not started since the recording: addresses are the same.
    SameStart,
    /// It is the same kernel after another start, perhaps on another machine: it was loaded elsewhere.
    SameBuild,
}

impl Relation {
    /// Why addresses of one kernel mean something in the other.
    ///
    /// # Errors
    /// They do not, for this reason.
    pub(crate) fn of(recorded: &KernelImage, running: &KernelImage) -> Result<Self, String> {
        if recorded.boot_id.is_some() && recorded.boot_id == running.boot_id {
            return Ok(Self::SameStart);
        }
        match (&recorded.build_id, &running.build_id) {
            (Some(theirs), Some(ours)) if theirs == ours => Ok(Self::SameBuild),
            (Some(_), Some(_)) => Err(format!(
                "the recording is of another kernel ({}) than runs here ({})",
                known(&recorded.release),
                known(&running.release)
            )),
            _ => Err("the machine was started since the recording, and whether this is the same kernel is not known: \
                      a build-id is missing"
                .to_owned()),
        }
    }
}

fn known(release: &str) -> &str {
    if release.is_empty() { "unknown release" } else { release }
}

/// Finds addresses of a recording's kernel in the running kernel.
#[derive(Debug)]
pub(crate) struct Translation {
    relation: Relation,
    /// The code of the kernel itself in the recording, and how much farther it is here.
    text: Option<(Range<u64>, u64)>,
    /// The modules of the recording, by address.
    modules: Vec<Moved>,
}

/// A module of the recording.
#[derive(Debug)]
struct Moved {
    there: Range<u64>,
    /// Where it begins here; none if it is not here.
    here: Option<u64>,
}

impl Translation {
    /// For a running kernel that was loaded here, with these modules.
    ///
    /// # Errors
    /// It is not known where one of the two was loaded.
    pub(crate) fn new(
        relation: Relation,
        recorded: &KernelImage,
        running: KernelText,
        modules: &[KernelModule],
    ) -> Result<Self, String> {
        let distance = match relation {
            Relation::SameStart => Some(0),
            Relation::SameBuild => distance(recorded, running),
        };
        let code = running.stext.or(running.text).zip(running.etext);
        let text = code.zip(distance).map(|((start, end), distance)| {
            (start.0.wrapping_sub(distance)..end.0.wrapping_sub(distance), distance)
        });
        if text.is_none() && relation == Relation::SameBuild {
            let reason = if recorded.text.or(recorded.stext).is_none() {
                "the machine was started since the recording, which does not tell where its kernel was loaded"
            } else {
                "the machine was started since the recording, and this kernel does not tell where it was loaded"
            };
            return Err(reason.to_owned());
        }
        Ok(Self { relation, text, modules: moved(relation, &recorded.modules, modules) })
    }

    /// Where the code at an address of the recording is here; none if it is not here, or may be something else by now.
    pub(crate) fn here(&self, address: Avma) -> Option<Avma> {
        if let Some((text, distance)) = &self.text
            && text.contains(&address.0)
        {
            return Some(Avma(address.0.wrapping_add(*distance)));
        }
        let behind = self.modules.partition_point(|module| module.there.start <= address.0);
        let module = behind.checked_sub(1).and_then(|at| self.modules.get(at));
        match module.filter(|module| module.there.contains(&address.0)) {
            Some(module) => Some(Avma(module.here?.wrapping_add(address.0 - module.there.start))),
            // A module that did not tell its address, a BPF program, or a trampoline.
            None => (self.relation == Relation::SameStart).then_some(address),
        }
    }
}

/// Where the modules of the recording are here.
fn moved(relation: Relation, recorded: &[KernelModule], running: &[KernelModule]) -> Vec<Moved> {
    let by_name: HashMap<&str, &KernelModule> =
        running.iter().map(|module| (module.name.as_str(), module)).collect();
    let here = |module: &KernelModule| {
        let here = by_name.get(module.name.as_str()).filter(|here| here.build_id == module.build_id)?;
        let is_same = match relation {
            Relation::SameStart => here.text == module.text,
            Relation::SameBuild => here.build_id.is_some(),
        };
        is_same.then_some(here.text.0)
    };
    let moved = |module: &KernelModule| Moved {
        there: module.text.0..module.text.0.saturating_add(module.size),
        here: here(module),
    };
    let mut all: Vec<_> = recorded.iter().map(moved).collect();
    all.sort_by_key(|module| module.there.start);
    all
}

/// How much farther the kernel is here than in the recording, modulo 2^64.
fn distance(recorded: &KernelImage, running: KernelText) -> Option<u64> {
    let pair = running.text.zip(recorded.text).or(running.stext.zip(recorded.stext));
    pair.map(|(here, there)| here.0.wrapping_sub(there.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c010_0000;
    /// The distance between the two starts of the tests.
    const SHIFT: u64 = 2 << 20;

    fn module(name: &str, text: u64, build_id: &str) -> KernelModule {
        let build_id = (!build_id.is_empty()).then(|| build_id.parse().unwrap());
        KernelModule { name: name.to_owned(), text: Avma(text), size: 0x1000, build_id }
    }

    fn image(boot_id: &str, text: u64, modules: Vec<KernelModule>) -> KernelImage {
        KernelImage {
            build_id: Some("01020304".parse().unwrap()),
            release: "6.1.0".to_owned(),
            boot_id: Some(boot_id.to_owned()),
            text: Some(Avma(text)),
            stext: None,
            modules,
        }
    }

    fn marks(text: u64) -> KernelText {
        KernelText { text: Some(Avma(text)), stext: Some(Avma(text)), etext: Some(Avma(text + 0x1000)) }
    }

    #[test]
    fn after_another_start_code_is_found_by_the_distance_of_its_kernel_or_module() {
        let recorded = image(
            "first",
            TEXT + SHIFT,
            vec![module("ext4", MODULE, "aaaa0001"), module("nf", MODULE + 0x2000, "aaaa0002")],
        );
        let running = image("second", TEXT, Vec::new());
        let relation = Relation::of(&recorded, &running).unwrap();
        assert_eq!(relation, Relation::SameBuild);
        let modules = [
            module("ext4", MODULE + 0x7000, "aaaa0001"),
            module("nf", MODULE + 0x9000, "bbbb0002"),
            module("bare", MODULE + 0xb000, ""),
        ];
        let translation = Translation::new(relation, &recorded, marks(TEXT), &modules).unwrap();
        let here = |address: u64| translation.here(Avma(address)).map(|address| address.0);
        assert_eq!(here(TEXT + SHIFT + 0x10), Some(TEXT + 0x10));
        assert_eq!(here(TEXT + SHIFT + 0xfff), Some(TEXT + 0xfff));
        assert_eq!(here(TEXT + SHIFT + 0x1000), None, "behind the code");
        assert_eq!(here(TEXT + 0x10), None, "before the code of the recording");
        assert_eq!(here(MODULE + 0x20), Some(MODULE + 0x7020));
        assert_eq!(here(MODULE + 0x1000), None, "in no module");
        assert_eq!(here(MODULE + 0x2020), None, "another build of the module");
        assert_eq!(here(0), None);
        assert_eq!(here(u64::MAX), None);
    }

    #[test]
    fn in_the_same_start_addresses_are_the_same_unless_their_module_was_loaded_again() {
        let recorded = image(
            "first",
            TEXT,
            vec![
                module("ext4", MODULE, ""),
                module("gone", MODULE + 0x2000, ""),
                module("moved", MODULE + 0x4000, ""),
            ],
        );
        let relation = Relation::of(&recorded, &image("first", TEXT, Vec::new())).unwrap();
        assert_eq!(relation, Relation::SameStart);
        let modules = [
            module("ext4", MODULE, ""),
            module("other", MODULE + 0x2000, ""),
            module("moved", MODULE + 0x6000, ""),
        ];
        let translation = Translation::new(relation, &recorded, marks(TEXT), &modules).unwrap();
        let here = |address: u64| translation.here(Avma(address)).map(|address| address.0);
        assert_eq!(here(TEXT + 0x10), Some(TEXT + 0x10));
        assert_eq!(here(MODULE + 0x20), Some(MODULE + 0x20));
        assert_eq!(here(MODULE + 0x2020), None);
        assert_eq!(here(MODULE + 0x4020), None, "it was loaded again");
        assert_eq!(here(MODULE + 0x9000), Some(MODULE + 0x9000), "nobody told what it is");
        let bare = KernelText::default();
        assert!(Translation::new(relation, &recorded, bare, &[]).is_ok(), "no distance is needed");
    }

    #[test]
    fn other_kernels_and_unknown_places_are_refused_with_the_reason() {
        let recorded = image("first", TEXT, Vec::new());
        let mut other = image("second", TEXT, Vec::new());
        other.build_id = Some("0a0b0c0d".parse().unwrap());
        other.release = "6.12.0".to_owned();
        let reason = Relation::of(&recorded, &other).unwrap_err();
        assert!(reason.contains("another kernel (6.1.0) than runs here (6.12.0)"), "{reason}");
        other.build_id = None;
        assert!(Relation::of(&recorded, &other).unwrap_err().contains("a build-id is missing"));
        let unknown = KernelImage::default();
        assert!(Relation::of(&unknown, &KernelImage::default()).is_err(), "no boot-id is not the same one");
        let old = KernelImage { text: None, boot_id: None, ..recorded.clone() };
        let refused =
            |recorded, marks| Translation::new(Relation::SameBuild, recorded, marks, &[]).unwrap_err();
        assert!(refused(&old, marks(TEXT)).contains("which does not tell where its kernel was loaded"));
        let hidden = KernelText::default();
        assert!(refused(&recorded, hidden).contains("this kernel does not tell where it was loaded"));
    }
}
