//! The connections that are open, by client and node.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use cqlens_capture::{Connection, Moment};
use cqlens_window::Window;

/// The connections that each client has open to each node, of those whose STARTUP was seen.
///
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    open: BTreeMap<(Arc<str>, SocketAddr), Vec<Arc<Connection>>>,
}

impl OpenConnections {
    /// Counts one that the server took at that time, in `window`, too. One whose node is not known is no node's.
    pub(crate) fn open(
        &mut self,
        client: &Arc<str>,
        connection: &Arc<Connection>,
        at: Moment,
        window: &mut Window,
    ) {
        let Some(node) = connection.upstream() else {
            return;
        };
        let open = self.open.entry((Arc::clone(client), node)).or_default();
        // A second STARTUP on it is no second one.
        open.retain(|other| other.was_open(at) && other.id != connection.id);
        open.push(Arc::clone(connection));
        note(client, node, open, window);
    }

    /// Notes those that are still open in a window that begins.
    pub(crate) fn note_in(&mut self, window: &mut Window) {
        let begin = Moment::from(window.start);
        self.open.retain(|(client, node), open| {
            open.retain(|connection| connection.was_open(begin));
            if !open.is_empty() {
                note(client, *node, open, window);
            }
            !open.is_empty()
        });
    }
}

fn note(client: &str, node: SocketAddr, open: &[Arc<Connection>], window: &mut Window) {
    window
        .connections_mut(client)
        .are_open(&node.to_string(), open.len() as u64);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::Timestamp;

    use super::*;
    use cqlens_capture::ConnectionId;

    #[test]
    fn what_is_open_at_the_same_time_is_counted_in_each_window() {
        let second = |seconds: i64| Moment::from_unix_nanoseconds(seconds * 1_000_000_000);
        let window = |seconds| Window::new(Timestamp::from_second(seconds).unwrap(), "proxy");
        let client = "shop 10.0.0.1".into();
        let connections: Vec<_> = (0..4)
            .map(|number| {
                let connection = Connection::new(ConnectionId(number), "10.0.0.1:5".parse().unwrap());
                connection.reaches("10.9.0.1:9042".parse().unwrap());
                Arc::new(connection)
            })
            .collect();
        // The data path is ahead of the audit.
        for (connection, closed) in connections.iter().zip([2, 4, 6, 6]) {
            connection.close(second(closed));
        }
        let mut open = OpenConnections::default();
        let most = |window: &Window| window.connections["shop 10.0.0.1"].at_once["10.9.0.1:9042"];

        let mut first = window(0);
        for connection in &connections[..3] {
            open.open(&client, connection, second(1), &mut first);
        }
        open.open(&client, &connections[3], second(3), &mut first);
        open.open(&client, &connections[3], second(3), &mut first);
        assert_eq!(most(&first), 3);

        let mut next = window(5);
        open.note_in(&mut next);
        assert_eq!(most(&next), 2);
        next.merge(&first);
        assert_eq!(most(&next), 3);

        let mut last = window(7);
        open.note_in(&mut last);
        assert!(last.connections.is_empty());
    }
}
