//! Names the addresses on standard input (hexadecimal, one a line), and tells what that costs:
//!
//!     cargo run --release -p perf-agent-symbols --example name_rate -- FILE [--records DIR] [--print] < ADDRESSES
//!
//! `--records`: what earlier runs kept in this directory is used, and kept for later ones. `--print`: writes the answers to standard output.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

use profile::Svma;
use symbols::{ObjectFile, ObjectSource, Options, RecordStore, Symbolizer};
use sys::usage::usage;

/// Addresses that are looked up at once.
const BATCH: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("no file")?;
    let (mut options, mut prints) = (Options::default(), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--print" => prints = true,
            "--records" => {
                let directory = arguments.next().ok_or("no directory")?;
                let records = RecordStore::open(directory.as_ref(), RecordStore::CAP_BYTES)?;
                options.records = Some(Arc::new(records));
            }
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let parse = |line: std::io::Result<String>| -> Result<Svma, Box<dyn std::error::Error>> {
        Ok(Svma(u64::from_str_radix(line?.trim_start_matches("0x"), 16)?))
    };
    let addresses = std::io::stdin().lock().lines().map(parse).collect::<Result<Vec<Svma>, _>>()?;
    let object = ObjectFile {
        source: ObjectSource::Path(file.clone().into()),
        display_path: file,
        root: None,
        build_id: None,
    };
    let cpu_ms = || -> std::io::Result<f64> {
        let used = usage()?;
        Ok((used.user + used.system).as_secs_f64() * 1e3)
    };
    let (begun, before) = (Instant::now(), cpu_ms()?);
    let mut symbolizer = Symbolizer::new(options);
    let first: Vec<Svma> = addresses.iter().copied().take(1).collect();
    let _ = symbolizer.object(&object, &first);
    let (first_wall, first_cpu) = (begun.elapsed().as_secs_f64() * 1e3, cpu_ms()? - before);
    let (mut frames, mut out) = (0, String::new());
    for batch in addresses.chunks(BATCH) {
        for lines in symbolizer.object(&object, batch) {
            frames += lines.len();
            if prints {
                if lines.is_empty() {
                    out.push_str("??\n??:0:0\n");
                }
                for line in &lines {
                    writeln!(out, "{}\n{}:{}:{}", line.system_name, line.file, line.line, line.column)?;
                }
                out.push('\n');
            }
        }
    }
    let all = cpu_ms()? - before;
    symbolizer.save_records();
    let saved = cpu_ms()? - before - all;
    std::io::stdout().write_all(out.as_bytes())?;
    let peak = usage()?.peak_rss_bytes >> 20;
    eprintln!(
        "{} addresses, {frames} frames: first answer {first_wall:.1} ms wall, {first_cpu:.1} ms CPU; all {all:.1} ms CPU; \
         keeping {saved:.1} ms CPU; process {:.1} ms CPU, peak {peak} MiB",
        addresses.len(),
        cpu_ms()?
    );
    Ok(())
}
