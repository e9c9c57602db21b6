//! Variables by their addresses, also from a separate debug file, against `nm`.

use profile::Svma;
use symbols::Symbolizer;

use crate::{object, options, run};

const SOURCE: &str = "\
struct { char name[8]; int lock; } state;
static int table[16] = {1};
int code(void) { return table[0]++ + state.lock; }
int main(void) { return code(); }
";

#[test]
fn an_address_in_a_variable_is_told_with_its_distance() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("x.c"), SOURCE).unwrap();
    if run(at, &["gcc", "-g", "-O1", "-o", "x", "x.c"]).is_none() {
        return;
    }
    let Some(symbols) = run(at, &["nm", "x"]) else { return };
    let address = |wanted: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {wanted}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (state, table, code) = (address("state"), address("table"), address("code"));
    let names = |file: &str| {
        // Not in the order of the file; code and what lies outside are no variables.
        let wanted = [table + 63, state, state + 8, code, u64::MAX, table].map(Svma);
        let mut symbolizer = Symbolizer::new(options());
        let lines = symbolizer.variables(&object(&at.join(file)), &wanted);
        lines
            .iter()
            .map(|lines| lines.first().map(|line| line.name.to_string()).unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let expected = ["table+0x3f", "state", "state+0x8", "", "", "table"];
    assert_eq!(names("x"), expected);
    run(at, &["objcopy", "--only-keep-debug", "x", "x.debug"]);
    run(at, &["objcopy", "--strip-all", "--add-gnu-debuglink=x.debug", "x", "stripped"]);
    assert_eq!(names("stripped"), expected, "from the separate debug file");
    std::fs::remove_file(at.join("x.debug")).unwrap();
    assert_eq!(names("stripped"), [""; 6]);
}
