//! The functions of allocators by name, and the program for each.
//!
//! In: the functions of C and of POSIX, those of C++ in libraries that define both, and the names of jemalloc and mimalloc with their prefixes.
//! Not here: where they are in a file (crate `probes`).

use kernel::HeapProgram::{self, Aligned, Freed, Placed, Resized, ResizedArray, Sized, Zeroed};

/// A function: its name, the program for it, and whether it belongs to C++.
type Function = (&'static str, HeapProgram, bool);

/// All functions that are looked for.
const FUNCTIONS: &[Function] = &[
    ("malloc", Sized, false),
    ("calloc", Zeroed, false),
    ("realloc", Resized, false),
    ("reallocarray", ResizedArray, false),
    ("memalign", Aligned, false),
    ("aligned_alloc", Aligned, false),
    ("posix_memalign", Placed, false),
    ("valloc", Sized, false),
    ("pvalloc", Sized, false),
    ("free", Freed, false),
    ("cfree", Freed, false),
    ("free_sized", Freed, false),
    ("free_aligned_sized", Freed, false),
    // jemalloc, by its own name and as Rust links it.
    ("mallocx", Sized, false),
    ("rallocx", Resized, false),
    ("dallocx", Freed, false),
    ("sdallocx", Freed, false),
    ("_rjem_malloc", Sized, false),
    ("_rjem_calloc", Zeroed, false),
    ("_rjem_realloc", Resized, false),
    ("_rjem_aligned_alloc", Aligned, false),
    ("_rjem_memalign", Aligned, false),
    ("_rjem_posix_memalign", Placed, false),
    ("_rjem_free", Freed, false),
    ("_rjem_mallocx", Sized, false),
    ("_rjem_rallocx", Resized, false),
    ("_rjem_dallocx", Freed, false),
    ("_rjem_sdallocx", Freed, false),
    ("je_malloc", Sized, false),
    ("je_calloc", Zeroed, false),
    ("je_realloc", Resized, false),
    ("je_aligned_alloc", Aligned, false),
    ("je_memalign", Aligned, false),
    ("je_posix_memalign", Placed, false),
    ("je_free", Freed, false),
    ("je_mallocx", Sized, false),
    ("je_rallocx", Resized, false),
    ("je_dallocx", Freed, false),
    ("je_sdallocx", Freed, false),
    // mimalloc, as Rust and C++ programs link it.
    ("mi_malloc", Sized, false),
    ("mi_zalloc", Sized, false),
    ("mi_calloc", Zeroed, false),
    ("mi_realloc", Resized, false),
    ("mi_malloc_aligned", Sized, false),
    ("mi_zalloc_aligned", Sized, false),
    ("mi_realloc_aligned", Resized, false),
    ("mi_free", Freed, false),
    ("mi_free_size", Freed, false),
    ("mi_free_size_aligned", Freed, false),
    // C++: operator new and new[]; plain, nothrow, aligned, aligned nothrow.
    ("_Znwm", Sized, true),
    ("_Znam", Sized, true),
    ("_ZnwmRKSt9nothrow_t", Sized, true),
    ("_ZnamRKSt9nothrow_t", Sized, true),
    ("_ZnwmSt11align_val_t", Sized, true),
    ("_ZnamSt11align_val_t", Sized, true),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", Sized, true),
    ("_ZnamSt11align_val_tRKSt9nothrow_t", Sized, true),
    // operator delete and delete[]; plain, nothrow, sized, aligned.
    ("_ZdlPv", Freed, true),
    ("_ZdaPv", Freed, true),
    ("_ZdlPvRKSt9nothrow_t", Freed, true),
    ("_ZdaPvRKSt9nothrow_t", Freed, true),
    ("_ZdlPvm", Freed, true),
    ("_ZdaPvm", Freed, true),
    ("_ZdlPvSt11align_val_t", Freed, true),
    ("_ZdaPvSt11align_val_t", Freed, true),
    ("_ZdlPvmSt11align_val_t", Freed, true),
    ("_ZdaPvmSt11align_val_t", Freed, true),
    ("_ZdlPvSt11align_val_tRKSt9nothrow_t", Freed, true),
    ("_ZdaPvSt11align_val_tRKSt9nothrow_t", Freed, true),
];

/// Their names, in the order of their numbers.
pub(super) fn names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name).collect()
}

/// The program for each of these functions, which a file defines. Functions of C++ count only in a file that defines others too: elsewhere
/// they call those.
pub(super) fn programs(numbers: &[usize]) -> Vec<Option<HeapProgram>> {
    let function = |number: &usize| FUNCTIONS.get(*number);
    let has_own =
        numbers.iter().filter_map(function).any(|(_, program, is_cpp)| !is_cpp && *program != Freed);
    let chosen = |number: &usize| function(number).filter(|(.., is_cpp)| has_own || !is_cpp);
    numbers.iter().map(|number| chosen(number).map(|(_, program, _)| *program)).collect()
}

/// Whether the function with this number belongs to C++.
pub(super) fn is_cpp(number: usize) -> bool {
    FUNCTIONS.get(number).is_some_and(|(.., is_cpp)| *is_cpp)
}

/// The program for the function with this name.
pub(super) fn program_of(name: &str) -> Option<HeapProgram> {
    FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|(_, program, _)| *program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_count_only_beside_an_allocator() {
        let number = |name: &str| names().iter().position(|known| *known == name).unwrap();
        let (new, delete) = (number("_Znwm"), number("_ZdlPv"));
        assert_eq!(programs(&[new, delete]), [None, None], "libstdc++");
        assert_eq!(programs(&[new, number("free")]), [None, Some(Freed)], "a library with a free of its own");
        assert_eq!(programs(&[new, delete, number("malloc")]), [Some(Sized), Some(Freed), Some(Sized)]);
        assert_eq!(programs(&[number("posix_memalign"), 1 << 20]), [Some(Placed), None]);
    }
}
