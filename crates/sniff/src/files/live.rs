//! Live capture: a packet socket of Linux, whose packets become records of pcap for [`Records`](super::Records).
//!
//! The kernel filters by port, and takes link layers off: packets begin with their IP header, whatever device they
//! cross. The device is left as it is: it is not put into promiscuous mode.

use std::{
    io::{self, IoSliceMut, Read},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::{
    cmsg_space,
    errno::Errno,
    ifaddrs::getifaddrs,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{
            AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike,
            bind, recvmsg, setsockopt, socket, sockopt,
        },
        time::TimeSpec,
    },
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use socket2::{SockFilter, SockRef};

use super::pcap::raw_ip_header;

/// The name of all interfaces together.
pub const ANY_INTERFACE: &str = "any";

/// Packets of interfaces, as they cross them.
#[derive(Debug)]
pub struct LiveInterface {
    socket: OwnedFd,
    /// Packets that the kernel had no room for.
    dropped: Arc<AtomicU64>,
}

/// Bytes that the kernel may keep for this process, as far as the system allows it.
const KERNEL_BUFFER: usize = 64 << 20;

impl LiveInterface {
    /// Listens to connections to `ports` at the interface with that name, or at [all](ANY_INTERFACE). The calling thread, and
    /// those that it starts later, may capture nothing else from then on: `CAP_NET_RAW` is dropped.
    ///
    /// # Errors
    /// An interface that does not exist; a process that may not capture.
    pub fn open(name: &str, ports: &[u16]) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Datagram,
            flags,
            SockProtocol::EthAll,
        )?;
        // What has come before the filter was there is none of it.
        SockRef::from(&socket).attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])?;
        if name != ANY_INTERFACE {
            let address = getifaddrs()?
                .filter(|interface| interface.interface_name == name)
                .filter_map(|interface| interface.address)
                .find(|address| address.family() == Some(AddressFamily::Packet));
            let address = address.ok_or(io::ErrorKind::NotFound)?;
            let address = address.as_link_addr().ok_or(io::ErrorKind::NotFound)?;
            bind(socket.as_raw_fd(), address)?;
        }
        let mut rest = [0; 1];
        while nix::unistd::read(&socket, &mut rest).is_ok() {}
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        // Fewer are given where the process may not have more.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &KERNEL_BUFFER)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &KERNEL_BUFFER));
        SockRef::from(&socket).attach_filter(&filter(ports))?;
        drop_the_right()?;
        Ok(Self {
            socket,
            dropped: Arc::default(),
        })
    }

    /// Packets that the kernel had no room for, counted while packets are read.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// The packets as a file of pcap, until `stop` is set.
    pub(super) fn records(self, stop: Arc<AtomicBool>) -> impl Read + Send {
        LiveRecords {
            interface: self,
            stop,
            packet: vec![0; LONGEST_PACKET],
            control: cmsg_space!(TimeSpec, u32),
            written: raw_ip_header().to_vec(),
            given: 0,
        }
    }
}

/// Threads inherit what the thread that starts them may do.
fn drop_the_right() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(CapabilitySet::NET_RAW);
    }
    Ok(set_capabilities(None, sets)?)
}

/// The largest packet that the kernel hands over as one.
const LONGEST_PACKET: usize = 512 << 10;

/// Bytes that are handed on at once.
const CHUNK: usize = 256 << 10;

/// How often it is looked whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reads a socket as a file of pcap.
struct LiveRecords {
    interface: LiveInterface,
    stop: Arc<AtomicBool>,
    packet: Vec<u8>,
    control: Vec<u8>,
    /// Records that are not read yet, from `given` on.
    written: Vec<u8>,
    given: usize,
}

impl Read for LiveRecords {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.written.len() {
            self.written.clear();
            self.given = 0;
            while self.written.len() < CHUNK && self.receive()? {}
            if self.written.is_empty() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(0);
                }
                self.wait()?;
            }
        }
        let left = self.written.get(self.given..).unwrap_or_default();
        let length = left.len().min(into.len());
        let (part, target) = (left.get(..length), into.get_mut(..length));
        if let (Some(part), Some(target)) = (part, target) {
            target.copy_from_slice(part);
        }
        self.given += length;
        Ok(length)
    }
}

impl LiveRecords {
    fn wait(&self) -> io::Result<()> {
        let mut sockets = [PollFd::new(self.interface.socket.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::ZERO);
        match poll(&mut sockets, patience) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the next packet; false if there is none.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [IoSliceMut::new(&mut self.packet)];
        let socket = self.interface.socket.as_raw_fd();
        // With this flag it says how long the packet is, whatever room there is.
        let received = match recvmsg::<()>(socket, &mut buffer, Some(&mut self.control), MsgFlags::MSG_TRUNC)
        {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            // The interface is down; it may come back.
            Err(Errno::ENETDOWN) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut at = None;
        for message in received.cmsgs()? {
            match message {
                ControlMessageOwned::ScmTimestampns(time) => at = Some(time),
                ControlMessageOwned::RxqOvfl(dropped) => {
                    self.interface.dropped.store(dropped.into(), Ordering::Relaxed);
                }
                _ => {}
            }
        }
        let length = received.bytes;
        let number = |number: i64| u32::try_from(number).unwrap_or(0);
        let (seconds, nanoseconds) = at.map_or((0, 0), |at| (number(at.tv_sec()), number(at.tv_nsec())));
        let captured = self.packet.get(..length.min(LONGEST_PACKET)).unwrap_or_default();
        for word in [seconds, nanoseconds, short(captured.len()), short(length)] {
            self.written.extend(word.to_le_bytes());
        }
        self.written.extend_from_slice(captured);
        Ok(true)
    }
}

fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// An instruction of the kernel's filters (`linux/filter.h`, `linux/bpf_common.h`): what it does, how many to skip if
/// it holds and if it does not, and its number.
type Instruction = (u16, u8, u8, u32);

const LOAD_WORD: u16 = 0x20;
const LOAD_SHORT: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_SHORT_BEHIND_HEADER: u16 = 0x48;
/// The length of an IPv4 header, for the one above.
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ACCEPT: Instruction = (RETURN, 0, 0, u32::MAX);
const REFUSE: Instruction = (RETURN, 0, 0, 0);

/// Where the EtherType of a packet is, whose link layer is not there.
const ETHER_TYPE: u32 = 0xffff_f000;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const IPV6_FRAGMENT: u32 = 44;

/// Passes TCP from and to `ports`, and fragments: those behind the first have no ports.
fn filter(ports: &[u16]) -> Vec<SockFilter> {
    let of_v4 = of_ports(LOAD_SHORT_BEHIND_HEADER, 0, ports);
    let length_of_v4 = 7 + short(of_v4.len());
    let mut filter: Vec<Instruction> = vec![
        (LOAD_WORD, 0, 0, ETHER_TYPE),
        (JUMP_IF_EQUAL, 1, 0, IPV4),
        (JUMP, 0, 0, length_of_v4),
        (LOAD_BYTE, 0, 0, 9),
        (JUMP_IF_EQUAL, 1, 0, TCP),
        REFUSE,
        (LOAD_SHORT, 0, 0, 6),
        (JUMP_IF_SET, 0, 1, 0x1fff),
        ACCEPT,
        (LOAD_HEADER_LENGTH, 0, 0, 0),
    ];
    filter.extend(of_v4);
    filter.extend([
        (JUMP_IF_EQUAL, 1, 0, IPV6),
        REFUSE,
        (LOAD_BYTE, 0, 0, 6),
        (JUMP_IF_EQUAL, 0, 1, IPV6_FRAGMENT),
        ACCEPT,
        (JUMP_IF_EQUAL, 1, 0, TCP),
        REFUSE,
    ]);
    filter.extend(of_ports(LOAD_SHORT, 40, ports));
    let instructions = filter.into_iter();
    let instructions =
        instructions.map(|(code, then, otherwise, number)| SockFilter::new(code, then, otherwise, number));
    instructions.collect()
}

/// Passes what has one of the ports at `at`, or behind it.
fn of_ports(load: u16, at: u32, ports: &[u16]) -> Vec<Instruction> {
    let mut part = Vec::new();
    for place in [at, at + 2] {
        part.push((load, 0, 0, place));
        for port in ports {
            part.extend([(JUMP_IF_EQUAL, 0, 1, (*port).into()), ACCEPT]);
        }
    }
    part.push(REFUSE);
    part
}
