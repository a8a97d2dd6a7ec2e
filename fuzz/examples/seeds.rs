//! Writes the inputs to begin with into `corpus/<target>/`, where `cargo fuzz` looks for them.

use std::{fs, io, path::Path};

/// Those of the targets of files, as they are.
const FILES: [(&str, &[u8]); 7] = [
    ("recording", include_bytes!("../seeds/recording/exchanges.jsonl")),
    ("settings", include_bytes!("../seeds/settings/report.txt")),
    ("settings", include_bytes!("../seeds/settings/reach.txt")),
    ("settings", include_bytes!("../seeds/settings/diff.txt")),
    ("settings", include_bytes!("../seeds/settings/explain.txt")),
    ("settings", include_bytes!("../seeds/settings/rules.txt")),
    (
        "snapshot",
        include_bytes!("../../tests/golden/snapshot-v1-first.cqlens.json"),
    ),
];

fn main() -> io::Result<()> {
    for (target, _) in cqlens_fuzz::TARGETS {
        write(target, cqlens_fuzz::seeds::of(target).iter().map(Vec::as_slice))?;
    }
    for target in ["recording", "settings", "snapshot"] {
        let own = FILES.iter().filter(|(of, _)| *of == target);
        write(target, own.map(|(_, seed)| *seed))?;
    }
    Ok(())
}

fn write<'a>(target: &str, seeds: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    for (number, seed) in seeds.enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    Ok(())
}
