//! What a node is told before it starts: `cassandra.yaml`, `logback.xml` and the virtual machine's flags.

use std::net::IpAddr;
use std::path::Path;

use super::{Options, Release, artifacts::Installed};

/// Where a node listens.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeAddress {
    /// A loopback address of its own.
    pub address: IpAddr,
    /// For clients; the same on every node of a cluster.
    pub native_port: u16,
    /// For the other nodes; the same on every node of a cluster.
    pub storage_port: u16,
}

/// The settings of every node, without those that name addresses or folders.
///
/// `auto_snapshot` is off because tests drop tables all the time.
const SETTINGS: &[(&str, &str)] = &[
    ("cluster_name", "cqlens-test"),
    ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
    ("num_tokens", "16"),
    ("auto_bootstrap", "false"),
    ("auto_snapshot", "false"),
    ("commitlog_sync", "periodic"),
    ("commitlog_sync_period", "10000ms"),
    ("endpoint_snitch", "SimpleSnitch"),
    ("materialized_views_enabled", "true"),
    // A busy machine is no fault of what is tested: a node answers late rather than with a timeout.
    ("read_request_timeout", "60s"),
    ("range_request_timeout", "60s"),
    ("write_request_timeout", "60s"),
    ("counter_write_request_timeout", "60s"),
    ("cas_contention_timeout", "60s"),
];

/// To standard output, which is the node's log file.
pub(super) const LOGBACK: &str = r#"<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %logger{0}:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
"#;

/// The text of a node's `cassandra.yaml`. A setting of `options` replaces ours of the same name; `{address}`
/// in it is the node's own.
pub(super) fn yaml(place: NodeAddress, seed: IpAddr, home: &Path, options: &Options) -> String {
    let folder = |name: &str| home.join(name).display().to_string();
    let seeds = format!("{seed}:{}", place.storage_port);
    let mut settings: Vec<(&str, String)> = SETTINGS
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    settings.extend([
        ("listen_address", place.address.to_string()),
        ("rpc_address", place.address.to_string()),
        ("native_transport_port", place.native_port.to_string()),
        ("storage_port", place.storage_port.to_string()),
        ("data_file_directories", format!("[{}]", folder("data"))),
        ("commitlog_directory", folder("commitlog")),
        ("hints_directory", folder("hints")),
        ("saved_caches_directory", folder("saved_caches")),
        ("cdc_raw_directory", folder("cdc_raw")),
        (
            "seed_provider",
            format!("[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: '{seeds}'}}]}}]"),
        ),
    ]);
    if options.release == Release::V6_0 {
        settings.push(("accord", "{enabled: true}".to_owned()));
    }
    settings.retain(|(name, _)| options.yaml.iter().all(|(replaced, _)| replaced != name));
    settings.extend(options.yaml.iter().map(|(name, value)| {
        (
            name.as_str(),
            value.replace("{address}", &place.address.to_string()),
        )
    }));
    settings
        .iter()
        .map(|(name, value)| match options.release {
            Release::V4_0 => in_4_0(name, value),
            Release::V4_1 | Release::V5_0 | Release::V6_0 => format!("{name}: {value}\n"),
        })
        .collect()
}

/// A setting as Cassandra 4.0 names it: with the unit in the name, and with the verb first.
fn in_4_0(name: &str, value: &str) -> String {
    if let Some(what) = name.strip_suffix("_enabled") {
        format!("enable_{what}: {value}\n")
    } else if name.ends_with("_timeout") || name.ends_with("_period") {
        let milliseconds = match value.strip_suffix("ms") {
            Some(milliseconds) => milliseconds.to_owned(),
            None => value.strip_suffix('s').expect("a duration in s or ms").to_owned() + "000",
        };
        format!("{name}_in_ms: {milliseconds}\n")
    } else {
        format!("{name}: {value}\n")
    }
}

/// The command that runs a node in the foreground, with its files below `home`; `joins` others that run
/// already.
pub(super) fn command(installed: &Installed, home: &Path, options: &Options, joins: bool) -> Vec<String> {
    let heap = options.heap_mib();
    let mut command = vec![installed.java.clone(), "-ea".to_owned()];
    command.extend([format!("-Xms{heap}m"), format!("-Xmx{heap}m")]);
    command.extend(START_FAST.iter().map(|&flag| flag.to_owned()));
    // How long a node looks for the others before it gives up; one that has none to look for waits as long.
    let ring_delay_ms = if joins { 30_000 } else { 100 };
    command.push(format!("-Dcassandra.ring_delay_ms={ring_delay_ms}"));
    command.extend([
        format!(
            "-Dcassandra.config=file://{}",
            home.join("cassandra.yaml").display()
        ),
        format!(
            "-Dlogback.configurationFile={}",
            home.join("logback.xml").display()
        ),
        // Read by the snitch that knows racks, where the options ask for it.
        format!(
            "-Dcassandra-rackdc.properties=file://{}",
            home.join("rackdc.properties").display()
        ),
        format!("-Dcassandra.storagedir={}", home.display()),
        format!("-Djava.io.tmpdir={}", home.display()),
        "-Dcassandra-foreground=yes".to_owned(),
        "-Djdk.attach.allowAttachSelf=true".to_owned(),
        "-Dio.netty.tryReflectionSetAccessible=true".to_owned(),
    ]);
    command.push(format!(
        "-Dcassandra.test.flush_local_schema_changes={}",
        options.comes_back
    ));
    command.extend(
        options
            .orders_port
            .map(|port| format!("-Dcassandra.jmx.local.port={port}")),
    );
    command.extend(opened());
    command.extend(["-cp".to_owned(), installed.class_path.clone()]);
    command.push("org.apache.cassandra.service.CassandraDaemon".to_owned());
    command
}

/// The flags with which Cassandra's classes, those of its tools too, reach into the virtual machine's.
pub(super) fn opened() -> impl Iterator<Item = String> {
    let packages = OPENED
        .iter()
        .flat_map(|(module, packages)| packages.iter().map(move |package| format!("{module}/{package}")));
    packages
        .flat_map(|package| ["opens", "exports"].map(|what| format!("--add-{what}={package}=ALL-UNNAMED")))
}

/// A node that lives for a minute: no waiting for other nodes' gossip, no second compiler, the collector with
/// the least threads.
const START_FAST: &[&str] = &[
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+PerfDisableSharedMem",
    "-Xss512k",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    // To learn what a row takes in a memtable, a node writes 100,000 of them first: a third of its start.
    "-Dcassandra.memtable_row_overhead_computation_step=1000",
    // The clock of timeouts, which are seconds here; at the usual 2 ms it takes a hundredth of a core, of each node.
    "-Dcassandra.approximate_time_precision_ms=20",
    // Hundreds of connections log in; a hash of the usual strength takes each of them a tenth of a second.
    "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
];

/// What Cassandra 5.0 reaches into on JDK 17, by module (its own `conf/jvm17-server.options` and what it
/// reflects on).
const OPENED: &[(&str, &[&str])] = &[
    (
        "java.base",
        &[
            "java.io",
            "java.lang",
            "java.lang.module",
            "java.lang.ref",
            "java.lang.reflect",
            "java.math",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "java.util.concurrent.locks",
            "jdk.internal.loader",
            "jdk.internal.math",
            "jdk.internal.misc",
            "jdk.internal.module",
            "jdk.internal.perf",
            "jdk.internal.ref",
            "jdk.internal.reflect",
            "jdk.internal.util",
            "jdk.internal.util.jar",
            "sun.nio.ch",
            "sun.security.util",
            "sun.util.locale",
        ],
    ),
    ("java.management", &["com.sun.jmx.remote.security"]),
    ("java.management.rmi", &["com.sun.jmx.remote.internal.rmi"]),
    (
        "java.rmi",
        &[
            "java.rmi.registry",
            "java.rmi.server",
            "sun.rmi.registry",
            "sun.rmi.server",
            "sun.rmi.transport",
            "sun.rmi.transport.tcp",
        ],
    ),
    ("java.sql", &["java.sql"]),
    ("jdk.management", &["com.sun.management.internal"]),
    ("jdk.management.jfr", &["jdk.management.jfr"]),
    ("jdk.naming.dns", &["com.sun.jndi.dns"]),
    ("jdk.unsupported", &["sun.misc"]),
];
