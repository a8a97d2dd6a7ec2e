//! Who looks on: the programs that people make captures with.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::process::Supervised;
use crate::support::{Missing, cache};

const SOON: Duration = Duration::from_secs(30);

/// A way to make a capture.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// `tcpdump -i lo`: pcap, microseconds, Ethernet.
    Plain,
    /// The same with nanoseconds.
    Nanoseconds,
    /// `tcpdump -i any`: Linux cooked, version 2.
    Any,
    /// The same in version 1.
    AnyVersion1,
    /// `dumpcap`: pcapng.
    Dumpcap,
    /// `dumpcap` over all interfaces of its own choice: pcapng with Linux cooked packets.
    DumpcapAny,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Nanoseconds,
        Self::Any,
        Self::AnyVersion1,
        Self::Dumpcap,
        Self::DumpcapAny,
    ];

    /// The file of the run with this name.
    pub(crate) fn file(self, run: &str) -> String {
        match self {
            Self::Plain => format!("{run}.pcap"),
            Self::Nanoseconds => format!("{run}-nanoseconds.pcap"),
            Self::Any => format!("{run}-any.pcap"),
            Self::AnyVersion1 => format!("{run}-any-1.pcap"),
            Self::Dumpcap => format!("{run}-dumpcap.pcapng"),
            Self::DumpcapAny => format!("{run}-dumpcap-any.pcapng"),
        }
    }

    fn command(self) -> &'static [&'static str] {
        // Each packet is handed on at once, and there is room for those of a whole session.
        match self {
            Self::Plain => &["tcpdump", "-i", "lo"],
            Self::Nanoseconds => &["tcpdump", "-i", "lo", "--time-stamp-precision=nano"],
            Self::Any => &["tcpdump", "-i", "any", "-y", "LINUX_SLL2"],
            Self::AnyVersion1 => &["tcpdump", "-i", "any", "-y", "LINUX_SLL"],
            Self::Dumpcap => &["dumpcap", "-i", "lo", "-n"],
            Self::DumpcapAny => &["dumpcap", "-i", "any", "-n"],
        }
    }
}

/// A running capture.
pub(crate) struct Lookout {
    process: Supervised,
    file: PathBuf,
}

impl Lookout {
    /// Begins to capture what goes from and to `address`; returns when it does. With `limit` it ends after so
    /// many packets.
    ///
    /// # Errors
    /// [`Missing`] where the program is not there, or may not capture, with what it says.
    pub(crate) fn start(
        kind: Kind,
        file: &Path,
        address: SocketAddr,
        limit: Option<u32>,
    ) -> Result<Self, Missing> {
        let name = kind.command()[0];
        // They say their version where they may do nothing else.
        cache::run(Command::new(name).arg("--version"))?;
        let filter = format!("tcp port {} and host {}", address.port(), address.ip());
        let mut command: Vec<String> = kind.command().iter().map(|&word| word.to_owned()).collect();
        let is_tcpdump = command[0] == "tcpdump";
        let file = file.to_path_buf();
        command.extend(["-w".to_owned(), file.display().to_string()]);
        if is_tcpdump {
            let options = [
                "-s",
                "0",
                "-n",
                "-U",
                "-Z",
                "root",
                "--immediate-mode",
                "-B",
                "65536",
            ];
            command.extend(options.map(str::to_owned));
        } else {
            command.extend(["-B", "64", "-f"].map(str::to_owned));
        }
        if let Some(limit) = limit {
            command.extend(["-c".to_owned(), limit.to_string()]);
        }
        command.push(filter);
        if !is_tcpdump {
            // `-f FILTER` must be neighbours.
            let filter = command.pop().expect("it was pushed");
            let at = command
                .iter()
                .position(|word| word == "-f")
                .expect("it was pushed");
            command.insert(at + 1, filter);
        }
        let process = Supervised::spawn(&command, &[], &cache::log_file("lookout"), None);
        let mut lookout = Self { process, file };
        lookout.wait_until_it_looks(is_tcpdump)?;
        Ok(lookout)
    }

    fn wait_until_it_looks(&mut self, is_tcpdump: bool) -> Result<(), Missing> {
        let said = if is_tcpdump { "listening on" } else { "File:" };
        let deadline = Instant::now() + SOON;
        while !self.process.log().contains(said) {
            if self.process.ended().is_some() || Instant::now() > deadline {
                return Err(Missing(format!("nobody may look on: {}", self.process.log())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends it; the file is then whole.
    ///
    /// # Panics
    /// If it has lost a packet.
    pub(crate) fn end(mut self) -> PathBuf {
        if self.process.ended().is_none() {
            self.process.signal("TERM");
        }
        let ended = self.process.wait(SOON);
        let log = self.process.log();
        assert!(ended.is_some(), "{log}");
        let is_whole = log.contains("\n0 packets dropped by kernel")
            || log.contains("Packets received/dropped on interface");
        assert!(is_whole, "{log}");
        self.file
    }
}
