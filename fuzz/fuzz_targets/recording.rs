//! The lines of a recording after its header, whatever is in them: all are exchanges, or are left out with a reason.
#![no_main]

use std::{fs::File, io::Write};

use cqlens_rehearse::{
    gate::Permissions,
    recording::{ENDING, FORMAT, RecordingReader},
    statement::StatementCache,
};
use flate2::{Compression, write::GzEncoder};

libfuzzer_sys::fuzz_target!(init: cqlens_fuzz::seeds::write("recording"), |input: &[u8]| {
    let folder = tempfile::tempdir().expect("there are temporary files");
    let path = folder.path().join(format!("fuzzed{ENDING}"));
    let file = File::create(&path).expect("it is new");
    let mut out = GzEncoder::new(file, Compression::none());
    writeln!(
        out,
        r#"{{"format":"{FORMAT}","cqlens":"0","source":"a","started":"2026-11-21T06:00:00Z","run":"0000000000000001","values":"clear"}}"#
    )
    .and_then(|()| out.write_all(input))
    .and_then(|()| out.finish().map(drop))
    .expect("there is room");
    let Ok(reader) = RecordingReader::open(&path) else {
        return;
    };
    let mut statements = StatementCache::default();
    for exchange in reader {
        // No permission lets anything but reads through.
        let allowed = Permissions::default().check(&exchange.request, &mut statements);
        if allowed.is_ok() {
            for statement in &exchange.request.statements {
                let text = statement.cql.trim_start().to_ascii_uppercase();
                let is_read = text.starts_with("SELECT") || text.starts_with(['/', '-']);
                assert!(is_read, "sent: {}", statement.cql);
            }
        }
    }
});
