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
use crate::{
    catalog::{Live, PreparedStatement},
    memory::{Part, Use},
};
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
#[allow(clippy::unwrap_used)]
mod tests {
    use cqlens_proto::{
        message::{Value, ValuesBuf},
        types::CqlType,
    };

    use super::*;
    use crate::{audit::statement::analysis::UNKNOWN_PREPARED, memory::Memory};
    use cqlens_cql::{footprint::Keys, plan::Markers, schema::Schema};

    /// What effects do.
    fn prepare(statements: &mut StatementCache, id: &[u8], statement: PreparedStatement) {
        statements.forget_prepared(id);
        statements.live.prepared.insert(id, statement);
    }

    #[test]
    fn what_is_prepared_again_is_not_what_it_was() {
        let mut statements = StatementCache::new(Arc::new(Live::default()));
        let mut execute = |id: &[u8], cql: Option<&str>| {
            if let Some(cql) = cql {
                let statement = PreparedStatement {
                    cql: cql.into(),
                    keyspace: None,
                    markers: Some(Markers::default()),
                };
                prepare(&mut statements, id, statement);
            }
            let again = statements.of_prepared(id).id;
            assert_eq!(statements.of_prepared(id).id, again);
            again
        };
        // Some ids share a place, and not all are digests.
        for ids in [[&[7_u8; 16][..], &[7 + 64; 16]], [b"a", b"b"]] {
            assert_eq!(ids.map(|id| execute(id, None)), [UNKNOWN_PREPARED; 2]);
            let [read, write] = ["SELECT a FROM k.t", "DELETE FROM k.t WHERE a = 1"];
            let [first, second] = ids;
            let (read, write) = (execute(first, Some(read)), execute(second, Some(write)));
            assert_ne!(read, write);
            assert_eq!((execute(first, None), execute(second, None)), (read, write));
            assert_eq!(execute(first, Some("DELETE FROM k.t WHERE a = 1")), write);
        }
    }

    /// Statements whose plans are many times their text.
    fn large_statements() -> [String; 4] {
        let list = |element: &str, count: usize| vec![element; count].join(",");
        [
            format!("SELECT c FROM k.t WHERE a IN ({})", list("1", 30_000)),
            format!("SELECT c FROM k.t WHERE a IN ({})", list("?", 30_000)),
            format!(
                "BEGIN BATCH {} APPLY BATCH",
                "INSERT INTO k.t(a,b)VALUES(1,1)".repeat(2_000)
            ),
            format!("SELECT {} FROM k.t", list("c", 30_000)),
        ]
    }

    fn live(memory: Memory) -> Arc<Live> {
        let schema = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}; \
                      CREATE TABLE k.t (a int, b int, c int, PRIMARY KEY (a, b));";
        Arc::new(Live::within(memory).beginning_with(Schema::from_cql(schema).unwrap()))
    }

    /// The keys of an execution with these values of a statement of which PREPARED names these markers and,
    /// of the partition key, these.
    fn keys_of(cql: &str, markers: &[&str], partition_key: &[u16], values: &[i32]) -> (Vec<Vec<u8>>, bool) {
        let columns = markers.iter().map(|&name| (name.to_owned(), CqlType::Int));
        let statement = PreparedStatement {
            cql: cql.into(),
            keyspace: None,
            markers: Some(Markers {
                columns: columns.collect(),
                table: Some(("k".to_owned(), "t".to_owned())),
                partition_key: partition_key.to_vec(),
            }),
        };
        let mut statements = StatementCache::new(live(Memory::default()));
        prepare(&mut statements, b"id", statement);
        let analysis = statements.of_prepared(b"id");
        let values: Vec<_> = values.iter().map(|value| value.to_be_bytes()).collect();
        let values = ValuesBuf::positional(values.iter().map(|value| Value::Bytes(value))).unwrap();
        let mut keys = Keys::new();
        let plan = analysis.plan.as_ref().unwrap();
        plan.footprint(&values.values(), &mut keys);
        (
            keys.iter().map(|key| key.bytes.to_vec()).collect(),
            analysis.disagrees,
        )
    }

    #[test]
    fn markers_are_numbered_as_the_server_has_them() {
        let update = "UPDATE k.t SET c = :c WHERE a = :a AND b = :b IF c < :c";
        let of = |value: i32| vec![value.to_be_bytes().to_vec()];
        // Cassandra's markers are places, ScyllaDB's are names where there are any.
        let cassandra = keys_of(update, &["c", "a", "b", "c"], &[1], &[7, 1, 2, 7]);
        assert_eq!(cassandra, (of(1), false));
        let again = "UPDATE k.t SET c = :x WHERE a = :a AND b = :x";
        let again_at_the_end = "SELECT c FROM k.t WHERE b = :x AND c = :x AND a = :a ALLOW FILTERING";
        assert_eq!(
            keys_of(update, &["c", "a", "b"], &[1], &[7, 1, 2]),
            (of(1), false)
        );
        assert_eq!(keys_of(again, &["x", "a"], &[1], &[7, 1]), (of(1), false));
        assert_eq!(
            keys_of(again_at_the_end, &["x", "a"], &[1], &[7, 1]),
            (of(1), false)
        );
        // Where a server counts or names other ones, only what it says is used.
        let select = "SELECT c FROM k.t WHERE a = ? AND b = ?";
        assert_eq!(keys_of(select, &["b", "a"], &[1], &[7, 1]), (of(1), true));
        let more = keys_of(select, &["b", "c", "a"], &[2], &[7, 8, 1]);
        assert_eq!(
            more,
            (vec![], true),
            "which of them belongs to which relation is not known"
        );
        // Version 3 names none.
        assert_eq!(keys_of(select, &["a", "b"], &[], &[1, 7]), (of(1), false));
    }

    #[test]
    fn an_analysis_takes_up_no_more_than_it_weighs() {
        let live = live(Memory::default());
        let usual = [
            "SELECT a, b, c FROM k.t WHERE a = ? AND b >= ? ORDER BY b LIMIT ?".to_owned(),
            "INSERT INTO k.t (a, b, c) VALUES (?, ?, ?) USING TTL ?".to_owned(),
            "nothing that is CQL".to_owned(),
        ];
        for text in large_statements().iter().chain(&usual) {
            let (mut analysis, mut ids) = (None, Ids::default());
            let taken = allocation_counter::measure(|| {
                analysis = Some(Arc::new(Analysis::of(
                    text,
                    None,
                    None,
                    None,
                    &live,
                    &mut Templates::default(),
                    &mut ids,
                )))
            });
            let (taken, weight) = (
                usize::try_from(taken.bytes_current).unwrap(),
                analysis.unwrap().weight,
            );
            assert!(taken <= weight, "{taken} bytes, weighed {weight}: {text:.40}");
        }
        for text in [
            "SELECT c FROM k.t WHERE a = 1 AND b > 2 LIMIT 3".to_owned(),
            list_of_constants(),
        ] {
            let mut statements = StatementCache::new(Arc::clone(&live));
            statements.of_text(&text, None);
            let before = statements.bytes;
            let taken = allocation_counter::measure(|| {
                // Of the same shape.
                statements.of_text(&text.replace('1', "2"), None);
            });
            let (taken, weight) = (
                usize::try_from(taken.bytes_current).unwrap(),
                statements.bytes - before,
            );
            assert!(
                weight > 0 && taken <= weight,
                "{taken} bytes, weighed {weight}: {text:.40}"
            );
        }
    }

    fn list_of_constants() -> String {
        format!("SELECT c FROM k.t WHERE a IN ({})", vec!["1"; 1_000].join(","))
    }

    #[test]
    fn texts_that_differ_in_their_constants_share_an_analysis() {
        let mut statements = StatementCache::new(live(Memory::default()));
        let keyspace = Some("k");
        let mut query = |text: &str| {
            let (analysis, constants) = statements.of_text(text, keyspace);
            let mut keys = Keys::new();
            let none = ValuesBuf::default();
            let values = constants.as_ref().unwrap_or(&none).values();
            analysis.plan.as_ref().unwrap().footprint(&values, &mut keys);
            let keys: Vec<_> = keys.iter().map(|key| key.bytes.to_vec()).collect();
            (analysis, constants.is_some(), keys)
        };
        let of = |value: i32| vec![value.to_be_bytes().to_vec()];
        let text = |value: i32| format!("SELECT c FROM t WHERE a = {value}");
        // A shape is analysed when it comes again.
        let (first, is_shared, keys) = query(&text(1));
        assert_eq!(
            (first.head.table.as_deref(), is_shared, keys),
            (Some("t"), false, of(1))
        );
        let (second, is_shared, keys) = query(&text(2));
        assert_eq!((second.id, is_shared, keys), (first.id, true, of(2)));
        let (third, is_shared, keys) = query(&text(3));
        assert!(Arc::ptr_eq(&second, &third) && is_shared);
        assert_eq!(
            (&third.head, &third.flags, keys),
            (&first.head, &first.flags, of(3))
        );
        // What is no int is refused, and says so in each report as it did.
        let (refused, is_shared, keys) = query("SELECT c FROM t WHERE a = 99999999999");
        assert_eq!((refused.id, is_shared, keys.len()), (first.id, false, 0));
        // A text that comes again has an analysis of its own.
        assert!(!query(&text(3)).1);
        let (own, is_shared, keys) = query(&text(3));
        assert_eq!((own.id, is_shared, keys), (first.id, false, of(3)));
        // In another keyspace it is another table.
        assert_ne!(statements.of_text(&text(4), Some("other")).0.id, first.id);
        assert_ne!(statements.of_text(&text(5), Some("other")).0.id, first.id);
    }

    #[test]
    fn thousands_of_long_statements_keep_to_their_part() {
        let memory = Memory::of(64 << 20);
        let live = live(memory.clone());
        let part = memory.part(Use::Statements);
        let texts = large_statements();
        let taken = allocation_counter::measure(|| {
            let mut statements = StatementCache::new(Arc::clone(&live));
            for number in 0_u32..400 {
                let mut id = [0; 16];
                id[..4].copy_from_slice(&number.to_be_bytes());
                let text = format!("{} /* {number} */", texts[number as usize % texts.len()]);
                prepare(&mut statements, &id, PreparedStatement::from_text(text, None));
                assert_ne!(statements.of_prepared(&id).id, UNKNOWN_PREPARED);
                statements.of_text(
                    &format!("DELETE FROM k.t WHERE a = {number} AND b = {number}"),
                    None,
                );
                // Of each shape three texts: from the second on they share an analysis.
                let selected = "a, ".repeat(number as usize / 3);
                statements.of_text(&format!("SELECT {selected}c FROM k.t WHERE a = {number}"), None);
                assert!(part.used() <= part.limit(), "{} of {}", part.used(), part.limit());
            }
            assert!(part.evicted() > 0);
        });
        // Plans, the texts of the prepared statements, and what it takes to parse one of them.
        let prepared = memory.part(Use::Prepared);
        let room = part.limit() + prepared.limit() + (12 << 20);
        assert!(taken.bytes_max <= room as u64, "{} of {room}", taken.bytes_max);
        assert_eq!(part.used(), 0, "all is given back at the end");
    }

    #[test]
    fn a_statement_that_there_is_no_room_to_parse_is_unparsed() {
        let memory = Memory::of(64 << 20);
        let mut statements = StatementCache::new(live(memory.clone()));
        let longest = memory.longest_statement();
        let text = |length: usize| format!("SELECT {}c FROM k.t", "f(c),".repeat(length / 5));
        let texts = [longest - 100, longest + 100, 100 * longest].map(text);
        let taken = allocation_counter::measure(|| {
            let unparsed = texts
                .each_ref()
                .map(|text| statements.of_text(text, None).0.unparsed);
            assert_eq!(unparsed, [false, true, true]);
        });
        assert!(
            taken.bytes_max <= 170 * longest as u64,
            "{} bytes",
            taken.bytes_max
        );
    }

    #[test]
    fn long_names_are_cut_off_before_anything_is_kept_of_them() {
        let mut statements = StatementCache::new(Arc::new(Live::default()));
        let name = "n".repeat(1 << 20);
        let length = |analysis: &Analysis| {
            let head = &analysis.head;
            let names = [&head.keyspace, &head.table].into_iter().flatten();
            let tables = analysis
                .tables
                .iter()
                .flat_map(|table| [&table.name.keyspace, &table.name.table]);
            let columns = analysis.marker_columns.iter().map(|column| column.len());
            let names = names.chain(tables).map(String::len).chain(columns);
            names.sum::<usize>() + head.cql.len()
        };
        for text in [
            format!("SELECT a FROM {name}.{name}"),
            format!("INSERT INTO t ({name}) VALUES (?)"),
            format!("UPDATE k.t SET {name} = 1 WHERE k = 1"),
            format!("SELECT a FROM {name} WHERE"),
            format!("USE {name}"),
            "SELECT a FROM t".to_owned(),
        ] {
            let (analysis, _) = statements.of_text(&text, Some(&name));
            assert!(
                length(&analysis) < 4_000,
                "{}: {}",
                &text[..20.min(text.len())],
                length(&analysis)
            );
        }
    }

    #[test]
    fn what_nests_too_deeply_is_too_complex_and_what_is_wrong_is_not() {
        let mut statements = StatementCache::new(Arc::new(Live::default()));
        let mut unknown = |text: &str| statements.of_text(text, None).0.unknown;
        let nested = format!("SELECT a FROM t WHERE k = {}", "[".repeat(1_000));
        assert_eq!(unknown(&nested), Some(Reason::StatementTooComplex));
        let digits = format!("SELECT {}n FROM t", "1".repeat(1 << 18));
        assert_eq!(unknown(&digits), Some(Reason::StatementUnknown));
    }
}
