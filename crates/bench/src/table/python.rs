//! What the frames of Python add to the kernel time of a sample.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bench::cost::python;

use super::reproduce::reproduce;

pub fn python(
    out: &Path,
    agent: &(PathBuf, Vec<String>),
    interpreters: &[PathBuf],
    seconds: f64,
    rate_hz: u32,
) -> Result<()> {
    println!(
        "Kernel time per sample with and without the frames of Python; what they add, in samples of 40 native frames.\n"
    );
    println!("| Python | functions | shown | samples | auto, ns | off, ns | 40 native frames, ns | ratio |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for interpreter in interpreters {
        for frames in [10, 50, 200] {
            let c = python::measure(out, agent, interpreter, frames, seconds, rate_hz)?;
            println!(
                "| {} | {frames} | {:.1} | {} | {:.0} | {:.0} | {:.0} | {:.2} |",
                c.version,
                c.shown,
                c.samples,
                c.with_ns,
                c.without_ns,
                c.native_ns,
                c.ratio()
            );
        }
    }
    let paths: Vec<String> = interpreters.iter().map(|path| path.display().to_string()).collect();
    reproduce(&format!("python {} --seconds {seconds} --rate {rate_hz}", paths.join(" ")));
    Ok(())
}
