//! The answer for one address.

/// One function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Demangled name.
    pub name: String,
    /// Name as in the symbol table or in DWARF.
    pub system_name: String,
    /// Source file, or empty.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Source column, 0 if unknown.
    pub column: u32,
    /// Line of the declaration, 0 if unknown.
    pub start_line: u32,
}
