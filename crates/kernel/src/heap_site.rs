//! Where the programs find what an allocator tells of its samples: `struct heap_site` of `bpf/abi/heap.h`.

use crate::abi::skeleton::types;
use crate::value_plan::ValuePlan;

/// Where arguments are at a place where an allocator takes or frees a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapSite {
    /// The address of the object. None: it is not followed, or a function around this one has noted it.
    pub address: Option<ValuePlan>,
    /// Bytes of the object.
    pub size: Option<ValuePlan>,
    /// What it stands for.
    pub weight: HeapWeight,
    /// The address is that of what the allocator has for all objects of one stack.
    pub shared: Option<SharedObjects>,
}

/// How the end of an object is known where the allocator does not tell which one it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedObjects {
    /// When it was allocated, `CLOCK_MONOTONIC`, where it ends. What was allocated before `begin_ns` is not known.
    pub time: Option<ValuePlan>,
    /// Begin of the recording.
    pub begin_ns: u64,
}

/// What a sampled object stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HeapWeight {
    /// Itself.
    #[default]
    Alone,
    /// So many bytes, as the allocator tells.
    Told(ValuePlan),
    /// That follows from the mean number of bytes between two samples.
    Every(u64),
    /// The same, from a variable of the process.
    EveryIn {
        /// Where the variable is, counted from the probe.
        distance: i64,
        /// It has the logarithm to the base of 2.
        is_logarithm: bool,
    },
}

impl HeapSite {
    /// What tells a place from others: the bits of its offset that its address has too.
    #[must_use]
    pub fn key(offset: u64) -> u32 {
        offset as u32 & types::heap_site_limit::HEAP_SITE_BITS.0
    }

    /// As the programs read it. `None`: they can follow no such plan.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let site = self.as_record()?;
        // SAFETY: a struct of integers that user space and the programs agree on, without gaps: its padding is a field.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const site).cast::<u8>(), size_of::<types::heap_site>())
        };
        Some(bytes.to_vec())
    }

    fn as_record(&self) -> Option<types::heap_site> {
        let plan = |plan: &Option<ValuePlan>| match plan {
            None => Some(types::value_plan::default()),
            Some(plan) => plan.encode(),
        };
        let mut site = types::heap_site {
            address: plan(&self.address)?,
            size: plan(&self.size)?,
            ..types::heap_site::default()
        };
        if let Some(shared) = &self.shared {
            site.is_shared = 1;
            (site.time, site.begin_ns) = (plan(&shared.time)?, shared.begin_ns);
        }
        match &self.weight {
            HeapWeight::Alone => {}
            HeapWeight::Told(weight) => site.weight = weight.encode()?,
            HeapWeight::Every(rate) => site.rate = *rate,
            HeapWeight::EveryIn { distance, is_logarithm } => {
                (site.rate_distance, site.rate_is_logarithm) = (*distance, (*is_logarithm).into());
            }
        }
        Some(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_plan::{ProbeRegister, ValueFrom};

    #[test]
    fn a_place_is_known_by_what_its_offset_and_its_address_share() {
        assert_eq!(HeapSite::key(0x1_2345_6789), 0x789);
        let register = ProbeRegister::result();
        let from = ValueFrom::Register { register, offsets: vec![0; 9], in_kernel: false };
        let site = HeapSite { size: Some(ValuePlan::integer(from, 8, false)), ..HeapSite::default() };
        assert!(site.as_record().is_none(), "more loads than the programs make");
        let weight = HeapWeight::EveryIn { distance: -8, is_logarithm: true };
        let encoded = HeapSite { weight, ..HeapSite::default() }.as_record().unwrap();
        assert_eq!((encoded.rate_distance, encoded.rate_is_logarithm, encoded.rate), (-8, 1, 0));
    }
}
