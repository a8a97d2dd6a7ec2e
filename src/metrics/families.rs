//! Every family of metrics: its name, its labels, what it says. The page `docs/metrics.md` is made of this table.

use std::{collections::BTreeMap, fmt::Result};

use super::{
    Metrics,
    family::{Family, Kind, counter, family, gauge},
    latency::buckets,
    places::{Places, Total},
    samples::{Labels, Samples},
    traffic::{Executions, OTHERS},
};
use cqlens_admin::{ControlConnection, ListenerState, ReadyState};
use cqlens_capture::{Forwarded, OPAQUE_NAMES, Refusal, TIMES_WITHIN_NS, TlsFailure};

const KEYSPACE: &[&str] = &["keyspace"];
const TABLE: &[&str] = &["keyspace", "table"];

/// All of them, in the order in which they are exposed.
pub const FAMILIES: &[Family] = &[
    // What was seen, and what was not.
    counter("cqlens_requests", "Requests that passed, as of the last window, like everything that is counted of the traffic.", |all, out| {
        out.count(all.traffic.coverage.requests)
    }),
    counter("cqlens_requests_audited", "Requests that were decoded and counted.", |all, out| {
        out.count(all.traffic.coverage.audited)
    }),
    counter(
        "cqlens_requests_left_out",
        "Requests that were forwarded and are in no other number, because the audit was behind or could not decode them.",
        |all, out| {
            let coverage = &all.traffic.coverage;
            out.count_of(&[("reason", "behind")], coverage.dropped)?;
            out.count_of(&[("reason", "undecoded")], coverage.undecoded)
        },
    )
    .by(&["reason"]),
    counter("cqlens_left_out", "Bytes of requests and responses that were left out because the audit was behind.", |all, out| {
        out.count(all.traffic.coverage.dropped_bytes)
    })
    .in_bytes(),
    counter("cqlens_requests_unanswered", "Requests whose connection ended before the response, or whose response was lost.", |all, out| {
        out.count(all.traffic.coverage.unanswered)
    }),
    counter("cqlens_requests_system", "Requests on system keyspaces, which drivers and tools send on their own.", |all, out| {
        out.count(all.traffic.coverage.system_requests)
    }),
    counter("cqlens_statements_unparsed", "Statements that the CQL parser did not understand and the server did not refuse.", |all, out| {
        out.count(all.traffic.coverage.unparsed)
    }),
    counter(
        "cqlens_executions",
        "Executions by what is known of the number of partitions that they touch: exact, an upper bound, none because it is a scan, or unknown.",
        |all, out| {
            let coverage = &all.traffic.coverage;
            out.count_of(&[("partitions", "exact")], coverage.partitions_exact)?;
            out.count_of(&[("partitions", "bounded")], coverage.partitions_bounded)?;
            out.count_of(&[("partitions", "scan")], coverage.partitions_scan)?;
            out.count_of(&[("partitions", "unknown")], coverage.partitions_unknown)
        },
    )
    .by(&["partitions"]),
    counter("cqlens_partitions_unknown", "Executions whose number of partitions is bounded or unknown, by the reason.", |all, out| {
        by_name(out, &[], &all.traffic.coverage.unknown_reasons)
    })
    .by(&["reason"]),
    counter("cqlens_auditor_failures", "Panics of the auditor, which are bugs in cqlens. Forwarding goes on.", |all, out| {
        out.count(all.traffic.coverage.auditor_failures)
    }),
    gauge("cqlens_bypassed", "1 if some of the cluster's traffic bypasses this proxy, or may, else 0.", |all, out| {
        out.gauge(u32::from(all.process.status.bypass.is_some()))
    }),
    counter(
        "cqlens_recording_left_out",
        "Requests of applications that a recording (--record) lacks, by reason. No series where nothing is recorded.",
        |all, out| {
            let left_out = all.process.recording_left_out.iter();
            left_out.flatten().try_for_each(|(reason, count)| out.count_of(&[("reason", reason)], *count))
        },
    )
    .by(&["reason"]),
    // By keyspace.
    counter("cqlens_keyspace_requests", "Executions of statements, errors included, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.requests)
    })
    .by(KEYSPACE),
    counter("cqlens_keyspace_errors", "Executions that returned an error, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.errors)
    })
    .by(KEYSPACE),
    counter("cqlens_keyspace_warnings", "Warnings of the server, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.warnings)
    })
    .by(KEYSPACE),
    counter("cqlens_keyspace_partitions", "Partitions that executions touched, where their number is known, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.partitions)
    })
    .by(KEYSPACE),
    counter("cqlens_keyspace_rows", "Rows in responses, by keyspace.", |all, out| by_keyspace(all, out, |one| one.rows)).by(KEYSPACE),
    counter("cqlens_keyspace_request", "Bytes of audited requests, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.request_bytes)
    })
    .in_bytes()
    .by(KEYSPACE),
    counter("cqlens_keyspace_response", "Bytes of audited responses, by keyspace.", |all, out| {
        by_keyspace(all, out, |one| one.response_bytes)
    })
    .in_bytes()
    .by(KEYSPACE),
    family(
        Kind::Histogram,
        "cqlens_keyspace_latency",
        "From the last byte of a request to the first byte of its response, as seen at the proxy, by keyspace.",
        |all, out| {
            each(&all.traffic.keyspaces, |name, one| {
                by_latency(out, &[("keyspace", name.map_or(OTHERS, String::as_str))], one)
            })
        },
    )
    .in_seconds()
    .by(KEYSPACE),
    // By table.
    counter(
        "cqlens_table_requests",
        "Executions of statements, errors included, by table or view; a batch counts for the first table that it writes.",
        |all, out| by_table(all, out, |one| one.requests),
    )
    .by(TABLE),
    counter("cqlens_table_errors", "Executions that returned an error, by table.", |all, out| {
        by_table(all, out, |one| one.errors)
    })
    .by(TABLE),
    counter("cqlens_table_warnings", "Warnings of the server, by table.", |all, out| by_table(all, out, |one| one.warnings)).by(TABLE),
    counter("cqlens_table_partitions", "Partitions that executions touched, where their number is known, by table.", |all, out| {
        by_table(all, out, |one| one.partitions)
    })
    .by(TABLE),
    counter("cqlens_table_rows", "Rows in responses, by table.", |all, out| by_table(all, out, |one| one.rows)).by(TABLE),
    counter("cqlens_table_request", "Bytes of audited requests, by table.", |all, out| by_table(all, out, |one| one.request_bytes))
        .in_bytes()
        .by(TABLE),
    counter("cqlens_table_response", "Bytes of audited responses, by table.", |all, out| {
        by_table(all, out, |one| one.response_bytes)
    })
    .in_bytes()
    .by(TABLE),
    family(
        Kind::Histogram,
        "cqlens_table_latency",
        "From the last byte of a request to the first byte of its response, as seen at the proxy, by table.",
        |all, out| {
            each_table(all, |labels, one| by_latency(out, labels, one))
        },
    )
    .in_seconds()
    .by(TABLE),
    // By application.
    counter(
        "cqlens_application_requests",
        "Requests, those on system keyspaces included, by application: its name in STARTUP, else that of its driver, else its address.",
        |all, out| {
            each(&all.traffic.applications, |name, one| {
                out.count_of(&[("application", name.map_or(OTHERS, String::as_str))], one.requests)
            })
        },
    )
    .by(&["application"]),
    counter("cqlens_application_connections", "Connections that the server has accepted, by application.", |all, out| {
        each(&all.traffic.applications, |name, one| {
            out.count_of(&[("application", name.map_or(OTHERS, String::as_str))], one.connections)
        })
    })
    .by(&["application"]),
    // By rule.
    gauge("cqlens_findings", "Findings in the traffic since the start that are not accepted in the settings, by rule and severity.", |all, out| {
        for ((rule, severity), count) in &all.traffic.findings {
            out.gauge_of(&[("rule", rule), ("severity", &severity.to_string())], *count)?;
        }
        Ok(())
    })
    .by(&["rule", "severity"]),
    // The data path.
    counter("cqlens_forwarded", "Bytes that passed, whether they were audited or not, by the side that they were sent to.", |all, out| {
        each_direction(all, |to, forwarded| out.count_of(to, forwarded.bytes))
    })
    .in_bytes()
    .by(&["to"]),
    family(
        Kind::Histogram,
        "cqlens_forwarding",
        "How long bytes were within cqlens, from when they were read to when the other side's socket had taken them all: a sample, one \
         read in 32 of each connection. A receiver that does not keep up makes it longer.",
        |all, out| {
            each_direction(all, |to, forwarded| {
                let bounds = TIMES_WITHIN_NS.iter().map(|&bound| bound as f64 / 1e9);
                out.histogram_of(to, forwarded.total.as_secs_f64(), &buckets(bounds, &forwarded.times))
            })
        },
    )
    .in_seconds()
    .by(&["to"]),
    // Connections.
    gauge("cqlens_connections", "Connections of clients that are open.", |all, out| out.gauge(all.process.status.connections)),
    gauge("cqlens_connections_limit", "Connections of clients that may be open (max-connections).", |all, out| {
        out.gauge(all.process.max_connections)
    }),
    counter("cqlens_connections_refused", "Connections that were refused, by reason: the setting whose limit was reached, or what was missing.", |all, out| {
        let refusals: Vec<_> = Refusal::ALL.iter().map(|refusal| refusal.name()).collect();
        by_name(out, &refusals, &all.traffic.coverage.refused_connections)
    })
    .by(&["reason"]),
    counter("cqlens_connections_opaque", "Connections that were forwarded without being audited, by reason.", |all, out| {
        by_name(out, &OPAQUE_NAMES, &all.traffic.coverage.opaque_connections)
    })
    .by(&["reason"]),
    counter("cqlens_connections_tls_failed", "Connections that ended because of TLS, by whose fault it was.", |all, out| {
        by_name(out, &TlsFailure::ALL.map(TlsFailure::name), &all.traffic.coverage.tls_failures)
    })
    .by(&["reason"]),
    gauge("cqlens_nodes_down", "Nodes that accept no connections.", |all, out| {
        out.gauge(all.process.nodes_down)
    }),
    gauge("cqlens_listeners", "Listeners by state, where there are several.", |all, out| {
        let listeners = &all.process.status.listeners;
        for (name, state) in LISTENER_STATES {
            let count = listeners.iter().filter(|listener| listener.state == *state).count();
            out.gauge_of(&[("state", name)], count)?;
        }
        Ok(())
    })
    .by(&["state"]),
    // The audit's room.
    gauge("cqlens_queue", "Bytes that wait for the audit.", |all, out| out.gauge(all.process.status.audit.waiting_bytes)).in_bytes(),
    gauge("cqlens_queue_limit", "Bytes that may wait for the audit; beyond that requests are left out of it.", |all, out| {
        let queue = all.process.status.memory.parts.iter().find(|part| part.name == "queue");
        out.gauge(queue.map_or(0, |part| part.limit_bytes))
    })
    .in_bytes(),
    gauge("cqlens_queue_chunks", "Pieces of traffic that wait for the audit.", |all, out| {
        out.gauge(all.process.status.audit.waiting_chunks)
    }),
    gauge("cqlens_memory", "Memory that the audit uses, by part of its budget.", |all, out| {
        for part in &all.process.status.memory.parts {
            out.gauge_of(&[("part", part.name)], part.used_bytes)?;
        }
        Ok(())
    })
    .in_bytes()
    .by(&["part"]),
    gauge("cqlens_memory_limit", "Memory that the audit may use, by part of its budget (memory).", |all, out| {
        for part in &all.process.status.memory.parts {
            out.gauge_of(&[("part", part.name)], part.limit_bytes)?;
        }
        Ok(())
    })
    .in_bytes()
    .by(&["part"]),
    counter("cqlens_memory_evictions", "Entries that were evicted or not kept because their part of the budget was full.", |all, out| {
        for part in &all.process.status.memory.parts {
            out.count_of(&[("part", part.name)], part.evicted)?;
        }
        Ok(())
    })
    .by(&["part"]),
    counter("cqlens_window_evictions", "Statements and tables that a window evicted for others that matter more.", |all, out| {
        let coverage = &all.traffic.coverage;
        out.count_of(&[("what", "pattern")], coverage.patterns_evicted)?;
        out.count_of(&[("what", "table")], coverage.tables_evicted)
    })
    .by(&["what"]),
    // Windows and what is written.
    counter("cqlens_windows", "Windows that have ended.", |all, out| out.count(all.traffic.windows)),
    counter("cqlens_windows_postponed", "Windows that lasted longer than --window, because the one before was still being written.", |all, out| {
        out.count(all.process.status.audit.postponed_windows)
    }),
    counter("cqlens_reports_abandoned", "Reports that were abandoned, because they were not done within five minutes.", |all, out| {
        out.count(all.process.status.audit.abandoned_reports)
    }),
    gauge("cqlens_window_end_timestamp", "When the last window ended, in seconds since 1970.", |all, out| {
        all.traffic.window_end.map_or(Ok(()), |end| out.gauge(end))
    })
    .in_seconds(),
    counter("cqlens_write_failures", "Snapshots and reports that could not be written.", |all, out| {
        out.count_of(&[("output", "snapshot")], all.traffic.snapshot_failures)?;
        out.count_of(&[("output", "report")], all.traffic.report_failures)
    })
    .by(&["output"]),
    gauge("cqlens_sink_waiting", "Snapshots that wait in the spool for the sink. No series where there is no sink.", |all, out| {
        all.traffic.sink.map_or(Ok(()), |sink| out.gauge(sink.waiting))
    }),
    gauge("cqlens_sink_spool", "What they take up. No series where there is no sink.", |all, out| {
        all.traffic.sink.map_or(Ok(()), |sink| out.gauge(sink.waiting_bytes))
    })
    .in_bytes(),
    counter("cqlens_sink_snapshots", "Snapshots that were written to the sink, or lost because the spool was full. No series where there is no sink.", |all, out| {
        let Some(sink) = all.traffic.sink else { return Ok(()) };
        out.count_of(&[("result", "written")], sink.written)?;
        out.count_of(&[("result", "lost")], sink.lost)
    })
    .by(&["result"]),
    counter("cqlens_sink_failures", "Attempts to write to the sink that failed. No series where there is no sink.", |all, out| {
        all.traffic.sink.map_or(Ok(()), |sink| out.count(sink.failures))
    }),
    // The process.
    counter("cqlens_otlp_exports", "Exports to an OpenTelemetry collector by result: whether it has taken everything. No series where there is none.", |all, out| {
        all.process.exports.map_or(Ok(()), |exports| {
            out.count_of(&[("result", "taken")], exports.taken)?;
            out.count_of(&[("result", "failed")], exports.failed)
        })
    })
    .by(&["result"]),
    gauge("cqlens_state", "1 for the state of the process, 0 for the others: waiting for the cluster, accepting clients, draining.", |all, out| {
        let is = match all.process.status.state {
            ReadyState::Waiting => "waiting",
            ReadyState::Accepting => "accepting",
            ReadyState::Draining => "draining",
        };
        out.one_of(&["waiting", "accepting", "draining"], is)
    })
    .by(&["state"]),
    gauge("cqlens_control_connection", "1 for the state of the control connection, 0 for the others: off in the settings, open, or trying to connect.", |all, out| {
        let is = match all.process.status.control_connection {
            ControlConnection::Off => "off",
            ControlConnection::Open => "open",
            ControlConnection::Trying => "trying",
        };
        out.one_of(&["off", "open", "trying"], is)
    })
    .by(&["state"]),
    gauge("cqlens_schema_known", "1 if a whole schema is known, from the cluster or a file, else 0.", |all, out| {
        out.gauge(u32::from(all.process.status.schema_known))
    }),
    gauge("cqlens_certificate_expiry_timestamp", "When a certificate that cqlens presents expires, in seconds since 1970, by file and by the side that it is presented to.", |all, out| {
        for certificate in &all.process.certificates {
            let labels = [("presented_to", certificate.presented_to), ("file", &*certificate.file)];
            out.gauge_of(&labels, certificate.expires)?;
        }
        Ok(())
    })
    .in_seconds()
    .by(&["presented_to", "file"]),
    gauge("cqlens_thread_silent", "How long a thread has made no progress though it had something to do.", |all, out| {
        for thread in &all.process.status.threads {
            out.gauge_of(&[("thread", &thread.thread)], thread.silent_seconds)?;
        }
        Ok(())
    })
    .in_seconds()
    .by(&["thread"]),
    gauge("cqlens_thread_stuck", "1 if that has lasted so long that the thread counts as stuck, else 0.", |all, out| {
        for thread in &all.process.status.threads {
            out.gauge_of(&[("thread", &thread.thread)], u32::from(thread.stuck))?;
        }
        Ok(())
    })
    .by(&["thread"]),
    counter("cqlens_log_lines_dropped", "Lines of the log that were dropped because standard error was not read in time.", |all, out| {
        out.count(all.process.status.log_lines_dropped as u64)
    }),
    gauge("cqlens_build_info", "Always 1, with the version.", |_, out| out.gauge_of(&[("version", env!("CARGO_PKG_VERSION"))], 1_u32))
        .by(&["version"]),
    gauge("process_start_time", "When the process began, in seconds since 1970.", |all, out| out.gauge(all.process.usage.began)).in_seconds(),
    counter("process_cpu", "Processor time of all threads.", |all, out| {
        all.process.usage.cpu_seconds.map_or(Ok(()), |seconds| out.sum(seconds))
    })
    .in_seconds(),
    gauge("process_resident_memory", "Physical memory of the process, connections included.", |all, out| {
        all.process.usage.resident_bytes.map_or(Ok(()), |bytes| out.gauge(bytes))
    })
    .in_bytes(),
    gauge("process_open_fds", "File descriptors in use.", |all, out| {
        all.process.usage.open_descriptors.map_or(Ok(()), |open| out.gauge(open))
    }),
    gauge("process_max_fds", "File descriptors that the process may have.", |all, out| {
        all.process.usage.max_descriptors.map_or(Ok(()), |most| out.gauge(most))
    }),
];

const LISTENER_STATES: &[(&str, ListenerState)] = &[
    ("open", ListenerState::Open),
    ("failed", ListenerState::Failed),
    ("elsewhere", ListenerState::Elsewhere),
];

fn by_latency(out: &mut Samples<'_>, labels: Labels<'_>, executions: &Executions) -> Result {
    let latency = &executions.latency;
    out.histogram_of(labels, latency.sum_seconds(), &latency.buckets())
}

/// Both directions, by the side that is sent to.
fn each_direction(all: &Metrics, mut write: impl FnMut(Labels<'_>, &Forwarded) -> Result) -> Result {
    write(&[("to", "nodes")], &all.process.requests)?;
    write(&[("to", "clients")], &all.process.responses)
}

/// Those with a name, and all others together.
fn each<K: Ord + Clone, T: Total>(
    places: &Places<K, T>,
    mut write: impl FnMut(Option<&K>, &T) -> Result,
) -> Result {
    for (name, total) in places.named() {
        write(Some(name), total)?;
    }
    write(None, places.others())
}

fn each_table(
    all: &Metrics,
    mut write: impl FnMut(&[(&'static str, &str)], &Executions) -> Result,
) -> Result {
    each(&all.traffic.tables, |name, one| {
        let (keyspace, table) = name.map_or((OTHERS, OTHERS), |(keyspace, table)| (keyspace, table));
        write(&[("keyspace", keyspace), ("table", table)], one)
    })
}

fn by_keyspace(all: &Metrics, out: &mut Samples<'_>, value: fn(&Executions) -> u64) -> Result {
    each(&all.traffic.keyspaces, |name, one| {
        out.count_of(&[("keyspace", name.map_or(OTHERS, String::as_str))], value(one))
    })
}

fn by_table(all: &Metrics, out: &mut Samples<'_>, value: fn(&Executions) -> u64) -> Result {
    each_table(all, |labels, one| out.count_of(labels, value(one)))
}

/// By reason. What has not happened yet is 0 where its name is `known`: a rate needs a first value.
fn by_name(out: &mut Samples<'_>, known: &[&str], counts: &BTreeMap<String, u64>) -> Result {
    for reason in known.iter().filter(|reason| !counts.contains_key(**reason)) {
        out.count_of(&[("reason", reason)], 0)?;
    }
    counts
        .iter()
        .try_for_each(|(reason, count)| out.count_of(&[("reason", reason)], *count))
}
