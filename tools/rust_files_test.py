"""Tests of rust_files, on small crates in a temporary folder."""

import tempfile
import unittest
from pathlib import Path

import rust_files


class Files(unittest.TestCase):
    def crate(self, files):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return rust_files.crate(folder / "lib.rs"), folder

    def edges(self, files):
        tree, folder = self.crate(files)
        uses = rust_files.uses(tree)
        return {
            (str(file.relative_to(folder)), str(other.relative_to(folder))): names
            for file, used in uses.items()
            for other, names in used.items()
        }

    def circles(self, files):
        tree, folder = self.crate(files)
        found = rust_files.circles(rust_files.uses(tree))
        return [sorted(str(file.relative_to(folder)) for file in circle) for circle in found]

    def test_parent_and_child_that_use_each_other_are_a_circle(self):
        files = {
            "lib.rs": "mod a;",
            "a/mod.rs": "mod b; pub struct A; pub fn f() { b::g(A) }",
            "a/b.rs": "use super::A; pub fn g(_: A) {}",
        }
        self.assertEqual(self.circles(files), [["a/b.rs", "a/mod.rs"]])

    def test_a_circle_may_have_many_files(self):
        files = {
            "lib.rs": "mod a; mod b; mod c;",
            "a.rs": "use crate::b::B; pub struct A(B);",
            "b.rs": "use crate::c; pub struct B(c::C);",
            "c.rs": "pub struct C; fn f() -> Option<crate::a::A> { None }",
        }
        self.assertEqual(self.circles(files), [["a.rs", "b.rs", "c.rs"]])

    def test_a_reexport_is_no_use_until_the_name_is_used(self):
        child = {"a.rs": "use super::Shared; pub struct A(Shared);"}
        only = {"lib.rs": "mod a; pub use a::A; pub struct Shared;", **child}
        used = {"lib.rs": "mod a; pub use a::A; pub struct Shared; fn f(_: A) {}", **child}
        self.assertEqual(self.circles(only), [])
        self.assertEqual(self.circles(used), [["a.rs", "lib.rs"]])

    def test_paths_lead_through_reexports_to_the_definition(self):
        files = {
            "lib.rs": "mod a; mod b; pub use a::{A as Renamed, *};",
            "a.rs": "pub struct A; pub struct B;",
            "b.rs": "use crate::Renamed; use super::B; fn f(_: Renamed, _: B) {}",
        }
        self.assertEqual(self.edges(files), {("b.rs", "a.rs"): {"A", "B"}})

    def test_imports_inside_functions_and_paths_in_macros_count(self):
        files = {
            "lib.rs": "mod a; mod b; mod c;",
            "a.rs": "pub struct A; pub fn f() {}",
            "b.rs": "fn f() { use crate::a::{A}; let _ = A; }",
            "c.rs": 'fn f() { println!("{:?}", super::a::f()); }',
        }
        self.assertEqual(self.edges(files), {("b.rs", "a.rs"): {"A"}, ("c.rs", "a.rs"): {"f"}})

    def test_tests_comments_and_strings_do_not_count(self):
        text = """
            // use crate::a::A;
            /* crate::a::A /* nested */ crate::a::A */
            const TEXT: &str = "crate::a::A";
            const RAW: &str = r#" " crate::a::A " "#;
            fn f<'a>(_: &'a str) -> char { '"' }
            #[cfg(test)]
            use crate::a::A;
            #[cfg(test)]
            mod tests { use crate::a::A; fn f(_: A) {} }
        """
        self.assertEqual(self.edges({"lib.rs": "mod a; mod b;", "a.rs": "pub struct A;", "b.rs": text}), {})

    def test_inherent_implementations_belong_to_their_type(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "pub trait Named {} pub struct A<T>(T); impl<T> A<T> { fn f() {} }",
            "b.rs": "use crate::a::*; impl<T: Fn() -> T> A<T> { fn g() {} } impl<T> Named for A<T> where T: Clone {}",
        }
        tree, folder = self.crate(files)
        found = list(rust_files.foreign_impls(tree))
        self.assertEqual(found, [(folder / "b.rs", "A", folder / "a.rs")])
