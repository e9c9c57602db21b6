//! A file that a process of the capture maps, as symbolization reads it.

use std::sync::Arc;

use process::{ContainerRoot, Content, MappedFile};
use symbolization::{ModuleFile, ObjectFile, ObjectSource, OpenedModule};

/// A mapped file.
#[derive(Clone)]
pub(crate) struct LiveModule {
    pub(crate) file: Arc<MappedFile>,
}

impl ModuleFile for LiveModule {
    fn open(&self) -> Option<OpenedModule> {
        let root = self.file.root().cloned();
        let (source, guard): (_, Box<dyn std::any::Any + Send + Sync>) = match self.file.open_content() {
            Ok(Content::File(opened)) => {
                (ObjectSource::Path(opened.path()), Box::new((opened, root.clone())))
            }
            Ok(Content::Memory(bytes)) => (ObjectSource::Bytes(bytes), Box::new(root.clone())),
            Err(error) => {
                tracing::debug!(target: "perfagent", "names: {error}");
                return None;
            }
        };
        let object = ObjectFile {
            source,
            display_path: self.file.path().to_owned(),
            root: root.as_ref().map(ContainerRoot::path),
            build_id: self.file.build_id().cloned(),
        };
        Some(OpenedModule { object, guard })
    }

    fn size(&self) -> u64 {
        self.file.identity().size
    }
}

#[cfg(test)]
mod tests {
    use profile::Svma;
    use symbols::{Options, Symbolizer};

    use super::*;

    #[test]
    fn a_file_that_is_not_kept_open_is_named_without_a_copy_of_it() {
        let image = process::read_image(std::process::id(), &process::Files::with_budget(0)).unwrap();
        let mut files = image.regions().iter().filter_map(|region| region.file());
        let file = files.find(|file| Some(file.path()) == image.exe.as_deref()).unwrap();
        assert!(!file.is_pinned());
        let opened = LiveModule { file: Arc::clone(file) }.open().unwrap();
        assert!(matches!(opened.object.source, ObjectSource::Path(_)));
        let code = file.segments().iter().find(|segment| segment.executable).unwrap();
        let svmas: Vec<Svma> = (code.start.0..code.limit.0).step_by(4096).map(Svma).collect();
        let found = Symbolizer::new(Options::default()).object(&opened.object, &svmas);
        assert!(found.iter().any(|lines| !lines.is_empty()));
    }
}
