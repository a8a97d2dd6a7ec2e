//! Writes the inputs to begin with into `corpus/<target>/`, where `cargo fuzz` looks for them.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    for (target, _) in cqlens_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in cqlens_fuzz::seeds::of(target).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:04}")), seed)?;
        }
    }
    Ok(())
}
