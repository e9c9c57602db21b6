//! CPU time, memory and answers of symbolizers, for addresses spread over the code of one file.
//!
//! Each tool runs in a process of its own, which reads addresses from a file and writes the answers to one, so that nothing of one run helps
//! the next but the kernel's cache of the file, and for [`LATER`] what perf-agent keeps of files for later runs. All tools write linkage names;
//! perf-agent makes readable ones too, as it does for a profile.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use anyhow::{Context as _, Result, bail};
use elf::Layout;
use profile::Svma;
use symbols::{ObjectFile, ObjectSource, Options, RecordStore, Symbolizer};
use sys::filemap::FileMap;

/// The tools, as they are called in tables.
pub const TOOLS: [&str; 4] = [OURS, LATER, "crate addr2line", PEER];

/// perf-agent, which meets the file for the first time.
pub const OURS: &str = "perf-agent";

/// perf-agent, which kept what an earlier run learned of the file.
pub const LATER: &str = "perf-agent, a later run";

/// The tool whose answers are compared.
pub const PEER: &str = "llvm-symbolizer";

/// Largest size of a section that is decompressed.
const MAX_SECTION: u64 = 1 << 30;

/// Before the time that a tool tells on standard error.
const ANSWERS: &str = "answers ";

/// Bytes of answers that are written at once.
const BUFFER: usize = 1 << 20;

/// Addresses that a later run takes at once. A first run takes all at once, so that each unit is read once.
const LATER_BATCH: usize = 8192;

/// What one run of a tool cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// The part of it without reading addresses and printing answers; of tools that tell it.
    pub answers_s: Option<f64>,
    /// Seconds from the start to the end of the process.
    pub wall_s: f64,
    /// Largest resident set, file pages included.
    pub peak_mib: f64,
}

/// The functions at an address, innermost first: linkage name, base name of the file, line.
pub type Chain = Vec<(String, String, u32)>;

/// Distinct addresses, spread evenly but irregularly over the code of a file, sorted.
///
/// # Errors
/// If the file is no ELF file with code.
pub fn addresses(file: &Path, count: usize) -> Result<Vec<u64>> {
    let map = FileMap::new(File::open(file).with_context(|| format!("open {}", file.display()))?)?;
    let layout = Layout::parse(&map).with_context(|| format!("{} is no ELF file", file.display()))?;
    let text = layout.section(b".text").with_context(|| format!("{} has no code", file.display()))?;
    let (start, size) = (text.address, text.size.max(1));
    let mut chosen = BTreeSet::new();
    let mut state = 1u64;
    while chosen.len() < count.min(usize::try_from(size / 2)?) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chosen.insert(start + (state >> 16) % size);
    }
    Ok(chosen.into_iter().collect())
}

/// A shared library of so many functions without debug information, with names as C++ has them.
///
/// # Errors
/// If it cannot be assembled.
pub fn library(folder: &Path, functions: usize) -> Result<PathBuf> {
    let (source, library) = (folder.join("library.s"), folder.join("library.so"));
    let mut out = BufWriter::with_capacity(BUFFER, File::create(&source)?);
    writeln!(out, "    .text")?;
    for number in 0..functions {
        let name = format!("_ZN7library6detail11Component{:03}15function{number:07}ERKSsi", number % 1000);
        writeln!(
            out,
            "    .globl {name}\n    .type {name}, @function\n{name}:\n    .skip 16\n    .size {name}, 16"
        )?;
    }
    out.flush()?;
    let mut command = Command::new("gcc");
    command.args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source);
    let status = command.status().context("run gcc")?;
    if !status.success() {
        bail!("gcc ended with {status}");
    }
    Ok(library)
}

/// Runs a tool once over the addresses in `input`, and writes its answers to `output`. `names`: where perf-agent keeps names for later runs.
///
/// # Errors
/// If it cannot be run or fails.
pub fn run(tool: &str, file: &Path, input: &Path, output: &Path, names: &Path) -> Result<Cost> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(&own);
    command.arg("symbolize-measured").arg(input).arg(output).arg("--");
    if tool == PEER {
        command.args([tool, "--no-demangle", "--functions=linkage", "--inlines"]);
        command.arg(format!("--obj={}", file.display()));
    } else {
        command.arg(&own).arg("symbolize-with").arg(tool).arg(file).arg(names);
    }
    let told = command.output().with_context(|| format!("run {tool}"))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let more = String::from_utf8_lossy(&told.stderr);
    let answers_s = more.lines().find_map(|line| line.strip_prefix(ANSWERS)?.parse().ok());
    match numbers[..] {
        [cpu_s, wall_s, peak_mib] if told.status.success() => Ok(Cost { cpu_s, answers_s, wall_s, peak_mib }),
        _ => bail!("{tool} failed: {text}{more}"),
    }
}

/// Runs a command and prints what it cost. In a process of its own, because the largest resident set is that of all children.
///
/// # Errors
/// If it cannot be run or fails.
pub fn measured(input: &Path, output: &Path, command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(File::open(input)?).stdout(File::create(output)?);
    let started = Instant::now();
    let status = child.status().with_context(|| format!("run {program}"))?;
    let wall_s = started.elapsed().as_secs_f64();
    let usage = sys::usage::usage_of_children()?;
    println!(
        "{:.4} {wall_s:.4} {:.1}",
        (usage.user + usage.system).as_secs_f64(),
        usage.peak_rss_bytes as f64 / 1048576.0
    );
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}

/// Answers the addresses on standard input, in the format of llvm-symbolizer.
///
/// # Errors
/// If the tool is unknown or the file cannot be read.
pub fn answer(tool: &str, file: &Path, names: &Path) -> Result<()> {
    let lines = std::io::stdin().lock().lines();
    let parse = |line: std::io::Result<String>| {
        let line = line?;
        u64::from_str_radix(line.trim_start_matches("0x"), 16).with_context(|| format!("read address {line}"))
    };
    let addresses = lines.map(parse).collect::<Result<Vec<u64>>>()?;
    match tool {
        OURS => ours(file, &addresses, None),
        LATER => ours(file, &addresses, Some(RecordStore::open(names, RecordStore::CAP_BYTES)?)),
        "crate addr2line" => addr2line(file, &addresses),
        _ => bail!("unknown tool {tool}"),
    }
}

fn ours(file: &Path, addresses: &[u64], names: Option<RecordStore>) -> Result<()> {
    let object = ObjectFile {
        source: ObjectSource::Path(file.to_owned()),
        display_path: file.to_string_lossy().into_owned(),
        root: None,
        build_id: None,
    };
    let svmas: Vec<Svma> = addresses.iter().copied().map(Svma).collect();
    let batch = if names.is_some() { LATER_BATCH } else { svmas.len().max(1) };
    let mut symbolizer = Symbolizer::new(Options { records: names.map(Arc::new), ..Options::default() });
    let mut out = BufWriter::with_capacity(BUFFER, std::io::stdout().lock());
    let cpu = || sys::usage::usage().map(|usage| usage.user + usage.system);
    let mut spent = Duration::ZERO;
    for batch in svmas.chunks(batch) {
        let before = cpu()?;
        let answers = symbolizer.object(&object, batch);
        spent += cpu()?.saturating_sub(before);
        for lines in answers {
            if lines.is_empty() {
                writeln!(out, "??\n??:0:0")?;
            }
            for line in lines {
                print(&mut out, &line.system_name, &line.file, line.line, line.column)?;
            }
            out.write_all(b"\n")?;
        }
    }
    out.flush()?;
    symbolizer.save_records();
    eprintln!("{ANSWERS}{:.4}", spent.as_secs_f64());
    Ok(())
}

/// One function of an answer. The same for all tools of this process, and without formatting, so that it is a small part of their time.
fn print(out: &mut impl std::io::Write, name: &str, file: &str, line: u32, column: u32) -> Result<()> {
    out.write_all(name.as_bytes())?;
    out.write_all(b"\n")?;
    out.write_all(file.as_bytes())?;
    for mut number in [line, column] {
        let (mut digits, mut first) = ([0; 10], 10);
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        out.write_all(b":")?;
        out.write_all(&digits[first..])?;
    }
    out.write_all(b"\n")?;
    Ok(())
}

fn addr2line(file: &Path, addresses: &[u64]) -> Result<()> {
    let map = FileMap::new(File::open(file)?)?;
    let layout = Layout::parse(&map).context("no ELF file")?;
    let mut sections = Vec::new();
    for id in [
        gimli::SectionId::DebugAbbrev,
        gimli::SectionId::DebugAddr,
        gimli::SectionId::DebugAranges,
        gimli::SectionId::DebugInfo,
        gimli::SectionId::DebugLine,
        gimli::SectionId::DebugLineStr,
        gimli::SectionId::DebugRanges,
        gimli::SectionId::DebugRngLists,
        gimli::SectionId::DebugStr,
        gimli::SectionId::DebugStrOffsets,
    ] {
        let section = layout.section(id.name().as_bytes());
        let bytes = section.and_then(|section| section.decompressed(&map, MAX_SECTION));
        sections.push((id, bytes.unwrap_or_default()));
    }
    let load = |id| -> Result<_, gimli::Error> {
        let found = sections.iter().find(|(name, _)| *name == id);
        Ok(EndianSlice::new(found.map_or(&[][..], |(_, bytes)| bytes), LittleEndian))
    };
    let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(load)?)?;
    let mut out = BufWriter::with_capacity(BUFFER, std::io::stdout().lock());
    for address in addresses {
        let mut frames = context.find_frames(*address).skip_all_loads()?;
        let mut is_known = false;
        while let Some(frame) = frames.next()? {
            is_known = true;
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let place = frame.location.as_ref();
            let file = place.and_then(|place| place.file).unwrap_or("??");
            let (line, column) =
                place.map_or((0, 0), |place| (place.line.unwrap_or(0), place.column.unwrap_or(0)));
            print(&mut out, name.as_deref().unwrap_or("??"), file, line, column)?;
        }
        if !is_known {
            writeln!(out, "??\n??:0:0")?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Reads the answers that a run wrote, one for each address.
///
/// # Errors
/// If the file cannot be read.
pub fn read(output: &Path) -> Result<Vec<Chain>> {
    let mut chains = vec![Chain::new()];
    let mut lines = BufReader::new(File::open(output)?).lines();
    while let Some(name) = lines.next().transpose()? {
        if name.is_empty() {
            chains.push(Chain::new());
            continue;
        }
        let place = lines.next().transpose()?.context("a name without a place")?;
        let mut words = place.rsplitn(3, ':').skip(1);
        let line = words.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let file = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        let chain = chains.last_mut().context("no answer")?;
        chain.push((name, file, line));
    }
    chains.pop_if(|chain| chain.is_empty());
    Ok(chains)
}
