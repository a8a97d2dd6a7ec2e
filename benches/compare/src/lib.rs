//! The same work done by cqlens and by two drivers' codecs, on the same bytes: for the benchmarks beside this
//! crate.
//!
//! «What the audit needs» of a message is what cqlens reads of it for an audit. Each library gets there by
//! the shortest way that its public interface offers, and says the same answer in the end, which a test
//! checks: none of them can be fast by leaving something out. Where a library cannot do a thing, there is no
//! function for it.

pub mod cassandra_protocol_does;
pub mod cqlens_audits;
pub mod cqlens_does;
pub mod inputs;
pub mod scylla_cql_does;

/// What the audit needs of an EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    pub id_len: usize,
    /// The number of the specification.
    pub consistency: u16,
    pub page_size: Option<i32>,
    /// Microseconds since 1970.
    pub timestamp: Option<i64>,
    pub values: usize,
    /// Bytes of all values: each has been found.
    pub value_bytes: usize,
}

/// What the audit needs of ROWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub rows: usize,
    /// Column specifications that were read.
    pub columns: usize,
    pub paging_state_len: Option<usize>,
    /// Bytes of one column in all rows: its cell in each row has been found.
    pub column_bytes: usize,
}

/// The column of which [`Page`] counts the bytes.
pub const COLUMN: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_find_the_same_envelopes() {
        let chunk = inputs::chunk_of_responses();
        assert_eq!(cqlens_does::cut(&chunk), inputs::DEPTH);
        assert_eq!(cqlens_does::split(&chunk), inputs::DEPTH);
        assert_eq!(cassandra_protocol_does::measure(&chunk), inputs::DEPTH);
        assert_eq!(cassandra_protocol_does::split(&chunk), inputs::DEPTH);
        assert_eq!(scylla_cql_does::split(&chunk), inputs::DEPTH);
    }

    #[test]
    fn all_read_the_same_execution() {
        let chunk = inputs::execute();
        let expected = Execution {
            id_len: 16,
            consistency: 6,
            page_size: Some(5_000),
            timestamp: Some(1_700_000_000_000_000),
            values: 3,
            value_bytes: 8 + 13 + 4,
        };
        assert_eq!(
            cqlens_does::envelope(&chunk).and_then(|it| cqlens_does::execute(&it)),
            Some(expected)
        );
        assert_eq!(
            cassandra_protocol_does::envelope(&chunk).and_then(|it| cassandra_protocol_does::execute(&it)),
            Some(expected)
        );
        assert_eq!(
            scylla_cql_does::request_body(&chunk).and_then(|it| scylla_cql_does::execute(&it)),
            Some(expected)
        );
    }

    #[test]
    fn all_read_the_same_page() {
        let chunk = inputs::rows();
        let expected = Page {
            rows: 100,
            columns: 5,
            paging_state_len: Some(32),
            column_bytes: 100 * "customer-0000".len(),
        };
        assert_eq!(
            cqlens_does::envelope(&chunk).and_then(|it| cqlens_does::page(&it)),
            Some(expected)
        );
        assert_eq!(
            cassandra_protocol_does::envelope(&chunk).and_then(|it| cassandra_protocol_does::page(&it)),
            Some(expected)
        );
        assert_eq!(
            scylla_cql_does::first_response(&chunk).and_then(|it| scylla_cql_does::page(&it)),
            Some(expected)
        );
    }

    #[test]
    fn all_decode_every_value() {
        let chunk = inputs::rows();
        assert_eq!(
            cqlens_does::envelope(&chunk).and_then(|it| cqlens_does::every_value(&it)),
            Some(500)
        );
        assert_eq!(
            cassandra_protocol_does::envelope(&chunk)
                .and_then(|it| cassandra_protocol_does::every_value(&it)),
            Some(500)
        );
        assert_eq!(
            scylla_cql_does::first_response(&chunk).and_then(|it| scylla_cql_does::every_value(&it)),
            Some(500)
        );
    }

    #[test]
    fn a_fingerprint_is_made() {
        assert!(cqlens_does::fingerprint(inputs::LITERALS).is_some());
    }

    #[test]
    fn a_footprint_is_one_partition() {
        for prepared in [inputs::point_read(), inputs::slice_read()] {
            assert_eq!(cqlens_audits::Audit::of(&prepared).footprint(), Some(1));
        }
    }
}
