//! The last line below each table.

/// Says which command makes the table again.
pub fn reproduce(arguments: &str) {
    println!("\nAgain: `cargo run --release -p bench -- {arguments}`, as root.\n");
}
