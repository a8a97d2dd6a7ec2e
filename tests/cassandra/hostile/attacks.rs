//! What hostile clients send. Each attack is one bounded burst, and ignores how it is answered.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::wire::{envelope, query};

/// Where a proxy can be attacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) cql: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// A kind of attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Pause between two bursts.
    pub(super) pause: Duration,
    /// One burst; `number` differs from burst to burst.
    pub(super) burst: fn(Target, number: u64) -> io::Result<()>,
}

const fn attack(name: &'static str, pause_ms: u64, burst: fn(Target, u64) -> io::Result<()>) -> Attack {
    Attack {
        name,
        pause: Duration::from_millis(pause_ms),
        burst,
    }
}

/// All kinds. The rates are such that Cassandra itself answers its other clients as before: what they notice
/// is then cqlens' doing.
pub(super) const ATTACKS: &[Attack] = &[
    attack("a megabyte of digits", 7_000, digits),
    attack("nested arithmetic", 3_000, arithmetic),
    attack("names of 40 KB", 1_000, long_names),
    attack("texts before STARTUP", 1_000, texts_before_startup),
    attack("texts that are refused", 500, refused_texts),
    attack("texts that are accepted", 500, accepted_texts),
    attack("shapes of ALLOW FILTERING on one table", 500, shapes),
    attack("made-up prepared ids", 500, made_up_ids),
    attack("PREPARE of 60 KB", 3_000, long_prepares),
    attack("connections that send nothing", 5_000, silent_connections),
    attack("connections that end at once", 500, short_connections),
    attack("bytes that are no CQL", 500, garbage),
    attack("announced bodies of 256 MB", 1_000, announced_bodies),
    attack("compression bombs", 5_000, bombs),
    attack("escape sequences in names", 1_000, escapes),
    attack("a client that reads nothing", 5_000, reads_nothing),
    attack("idle admin clients", 5_000, idle_admin_clients),
];

/// How long a connection is held that only takes up room.
const HELD: Duration = Duration::from_secs(15);

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    connection.set_write_timeout(Some(Duration::from_secs(2)))?;
    Ok(connection)
}

fn startup(options: &[(&str, &str)]) -> Vec<u8> {
    let mut body = u16::try_from(options.len()).unwrap().to_be_bytes().to_vec();
    for text in options.iter().flat_map(|(name, value)| [name, value]) {
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    envelope(4, 0, 0x01, &body)
}

/// A connection that has been let in.
fn logged_in(target: Target) -> io::Result<TcpStream> {
    let mut connection = connect(target.cql)?;
    connection.write_all(&startup(&[("CQL_VERSION", "3.0.0")]))?;
    answer(&mut connection)?;
    Ok(connection)
}

/// Reads an envelope and forgets it.
fn answer(connection: &mut TcpStream) -> io::Result<()> {
    let mut header = [0; 9];
    connection.read_exact(&mut header)?;
    let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    io::copy(&mut connection.take(u64::from(length)), &mut io::sink())?;
    Ok(())
}

/// Sends requests one after the other without waiting, then reads all answers.
fn ask(connection: &mut TcpStream, requests: &[Vec<u8>]) -> io::Result<()> {
    for some in requests.chunks(100) {
        connection.write_all(&some.concat())?;
        for _ in some {
            answer(connection)?;
        }
    }
    Ok(())
}

fn texts(count: u64, text: impl Fn(u64) -> String) -> Vec<Vec<u8>> {
    let query = |at| query(i16::try_from(at % 100).unwrap(), &text(at));
    (0..count).map(query).collect()
}

fn digits(target: Target, number: u64) -> io::Result<()> {
    let digits = "1".repeat(1 << 20);
    let text = if number.is_multiple_of(2) {
        format!("SELECT {digits}n")
    } else {
        format!("SELECT 1e{digits}")
    };
    let mut connection = connect(target.cql)?;
    connection.write_all(&query(1, &text))?;
    answer(&mut connection)?;
    let mut connection = logged_in(target)?;
    connection.write_all(&query(1, &text))?;
    answer(&mut connection)
}

/// Cassandra's own parser takes exponential time for it: after STARTUP only what it refuses at the first word
/// is sent.
fn arithmetic(target: Target, _number: u64) -> io::Result<()> {
    let sum = format!("{}1{}", "(1+".repeat(5_000), ")".repeat(5_000));
    let mut connection = connect(target.cql)?;
    connection.write_all(&query(1, &format!("SELECT a FROM t WHERE k = {sum}")))?;
    answer(&mut connection)?;
    let mut connection = logged_in(target)?;
    connection.write_all(&query(1, &format!("SELEKT {sum}")))?;
    answer(&mut connection)
}

fn long_names(target: Target, number: u64) -> io::Result<()> {
    let requests = texts(2, |at| {
        format!("SELECT * FROM n{number}_{at}_{}.t", "n".repeat(40_000))
    });
    ask(&mut logged_in(target)?, &requests)
}

fn texts_before_startup(target: Target, number: u64) -> io::Result<()> {
    let requests = texts(300, |at| format!("SELECT c{number}_{at} FROM s.t"));
    ask(&mut connect(target.cql)?, &requests)
}

fn refused_texts(target: Target, number: u64) -> io::Result<()> {
    let requests = texts(20, |at| format!("SELECT c{at} FROM s{number}.t{at}"));
    ask(&mut logged_in(target)?, &requests)
}

fn accepted_texts(target: Target, number: u64) -> io::Result<()> {
    let requests = texts(10, |at| {
        format!("SELECT key AS a{number}_{at} FROM system.local WHERE key = 'local'")
    });
    ask(&mut logged_in(target)?, &requests)?;
    let requests = texts(10, |at| {
        format!("SELECT id AS a{number}_{at} FROM python.users WHERE id = 1")
    });
    ask(&mut logged_in(target)?, &requests)
}

/// Within a partition, so that it is cqlens that has work with them.
fn shapes(target: Target, number: u64) -> io::Result<()> {
    let requests = texts(20, |at| {
        format!("SELECT id AS s{number}_{at} FROM python.users WHERE id = 1 AND city = 'x' ALLOW FILTERING")
    });
    ask(&mut logged_in(target)?, &requests)
}

fn made_up_ids(target: Target, number: u64) -> io::Result<()> {
    let execute = |at: u64| {
        let mut body = vec![0, 16];
        body.extend(
            (number << 32 | at)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_be_bytes(),
        );
        body.extend(at.to_be_bytes());
        body.extend([0, 1, 0]);
        envelope(4, i16::try_from(at % 100).unwrap(), 0x0a, &body)
    };
    let requests: Vec<_> = (0..50).map(execute).collect();
    ask(&mut logged_in(target)?, &requests)
}

fn long_prepares(target: Target, number: u64) -> io::Result<()> {
    let prepare = |at: u64| {
        let literal = format!("{number}-{at}-").repeat(60_000 / 8);
        let text = format!("INSERT INTO python.users (id, name, city) VALUES (?, '{literal}', 'nowhere')");
        let mut body = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        body.extend(text.as_bytes());
        envelope(4, 1, 0x09, &body)
    };
    let requests: Vec<_> = (0..1).map(prepare).collect();
    ask(&mut logged_in(target)?, &requests)
}

fn silent_connections(target: Target, _number: u64) -> io::Result<()> {
    let held: Vec<_> = (0..150).map_while(|_| connect(target.cql).ok()).collect();
    std::thread::sleep(HELD);
    drop(held);
    Ok(())
}

fn short_connections(target: Target, number: u64) -> io::Result<()> {
    for at in 0..10 {
        let mut connection = connect(target.cql)?;
        match (number + at) % 3 {
            0 => {}
            // The beginning of a header.
            1 => connection.write_all(&[4, 0, 0])?,
            _ => connection.write_all(&startup(&[("CQL_VERSION", "3.0.0")]))?,
        }
    }
    Ok(())
}

fn garbage(target: Target, number: u64) -> io::Result<()> {
    let mut connection = connect(target.cql)?;
    let mut state = number | 1;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(32 << 10).collect();
    let beginning: &[u8] = match number % 5 {
        // A handshake of TLS.
        0 => &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        // A version that nobody speaks.
        2 => &[0x46, 0, 0, 0, 1, 0, 0, 0, 0],
        // STARTUP of version 5, after which segments have checksums.
        3 => b"\x05\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0",
        _ => &[],
    };
    connection.write_all(beginning)?;
    connection.write_all(&noise)?;
    answer(&mut connection)
}

fn announced_bodies(target: Target, _number: u64) -> io::Result<()> {
    let mut connection = logged_in(target)?;
    connection.write_all(&[4, 0, 0, 1, 0x07, 0x0f, 0xff, 0xff, 0xff])?;
    connection.write_all(&[b'x'; 64 << 10])
}

fn bombs(target: Target, _number: u64) -> io::Result<()> {
    let mut connection = connect(target.cql)?;
    connection.write_all(&startup(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")]))?;
    answer(&mut connection)?;
    // 15 MB are said to come out of what follows, and do: a literal, then a copy of it over and over.
    // (Cassandra takes memory for what is said.)
    let mut body = 0x00f0_0000_u32.to_be_bytes().to_vec();
    body.extend([0x1f, b'A', 1, 0]);
    body.extend([0xff; 60 << 10]);
    body.push(0);
    let mut request = envelope(4, 1, 0x07, &body);
    request[1] = 0x01;
    connection.write_all(&request)?;
    answer(&mut connection)
}

fn escapes(target: Target, number: u64) -> io::Result<()> {
    let name = format!(
        "\x1b[2J\x1b]0;owned\x07\r\n2026-01-01 ERROR forged {number} \u{202e}|`<script>alert(1)</script>"
    );
    let options = [
        ("CQL_VERSION", "3.0.0"),
        ("APPLICATION_NAME", &name),
        ("DRIVER_NAME", &name),
    ];
    let mut connection = connect(target.cql)?;
    connection.write_all(&startup(&options))?;
    answer(&mut connection)?;
    ask(
        &mut connection,
        &texts(3, |at| format!("SELECT * FROM \"{name}\".\"{name}{at}\"")),
    )
}

fn reads_nothing(target: Target, _number: u64) -> io::Result<()> {
    let mut connection = logged_in(target)?;
    let requests = texts(20, |_| "SELECT * FROM system_schema.columns".to_owned());
    connection.write_all(&requests.concat())?;
    std::thread::sleep(HELD);
    Ok(())
}

fn idle_admin_clients(target: Target, _number: u64) -> io::Result<()> {
    let asked = |_| {
        let mut connection = connect(target.admin).ok()?;
        connection
            .write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            .ok()?;
        Some(connection)
    };
    let held: Vec<_> = (0..200).map_while(asked).collect();
    std::thread::sleep(HELD);
    drop(held);
    Ok(())
}
