//! Prints rows, rows per second and bytes per row for ELF files: `compile_rate FILE…`.

use std::time::Duration;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>10} {:>9} {:>8} {:>6} {:>8} {:>9}  file",
        "rows", "Mrows/s", "B/row", "rules", "ms", "decode ms"
    );
    for path in std::env::args().skip(1) {
        let elf = std::fs::read(&path)?;
        let mut best = Duration::MAX;
        let mut table = unwind::Table::default();
        for _ in 0..3 {
            let start = Instant::now();
            table = unwind::compile(&elf)?;
            best = best.min(start.elapsed());
        }
        let encoded = unwind::encode(&table);
        let start = Instant::now();
        let decoded = unwind::decode(&encoded)?;
        let decode = start.elapsed();
        assert_eq!(decoded, table, "{path}: encoding does not go both ways");
        let rows = table.rows.len();
        println!(
            "{rows:>10} {:>9.2} {:>8.3} {:>6} {:>8.2} {:>9.2}  {path}",
            rows as f64 / best.as_secs_f64() / 1e6,
            table.byte_size() as f64 / rows as f64,
            table.rules.len(),
            best.as_secs_f64() * 1e3,
            decode.as_secs_f64() * 1e3,
        );
        println!("           {:?}", table.stats);
    }
    Ok(())
}
