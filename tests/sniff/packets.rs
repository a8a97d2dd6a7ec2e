//! Packets and the files they are kept in: as small as the tests can have them, and not cqlens' own.

/// Ethernet; the number that a file has for it. See <https://www.tcpdump.org/linktypes.html> for all of them.
pub(crate) const ETHERNET: u32 = 1;

/// What was captured of a packet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    /// Nanoseconds since the Unix epoch.
    pub(crate) at: u64,
    /// From the link layer on; the end may be cut off.
    pub(crate) bytes: Vec<u8>,
    /// How long it was before that.
    pub(crate) length: usize,
}

/// A capture.
#[derive(Clone)]
pub(crate) struct Capture {
    /// The link layer of all packets.
    pub(crate) link: u32,
    pub(crate) packets: Vec<Packet>,
}

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Layout {
    Pcap {
        big_endian: bool,
        nanoseconds: bool,
    },
    Pcapng {
        big_endian: bool,
        nanoseconds: bool,
    },
    /// With the packet blocks of programs from before there were enhanced ones.
    PcapngObsolete {
        big_endian: bool,
        nanoseconds: bool,
    },
    /// With simple packet blocks, which have no time; packets are whole.
    PcapngSimple {
        big_endian: bool,
    },
}

/// What packets stand in.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Obsolete = 2,
    Simple = 3,
    Enhanced = 6,
}

/// What tcpdump writes.
pub(crate) const PLAIN: Layout = Layout::Pcap {
    big_endian: false,
    nanoseconds: false,
};

impl Capture {
    /// Reads what `tcpdump -w` has written on a little-endian machine.
    ///
    /// # Panics
    /// If it is anything else.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let unit = match number(0) {
            0xa1b2_c3d4 => 1000,
            0xa1b2_3c4d => 1,
            other => panic!("{other:x} is no pcap"),
        };
        let mut packets = Vec::new();
        let mut at = 24;
        while at < bytes.len() {
            let end = at + 16 + number(at + 8) as usize;
            packets.push(Packet {
                at: u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)) * unit,
                bytes: bytes[at + 16..end].to_vec(),
                length: number(at + 12) as usize,
            });
            at = end;
        }
        Self {
            link: number(20),
            packets,
        }
    }

    /// The file.
    pub(crate) fn write(&self, layout: Layout) -> Vec<u8> {
        match layout {
            Layout::Pcap {
                big_endian,
                nanoseconds,
            } => self.pcap(&mut Numbers::new(big_endian), nanoseconds),
            Layout::Pcapng {
                big_endian,
                nanoseconds,
            } => self.pcapng(&mut Numbers::new(big_endian), nanoseconds, Block::Enhanced),
            Layout::PcapngObsolete {
                big_endian,
                nanoseconds,
            } => self.pcapng(&mut Numbers::new(big_endian), nanoseconds, Block::Obsolete),
            Layout::PcapngSimple { big_endian } => {
                self.pcapng(&mut Numbers::new(big_endian), false, Block::Simple)
            }
        }
    }

    /// What tcpdump would have written.
    pub(crate) fn plain(&self) -> Vec<u8> {
        self.write(PLAIN)
    }

    fn pcap(&self, out: &mut Numbers, nanoseconds: bool) -> Vec<u8> {
        let (magic, unit) = if nanoseconds {
            (0xa1b2_3c4d, 1)
        } else {
            (0xa1b2_c3d4, 1000)
        };
        out.u32(magic)
            .u16(2)
            .u16(4)
            .u32(0)
            .u32(0)
            .u32(262_144)
            .u32(self.link);
        for packet in &self.packets {
            out.u32(short(packet.at / 1_000_000_000))
                .u32(short(packet.at % 1_000_000_000 / unit))
                .len(packet.bytes.len())
                .len(packet.length)
                .bytes(&packet.bytes);
        }
        std::mem::take(&mut out.bytes)
    }

    /// What dumpcap writes of several interfaces: their packets in the order of time.
    pub(crate) fn of_interfaces(captures: &[Self]) -> Vec<u8> {
        let mut out = Numbers::new(false);
        out.section();
        for capture in captures {
            let link = u16::try_from(capture.link).unwrap();
            out.u32(1).u32(20).u16(link).u16(0).u32(262_144).u32(20);
        }
        let packets = captures.iter().enumerate();
        let mut packets: Vec<_> = packets
            .flat_map(|(interface, capture)| capture.packets.iter().map(move |packet| (interface, packet)))
            .collect();
        packets.sort_by_key(|(_, packet)| packet.at);
        for (interface, packet) in packets {
            let padding = packet.bytes.len().next_multiple_of(4) - packet.bytes.len();
            let block = 32 + packet.bytes.len() + padding;
            let time = packet.at / 1000;
            out.u32(Block::Enhanced as u32).len(block).len(interface);
            out.u32(short(time >> 32)).u32(short(time & 0xffff_ffff));
            out.len(packet.bytes.len())
                .len(packet.length)
                .bytes(&packet.bytes);
            out.bytes(&[0; 4][..padding]).len(block);
        }
        out.bytes
    }

    /// A section, one interface that says how fine its clock is, and blocks of packets.
    fn pcapng(&self, out: &mut Numbers, nanoseconds: bool, kind: Block) -> Vec<u8> {
        out.section();
        let (resolution, unit) = if nanoseconds { (9, 1) } else { (6, 1000) };
        out.u32(1)
            .u32(32)
            .u16(u16::try_from(self.link).unwrap())
            .u16(0)
            .u32(262_144);
        out.u16(9)
            .u16(1)
            .bytes(&[resolution, 0, 0, 0])
            .u16(0)
            .u16(0)
            .u32(32);
        for packet in &self.packets {
            let padding = packet.bytes.len().next_multiple_of(4) - packet.bytes.len();
            let head = if kind == Block::Simple { 16 } else { 32 };
            let block = head + packet.bytes.len() + padding;
            out.u32(kind as u32).len(block);
            match kind {
                Block::Enhanced => _ = out.u32(0),
                // The interface, and how many packets were dropped.
                Block::Obsolete => _ = out.u16(0).u16(u16::MAX),
                Block::Simple => {}
            }
            if kind != Block::Simple {
                let time = packet.at / unit;
                out.u32(short(time >> 32)).u32(short(time & 0xffff_ffff));
                out.len(packet.bytes.len());
            }
            out.len(packet.length).bytes(&packet.bytes);
            out.bytes(&[0; 4][..padding]).len(block);
        }
        std::mem::take(&mut out.bytes)
    }
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

/// Numbers in the order of bytes of some machine.
struct Numbers {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Numbers {
    fn new(big_endian: bool) -> Self {
        Self {
            big_endian,
            bytes: Vec::new(),
        }
    }

    fn u16(&mut self, number: u16) -> &mut Self {
        let bytes = if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        };
        self.bytes(&bytes)
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        let bytes = if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        };
        self.bytes(&bytes)
    }

    /// The header of a section of pcapng.
    fn section(&mut self) {
        self.u32(0x0a0d_0d0a)
            .u32(28)
            .u32(0x1a2b_3c4d)
            .u16(1)
            .u16(0)
            .u32(u32::MAX)
            .u32(u32::MAX)
            .u32(28);
    }

    fn len(&mut self, number: usize) -> &mut Self {
        self.u32(u32::try_from(number).unwrap())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }
}
