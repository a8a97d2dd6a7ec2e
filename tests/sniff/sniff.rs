//! Runs `cqlens sniff` of this build, and reads the recorded captures.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::sniff::packets::Capture;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// What a run has said and written.
pub(crate) struct Sniffed {
    pub(crate) output: Output,
    /// None where it has written none.
    pub(crate) report: Option<Value>,
}

impl Sniffed {
    /// The report.
    ///
    /// # Panics
    /// Where there is none, with what was said.
    pub(crate) fn report(&self) -> &Value {
        let Some(report) = &self.report else {
            panic!("no report: {:?}\n{}", self.output.status, self.said())
        };
        report
    }

    /// Standard output and error.
    pub(crate) fn said(&self) -> String {
        [&self.output.stdout, &self.output.stderr]
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .concat()
    }

    /// The same, and what the report says before any number.
    pub(crate) fn told(&self) -> String {
        let notices = self
            .report
            .iter()
            .filter_map(|report| report["notices"].as_array())
            .flatten();
        let lines = notices.filter_map(|notice| Some(format!("{}\n", notice.as_str()?)));
        self.said() + &lines.collect::<String>()
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

/// A folder for captures, snapshots and the report; the key of hashes is the one that the recorded captures
/// were made with.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("snapshots")).unwrap();
        let place = Self { folder };
        let key = place.path("hash.key");
        std::fs::copy(captures().join("hash.key"), &key).unwrap();
        // Others can read the recorded one.
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file for [`Place::sniff`].
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Sniffs these files.
    pub(crate) fn sniff(&self, files: &[&Path], more: &[&str]) -> Sniffed {
        let _ = std::fs::remove_file(self.path("report.json"));
        let output = self.command(files, more).stdin(Stdio::null()).output().unwrap();
        self.sniffed(output)
    }

    /// Sniffs what comes on standard input.
    pub(crate) fn sniff_stream(&self, bytes: &[u8], more: &[&str]) -> Sniffed {
        let _ = std::fs::remove_file(self.path("report.json"));
        let mut command = self.command(&[Path::new("-")], more);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        // It may say no and go away before it has read everything.
        let writer = std::thread::spawn(move || drop(input.write_all(&bytes)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        self.sniffed(output)
    }

    fn command(&self, files: &[&Path], more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("sniff").args(files).args(more);
        command.arg("--report").arg(self.path("report.json"));
        command.arg("--snapshot-dir").arg(self.path("snapshots"));
        command.arg("--hash-key-file").arg(self.path("hash.key"));
        command
    }

    fn sniffed(&self, output: Output) -> Sniffed {
        let report = std::fs::read(self.path("report.json")).ok();
        Sniffed {
            output,
            report: report.map(|bytes| serde_json::from_slice(&bytes).unwrap()),
        }
    }
}

/// Where the recorded captures are.
pub(crate) fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sniff/captures")
}

/// A recorded capture.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

/// All of them that have a report of their own.
pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = std::fs::read_dir(captures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|file| {
            let name = file
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .split('.')
                .next()
                .unwrap()
                .to_owned();
            let is_capture = file.to_str().unwrap().contains(".pcap");
            let has_report = captures().join(format!("{name}.json.gz")).exists();
            (is_capture && has_report).then_some(Recorded { name, file })
        })
        .collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    assert!(all.len() >= 20, "{} captures", all.len());
    all
}

/// The one with this name.
pub(crate) fn recording(name: &str) -> Recorded {
    recorded()
        .into_iter()
        .find(|recorded| recorded.name == name)
        .unwrap()
}

impl Recorded {
    /// What the proxy has reported of the same traffic.
    pub(crate) fn report(&self) -> Value {
        let bytes = unpacked(&captures().join(format!("{}.json.gz", self.name)));
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Its packets.
    pub(crate) fn capture(&self) -> Capture {
        Capture::read(&unpacked(&self.file))
    }
}

/// The content of a file that may be packed.
pub(crate) fn unpacked(file: &Path) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    let mut content = Vec::new();
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(&bytes[..])
            .read_to_end(&mut content)
            .map(drop)
            .unwrap(),
        Some("zst") => {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(&bytes[..]).unwrap();
            decoder.read_to_end(&mut content).unwrap();
        }
        _ => content = bytes,
    }
    content
}
