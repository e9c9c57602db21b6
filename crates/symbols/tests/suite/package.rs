//! Packages of split units (`.dwp`), written here: the tools of distributions refuse what some compilers write, or crash at it.
//!
//! Formats: DWARF 5, section 7.3.5.3, and its forerunner of the GNU project, which has version 2.

use std::path::{Path, PathBuf};

use elf::Layout;

use crate::run;

/// Sections of a package that readers of functions need, and their numbers in an index of version 5 and in one of version 2.
const SECTIONS: [(&str, u32, u32); 4] = [
    (".debug_info.dwo", 1, 1),
    (".debug_abbrev.dwo", 3, 3),
    (".debug_str_offsets.dwo", 6, 6),
    // Before version 5, ranges are with the skeletons.
    (".debug_rnglists.dwo", 8, 0),
];
const STRINGS: &str = ".debug_str.dwo";

/// Writes a package of the units in `.dwo` files, each of which has one. `None` if a tool is missing.
pub fn write(files: &[PathBuf], package: &Path) -> Option<()> {
    let folder = package.parent().unwrap();
    let units: Vec<Unit> = files.iter().map(|file| Unit::read(file)).collect::<Option<_>>()?;
    let version = units[0].version;
    let mut strings = Vec::new();
    let mut contents = SECTIONS.map(|_| Vec::new());
    let mut places: Vec<Vec<(u32, u32)>> = Vec::new();
    for unit in &units {
        assert_eq!(unit.version, version);
        let base = strings.len() as u32;
        strings.extend_from_slice(&unit.strings);
        let mut own = Vec::new();
        for ((name, ..), (content, part)) in SECTIONS.iter().zip(contents.iter_mut().zip(&unit.sections)) {
            own.push((content.len() as u32, part.len() as u32));
            // From version 5 on, there is a header.
            let numbers_at = if *name != ".debug_str_offsets.dwo" {
                part.len()
            } else if version == 5 && !part.is_empty() {
                8
            } else {
                0
            };
            content.extend_from_slice(&part[..numbers_at]);
            for number in part[numbers_at..].as_chunks().0 {
                content.extend_from_slice(&(u32::from_le_bytes(*number) + base).to_le_bytes());
            }
        }
        places.push(own);
    }
    let columns: Vec<usize> = (0..SECTIONS.len()).filter(|number| !contents[*number].is_empty()).collect();
    let numbers: Vec<u32> =
        columns.iter().map(|at| if version == 5 { SECTIONS[*at].1 } else { SECTIONS[*at].2 }).collect();
    let index = index(version, &numbers, &units, |unit, column| places[unit][columns[column]]);
    std::fs::write(folder.join("empty.c"), "").unwrap();
    run(folder, &["gcc", "-c", "-o", package.to_str().unwrap(), "empty.c"])?;
    let add = |name: &str, content: &[u8]| {
        std::fs::write(folder.join("content"), content).unwrap();
        let argument = format!("{name}=content");
        run(folder, &["objcopy", "--add-section", &argument, package.to_str().unwrap()])
    };
    for column in columns {
        add(SECTIONS[column].0, &contents[column])?;
    }
    add(STRINGS, &strings)?;
    add(".debug_cu_index", &index)?;
    Some(())
}

/// The index: a table of numbers of units, then where the parts of each are.
fn index(
    version: u32,
    columns: &[u32],
    units: &[Unit],
    place: impl Fn(usize, usize) -> (u32, u32),
) -> Vec<u8> {
    let slots = (units.len() * 3 / 2 + 1).next_power_of_two();
    let (mut ids, mut rows) = (vec![0u64; slots], vec![0u32; slots]);
    for (row, unit) in (1..).zip(units) {
        let step = ((unit.id >> 32) as usize & (slots - 1)) | 1;
        let mut slot = unit.id as usize & (slots - 1);
        while rows[slot] != 0 {
            slot = (slot + step) & (slots - 1);
        }
        (ids[slot], rows[slot]) = (unit.id, row);
    }
    let mut out = Vec::new();
    let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
    [version, columns.len() as u32, units.len() as u32, slots as u32].into_iter().for_each(&mut put);
    ids.iter().for_each(|id| [*id as u32, (*id >> 32) as u32].into_iter().for_each(&mut put));
    rows.into_iter().for_each(&mut put);
    columns.iter().copied().for_each(&mut put);
    let cells = || (0..units.len()).flat_map(|unit| (0..columns.len()).map(move |column| (unit, column)));
    cells().for_each(|(unit, column)| put(place(unit, column).0));
    cells().for_each(|(unit, column)| put(place(unit, column).1));
    out
}

/// The split unit of a `.dwo` file.
struct Unit {
    /// The number that it shares with its skeleton.
    id: u64,
    /// Of the index: 5, or 2 for all before.
    version: u32,
    sections: [Vec<u8>; SECTIONS.len()],
    strings: Vec<u8>,
}

impl Unit {
    fn read(file: &Path) -> Option<Self> {
        let bytes = std::fs::read(file).unwrap();
        let layout = Layout::parse(&bytes).unwrap();
        let section = |name: &str| {
            let section = layout.section(name.as_bytes());
            section.map(|section| section.bytes(&bytes).unwrap().to_vec()).unwrap_or_default()
        };
        let told = run(Path::new("/"), &["readelf", "--debug-dump=info", file.to_str().unwrap()])?;
        let line = told.lines().find(|line| line.contains("DWO ID:") || line.contains("DW_AT_GNU_dwo_id"));
        let id = line.unwrap().split_once("0x").unwrap().1.trim();
        let sections = SECTIONS.map(|(name, ..)| section(name));
        let version = u16::from_le_bytes(*sections[0][4..].first_chunk().unwrap());
        Some(Self {
            id: u64::from_str_radix(id, 16).unwrap(),
            version: if version == 5 { 5 } else { 2 },
            sections,
            strings: section(STRINGS),
        })
    }
}
