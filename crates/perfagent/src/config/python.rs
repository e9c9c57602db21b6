//! What is shown of programs in Python.

/// What stacks show of CPython, the interpreter of Python. Processes are not changed in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PythonFrames {
    /// The native frames only.
    Off,
    /// The functions of the program in Python, in the places of the interpreter's frames that run them.
    #[default]
    Auto,
    /// The functions of the program, and the interpreter's frames too.
    All,
}

impl PythonFrames {
    /// All settings with their names.
    pub(super) const NAMES: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("off", Self::Off), ("all", Self::All)];

    /// The setting of this name on the command line.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, frames)| *frames)
    }
}
