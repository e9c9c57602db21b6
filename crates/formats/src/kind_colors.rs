//! The colours of the kinds of frames, which SVG flame graphs and HTML reports share.
//!
//! The hue tells the kind, the shade depends on the name alone: a function has one colour in all pictures.

use crate::named_frames::FrameKind;

/// The colour of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindColor {
    pub(crate) kind: FrameKind,
    /// The kind in legends.
    pub(crate) name: &'static str,
    /// Hue, saturation and lightness.
    pub(crate) hsl: [u32; 3],
}

const fn color(kind: FrameKind, name: &'static str, hsl: [u32; 3]) -> KindColor {
    KindColor { kind, name, hsl }
}

/// All kinds in the order of legends.
pub(crate) const KINDS: [KindColor; 7] = [
    color(FrameKind::Native, "native", [16, 88, 67]),
    color(FrameKind::Inlined, "inlined", [48, 88, 70]),
    color(FrameKind::Interpreted, "interpreted", [105, 50, 66]),
    color(FrameKind::Jit, "JIT", [165, 48, 62]),
    color(FrameKind::Kernel, "kernel", [212, 72, 74]),
    color(FrameKind::Fact, "cut or marked", [0, 0, 74]),
    color(FrameKind::Owner, "process, thread", [268, 38, 82]),
];

/// The colour of a kind.
pub(crate) fn of(kind: FrameKind) -> KindColor {
    KINDS.into_iter().find(|color| color.kind == kind).unwrap_or(KINDS[0])
}

impl KindColor {
    /// Its number in [`KINDS`].
    pub(crate) fn number(self) -> usize {
        KINDS.iter().position(|color| color.kind == self.kind).unwrap_or(0)
    }

    /// Without a shade, as in a legend.
    pub(crate) fn plain(self) -> String {
        self.varied(0)
    }

    /// In the shade of a name.
    pub(crate) fn shaded(self, name: &str) -> String {
        self.varied(shade(name))
    }

    fn varied(self, shade: u8) -> String {
        let ([hue, saturation, lightness], shade) = (self.hsl, u32::from(shade));
        let hue = if saturation == 0 { hue } else { hue + shade / 24 };
        format!("hsl({hue},{saturation}%,{}%)", lightness + shade % 16 / 2)
    }
}

/// A number that depends on the name alone (FNV-1a).
pub(crate) fn shade(name: &str) -> u8 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as u8
}
