//! A program of the capture that makes code at run time, its perf map and its jitdump.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use process::{Content, Image, RegionKind};
use symbolization::{JitDump, JitDumpError, JitProgram, PerfMap, PerfMapError};

use super::dotnet_maps::DotNetMaps;
use super::dotnet_names::DotNetNames;
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
    /// The jitdump that it maps. Its file stays open after it has ended.
    dump: OnceLock<RegionKind>,
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
            dump: OnceLock::new(),
            java: asked.java.then(JavaNames::default),
            dotnet: asked.dotnet.as_ref().map(|maps| DotNetNames::new(maps.shared())),
        }
    }

    /// Looks whether it maps a jitdump by now.
    pub(crate) fn look_for_dump(&self, image: &Image) {
        if self.dump.get().is_none()
            && let Some(dump) = image.jit_dump()
        {
            self.dump.get_or_init(|| dump.clone());
        }
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

    fn renew(&self, is_last: bool) -> Option<Result<(), String>> {
        let java = self.java.as_ref().and_then(|java| java.ask(&self.instance, is_last));
        java.or_else(|| self.dotnet.as_ref()?.ask(&self.instance, is_last))
    }

    fn names_may_change(&self) -> bool {
        self.has_dump() || self.java.as_ref().is_some_and(JavaNames::was_answered)
    }

    fn has_dump(&self) -> bool {
        self.dump.get().is_some()
    }

    fn open_dump(&self) -> Option<Result<JitDump, JitDumpError>> {
        // None: it is still to be opened.
        let file = self.dump.get()?.file()?;
        let opened = file.open_content().and_then(|content| match content {
            Content::File(file) => file.try_clone(),
            Content::Memory(_) => Err(io::ErrorKind::InvalidInput.into()),
        });
        Some(opened.map_err(JitDumpError::from).and_then(|file| JitDump::open(file, self.ended())))
    }
}
