//! What a profiler looks at, and how `perf record` takes stacks.

/// How `perf record` takes stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfMode {
    /// `--call-graph dwarf,65528`: copies the stack, unwinds afterwards.
    Dwarf,
    /// `-g`: frame pointers, in the kernel.
    FramePointers,
    /// None: what the samples themselves cost.
    NoStacks,
}

/// What to profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One process, its threads and children.
    Process(u32),
    /// The whole machine.
    Machine,
}
