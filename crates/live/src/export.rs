//! What is shown as a profile, which every format takes.

use profile::{Builder, FunctionId, Line, Location, LocationId, MappingId, Profile};

use crate::interval::Mode;
use crate::query::{Query, Selected};
use crate::window::Window;

/// The profile of the selected stacks. Its comments say what was selected, and the figures of that time.
pub(crate) fn profile(window: &Window, mode: Mode, query: &Query) -> Profile {
    let header = window.header();
    let mut builder = Builder::new(&header.sample_types, header.period_type.clone(), header.period);
    let selected = Selected::of(window, query);
    let is_single = header.sample_types.len() == 1;
    let shown: std::collections::HashMap<*const crate::window::Stack, crate::window::Sums> =
        selected.stacks.iter().map(|(stack, sums)| (std::ptr::from_ref(*stack), *sums)).collect();
    for (locations, stack) in window.with_locations() {
        let Some(sums) = shown.get(&std::ptr::from_ref(stack)) else { continue };
        let locations = locations.iter().filter_map(|id| location(window, *id, &mut builder)).collect();
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let both = [signed(sums.count), signed(sums.value)];
        let values: Vec<i64> = match is_single {
            true => vec![signed(sums.value)],
            false => both.into_iter().chain(std::iter::repeat(0)).take(header.sample_types.len()).collect(),
        };
        builder.add(window.owner(stack).labels.clone(), locations, &values);
    }
    let (start_ns, length_ns) = window.span(query.range);
    let mut profile =
        builder.finish(start_ns, i64::try_from(length_ns).unwrap_or(i64::MAX), comments(window, mode, query));
    profile.default_sample_type.clone_from(&header.default_sample_type);
    profile
}

fn location(window: &Window, id: LocationId, builder: &mut Builder) -> Option<LocationId> {
    let tables = window.tables();
    let Location { mapping, address, lines } = tables.locations.get(id.0)?;
    let mapping: Option<MappingId> =
        mapping.and_then(|id| tables.mappings.get(id.0)).map(|mapping| builder.mapping(mapping.clone()));
    let mut line = |line: &Line| {
        let function: FunctionId = builder.function(tables.functions.get(line.function.0)?.clone());
        Some(Line { function, ..*line })
    };
    let lines = lines.iter().filter_map(&mut line).collect();
    Some(builder.location(mapping, *address, lines))
}

fn comments(window: &Window, mode: Mode, query: &Query) -> Vec<String> {
    let figures = window.figures(query.range);
    let mut entries = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("mode", mode.name().to_lowercase()),
        ("samples", figures.samples.to_string()),
        ("lost", figures.lost.to_string()),
    ];
    entries.extend(figures.rooted_pct().map(|share| ("rooted_pct", format!("{share:.2}"))));
    entries.extend(figures.named_pct().map(|share| ("symbolized_pct", format!("{share:.2}"))));
    entries.push(("live.range", query.range.name().to_owned()));
    entries.extend(query.scope.as_ref().map(|scope| ("live.only", scope.name().to_owned())));
    if !query.filter.is_empty() {
        entries.push(("live.filter", query.filter.clone()));
    }
    entries.into_iter().map(|(key, value)| format!("perf-agent.{key}={value}")).collect()
}
