//! Adds what is found on connections to windows.

use std::{collections::VecDeque, sync::Arc};

use cqlens_proto::{envelope::Opcode, message::Request};

use super::{
    HashKey, Watch, cells,
    deferred::{self, Deferred, Waiting},
    exchange::{Effects, Exchange, Interpreter},
    filling::Filling,
    pair::{Found, Missing, Pair},
    record::Recorder,
    session::Session,
};
use crate::{
    capture::{Clock, Moment},
    catalog::Live,
    memory::Use,
    window::Coverage,
};

/// Interprets what is found, and records it.
pub(super) struct Counter {
    live: Arc<Live>,
    watch: Watch,
    /// For what waits; exchanges have the data path's times.
    pub(super) clock: Clock,
    interpreter: Interpreter,
    recorder: Recorder,
    pub(super) deferred: Deferred,
}

impl Counter {
    pub(super) fn new(live: Arc<Live>, key: HashKey, watch: Watch) -> Self {
        Self {
            clock: Clock::start(),
            interpreter: Interpreter::new(&live, key),
            recorder: Recorder::new(key),
            deferred: Deferred::within(live.memory().part(Use::Deferred)),
            live,
            watch,
        }
    }

    /// Forgets everything but the exchanges that wait.
    pub(super) fn begin_anew(&mut self) {
        let fresh = Self::new(Arc::clone(&self.live), self.interpreter.key, self.watch.clone());
        let before = std::mem::replace(self, fresh);
        self.deferred = before.deferred;
        // They wait since a moment of that clock.
        self.clock = before.clock;
    }

    /// Counts what was found, but for what [`Counter::settle`] counts.
    pub(super) fn count(&mut self, filling: &mut Filling, session: &mut Session, found: Found) {
        let coverage = &mut filling.window.coverage;
        match &found {
            Found::Pair(pair) => {
                let waits = self.count_pair(filling, session, pair);
                if waits && let Found::Pair(pair) = found {
                    self.deferred.push(session, pair, self.clock.now());
                }
            }
            Found::UndecodedRequest => coverage.undecoded += 1,
            Found::Dropped(missing) => count_missing(coverage, missing),
            Found::LostResponse => coverage.responses_lost += 1,
        }
    }

    /// Counts what is left of what was found so far, before the window is anybody else's.
    pub(super) fn settle(&mut self, filling: &mut Filling) {
        self.recorder.settle(&mut filling.window);
        filling.publish();
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, filling: &mut Filling) {
        self.recorder.end(&mut filling.window);
    }

    /// Counts a pair; not if the catalog will know more in a moment, and it may wait for that.
    fn count_pair(&mut self, filling: &mut Filling, session: &mut Session, pair: &Pair) -> bool {
        self.watch.see(&pair.request);
        let has_room = self.live.is_followed() && self.deferred.has_room_for(pair);
        self.count_if(filling, session, pair, Effects::Apply, |exchange| {
            !(has_room && deferred::may_become_clear(exchange))
        })
    }

    /// What was put off and may be clear by now.
    pub(super) fn take_deferred(&mut self, now: Moment) -> VecDeque<Waiting> {
        self.deferred.take(now, self.live.learned())
    }

    pub(super) fn count_again(&mut self, filling: &mut Filling, mut waiting: Waiting, now: Moment) {
        let due = waiting.is_due(now);
        let Waiting { session, pair, .. } = &mut waiting;
        let unclear = self.count_if(filling, session, pair, Effects::Applied, |exchange| {
            due || !deferred::may_become_clear(exchange)
        });
        self.settle(filling);
        if unclear {
            self.deferred.keep(waiting);
        }
    }

    /// Counts the exchange if `is_clear` says so, and whether it was not.
    fn count_if(
        &mut self,
        filling: &mut Filling,
        session: &mut Session,
        pair: &Pair,
        effects: Effects,
        is_clear: impl FnOnce(&Exchange<'_>) -> bool,
    ) -> bool {
        let decoded = match pair.is_request_cut() {
            false => Request::decode_message(&pair.request, session.extensions),
            true => Request::decode_head(&pair.request, session.extensions).map(|head| head.message),
        };
        let request = match &decoded {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(%error, "a request could not be decoded");
                filling.window.coverage.undecoded += 1;
                return false;
            }
        };
        if is_before_startup(session, pair) {
            count_before_startup(filling, session, pair);
            return false;
        }
        let is_only_claimed = session.is_only_claimed();
        let interpreter = &mut self.interpreter;
        let mut exchange = interpreter.interpret(session, pair, request, effects);
        if !is_clear(&exchange) {
            return true;
        }
        filling.keep_room();
        let Filling {
            window,
            nodes,
            clients,
            tables,
            refusals,
            sampler,
            ..
        } = filling;
        let (keys, holders) = (&interpreter.keys, &mut interpreter.holders);
        exchange.routed = nodes.count(&mut window.load, &exchange, keys, holders);
        let seen = interpreter.row_keys.hashes();
        self.recorder.record(window, tables, &exchange, keys, seen);
        // A name that the server has not accepted yet is not a client's.
        if !is_only_claimed {
            clients.count(window, &exchange);
        }
        if exchange.outcome.is_refused() {
            refusals.refuse(exchange.client, exchange.at);
        } else if !refusals.is_empty() && exchange.is_granted() {
            refusals.grant(exchange.client);
        }
        if !exchange.refused {
            cells::count(&interpreter.cells, window, tables);
        }
        if let (Some(sampler), false) = (sampler, pair.is_request_cut()) {
            let now = exchange.at;
            if let Some(analysis) = sampler.prefers(&exchange) {
                sampler.take(analysis, pair, session, &self.live);
            }
            sampler.hand_over(now);
        }
        false
    }
}

/// Whether this is a statement that comes too early for any server. Where answers may be missing only an error tells that.
fn is_before_startup(session: &Session, pair: &Pair) -> bool {
    if session.is_started {
        return false;
    }
    let is_statement = matches!(
        pair.request.header.opcode,
        Opcode::QUERY | Opcode::PREPARE | Opcode::EXECUTE | Opcode::BATCH
    );
    is_statement && (pair.response.is_some() || !session.is_recorded)
}

fn count_before_startup(filling: &mut Filling, session: &Session, pair: &Pair) {
    let coverage = &mut filling.window.coverage;
    coverage.audited += 1;
    coverage.before_startup += 1;
    match pair.response {
        Some(_) => filling.refusals.refuse(&session.client, pair.requested_at),
        None => coverage.unanswered += 1,
    }
}

fn count_missing(coverage: &mut Coverage, missing: &Missing) {
    coverage.dropped += missing.requests;
    for (opcode, count) in missing.opcodes.iter().filter(|(_, count)| *count > 0) {
        let name = opcode.name().unwrap_or("other").to_owned();
        *coverage.dropped_by_opcode.entry(name).or_default() += u64::from(count);
    }
}
