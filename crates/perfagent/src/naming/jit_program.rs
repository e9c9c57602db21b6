//! A program of the capture that makes code at run time, its perf map and its jitdump.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use process::{Image, Region};
use symbolization::{CodeRanges, JitDump, JitDumpError, JitProgram, PerfMap, PerfMapError};

use super::dotnet_maps::DotNetMaps;
use super::dotnet_names::DotNetNames;
use super::dump_candidates::DumpCandidates;
use super::java_names::JavaNames;
use super::perf_map_owners::{OwnerSlot, PerfMapOwners};
use crate::processes::ExecInstance;

/// Which runtimes are asked for their perf maps.
#[derive(Default)]
pub(crate) struct WhoIsAsked {
    pub(crate) java: bool,
    pub(crate) dotnet: Option<DotNetMaps>,
}

/// A program that makes code at run time.
pub(crate) struct LiveProgram {
    instance: Arc<ExecInstance>,
    /// Looked for when such code is first seen: later the process may be gone.
    owner: Arc<OwnerSlot>,
    /// Mapped files that may be its jitdump. They stay open after it has ended.
    dumps: DumpCandidates,
    /// Its mappings of such code that were seen in stacks.
    code: Mutex<Arc<CodeRanges>>,
    /// Asks it for its perf map if it is a JVM, where that is wanted.
    java: Option<JavaNames>,
    /// The same, if it runs on .NET.
    dotnet: Option<DotNetNames>,
}

impl LiveProgram {
    /// Of a program that most probably runs.
    pub(crate) fn at_first_sight(
        instance: &Arc<ExecInstance>,
        owners: &mut PerfMapOwners,
        asked: &WhoIsAsked,
    ) -> Self {
        Self {
            instance: Arc::clone(instance),
            owner: owners.look_for(instance),
            dumps: DumpCandidates::default(),
            code: Mutex::default(),
            java: asked.java.then(JavaNames::default),
            dotnet: asked.dotnet.as_ref().map(|maps| DotNetNames::new(maps.shared())),
        }
    }

    /// Notes the mapping in which a place of such code is.
    pub(crate) fn note_code(&self, image: &Image, region: &Region) {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if !code.holds(region.start.0, region.end.0) {
            Arc::make_mut(&mut code).add(image.code_without_file(region));
        }
    }

    /// Looks whether it maps a jitdump by now.
    pub(crate) fn look_for_dump(&self, image: &Image) {
        self.dumps.look(image);
    }
}

impl JitProgram for LiveProgram {
    fn ended(&self) -> Option<SystemTime> {
        self.instance.ended()
    }

    fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
        let ended = self.instance.ended();
        self.owner.with(|owner| match owner {
            Some(owner) => Some(PerfMap::open(owner, ended)),
            None => Some(PerfMap::open(&self.instance.perf_map_owner()?, ended)),
        })?
    }

    fn code(&self) -> Option<Arc<CodeRanges>> {
        Some(Arc::clone(&self.code.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn renew(&self, is_last: bool) -> Option<Result<(), String>> {
        let java = self.java.as_ref().and_then(|java| java.ask(&self.instance, is_last));
        java.or_else(|| self.dotnet.as_ref()?.ask(&self.instance, is_last))
    }

    fn names_may_change(&self) -> bool {
        self.dumps.is_known() || self.java.as_ref().is_some_and(JavaNames::was_answered)
    }

    fn has_dump(&self) -> bool {
        self.dumps.any()
    }

    fn open_dump(&self) -> Option<Result<JitDump, JitDumpError>> {
        self.dumps.open(self.ended())
    }
}
