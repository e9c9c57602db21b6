//! A probe that the kernel knows: what an event of it needs, and what undoes it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_abi::EventAttr;
use perf_abi::numbers::event_type;
use tracepoints::{Field, FieldKind, Format};

use super::arguments::split;
use super::definition::Definition;
use super::function_place::FunctionPlace;
use super::pmu::{self, Pmu};
use super::probe_spec::{Probe, ProbeKind};
use super::sites::{NoSite, Site, sites};
use crate::monitor::error::MonitorError;
use crate::monitor::tracefs::Tracefs;

/// A probe that can be opened until this is dropped. Its events are to be closed before.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub format: Format,
    probe: Probe,
    means: Means,
}

#[derive(Debug)]
enum Means {
    /// An event of the kernel's source for probes. `name` is read at each opening.
    Pmu {
        kind: u32,
        config: u64,
        name: Option<CString>,
        offset: u64,
    },
    Definition {
        id: u64,
        _definition: Definition,
    },
}

impl Prepared {
    /// The same probe as a definition, for a filter on its fields. `None` if it is one, or if there can be none here: then only fields of all events can be
    /// filtered on.
    pub fn defined(&self, tracing_dir: Option<&Path>) -> Result<Option<Self>, MonitorError> {
        if matches!(self.means, Means::Definition { .. }) {
            return Ok(None);
        }
        match prepare(&self.probe, true, tracing_dir) {
            Err(MonitorError::Tracefs { .. } | MonitorError::NoProbes { .. }) => Ok(None),
            defined => defined.map(Some),
        }
    }

    /// Adds fields that no record has.
    fn without_values(mut self, names: &[String]) -> Self {
        self.format.fields.extend(names.iter().map(|name| Field {
            name: name.clone(),
            type_text: "optimized out".to_owned(),
            offset: usize::MAX,
            size: 8,
            signed: false,
            common: false,
            kind: FieldKind::Integer,
        }));
        self
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        self.probe.name()
    }

    /// Puts its numbers into an attribute.
    pub fn apply(&self, attr: &mut EventAttr) {
        match &self.means {
            Means::Pmu { kind, config, name, offset } => {
                let name = name.as_ref().map_or(0, |name| name.as_ptr() as u64);
                (attr.kind, attr.config, attr.config1, attr.config2) = (*kind, *config, name, *offset);
            }
            Means::Definition { id, .. } => {
                (attr.kind, attr.config, attr.config1, attr.config2) = (event_type::TRACEPOINT, *id, 0, 0);
            }
        }
    }
}

/// Makes a probe known. `needs_definition`: it will have a filter, or follows threads.
pub(crate) fn prepare(
    probe: &Probe,
    needs_definition: bool,
    tracing_dir: Option<&Path>,
) -> Result<Prepared, MonitorError> {
    let found = sites(probe).map_err(|error| match error {
        NoSite::File(error) => MonitorError::from(error),
        NoSite::Refused(reason) => refused(probe, reason),
    })?;
    match found {
        Some((path, mut sites)) => {
            if probe.is_read_by_program {
                sites.iter_mut().for_each(|site| site.arguments.clear());
            }
            user(probe, path, &sites, needs_definition, tracing_dir)
        }
        None => kernel(probe, needs_definition, tracing_dir),
    }
}

/// Makes a probe of several functions known. `name`: what messages call it.
pub(crate) fn prepare_functions(
    name: &str,
    places: &[FunctionPlace],
    is_return: bool,
) -> Result<Prepared, MonitorError> {
    let probe = Probe::uprobe(places.first().map_or("".as_ref(), |place| place.path.as_path()), name);
    let probe = if is_return { probe.ret() } else { probe };
    let tracefs = tracefs_with("uprobe_events", &probe, None)?;
    // The links are used until the definition is made.
    let links: Vec<PlainPath> = places
        .iter()
        .map(|place| PlainPath::of(&place.path).map_err(|error| refused(&probe, error)))
        .collect::<Result<_, _>>()?;
    let place = |(link, place): (&PlainPath, &FunctionPlace)| {
        let file = link.path.to_str().ok_or_else(|| refused(&probe, "its path is no text".to_owned()))?;
        let counter = place.counter.map_or(String::new(), |counter| format!("({counter:#x})"));
        Ok(format!("{file}:{:#x}{counter}", place.offset))
    };
    let texts = links.iter().zip(places).map(place).collect::<Result<Vec<_>, MonitorError>>()?;
    by_definition(&probe, &tracefs, "uprobe_events", &texts, is_return)
}

fn refused(probe: &Probe, reason: String) -> MonitorError {
    MonitorError::Probe { event: probe.name(), attempt: "define", reason }
}

fn user(
    probe: &Probe,
    path: &Path,
    sites: &[Site],
    needs_definition: bool,
    tracing_dir: Option<&Path>,
) -> Result<Prepared, MonitorError> {
    let pmu = Pmu::find("uprobe");
    if let (Some(pmu), [site], false) = (pmu, sites, needs_definition)
        && site.arguments.is_empty()
        && let Some(config) = pmu.config(false, site.counter)
        && let Ok(name) = CString::new(path.as_os_str().as_bytes())
    {
        let prepared =
            by_pmu(probe, Means::Pmu { kind: pmu.kind, config, name: Some(name), offset: site.offset })?;
        return Ok(prepared.without_values(&site.optimized_out));
    }
    let tracefs = tracefs_with("uprobe_events", probe, tracing_dir)?;
    let link = PlainPath::of(path).map_err(|error| refused(probe, error))?;
    let file = link.path.to_str().ok_or_else(|| refused(probe, "its path is no text".to_owned()))?;
    let place = |site: &Site| {
        let counter = site.counter.map_or(String::new(), |counter| format!("({counter:#x})"));
        format!("{file}:{:#x}{counter} {}", site.offset, site.arguments.join(" "))
    };
    let prepared =
        by_definition(probe, &tracefs, "uprobe_events", &sites.iter().map(place).collect::<Vec<_>>(), false)?;
    Ok(prepared.without_values(sites.first().map_or(&[], |site| &site.optimized_out)))
}

fn kernel(
    probe: &Probe,
    needs_definition: bool,
    tracing_dir: Option<&Path>,
) -> Result<Prepared, MonitorError> {
    let ProbeKind::Kernel { target } = &probe.kind else {
        return Err(refused(probe, "it is none of the kernel".to_owned()));
    };
    let arguments = if probe.is_read_by_program { "" } else { &probe.arguments };
    let arguments = split(arguments).map_err(|reason| refused(probe, reason))?;
    if arguments.iter().any(|argument| argument.contains("=arg:")) {
        let reason = "parameters by name are for functions of programs; name the register, as in a=%di:u64";
        return Err(refused(probe, reason.to_owned()));
    }
    let (symbol, offset) = kernel_target(target).map_err(|reason| refused(probe, reason))?;
    let pmu = Pmu::find("kprobe");
    if let Some(pmu) = pmu.filter(|_| arguments.is_empty() && !needs_definition)
        && let Some(config) = pmu.config(probe.is_return_probe(), None)
    {
        let name = symbol.map(CString::new).transpose().map_err(|error| refused(probe, error.to_string()))?;
        return by_pmu(probe, Means::Pmu { kind: pmu.kind, config, name, offset });
    }
    let tracefs = tracefs_with("kprobe_events", probe, tracing_dir)?;
    let place = match symbol {
        Some(symbol) if offset > 0 => format!("{symbol}+{offset} {}", arguments.join(" ")),
        Some(symbol) => format!("{symbol} {}", arguments.join(" ")),
        None => format!("{offset:#x} {}", arguments.join(" ")),
    };
    by_definition(probe, &tracefs, "kprobe_events", &[place], probe.is_return_probe())
}

fn by_pmu(probe: &Probe, means: Means) -> Result<Prepared, MonitorError> {
    let format = pmu::format(probe.is_return_probe());
    let format = format.map_err(|source| MonitorError::Format { name: probe.name(), source })?;
    Ok(Prepared { format, means, probe: probe.clone() })
}

fn by_definition(
    probe: &Probe,
    tracefs: &Tracefs,
    list: &str,
    places: &[String],
    is_return: bool,
) -> Result<Prepared, MonitorError> {
    let letter = if is_return { 'r' } else { 'p' };
    let made = Definition::make(tracefs.root(), list, probe.kind_name(), letter, places);
    let definition = made.map_err(|reason| refused(probe, reason))?;
    let format = tracefs.format(&definition.full_name())?;
    Ok(Prepared {
        means: Means::Definition { id: format.id, _definition: definition },
        format,
        probe: probe.clone(),
    })
}

/// tracefs, if the kernel takes such definitions.
fn tracefs_with(list: &str, probe: &Probe, tracing_dir: Option<&Path>) -> Result<Tracefs, MonitorError> {
    let tracefs = Tracefs::find(tracing_dir)?;
    if tracefs.root().join(list).exists() {
        return Ok(tracefs);
    }
    let (what, option) = match probe.kind {
        ProbeKind::Kernel { .. } => {
            ("probes of its own functions", "CONFIG_KPROBES and CONFIG_KPROBE_EVENTS")
        }
        _ => ("probes of programs", "CONFIG_UPROBE_EVENTS"),
    };
    Err(MonitorError::NoProbes { event: probe.name(), what, option })
}

/// Symbol and offset, or an address.
fn kernel_target(target: &str) -> Result<(Option<&str>, u64), String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    if target.starts_with("0x") {
        return number(target)
            .map(|address| (None, address))
            .ok_or_else(|| format!("`{target}` is no address"));
    }
    let (symbol, offset) = target.split_once('+').unwrap_or((target, "0"));
    let offset = number(offset).ok_or_else(|| format!("`{offset}` is no offset"))?;
    // A module may stand before the name.
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | ':' | '$');
    match !symbol.is_empty() && symbol.chars().all(is_name) {
        true => Ok((Some(symbol), offset)),
        false => Err(format!("`{symbol}` is no name of a function of the kernel")),
    }
}

/// A path that can stand in a definition: a private link to it where it contains blanks or marks.
struct PlainPath {
    path: PathBuf,
    folder: Option<PathBuf>,
}

/// Links of this process so far.
static LINKS: AtomicU64 = AtomicU64::new(0);

impl PlainPath {
    fn of(path: &Path) -> Result<Self, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let is_plain = path.to_str().is_some_and(|text| {
            !text.chars().any(|letter| {
                letter.is_whitespace()
                    || letter.is_control()
                    || matches!(letter, '#' | ';' | '"' | '\'' | '\\')
            })
        });
        if is_plain {
            return Ok(Self { path, folder: None });
        }
        // No one else can have a folder with this name, or it is not made.
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("perf-agent-probe-{}-{number}", std::process::id()));
        let failed = |error| format!("make a link to its path in {}: {error}", folder.display());
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&folder)
            .map_err(failed)?;
        let made = Self { path: folder.join("file"), folder: Some(folder.clone()) };
        std::os::unix::fs::symlink(&path, &made.path).map_err(failed)?;
        Ok(made)
    }
}

impl Drop for PlainPath {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _best_effort = std::fs::remove_file(&self.path).and_then(|()| std::fs::remove_dir(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_in_the_kernel_are_names_or_addresses() {
        assert_eq!(kernel_target("do_exit"), Ok((Some("do_exit"), 0)));
        assert_eq!(kernel_target("do_exit+0x10"), Ok((Some("do_exit"), 16)));
        assert_eq!(kernel_target("xfs:xfs_read"), Ok((Some("xfs:xfs_read"), 0)));
        assert_eq!(kernel_target("0xffffffff81000000"), Ok((None, 0xffff_ffff_8100_0000)));
        for text in ["", "a b", "a\nb", "a+", "a+x", "0xg", "-:x"] {
            assert!(kernel_target(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn functions_of_the_kernel_are_defined_with_offset_and_arguments() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("events")).unwrap();
        let list = folder.path().join("kprobe_events");
        let text = |probe: Probe| {
            std::fs::write(&list, "").unwrap();
            // It is removed again, because this folder has no format of it.
            assert!(matches!(
                prepare(&probe, true, Some(folder.path())),
                Err(MonitorError::UnknownTracepoint { .. })
            ));
            std::fs::read_to_string(&list).unwrap()
        };
        for (probe, letter, kind, place) in [
            (Probe::kprobe("do_exit"), 'p', "kprobe", "do_exit"),
            (Probe::kprobe("do_exit+0x10").args("a=%di  b=%si"), 'p', "kprobe", "do_exit+16 a=%di b=%si"),
            (Probe::kprobe("do_exit").ret().args("r=$retval"), 'r', "kretprobe", "do_exit r=$retval"),
            (Probe::kprobe("0xffffffff81000000"), 'p', "kprobe", "0xffffffff81000000"),
        ] {
            let text = text(probe);
            let lines: Vec<&str> = text.lines().collect();
            let [made, removed] = lines.as_slice() else { panic!("{text}") };
            let name = removed.strip_prefix("-:").unwrap();
            assert!(name.starts_with(&format!("perf_agent/{kind}_")), "{name}");
            assert_eq!(made.trim_end(), format!("{letter}:{name} {place}"));
        }
        let missing = tempfile::tempdir().unwrap();
        std::fs::create_dir(missing.path().join("events")).unwrap();
        let error = prepare(&Probe::kprobe("do_exit"), true, Some(missing.path())).unwrap_err();
        assert!(error.to_string().contains("CONFIG_KPROBE_EVENTS"), "{error}");
    }

    #[test]
    fn a_path_with_blanks_is_linked_while_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b");
        std::fs::write(&path, "x").unwrap();
        let plain = PlainPath::of(&path).unwrap();
        assert!(!plain.path.to_str().unwrap().contains(' '));
        assert_eq!(std::fs::canonicalize(&plain.path).unwrap(), std::fs::canonicalize(&path).unwrap());
        let link = plain.path.clone();
        drop(plain);
        assert!(!link.exists() && !link.parent().unwrap().exists());
        assert_eq!(PlainPath::of(Path::new("/bin/sh")).unwrap().path, Path::new("/bin/sh"));
    }
}
