//! A snapshot as it comes from a folder or a store: JSON or gzip, whatever is in it. What can be read is the same after
//! it was written.
#![no_main]

use cqlens_window::Snapshot;

libfuzzer_sys::fuzz_target!(init: cqlens_fuzz::seeds::write("snapshot"), |input: &[u8]| {
    let Ok(snapshot) = Snapshot::read(input) else {
        return;
    };
    let mut written = Vec::new();
    snapshot.write(&mut written).expect("it fits, since it was read");
    let again = Snapshot::read(&written[..]).expect("what was written is read");
    assert!(again == snapshot, "it has changed");
});
