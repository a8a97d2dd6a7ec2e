//! What is the same for all executions of a statement: worked out once for each text and each version of the schema.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    sync::Arc,
};

use cqlens_cql::syntax::{self, ParseError, ParseErrorKind, Template, Templates, Work, ast, cut_name};
use cqlens_proto::message::{Batch, BatchKind, BatchQuery, Request, Rows, Values};

use foldhash::fast::RandomState;
use rustc_hash::FxHashMap;

use super::exchange::Execution;
use crate::{
    catalog::{Live, PreparedStatement},
    memory::{Part, Use},
    window::{PatternHead, PatternId},
};
use cqlens_cql::{
    cells::Cells,
    footprint::{Footprint, Keys},
    plan::{self, BatchSum, Plan},
};
use cqlens_cql::{
    footprint::Reason,
    plan::{Flag, Markers, StatementKind},
    schema::{TableName, is_system},
};

/// A statement under one version of the schema.
#[derive(Debug)]
pub(super) struct Analysis {
    /// The fingerprint of its template.
    pub(super) id: PatternId,
    /// Its kind, names and template.
    pub(super) head: PatternHead,
    /// Its properties.
    pub(super) flags: BTreeSet<Flag>,
    /// How its partitions are counted; none where that cannot be known.
    pub(super) plan: Option<Plan>,
    /// Why there is no plan.
    pub(super) unknown: Option<Reason>,
    /// The tables that it names, and how many of its statements do.
    pub(super) tables: Vec<(Arc<TableName>, u32)>,
    /// For each bind marker of an INSERT the column that it is the value of.
    pub(super) marker_columns: Vec<Box<str>>,
    /// Whether all of its tables are in the schema.
    pub(super) is_known: bool,
    /// The parser did not understand it.
    pub(super) unparsed: bool,
    touches_partitions: bool,
    /// The server names other markers of the partition key than the text and the schema do: only what it says is used.
    pub(super) disagrees: bool,
    /// What it takes up, about.
    weight: usize,
}

impl Analysis {
    /// Whether executions touch partitions: SELECT, INSERT, UPDATE, DELETE, BATCH, and what may be one of them.
    #[inline]
    pub(super) fn touches_partitions(&self) -> bool {
        self.touches_partitions
    }

    /// Adds to `cells` what an execution tells of rows and of columns that have an index, nothing of the server's own tables.
    pub(super) fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        if let (Some(plan), false) = (&self.plan, self.head.system) {
            plan.note_cells(values, cells);
        }
    }

    /// Whether it was planned by what PREPARED and the text say.
    pub(super) fn lacks_schema(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.facts().schema.is_none())
    }

    fn of(
        text: &str,
        keyspace: Option<&str>,
        prepared: Option<&PreparedStatement>,
        live: &Live,
        templates: &mut Templates,
    ) -> Self {
        let work = Work::of_text(text);
        let keyspace = keyspace.map(cut_name);
        let keyspace = keyspace.as_deref();
        let mut analysis = match syntax::parse_within(text, &work) {
            Ok(statement) => {
                let template = templates.template(&statement, keyspace, &work);
                let markers = prepared.and_then(|prepared| prepared.markers.as_ref());
                let statement = numbered_as(statement, markers, &work);
                Self::of_statement(&statement, template, keyspace, markers, live, &work)
            }
            Err(error) => Self::unparsed(text, unparsed_reason(&error), &work),
        };
        analysis.weight = weight(text, analysis.head.kind);
        analysis
    }

    fn of_statement(
        statement: &ast::Statement<'_>,
        template: Template,
        keyspace: Option<&str>,
        markers: Option<&Markers>,
        live: &Live,
        work: &Work,
    ) -> Self {
        let mut plan = Plan::of_within(statement, keyspace, &live.schema(), work);
        let disagrees = markers.is_some_and(|markers| plan.disagrees_with(markers));
        match markers {
            Some(markers) if disagrees => plan = Plan::without_schema(statement, keyspace, markers),
            _ if plan.is_known() => {}
            Some(markers) => plan = Plan::without_schema(statement, keyspace, markers),
            None if live.is_known() => {}
            None => plan = Plan::without_schema(statement, keyspace, &Markers::default()),
        }
        Self {
            marker_columns: marker_columns(statement),
            disagrees,
            ..Self::of_plan(template, plan)
        }
    }

    /// A statement that is understood.
    pub(super) fn of_plan(template: Template, plan: Plan) -> Self {
        let names = plan.tables().to_vec();
        let first = names.first().map(|(name, _)| Arc::clone(name));
        let head = PatternHead {
            kind: plan.facts().statement_kind(),
            keyspace: first.as_ref().map(|name| name.keyspace.clone()),
            table: first.as_ref().map(|name| name.table.clone()),
            cql: template.text,
            system: !names.is_empty() && names.iter().all(|(name, _)| is_system(&name.keyspace)),
        };
        Self {
            id: PatternId(template.fingerprint.0),
            touches_partitions: head.kind.is_read() || head.kind.is_write(),
            head,
            flags: plan.flags(),
            is_known: plan.is_known() && plan.facts().schema.is_some(),
            tables: names,
            plan: Some(plan),
            unknown: None,
            marker_columns: Vec::new(),
            unparsed: false,
            disagrees: false,
            weight: 0,
        }
    }

    /// A text that is not CQL as we know it: counted under its words, without its values.
    fn unparsed(text: &str, reason: Reason, work: &Work) -> Self {
        let template = Template::unparsed_within(text, work);
        Self {
            unparsed: true,
            ..Self::other(PatternId(template.fingerprint.0), template.text, reason)
        }
    }

    /// A text that ends early: its pattern is that of its beginning.
    fn cut(text: &str) -> Self {
        let template = Template::unparsed_within(text, &Work::of_text(text));
        Self::other(
            PatternId(template.fingerprint.0),
            template.text,
            Reason::RequestCut,
        )
    }

    /// An execution of an id that nobody has prepared before us.
    fn unknown_prepared() -> Self {
        let cql = "(a prepared statement that was not seen)".to_owned();
        Self::other(UNKNOWN_PREPARED, cql, Reason::PreparedIdUnknown)
    }

    fn other(id: PatternId, cql: String, unknown: Reason) -> Self {
        let head = PatternHead {
            kind: StatementKind::Other,
            keyspace: None,
            table: None,
            cql,
            system: false,
        };
        Self {
            id,
            head,
            flags: BTreeSet::new(),
            plan: None,
            unknown: Some(unknown),
            tables: Vec::new(),
            marker_columns: Vec::new(),
            is_known: false,
            unparsed: false,
            touches_partitions: matches!(unknown, Reason::PreparedIdUnknown | Reason::RequestCut),
            disagrees: false,
            weight: 0,
        }
    }
}

/// The statement with its markers numbered as the server has them: ScyllaDB takes a name that occurs twice for one marker.
fn numbered_as<'text>(
    statement: ast::Statement<'text>,
    markers: Option<&Markers>,
    work: &Work,
) -> ast::Statement<'text> {
    let announced = markers.map_or(0, |markers| markers.columns.len());
    if announced == 0 || announced == statement.bind_markers.len() {
        return statement;
    }
    match syntax::parse_with_shared_markers(statement.text, work) {
        Ok(shared) if shared.bind_markers.len() == announced => shared,
        _ => statement,
    }
}

fn unparsed_reason(error: &ParseError) -> Reason {
    match error.kind {
        ParseErrorKind::TooDeep | ParseErrorKind::TooLong => Reason::StatementTooComplex,
        _ => Reason::StatementUnknown,
    }
}

/// What the analysis of a text takes up, about. A plan has parts for each part of its text: 42 bytes for each byte of a batch of short
/// statements, 30 for one of a long list of numbers, 10 for one of a usual statement.
fn weight(text: &str, kind: StatementKind) -> usize {
    const EACH: usize = 1 << 10;
    let of_a_byte = match kind {
        StatementKind::Batch => 64,
        _ => 32,
    };
    EACH + of_a_byte * text.len()
}

/// The columns of an INSERT whose values are markers, in the order of the markers; they end where a value is computed, which may
/// hold markers of its own.
fn marker_columns(statement: &ast::Statement<'_>) -> Vec<Box<str>> {
    let ast::Body::Insert(insert) = &statement.body else {
        return Vec::new();
    };
    let ast::InsertSource::Values { columns, values } = &insert.source else {
        return Vec::new();
    };
    let values = columns.iter().zip(values);
    let simple = values.take_while(|(_, value)| {
        matches!(
            value,
            ast::Term::BindMarker(_) | ast::Term::Literal(_) | ast::Term::Null(_)
        )
    });
    let bound = simple.filter(|(_, value)| matches!(value, ast::Term::BindMarker(_)));
    bound
        .map(|(column, _)| cut_name(column.as_str()).into())
        .collect()
}

/// The pattern of all executions of unknown prepared statements.
const UNKNOWN_PREPARED: PatternId = PatternId(1);

/// Longer texts are analysed each time.
const MAX_TEXT_LEN: usize = 4 << 10;

/// Longer texts of prepared statements are analysed for each execution, as are those whose analysis takes up more than one part in so many
/// of the memory.
const MAX_PREPARED_LEN: usize = 64 << 10;
const LARGEST: usize = 4;

/// The analyses of one auditor.
///
/// Bounded: when there is no more room half of what is kept is evicted, and what is still in use comes back with its next execution.
#[derive(Debug)]
pub(super) struct Analyses {
    live: Arc<Live>,
    /// The version of the schema under which everything here was worked out.
    version: u64,
    hashing: RandomState,
    templates: Templates,
    /// By the hash of the keyspace of unqualified names and of the text: they are compared with what is here.
    texts: FxHashMap<u64, KnownText>,
    /// Hashes of the texts that were analysed last, each in the slot that it picks.
    last_texts: Box<[u64]>,
    prepared: HashMap<Box<[u8]>, Arc<Analysis>, RandomState>,
    /// Of `prepared` what was executed last, each at the place that its id says.
    recent: [Option<(RecentId, Arc<Analysis>)>; RECENT],
    unknown_prepared: Arc<Analysis>,
    /// What they take up.
    bytes: usize,
    memory: Part,
}

/// An id as servers make them: a digest of the text.
type RecentId = [u8; 16];

/// Texts whose hashes are remembered, to see which of them come again.
const LAST_TEXTS: usize = 4_096;

/// An application executes a few statements again and again.
const RECENT: usize = 64;

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

/// What a prepared statement with its id takes up.
fn prepared_weight(id: &[u8], analysis: &Analysis) -> usize {
    id.len() + analysis.weight
}

impl Drop for Analyses {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

impl Analyses {
    /// Nothing analysed yet.
    pub(super) fn new(live: Arc<Live>) -> Self {
        Self {
            version: live.version(),
            bytes: 0,
            memory: live.memory().part(Use::Statements),
            live,
            hashing: RandomState::default(),
            templates: Templates::default(),
            texts: FxHashMap::default(),
            last_texts: vec![0; LAST_TEXTS].into(),
            prepared: HashMap::default(),
            recent: [const { None }; RECENT],
            unknown_prepared: Arc::new(Analysis::unknown_prepared()),
        }
    }

    /// The analysis of a text of which only the beginning is there.
    pub(super) fn of_cut_text(&self, text: &str) -> Arc<Analysis> {
        Arc::new(Analysis::cut(text))
    }

    /// The analysis of a statement that is sent as text.
    pub(super) fn of_text(&mut self, text: &str, keyspace: Option<&str>) -> Arc<Analysis> {
        self.refresh();
        let hash = self.hashing.hash_one((keyspace, text));
        if let Some(known) = self.texts.get(&hash)
            && (known.keyspace.as_deref(), &*known.text) == (keyspace, text)
        {
            return Arc::clone(&known.analysis);
        }
        let analysis = Arc::new(self.analyse(text, keyspace, None));
        if text.len() <= MAX_TEXT_LEN && self.has_come_before(hash) {
            let known = KnownText {
                keyspace: keyspace.map(Box::from),
                text: text.into(),
                analysis: Arc::clone(&analysis),
            };
            if self.take(known.weight())
                && let Some(before) = self.texts.insert(hash, known)
            {
                self.give_back(before.weight());
            }
        }
        analysis
    }

    /// Whether a text with this hash was analysed lately. Texts with ever new values never come again: caching them would evict those that do.
    fn has_come_before(&mut self, hash: u64) -> bool {
        let last = &mut self.last_texts[usize::try_from(hash).unwrap_or(0) % LAST_TEXTS];
        std::mem::replace(last, hash) == hash
    }

    /// The analysis of a prepared statement.
    #[inline]
    pub(super) fn of_prepared(&mut self, id: &[u8]) -> Arc<Analysis> {
        self.refresh();
        match id.try_into() {
            Ok(id) => match &self.recent[place(id)] {
                Some((known, analysis)) if known == id => Arc::clone(analysis),
                _ => self.of_prepared_before(id),
            },
            Err(_) => self.of_any_prepared(id),
        }
    }

    #[inline(never)]
    fn of_prepared_before(&mut self, id: &RecentId) -> Arc<Analysis> {
        let analysis = self.of_any_prepared(id);
        if self.prepared.contains_key(id.as_slice()) {
            self.recent[place(id)] = Some((*id, Arc::clone(&analysis)));
        }
        analysis
    }

    fn of_any_prepared(&mut self, id: &[u8]) -> Arc<Analysis> {
        if let Some(analysis) = self.prepared.get(id) {
            return Arc::clone(analysis);
        }
        let Some(statement) = self.live.prepared.get(id) else {
            return Arc::clone(&self.unknown_prepared);
        };
        let analysis = self.analyse(&statement.cql, statement.keyspace.as_deref(), Some(&statement));
        let analysis = Arc::new(analysis);
        if statement.cql.len() > MAX_PREPARED_LEN {
            return analysis;
        }
        let weight = prepared_weight(id, &analysis);
        if self.take(weight) && self.prepared.insert(id.into(), Arc::clone(&analysis)).is_some() {
            self.give_back(weight);
        }
        analysis
    }

    /// Analyses a text, unless there is no room for parsing it.
    fn analyse(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
        prepared: Option<&PreparedStatement>,
    ) -> Analysis {
        if text.len() > self.live.memory().longest_statement() {
            self.memory.count_evicted(1);
            return Analysis::unparsed(text, Reason::StatementTooComplex, &Work::of_text(text));
        }
        Analysis::of(text, keyspace, prepared, &self.live, &mut self.templates)
    }

    /// Asks the control connection for the statements of `request` that the server has executed and that are not known.
    pub(super) fn want_unknown(&self, request: &Request<'_>) {
        match request {
            Request::Execute(execute) => self.live.prepared.want(execute.id.0),
            Request::Batch(batch) => {
                for statement in &batch.statements {
                    if let BatchQuery::Prepared(id) = statement.query {
                        self.live.prepared.want(id.0);
                    }
                }
            }
            _ => {}
        }
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
        self.prepared
            .retain(|id, analysis| stays(prepared_weight(id, analysis)));
        self.recent = [const { None }; RECENT];
        self.memory.count_evicted(count.div_ceil(2));
        self.give_back(bytes);
    }

    /// A BATCH message: its template, and the distinct partitions of all its statements in `keys`.
    pub(super) fn batch(
        &mut self,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        keys: &mut Keys,
        cells: &mut Cells,
    ) -> Execution {
        let mut children = Vec::with_capacity(batch.statements.len());
        let mut sum = BatchSum::new(batch_kind(batch.kind));
        let mut refused = None;
        let mut prepared = false;
        for statement in &batch.statements {
            let analysis = match statement.query {
                BatchQuery::Text(text) => self.of_text(text, keyspace),
                BatchQuery::Prepared(id) => {
                    prepared = true;
                    self.of_prepared(id.0)
                }
            };
            match &analysis.plan {
                Some(plan) => {
                    refused = refused.or(sum.add(plan, Some(&statement.values), keys).err());
                    analysis.note_cells(&statement.values, cells);
                }
                None => sum.add_unknown(analysis.unknown.unwrap_or(Reason::StatementUnknown)),
            }
            children.push(analysis);
        }
        let footprint = refused.map_or_else(|| sum.footprint(keys), Err);
        let analysis = Arc::new(batch_analysis(batch_kind(batch.kind), &children));
        Execution {
            analysis,
            footprint: footprint.unwrap_or_else(|refusal| Footprint::unknown(refusal.reason)),
            prepared,
            consistency: Some(batch.consistency),
            first_page: true,
            nulls: 0,
            page_size: None,
        }
    }

    /// Takes over what a PREPARED result says.
    pub(super) fn prepared(&mut self, id: &[u8], statement: PreparedStatement) {
        if let Some(before) = self.prepared.remove(id) {
            self.give_back(prepared_weight(id, &before));
        }
        if let Ok(id) = id.try_into() {
            self.recent[place(id)] = None;
        }
        self.live.prepared.insert(id, statement);
    }

    /// Takes note of rows of the schema that a client has read.
    pub(super) fn see_rows(&self, rows: &Rows<'_>) {
        self.live.see_rows(rows);
    }

    /// The server has accepted a definition.
    pub(super) fn defined(&mut self, text: &str, keyspace: Option<&str>) {
        self.live.apply(text, keyspace);
    }

    /// The server has accepted a definition that was prepared before.
    pub(super) fn defined_by_prepared(&mut self, id: &[u8]) {
        if let Some(statement) = self.live.prepared.get(id) {
            self.defined(&statement.cql, statement.keyspace.as_deref());
        }
    }

    /// Forgets what was worked out under another schema.
    #[inline]
    fn refresh(&mut self) {
        let version = self.live.version();
        if version != self.version {
            self.version = version;
            self.texts.clear();
            self.prepared.clear();
            self.recent = [const { None }; RECENT];
            self.give_back(self.bytes);
        }
    }
}

/// Where a recent id is: its bytes are as good as random.
#[inline]
fn place(id: &RecentId) -> usize {
    usize::from(id[0]) % RECENT
}

/// The kind of a BATCH message as CQL has it; kinds that no specification knows are taken for logged ones.
fn batch_kind(kind: BatchKind) -> ast::BatchKind {
    match kind {
        BatchKind::Unlogged => ast::BatchKind::Unlogged,
        BatchKind::Counter => ast::BatchKind::Counter,
        _ => ast::BatchKind::Logged,
    }
}

/// What the statements of a BATCH message are together.
pub(super) fn batch_analysis(kind: ast::BatchKind, children: &[Arc<Analysis>]) -> Analysis {
    let repeated = children;
    let mut children: Vec<&Arc<Analysis>> = repeated.iter().collect();
    // A few bytes of a message name a prepared statement again: what is written of it is written once.
    children.sort_unstable_by_key(|child| Arc::as_ptr(child));
    children.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let flag = match kind {
        ast::BatchKind::Unlogged => Flag::UnloggedBatch,
        ast::BatchKind::Counter => Flag::Counter,
        ast::BatchKind::Logged => Flag::LoggedBatch,
    };
    let template = Template::batch(kind, children.iter().map(|child| child.head.cql.as_str()));
    let tables = plan::summed(repeated.iter().flat_map(|child| &child.tables));
    let mut flags: BTreeSet<Flag> = children
        .iter()
        .flat_map(|child| child.flags.iter().copied())
        .collect();
    flags.insert(flag);
    if tables.len() > 1 {
        flags.insert(Flag::SeveralTables);
    }
    let head = PatternHead {
        kind: StatementKind::Batch,
        keyspace: tables.first().map(|(name, _)| name.keyspace.clone()),
        table: tables.first().map(|(name, _)| name.table.clone()),
        cql: template.text,
        system: !tables.is_empty() && tables.iter().all(|(name, _)| is_system(&name.keyspace)),
    };
    Analysis {
        id: PatternId(template.fingerprint.0),
        head,
        flags,
        plan: None,
        unknown: None,
        tables,
        marker_columns: Vec::new(),
        is_known: !children.is_empty() && children.iter().all(|child| child.is_known),
        unparsed: false,
        touches_partitions: true,
        disagrees: children.iter().any(|child| child.disagrees),
        weight: 0,
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
    use crate::memory::Memory;
    use cqlens_cql::schema::Schema;

    #[test]
    fn what_is_prepared_again_is_not_what_it_was() {
        let mut analyses = Analyses::new(Arc::new(Live::default()));
        let mut execute = |id: &[u8], cql: Option<&str>| {
            if let Some(cql) = cql {
                let statement = PreparedStatement {
                    cql: cql.into(),
                    keyspace: None,
                    markers: Some(Markers::default()),
                };
                analyses.prepared(id, statement);
            }
            let again = analyses.of_prepared(id).id;
            assert_eq!(analyses.of_prepared(id).id, again);
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

    /// The keys of an execution with these values of a statement of which PREPARED names these markers and, of the partition key, these.
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
        let mut analyses = Analyses::new(live(Memory::default()));
        analyses.prepared(b"id", statement);
        let analysis = analyses.of_prepared(b"id");
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
            let mut analysis = None;
            let taken = allocation_counter::measure(|| {
                analysis = Some(Arc::new(Analysis::of(
                    text,
                    None,
                    None,
                    &live,
                    &mut Templates::default(),
                )))
            });
            let (taken, weight) = (
                usize::try_from(taken.bytes_current).unwrap(),
                analysis.unwrap().weight,
            );
            assert!(taken <= weight, "{taken} bytes, weighed {weight}: {text:.40}");
        }
    }

    #[test]
    fn thousands_of_long_statements_keep_to_their_part() {
        let memory = Memory::of(64 << 20);
        let live = live(memory.clone());
        let part = memory.part(Use::Statements);
        let texts = large_statements();
        let taken = allocation_counter::measure(|| {
            let mut analyses = Analyses::new(Arc::clone(&live));
            for number in 0_u32..400 {
                let mut id = [0; 16];
                id[..4].copy_from_slice(&number.to_be_bytes());
                let text = format!("{} /* {number} */", texts[number as usize % texts.len()]);
                analyses.prepared(&id, PreparedStatement::from_text(text, None));
                assert_ne!(analyses.of_prepared(&id).id, UNKNOWN_PREPARED);
                analyses.of_text(
                    &format!("SELECT c FROM k.t WHERE a = {number} AND b IN ({number})"),
                    None,
                );
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
        let mut analyses = Analyses::new(live(memory.clone()));
        let longest = memory.longest_statement();
        let text = |length: usize| format!("SELECT {}c FROM k.t", "f(c),".repeat(length / 5));
        let texts = [longest - 100, longest + 100, 100 * longest].map(text);
        let taken = allocation_counter::measure(|| {
            let unparsed = texts.each_ref().map(|text| analyses.of_text(text, None).unparsed);
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
        let mut analyses = Analyses::new(Arc::new(Live::default()));
        let name = "n".repeat(1 << 20);
        let length = |analysis: &Analysis| {
            let head = &analysis.head;
            let names = [&head.keyspace, &head.table].into_iter().flatten();
            let tables = analysis
                .tables
                .iter()
                .flat_map(|(name, _)| [&name.keyspace, &name.table]);
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
            let analysis = analyses.of_text(&text, Some(&name));
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
        let mut analyses = Analyses::new(Arc::new(Live::default()));
        let mut unknown = |text: &str| analyses.of_text(text, None).unknown;
        let nested = format!("SELECT a FROM t WHERE k = {}", "[".repeat(1_000));
        assert_eq!(unknown(&nested), Some(Reason::StatementTooComplex));
        let digits = format!("SELECT {}n FROM t", "1".repeat(1 << 18));
        assert_eq!(unknown(&digits), Some(Reason::StatementUnknown));
    }
}
