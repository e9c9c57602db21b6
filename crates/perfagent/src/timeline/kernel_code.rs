//! The code of the kernel: its text and its modules, as mappings and with their build-ids.

use perf_data::{FileBuildId, Record};
use recording::KernelImage;

/// The name of the kernel. In that of its mapping the symbol follows that lies at the address of the mapping.
const KERNEL: &str = "[kernel.kallsyms]";

/// Calls `each` with each mapping. Nothing tells how long the text is: it ends where the first module begins, or with the address space.
pub(super) fn mappings(kernel: &KernelImage, mut each: impl FnMut(&Record<'_>)) {
    let marks = [(kernel.text, "_text"), (kernel.stext, "_stext")];
    let Some((text, symbol)) = marks.into_iter().find_map(|(at, symbol)| Some((at?, symbol))) else { return };
    let next = kernel.modules.iter().map(|module| module.text.0).filter(|begin| *begin > text.0).min();
    let len = next.unwrap_or(u64::MAX) - text.0;
    each(&Record::KernelMapping { address: text.0, len, name: format!("{KERNEL}{symbol}").as_bytes() });
    for module in &kernel.modules {
        let name = format!("[{}]", module.name);
        each(&Record::KernelMapping { address: module.text.0, len: module.size, name: name.as_bytes() });
    }
}

/// The build-ids that are known.
pub(super) fn build_ids(kernel: &KernelImage) -> impl Iterator<Item = FileBuildId> {
    let text = kernel.build_id.iter().map(|build_id| (KERNEL.to_owned(), build_id));
    let modules = kernel
        .modules
        .iter()
        .filter_map(|module| Some((format!("[{}]", module.name), module.build_id.as_ref()?)));
    text.chain(modules).map(|(name, build_id)| FileBuildId {
        kernel: true,
        build_id: build_id.as_bytes().to_vec(),
        path: name.into_bytes(),
    })
}
