//! The running kernel, as recordings keep it.

use std::sync::OnceLock;

use recording::KernelImage;
use symbolization::{Options, kernel_identity, kernel_image, kernel_modules};

/// The running kernel; where it was loaded only if there are kernel frames.
///
/// What cannot change as long as this program runs is read once. Modules come and go, so they are read for each recording.
pub(super) fn running(with_frames: bool) -> KernelImage {
    static IDENTITY: OnceLock<KernelImage> = OnceLock::new();
    static IMAGE: OnceLock<KernelImage> = OnceLock::new();
    let options = Options::default();
    if !with_frames {
        return IDENTITY.get_or_init(|| kernel_identity(&options)).clone();
    }
    let image = IMAGE.get_or_init(|| kernel_image(&options));
    KernelImage { modules: kernel_modules(&options), ..image.clone() }
}
