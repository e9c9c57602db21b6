//! The USDT probes of OpenTelemetry's memory profiling: a library in the process samples, and tells each sample and the end of each sampled object.

use std::path::Path;

use events::monitor::{ArgumentPlace, FunctionPlace};
use kernel::{HeapProgram, HeapSite, HeapWeight, ValuePlan};
use probes::{Binary, UsdtSite};

use super::{Point, Sampler, SamplerKind};
use crate::sources::value;

const PROVIDER: &str = "otel_memory";

/// Looks for the probes `alloc(pointer, size, weight)` and `free(pointer)`. `Err`: why those that are there cannot be used.
pub(in crate::sources::heap) fn find(binary: &Binary, path: &Path) -> Result<Option<Sampler>, String> {
    let (mut points, mut allocates, mut frees) = (Vec::new(), false, false);
    for probe in binary.usdt_probes().into_iter().filter(|probe| probe.provider == PROVIDER) {
        let program = match probe.name.as_str() {
            "alloc" => HeapProgram::Sampled,
            "free" => HeapProgram::SampleFreed,
            _ => continue,
        };
        allocates |= program == HeapProgram::Sampled;
        frees |= program == HeapProgram::SampleFreed;
        for site in &probe.sites {
            let known = of_site(site, program)
                .map_err(|why| format!("{PROVIDER}:{} with `{}`: {why}", probe.name, site.arguments))?;
            let place = FunctionPlace { path: path.to_owned(), offset: site.offset, counter: site.semaphore };
            points.push(Point { program, place, site: Some(known) });
        }
    }
    // Without the end of objects what is in use is not known.
    for point in points.iter_mut().filter(|_| !frees) {
        point.site = point.site.take().map(|site| HeapSite { address: None, ..site });
    }
    Ok(allocates.then_some(Sampler { kind: SamplerKind::OtelMemory, points }))
}

fn of_site(site: &UsdtSite, program: HeapProgram) -> Result<HeapSite, String> {
    let places = ArgumentPlace::of_usdt_site(&site.arguments);
    let argument = |number: usize| -> Result<ValuePlan, String> {
        let place = places.get(number).cloned().flatten();
        value::of_argument(place.ok_or_else(|| format!("argument {} cannot be read", number + 1))?)
    };
    let address = Some(argument(0)?);
    Ok(match program {
        HeapProgram::Sampled => {
            let weight = HeapWeight::Told(argument(2)?);
            HeapSite { address, size: Some(argument(1)?), weight, ..HeapSite::default() }
        }
        _ => HeapSite { address, ..HeapSite::default() },
    })
}
