//! Key logs: the secrets of TLS sessions, as clients write them for Wireshark (`SSLKEYLOGFILE`, the NSS format), in
//! files and in the decryption secrets of pcapng.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foldhash::HashMap;

/// The random of a ClientHello, by which a session's secrets are found.
pub(super) type ClientRandom = [u8; 32];

/// A secret of TLS: 48 bytes at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    bytes: [u8; MAX_SECRET],
    length: usize,
}

const MAX_SECRET: usize = 48;

impl Secret {
    pub(super) fn new(secret: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_SECRET];
        bytes.get_mut(..secret.len())?.copy_from_slice(secret);
        Some(Self {
            bytes,
            length: secret.len(),
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Never shown.
impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// What is known of one session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionSecrets {
    /// TLS 1.2: the master secret.
    pub(super) master: Option<Secret>,
    /// TLS 1.3: the first secrets of application data, the client's and the server's.
    pub(super) traffic: [Option<Secret>; 2],
}

/// Secrets of sessions, shared by what reads captures and what decrypts them. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct KeyLog(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    sessions: HashMap<ClientRandom, SessionSecrets>,
    file: Option<GrowingFile>,
    /// Whether any secret, or a file of them, was given.
    is_given: bool,
    left_out: u64,
}

/// Sessions whose secrets are kept: some 200 bytes each.
const MAX_SESSIONS: usize = 100_000;

/// A file that the client may still write.
#[derive(Debug)]
struct GrowingFile {
    path: PathBuf,
    /// How far it has been read, at the end of a line.
    read: u64,
}

/// Read at once of a file.
const CHUNK: u64 = 1 << 20;

/// Longer lines are none of a key log.
const MAX_LINE: usize = 4 << 10;

impl KeyLog {
    /// The secrets of this file, and those that are written to it later.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no key log.
    pub fn open(path: &Path) -> io::Result<Self> {
        let log = Self::default();
        let mut entries = log.entries();
        entries.is_given = true;
        entries.file = Some(GrowingFile {
            path: path.to_owned(),
            read: 0,
        });
        let (lines, known) = entries.read_file()?;
        if lines > 0 && known == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it has no line of a TLS key log",
            ));
        }
        drop(entries);
        Ok(log)
    }

    /// Adds the lines of a part of a key log.
    pub fn add(&self, lines: &[u8]) {
        let mut entries = self.entries();
        entries.is_given = true;
        entries.add_lines(lines);
    }

    /// Whether any was given.
    pub fn is_given(&self) -> bool {
        self.entries().is_given
    }

    /// Lines that were left out because there were too many sessions.
    pub fn left_out(&self) -> u64 {
        self.entries().left_out
    }

    /// What is known of the session with that random.
    pub(super) fn of(&self, random: &ClientRandom) -> Option<SessionSecrets> {
        let mut entries = self.entries();
        if !entries.sessions.contains_key(random) {
            // It may have been written meanwhile; what cannot be read has no secrets.
            let _ = entries.read_file();
        }
        entries.sessions.get(random).copied()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Reads what the file has more than before; the number of lines, and of those that are known.
    fn read_file(&mut self) -> io::Result<(u64, u64)> {
        let Some(file) = &mut self.file else {
            return Ok((0, 0));
        };
        let mut source = File::open(&file.path)?;
        if source.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut read = file.read;
        if read > 0 {
            source.seek(SeekFrom::Start(read))?;
        }
        let (mut lines, mut known) = (0, 0);
        let mut left = Vec::new();
        loop {
            let before = left.len();
            source.by_ref().take(CHUNK).read_to_end(&mut left)?;
            let is_end = left.len() == before;
            // The last line may not be whole yet.
            let whole = match left.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                None if left.len() > MAX_LINE => left.len(),
                None => 0,
            };
            let part = left.get(..whole).unwrap_or_default();
            lines += count_lines(part);
            known += self.add_lines(part);
            left.drain(..whole);
            read += whole as u64;
            if is_end {
                break;
            }
        }
        if !left.is_empty() && left.len() <= MAX_LINE {
            lines += 1;
            known += self.add_lines(&left);
        }
        if let Some(file) = &mut self.file {
            file.read = read;
        }
        Ok((lines, known))
    }

    /// Adds lines; how many of them are known.
    fn add_lines(&mut self, lines: &[u8]) -> u64 {
        let known = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| self.add_line(line).is_some());
        known.count() as u64
    }

    /// `LABEL <client random> <secret>`, both in hexadecimal digits. Others, such as those of handshakes, are known
    /// and not needed.
    fn add_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let (label, random, secret) = (words.next()?, words.next()?, words.next()?);
        let random: ClientRandom = hex(random)?.try_into().ok()?;
        let secret = Secret::new(&hex(secret)?)?;
        let is_secret = label
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'0'..=b'9'));
        let is_needed = matches!(
            label,
            b"CLIENT_RANDOM" | b"CLIENT_TRAFFIC_SECRET_0" | b"SERVER_TRAFFIC_SECRET_0"
        );
        if !is_needed {
            return is_secret.then_some(());
        }
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&random) {
            self.left_out += 1;
            return Some(());
        }
        let session = self.sessions.entry(random).or_default();
        match label {
            b"CLIENT_RANDOM" => session.master = Some(secret),
            b"CLIENT_TRAFFIC_SECRET_0" => session.traffic[0] = Some(secret),
            _ => session.traffic[1] = Some(secret),
        }
        Some(())
    }
}

/// Lines that say anything: neither empty nor comments.
fn count_lines(lines: &[u8]) -> u64 {
    let lines = lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .count() as u64
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() > 2 * 64 || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let bytes = digits
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    bytes.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    fn line(label: &str, random: u8, secret: u8, length: usize) -> String {
        let hex = |byte: u8, count| format!("{byte:02x}").repeat(count);
        format!("{label} {} {}\n", hex(random, 32), hex(secret, length))
    }

    #[test]
    fn secrets_are_found_by_the_random_of_the_client() {
        let log = KeyLog::default();
        assert!(!log.is_given());
        log.add(b"# SSL/TLS secrets log file\r\n");
        log.add(line("CLIENT_RANDOM", 1, 7, 48).replace('\n', "\r\n").as_bytes());
        log.add(line("CLIENT_TRAFFIC_SECRET_0", 2, 8, 32).as_bytes());
        log.add(
            line("SERVER_TRAFFIC_SECRET_0", 2, 9, 48)
                .to_uppercase()
                .as_bytes(),
        );
        log.add(line("EXPORTER_SECRET", 3, 9, 32).as_bytes());
        assert_eq!(log.of(&[1; 32]).unwrap().master, Secret::new(&[7; 48]));
        let traffic = log.of(&[2; 32]).unwrap().traffic;
        assert_eq!(traffic, [Secret::new(&[8; 32]), Secret::new(&[9; 48])]);
        assert!(log.of(&[3; 32]).is_none() && log.is_given());
        assert_eq!(format!("{:?}", traffic[0]), "Some(Secret)");
    }

    #[test]
    fn a_file_is_read_on_while_it_grows() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let log = KeyLog::open(file.path()).unwrap();
        let text = line("CLIENT_RANDOM", 1, 7, 48);
        file.write_all(&text.as_bytes()[..100]).unwrap();
        assert!(log.of(&[1; 32]).is_none());
        file.write_all(&text.as_bytes()[100..]).unwrap();
        assert!(log.of(&[1; 32]).is_some());
        // The last line has no end.
        file.write_all(line("CLIENT_RANDOM", 2, 7, 48).trim_end().as_bytes())
            .unwrap();
        assert!(log.of(&[2; 32]).is_some());
    }

    #[test]
    fn what_is_no_key_log_is_refused() {
        let of = |bytes: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(bytes).unwrap();
            KeyLog::open(file.path()).map(drop)
        };
        assert!(of(b"").is_ok() && of(b"# nothing yet\n\n").is_ok());
        assert!(of(line("SERVER_HANDSHAKE_TRAFFIC_SECRET", 1, 1, 32).as_bytes()).is_ok());
        assert!(of(b"-----BEGIN PRIVATE KEY-----\nabc\n").is_err());
        assert!(of(&[0; 3 << 20]).is_err());
        assert!(KeyLog::open(Path::new("/nowhere")).is_err());
        assert!(KeyLog::open(Path::new("/")).is_err());
    }

    #[test]
    fn a_bounded_number_of_sessions_is_kept() {
        let log = KeyLog::default();
        for number in 0..MAX_SESSIONS + 3 {
            log.add(format!("CLIENT_RANDOM {number:064x} {}\n", "07".repeat(48)).as_bytes());
        }
        assert_eq!(log.left_out(), 3);
    }
}
