//! Where a probe goes in its file, and its arguments there.

use std::path::Path;

use probes::{Binary, FunctionExit, Location, Parameter, Placement, ProbeError, Target, UsdtSite};

use super::arguments::{are_as_at_the_entry, at_return, reads_result, split, wrong_at_return};
use super::probe_spec::{Probe, ProbeKind};
use super::usdt_argument::fetched;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub offset: u64,
    /// Where the counter of a USDT probe is.
    pub counter: Option<u64>,
    /// In the kernel's language.
    pub arguments: Vec<String>,
    /// Names of arguments that the program does not keep here.
    pub optimized_out: Vec<String>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSite {
    #[error(transparent)]
    File(#[from] ProbeError),
    #[error("{0}")]
    Refused(String),
}

/// The file of a probe, and its places there; none for the kernel's.
pub(crate) fn sites(probe: &Probe) -> Result<Option<(&Path, Vec<Site>)>, NoSite> {
    match &probe.kind {
        ProbeKind::Kernel { .. } => Ok(None),
        ProbeKind::User { path, target } => {
            let arguments = split(&probe.arguments).map_err(NoSite::Refused)?;
            let binary = Binary::open(path)?;
            if probe.is_return && arguments.iter().any(|argument| parameter_of(argument).is_some()) {
                let reason =
                    "at its return a function no longer has its parameters; probe the call, or take $retval";
                return Err(NoSite::Refused(reason.to_owned()));
            }
            let target = Target::parse(target)?;
            let location = binary.locate(&target)?;
            if probe.is_return {
                return Ok(Some((path, returns(&binary, &target, &location, &arguments)?)));
            }
            let at = |placement| site_at(&binary, (&target, &location), placement, &arguments);
            // Where a probe is cheap, if it sees the same there.
            let site = at(binary.place(&location))?;
            let site =
                if are_as_at_the_entry(&site.arguments) { site } else { at(binary.unplaced(&location))? };
            Ok(Some((path, vec![site])))
        }
        ProbeKind::Usdt { path, provider, name } => {
            if probe.is_return {
                return Err(NoSite::Refused("a USDT probe is a place, which has no return".to_owned()));
            }
            let wanted = split(&probe.arguments).map_err(NoSite::Refused)?;
            let binary = Binary::open(path)?;
            let sites = binary.usdt(provider, name)?;
            let arguments = usdt_arguments(&binary, &sites, &wanted).map_err(NoSite::Refused)?;
            let site = |(site, arguments): (&UsdtSite, Vec<String>)| Site {
                offset: site.offset,
                counter: site.semaphore,
                arguments,
                optimized_out: Vec::new(),
            };
            Ok(Some((path, sites.iter().zip(arguments).map(site).collect())))
        }
    }
}

/// The sites of a probe of returns.
fn returns(
    binary: &Binary,
    target: &Target,
    location: &Location,
    arguments: &[String],
) -> Result<Vec<Site>, NoSite> {
    let exits = binary.exits(target, location)?;
    let jump = exits.iter().find(|exit| exit.is_jump);
    if let (Some(jump), true) = (jump, arguments.iter().any(|argument| reads_result(argument))) {
        return Err(NoSite::Refused(format!(
            "the jump at {:#x} in the file ends it, and the function that it leads to has the result; probe that one, or leave out $retval",
            jump.offset
        )));
    }
    if exits.is_empty() {
        return Err(NoSite::Refused("it never returns".to_owned()));
    }
    if let Some(wrong) = arguments.iter().find_map(|argument| wrong_at_return(argument)) {
        return Err(NoSite::Refused(format!(
            "{wrong} is not known at a return: the probe is at the instruction that returns; take $stackN for a word of the stack, or $retval"
        )));
    }
    let arguments: Vec<String> = arguments.iter().map(|argument| at_return(argument)).collect();
    let site = |exit: &FunctionExit| Site {
        offset: exit.offset,
        counter: None,
        arguments: arguments.clone(),
        optimized_out: Vec::new(),
    };
    Ok(exits.iter().map(site).collect())
}

/// The parameter that an argument asks for by its name: `request->id` of `a=arg:request->id`.
fn parameter_of(argument: &str) -> Option<(&str, &str)> {
    let (name, value) = argument.split_once('=')?;
    Some((name, value.strip_prefix("arg:")?))
}

/// The site of a probe at a place, with its parameters in the kernel's language.
fn site_at(
    binary: &Binary,
    (target, location): (&Target, &Location),
    placement: Placement,
    wanted: &[String],
) -> Result<Site, NoSite> {
    let (mut arguments, mut optimized_out) = (Vec::new(), Vec::new());
    for argument in wanted {
        let Some((name, parameter)) = parameter_of(argument) else {
            arguments.push(argument.clone());
            continue;
        };
        match binary.parameter(target, location, &placement, parameter)? {
            Parameter::At(place) => arguments.push(format!("{name}={place}")),
            Parameter::OptimizedOut => optimized_out.push(name.to_owned()),
        }
    }
    Ok(Site { offset: placement.offset, counter: None, arguments, optimized_out })
}

/// The arguments at each site: `NAME=argN` as wanted, or else the arguments that the kernel can read at every site, with one type. All places of
/// an event have fields of the same types.
fn usdt_arguments(
    binary: &Binary,
    sites: &[UsdtSite],
    wanted: &[String],
) -> Result<Vec<Vec<String>>, String> {
    let at = |site: &UsdtSite| {
        // The kernel takes the site's address less its offset for the beginning of the file.
        let place_of =
            |name: &str| binary.variable(name)?.checked_sub(site.address)?.checked_add(site.offset);
        fetched(&site.arguments, place_of)
    };
    let there: Vec<Vec<Option<String>>> = sites.iter().map(at).collect();
    let readable = |number: usize| there.iter().all(|site| matches!(site.get(number), Some(Some(_))));
    let type_at = |site: &[Option<String>], number: usize| {
        let text = site.get(number)?.as_ref()?;
        Some(text.rsplit_once(':').map_or("", |(_, kind)| kind).to_owned())
    };
    let has_one_type = |number: usize| {
        let mut kinds = there.iter().map(|site| type_at(site, number));
        let first = kinds.next();
        kinds.all(|kind| Some(kind) == first)
    };
    let most = there.iter().map(Vec::len).max().unwrap_or(0);
    let chosen: Vec<(String, usize)> = if wanted.is_empty() {
        (0..most)
            .filter(|number| readable(*number) && has_one_type(*number))
            .map(|number| (format!("arg{}", number + 1), number))
            .collect()
    } else {
        let choose = |text: &String| {
            let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=argN"))?;
            let number: Option<usize> = value.strip_prefix("arg").and_then(|number| number.parse().ok());
            let number = number
                .and_then(|number| number.checked_sub(1))
                .ok_or_else(|| format!("`{value}` is none of arg1, arg2, …"))?;
            match readable(number) {
                true if !has_one_type(number) => {
                    let texts: Vec<&str> = sites.iter().map(|site| site.arguments.as_str()).collect();
                    Err(format!(
                        "{value} has another type at some of its sites, and an event has one type for each field: `{}`; \
                         without this argument the probe is counted at all sites",
                        texts.join("`, `")
                    ))
                }
                true => Ok((name.to_owned(), number)),
                false if number >= most => Err(format!("it has {most} arguments, so there is no {value}")),
                false => {
                    let texts: Vec<&str> = sites.iter().map(|site| site.arguments.as_str()).collect();
                    Err(format!(
                        "the kernel cannot read {value} at each of its sites: `{}`",
                        texts.join("`, `")
                    ))
                }
            }
        };
        wanted.iter().map(choose).collect::<Result<_, String>>()?
    };
    let at_site = |site: &Vec<Option<String>>| {
        let value =
            |(name, number): &(String, usize)| Some(format!("{name}={}", site.get(*number)?.as_ref()?));
        chosen.iter().filter_map(value).collect()
    };
    Ok(there.iter().map(at_site).collect())
}
