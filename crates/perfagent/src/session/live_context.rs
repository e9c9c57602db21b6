//! The files and programs behind the frames of the present interval, for `symbolization`.

use std::sync::Arc;

use recording::{Builder, CodeMappingId, CodeObject, CodeObjectId, ExecInstanceId, ModuleId};
use symbolization::{FrameContext, ModuleHandle, ProgramHandle};

use super::resolver::Resolver;

/// The tables of the interval, and the files and programs of their frames.
pub(super) struct LiveContext<'a> {
    pub(super) builder: &'a Builder,
    pub(super) resolver: &'a Resolver,
}

impl FrameContext for LiveContext<'_> {
    fn module_of(&self, mapping: CodeMappingId) -> Option<ModuleId> {
        self.builder.mapping_of(mapping).map(|mapping| mapping.module)
    }

    fn module(&self, id: ModuleId) -> Option<ModuleHandle> {
        let (module, live) = (self.builder.module_of(id)?, self.resolver.module(id)?);
        Some(ModuleHandle { module: Arc::new(module.clone()), file: Some(Arc::new(live.clone())) })
    }

    fn program(&self, id: ExecInstanceId) -> Option<ProgramHandle> {
        let (program, live) = (self.builder.exec_instance_of(id)?, self.resolver.program(id)?);
        Some(ProgramHandle { program: Arc::new(program.clone()), live: Some(live) })
    }

    fn code_object(&self, id: CodeObjectId) -> Option<Arc<CodeObject>> {
        self.builder.code_object_of(id).cloned().map(Arc::new)
    }
}
