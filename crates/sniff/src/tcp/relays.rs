//! Which connections are one and the same traffic, captured on both sides of a relay: a TCP proxy, docker-proxy,
//! HAProxy, `cqlens proxy`.
//!
//! Sequence numbers and packets of the two are not the same, but all bytes are, and each of them passes one connection
//! within the time in which it passes the other: a request is sent on after it has come, and its response comes back
//! before it is handed back. Two clients that send equal bytes to two servers do not keep to that for long. A
//! connection that begins as an open one does, before that is answered, is held until it is decided.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use cqlens_capture::Moment;
use foldhash::HashMap;

use super::{
    FourTuple,
    beginning::{Beginning, Likeness},
    connection::TcpConnection,
};
use crate::losses::Losses;

/// Relays, and the connections that may lead through one.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Connections whose first request has no response yet.
    unanswered: Vec<FourTuple>,
    held: Vec<Held>,
    /// Where relays listen, from where they connect, and to which server.
    known: HashSet<(SocketAddr, IpAddr, SocketAddr)>,
}

/// A connection that is held.
#[derive(Debug)]
struct Held {
    inner: FourTuple,
    /// Those that may be its other side.
    outer: Vec<FourTuple>,
    since: Moment,
}

/// What is found out about a held connection.
enum Verdict {
    /// It is what `outer` has, behind a relay.
    Relayed(FourTuple),
    /// Nobody knows yet.
    Open,
    /// It is a connection of its own, or that cannot be known: it has as much in common with another one.
    Own(Option<(FourTuple, Likeness)>),
}

/// Turns that show a relay. In each, two unrelated connections have the right order by chance in a quarter of all
/// cases.
const CERTAIN: usize = 6;

/// The same for a relay that is known.
const OF_KNOWN: usize = 2;

/// Turns after which two connections are alike enough to be named.
const ALIKE: usize = 5;

/// How often the order may be wrong: captures on several processors do not always have it.
const OUT_OF_TURN: usize = 2;

/// How long a connection is held.
const PATIENCE: Duration = Duration::from_secs(3);

const MAX_UNANSWERED: usize = 64;
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 2 << 20;
const MAX_KNOWN: usize = 256;

type Connections = HashMap<FourTuple, TcpConnection>;

impl Relays {
    /// Whether a connection that says nothing yet may turn out to be the other side of one that waits for its first response: not
    /// where all of them lead to its own server, as in most captures.
    pub(super) fn may_lead_to(&self, inner: FourTuple) -> bool {
        !self.unanswered.iter().all(|outer| outer.has_server_of(inner))
    }

    /// Looks at what a connection has said since the last time, where it is still at its beginning.
    pub(super) fn look(
        &mut self,
        four_tuple: FourTuple,
        now: Moment,
        connections: &mut Connections,
        losses: &mut Losses,
    ) {
        let Some(connection) = connections.get_mut(&four_tuple) else {
            return;
        };
        let Some(beginning) = &mut connection.beginning else {
            return;
        };
        if !beginning.take_news() {
            return;
        }
        let (is_unanswered, is_long) = (beginning.is_unanswered(), beginning.is_long());
        if beginning.place() {
            self.begin(four_tuple, now, connections, losses);
        }
        if !is_unanswered || is_long {
            self.unanswered.retain(|other| *other != four_tuple);
        }
        let now = (!is_long).then_some(now);
        for index in (0..self.held.len()).rev() {
            let held = &self.held[index];
            if held.inner == four_tuple || held.outer.contains(&four_tuple) {
                self.decide(index, now, connections, losses);
            }
        }
        self.drop_if_done(four_tuple, connections, losses);
    }

    /// Decides what depends on a connection that ends.
    pub(super) fn end(&mut self, four_tuple: FourTuple, connections: &mut Connections, losses: &mut Losses) {
        self.unanswered.retain(|other| *other != four_tuple);
        for index in (0..self.held.len()).rev() {
            let held = &self.held[index];
            if held.inner == four_tuple || held.outer.contains(&four_tuple) {
                self.decide(index, None, connections, losses);
            }
        }
    }

    /// Decides those that have waited long enough, and all of them at the end.
    pub(super) fn decide_due(
        &mut self,
        now: Option<Moment>,
        connections: &mut Connections,
        losses: &mut Losses,
    ) {
        for index in (0..self.held.len()).rev() {
            let is_due = |now: Moment| now.since(self.held[index].since) >= PATIENCE;
            if now.is_none_or(is_due) {
                self.decide(index, None, connections, losses);
            }
        }
    }

    /// A connection has its first request: it is held if others may have the same, which still wait for a response.
    fn begin(&mut self, inner: FourTuple, now: Moment, connections: &mut Connections, losses: &mut Losses) {
        let outer: Vec<_> = self
            .unanswered
            .iter()
            .copied()
            .filter(|outer| may_be_relayed(*outer, inner, connections))
            .collect();
        if self.unanswered.len() >= MAX_UNANSWERED {
            let oldest = self.unanswered.remove(0);
            self.drop_if_done(oldest, connections, losses);
        }
        self.unanswered.push(inner);
        if outer.is_empty() || self.held.len() >= MAX_HELD {
            if let Some(connection) = connections.get_mut(&inner) {
                connection.release(losses);
            }
            return;
        }
        self.held.push(Held {
            inner,
            outer,
            since: now,
        });
    }

    /// Decides about a held connection, or leaves it until there is more. Without `now` there will be no more.
    fn decide(
        &mut self,
        index: usize,
        now: Option<Moment>,
        connections: &mut Connections,
        losses: &mut Losses,
    ) {
        let verdict = self.judge(index, now.is_none(), connections);
        if matches!(verdict, Verdict::Open) {
            return;
        }
        let Held { inner, outer, .. } = self.held.swap_remove(index);
        let Some(connection) = connections.get_mut(&inner) else {
            return;
        };
        let of_inner = inner.sockets();
        match verdict {
            Verdict::Relayed(outer) => {
                connection.is_relayed();
                let of_outer = outer.sockets();
                losses.note_copy(of_outer.1, of_inner.1);
                if self.known.len() < MAX_KNOWN {
                    self.known.insert((of_outer.1, of_inner.0.ip(), of_inner.1));
                }
            }
            Verdict::Own(alike) => {
                connection.release(losses);
                if let Some((outer, _)) = alike {
                    losses.note_alike(outer.sockets(), of_inner);
                }
            }
            Verdict::Open => {}
        }
        self.drop_if_done(inner, connections, losses);
        for outer in outer {
            self.drop_if_done(outer, connections, losses);
        }
    }

    /// What is known of a held connection.
    fn judge(&mut self, index: usize, is_last: bool, connections: &Connections) -> Verdict {
        let all_held: usize = self
            .held
            .iter()
            .filter_map(|held| beginning(held.inner, connections))
            .map(Beginning::held_bytes)
            .sum();
        let held = &mut self.held[index];
        let Some(inner) = beginning(held.inner, connections) else {
            return Verdict::Own(None);
        };
        let mut alike: Vec<(FourTuple, Likeness)> = Vec::new();
        for outer in &held.outer {
            let likeness = beginning(*outer, connections).and_then(|outer| outer.compare(inner));
            alike.extend(likeness.map(|likeness| (*outer, likeness)));
        }
        let most = alike.iter().copied().max_by_key(|(_, likeness)| likeness.turns);
        alike.retain(|(_, likeness)| likeness.out_of_turn <= OUT_OF_TURN);
        held.outer = alike.iter().map(|(outer, _)| *outer).collect();
        let of_inner = held.inner.sockets();
        let is_shown = |(outer, likeness): &&(FourTuple, Likeness)| {
            let known = (outer.sockets().1, of_inner.0.ip(), of_inner.1);
            let enough = match self.known.contains(&known) {
                true => OF_KNOWN,
                false => CERTAIN,
            };
            likeness.turns >= enough && inner.is_held()
        };
        if let Some((outer, _)) = alike.iter().find(is_shown) {
            return Verdict::Relayed(*outer);
        }
        let has_room = all_held <= MAX_HELD_BYTES && !inner.is_long();
        if !alike.is_empty() && has_room && !is_last && inner.is_held() {
            return Verdict::Open;
        }
        Verdict::Own(most.filter(|(_, likeness)| likeness.turns >= ALIKE))
    }

    /// Forgets the beginning of a connection with which nothing will be compared any more.
    fn drop_if_done(&self, four_tuple: FourTuple, connections: &mut Connections, losses: &mut Losses) {
        let is_needed = self.unanswered.contains(&four_tuple)
            || (self.held.iter()).any(|held| held.inner == four_tuple || held.outer.contains(&four_tuple));
        if let Some(connection) = connections.get_mut(&four_tuple)
            && !is_needed
        {
            connection.forget_beginning(losses);
        }
    }
}

fn beginning(four_tuple: FourTuple, connections: &Connections) -> Option<&Beginning> {
    connections.get(&four_tuple)?.beginning.as_deref()
}

/// Whether `inner` may be the other side of `outer`, by its first request.
fn may_be_relayed(outer: FourTuple, inner: FourTuple, connections: &Connections) -> bool {
    if outer.has_server_of(inner) {
        return false;
    }
    let (Some(one), Some(other)) = (connections.get(&outer), connections.get(&inner)) else {
        return false;
    };
    let (Some(of_outer), Some(of_inner)) = (one.beginning.as_deref(), other.beginning.as_deref()) else {
        return false;
    };
    one.has_start == other.has_start
        && of_outer.is_unanswered()
        && of_outer
            .compare(of_inner)
            .is_some_and(|likeness| likeness.out_of_turn == 0)
}

#[cfg(test)]
mod tests;
