//! The analyses of statements that come again: made once for each text (or shape of texts, or prepared id, or set of
//! statements in a batch) and each version of the schema.

use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

use cqlens_cql::syntax::{self, Templates, TextShape, Token, Work, ast};
use cqlens_proto::message::ValuesBuf;
use foldhash::fast::RandomState;
use rustc_hash::FxHashMap;

use crate::audit::statement::{
    analysis::Analysis,
    batch::{BatchShape, Children, batch_analysis, batch_weight},
    ids::Ids,
};
use crate::catalog::{Live, PreparedStatement};
use cqlens_capture::memory::{Part, Use};
use cqlens_cql::footprint::Reason;

/// Longer texts are analysed each time.
const MAX_TEXT_LEN: usize = 4 << 10;

/// Longer texts of prepared statements are analysed for each execution, as are those whose analysis takes up
/// more than one part in so many of the memory.
const MAX_PREPARED_LEN: usize = 64 << 10;
const LARGEST: usize = 4;

/// The analyses of all statements that come again.
///
/// Bounded: when there is no more room half of what is kept is evicted, and what is still in use comes back
/// with its next execution.
#[derive(Debug)]
pub(crate) struct StatementCache {
    live: Arc<Live>,
    /// The version of the schema under which everything here was analysed.
    version: u64,
    pub(crate) ids: Ids,
    hashing: RandomState,
    templates: Templates,
    /// By the hash of the keyspace of unqualified names and of the text: they are compared with what is here.
    texts: FxHashMap<u64, KnownText>,
    /// By the shape of texts; none for a shape whose texts have to be analysed one by one.
    shapes: HashMap<Box<[u8]>, Option<Arc<Analysis>>, RandomState>,
    /// Hashes of the texts and shapes that came last, each in the slot that it picks.
    last_texts: Box<[u64]>,
    /// By id.
    prepared: HashMap<u128, Arc<Analysis>, RandomState>,
    /// BATCH messages.
    batches: HashMap<BatchShape, Arc<Analysis>, RandomState>,
    unknown_prepared: Arc<Analysis>,
    /// What they take up.
    bytes: usize,
    memory: Part,
}

/// Texts and shapes whose hashes are remembered, to see which of them come again.
const LAST_TEXTS: usize = 4_096;

#[derive(Debug)]
struct KnownText {
    keyspace: Option<Box<str>>,
    text: Box<str>,
    analysis: Arc<Analysis>,
}

impl KnownText {
    fn weight(&self) -> usize {
        self.analysis.weight + self.text.len()
    }
}

/// The id of a prepared statement as a number: servers take a digest of 16 bytes. Statements with other ids
/// are analysed for each execution.
#[inline]
fn digest(id: &[u8]) -> Option<u128> {
    id.try_into().ok().map(u128::from_le_bytes)
}

/// What a prepared statement with its id takes up.
fn prepared_weight(analysis: &Analysis) -> usize {
    size_of::<u128>() + analysis.weight
}

/// What the shape of texts takes up, with its analysis if there is one.
fn shape_weight(key: &[u8], analysis: Option<&Arc<Analysis>>) -> usize {
    const EACH: usize = 64;
    EACH + key.len() + analysis.map_or(0, |analysis| analysis.weight)
}

impl Drop for StatementCache {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

impl StatementCache {
    /// Nothing analysed yet.
    pub(crate) fn new(live: Arc<Live>) -> Self {
        let mut ids = Ids::default();
        Self {
            unknown_prepared: Arc::new(Analysis::unknown_prepared(&mut ids)),
            ids,
            version: live.version(),
            bytes: 0,
            memory: live.memory().part(Use::Statements),
            live,
            hashing: RandomState::default(),
            templates: Templates::default(),
            texts: FxHashMap::default(),
            shapes: HashMap::default(),
            last_texts: vec![0; LAST_TEXTS].into(),
            prepared: HashMap::default(),
            batches: HashMap::default(),
        }
    }

    /// The analysis of a text of which only the beginning is there.
    pub(crate) fn of_cut_text(&mut self, text: &str) -> Arc<Analysis> {
        Arc::new(Analysis::cut(text, &mut self.ids))
    }

    /// The analysis of a statement that is sent as text; and the constants of the text, where the analysis is
    /// that of all texts of its shape: then they are what is bound.
    pub(crate) fn of_text(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
    ) -> (Arc<Analysis>, Option<ValuesBuf>) {
        let hash = self.hashing.hash_one((keyspace, text));
        if let Some(known) = self.known(hash, text, keyspace) {
            return (known, None);
        }
        let again = text.len() <= MAX_TEXT_LEN && self.has_come_before(hash);
        let tokens = self.may_share(text).then(|| syntax::tokens(text).ok()).flatten();
        if let Some(tokens) = tokens.as_deref().filter(|_| !again)
            && let Some((analysis, constants)) = self.of_shape(text, tokens, keyspace)
        {
            return (analysis, Some(constants));
        }
        let analysis = Arc::new(self.analyse(text, tokens.as_deref(), keyspace, None));
        if again {
            self.keep_text(hash, text, keyspace, &analysis);
        }
        (analysis, None)
    }

    /// Whether it is worth while to look at the shape of a text.
    fn may_share(&self, text: &str) -> bool {
        let longest = MAX_TEXT_LEN.min(self.live.memory().longest_statement());
        text.len() <= longest && TextShape::may_come_again(text)
    }

    fn known(&self, hash: u64, text: &str, keyspace: Option<&str>) -> Option<Arc<Analysis>> {
        let known = self.texts.get(&hash)?;
        let is_same = (known.keyspace.as_deref(), &*known.text) == (keyspace, text);
        is_same.then(|| Arc::clone(&known.analysis))
    }

    fn keep_text(&mut self, hash: u64, text: &str, keyspace: Option<&str>, analysis: &Arc<Analysis>) {
        let known = KnownText {
            keyspace: keyspace.map(Box::from),
            text: text.into(),
            analysis: Arc::clone(analysis),
        };
        if self.take(known.weight())
            && let Some(before) = self.texts.insert(hash, known)
        {
            self.give_back(before.weight());
        }
    }

    /// The analysis of the texts of a shape, and the constants of one of them; none where it has to be
    /// analysed for itself.
    fn of_shape(
        &mut self,
        text: &str,
        tokens: &[Token],
        keyspace: Option<&str>,
    ) -> Option<(Arc<Analysis>, ValuesBuf)> {
        let shape = TextShape::of(text, tokens, keyspace);
        let analysis = match self.shapes.get(shape.key.as_slice()) {
            Some(known) => known.clone()?,
            None => self.of_new_shape(text, tokens, keyspace, &shape)?,
        };
        let constants = analysis.constants.as_ref()?.values(&shape.constants)?;
        Some((analysis, constants))
    }

    #[inline(never)]
    fn of_new_shape(
        &mut self,
        text: &str,
        tokens: &[Token],
        keyspace: Option<&str>,
        shape: &TextShape<'_>,
    ) -> Option<Arc<Analysis>> {
        let hash = self.hashing.hash_one(&shape.key);
        if !self.has_come_before(hash) {
            return None;
        }
        let analysis = Analysis::of_shape(
            text,
            tokens,
            &shape.constants,
            keyspace,
            &self.live,
            &mut self.templates,
            &mut self.ids,
        );
        let analysis = analysis.map(Arc::new);
        if self.take(shape_weight(&shape.key, analysis.as_ref())) {
            self.shapes.insert(shape.key.as_slice().into(), analysis.clone());
        }
        analysis
    }

    /// Whether a text, or a shape, with this hash is among those analysed last. Texts with ever new values never come
    /// again: caching them would evict those that do.
    fn has_come_before(&mut self, hash: u64) -> bool {
        let last = &mut self.last_texts[usize::try_from(hash).unwrap_or(0) % LAST_TEXTS];
        std::mem::replace(last, hash) == hash
    }

    /// The analysis of a prepared statement.
    #[inline]
    pub(crate) fn of_prepared(&mut self, id: &[u8]) -> Arc<Analysis> {
        match digest(id).and_then(|digest| self.prepared.get(&digest)) {
            Some(analysis) => Arc::clone(analysis),
            None => self.of_unknown(id),
        }
    }

    #[inline(never)]
    fn of_unknown(&mut self, id: &[u8]) -> Arc<Analysis> {
        let Some(statement) = self.live.prepared.get(id) else {
            return Arc::clone(&self.unknown_prepared);
        };
        let analysis = self.analyse(
            &statement.cql,
            None,
            statement.keyspace.as_deref(),
            Some(&statement),
        );
        let analysis = Arc::new(analysis);
        let weight = prepared_weight(&analysis);
        if let Some(digest) = digest(id)
            && statement.cql.len() <= MAX_PREPARED_LEN
            && self.take(weight)
            && self.prepared.insert(digest, Arc::clone(&analysis)).is_some()
        {
            self.give_back(weight);
        }
        analysis
    }

    /// Analyses a text, unless there is no room for parsing it.
    fn analyse(
        &mut self,
        text: &str,
        tokens: Option<&[Token]>,
        keyspace: Option<&str>,
        prepared: Option<&PreparedStatement>,
    ) -> Analysis {
        if text.len() > self.live.memory().longest_statement() {
            self.memory.count_evicted(1);
            return Analysis::unparsed(
                text,
                Reason::StatementTooComplex,
                &Work::of_text(text),
                &mut self.ids,
            );
        }
        Analysis::of(
            text,
            tokens,
            keyspace,
            prepared,
            &self.live,
            &mut self.templates,
            &mut self.ids,
        )
    }

    /// The analysis of a BATCH message of these statements.
    pub(crate) fn of_batch(&mut self, kind: ast::BatchKind, children: &Children) -> Arc<Analysis> {
        let shape = children.shape(kind);
        if let Some(analysis) = self.batches.get(&shape) {
            return Arc::clone(analysis);
        }
        let analysis = Arc::new(batch_analysis(kind, children, &mut self.ids));
        // As of texts: what does not come again would evict what does.
        let hash = self.hashing.hash_one(&shape);
        if self.has_come_before(hash) && self.take(batch_weight(&shape, &analysis)) {
            self.batches.insert(shape, Arc::clone(&analysis));
        }
        analysis
    }

    /// Takes so many bytes of memory, and makes room for them; not if that is too much for one statement.
    fn take(&mut self, bytes: usize) -> bool {
        if bytes > self.memory.limit() / LARGEST {
            self.memory.count_evicted(1);
            return false;
        }
        while !self.memory.has_room_for(bytes) && self.bytes > 0 {
            self.evict_half();
        }
        self.memory.take(bytes);
        self.bytes += bytes;
        true
    }

    fn give_back(&mut self, bytes: usize) {
        self.memory.give_back(bytes);
        self.bytes -= bytes;
    }

    /// Evicts every other statement, whichever those are.
    fn evict_half(&mut self) {
        let (mut count, mut bytes) = (0_u64, 0);
        let mut stays = |weight| {
            count += 1;
            let stays = count % 2 == 0;
            bytes += if stays { 0 } else { weight };
            stays
        };
        self.texts.retain(|_, known| stays(known.weight()));
        self.shapes
            .retain(|key, analysis| stays(shape_weight(key, analysis.as_ref())));
        self.prepared
            .retain(|_, analysis| stays(prepared_weight(analysis)));
        self.batches
            .retain(|shape, analysis| stays(batch_weight(shape, analysis)));
        self.memory.count_evicted(count.div_ceil(2));
        self.give_back(bytes);
    }

    /// Forgets a statement that is prepared again: the server may describe other markers.
    pub(crate) fn forget_prepared(&mut self, id: &[u8]) {
        if let Some(before) = digest(id).and_then(|digest| self.prepared.remove(&digest)) {
            self.give_back(prepared_weight(&before));
        }
    }

    /// Forgets what was analysed under another schema, and everything where there are too many ids; whether
    /// it did. All ids are new then.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        let version = self.live.version();
        let is_old = version != self.version || self.ids.is_full();
        if is_old {
            self.begin_anew(version);
        }
        is_old
    }

    #[cold]
    fn begin_anew(&mut self, version: u64) {
        self.version = version;
        self.texts.clear();
        self.shapes.clear();
        self.prepared.clear();
        self.batches.clear();
        self.give_back(self.bytes);
        self.ids.clear();
        self.unknown_prepared = Arc::new(Analysis::unknown_prepared(&mut self.ids));
    }
}

#[cfg(test)]
mod tests;
