//! What rules judge: a window, with all that is known of the cluster that it was seen on.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cqlens_cql::{
    Product,
    schema::{Keyspace, Schema, Table, TableName, is_system},
    syntax::{self, ast::Statement},
};

use super::{
    application,
    by_table::PatternsByTable,
    cost::Cost,
    figures,
    read::suggest::{self, Asked, SuggestedNames},
    watch::Watching,
};
use cqlens_window::{Cluster, PatternId, Window};

/// A window, the schema and the cluster behind it.
#[derive(Debug)]
pub struct Context<'a> {
    /// What was seen.
    pub window: &'a Window,
    /// The schema in force at its end, as far as known.
    pub schema: &'a Schema,
    /// The cluster that answered, as far as known.
    pub cluster: &'a Cluster,
    /// What the application's own statements cost together.
    total: Cost,
    /// Which sources could have seen what.
    pub(super) watching: Watching<'a>,
    /// Whether all of the schema is judged, not only the keyspaces of which the window has traffic.
    is_whole_schema: bool,
    /// Whether the statements were read and never executed.
    is_text: bool,
    /// What tables are called that were suggested before in the same run.
    names: Option<&'a SuggestedNames>,
    /// The one statement that was, with its constants.
    text: Option<&'a Statement<'a>>,
    /// Templates that a rule has read again.
    statements: RefCell<BTreeMap<PatternId, Parsed<'a>>>,
    /// What the window has of each table.
    pub(super) by_table: PatternsByTable<'a>,
    /// What queries ask of tables, where suggestions were made.
    asked: OnceCell<BTreeMap<TableName, Rc<Asked>>>,
    /// Clients of applications without a name, by what stands for it.
    unnamed: OnceCell<BTreeMap<String, Vec<String>>>,
    /// How often a rule has looked at a pattern, a write or a table.
    steps: Cell<u64>,
}

/// Nothing for a text that is no CQL.
type Parsed<'a> = Option<Rc<Statement<'a>>>;

impl<'a> Context<'a> {
    /// The context in which `window` is judged.
    pub fn new(window: &'a Window, schema: &'a Schema, cluster: &'a Cluster) -> Self {
        let mut context = Self {
            window,
            schema,
            cluster,
            total: Cost::default(),
            watching: Watching::of(window),
            is_whole_schema: false,
            is_text: false,
            text: None,
            names: None,
            statements: RefCell::default(),
            by_table: PatternsByTable::default(),
            asked: OnceCell::new(),
            unnamed: OnceCell::new(),
            steps: Cell::new(0),
        };
        context.total = figures::user_patterns(&context)
            .map(|(_, pattern)| Cost::of(pattern))
            .sum();
        context
    }

    /// The same, of a statement that was read and never executed, or of several of a BATCH message: what only answers show is
    /// not waited for, and nothing is said of other traffic.
    #[must_use]
    pub fn of_text(mut self, statement: Option<&'a Statement<'a>>) -> Self {
        self.is_text = true;
        self.text = statement;
        self
    }

    /// The same, as one of several that are judged one by one: suggestions know the names of those before.
    #[must_use]
    pub fn naming(mut self, names: &'a SuggestedNames) -> Self {
        self.names = Some(names);
        self
    }

    /// What tables are called that were suggested before.
    pub(super) fn names(&self) -> Option<&'a SuggestedNames> {
        self.names
    }

    /// The statement that was read and never executed, with the constants that templates do not have.
    pub(super) fn text(&self) -> Option<&'a Statement<'a>> {
        self.text
    }

    /// Whether the statements were read and never executed.
    pub(super) fn is_text(&self) -> bool {
        self.is_text
    }

    /// The same, with all keyspaces of the schema to be judged, used or not.
    pub(super) fn of_whole_schema(mut self) -> Self {
        self.is_whole_schema = true;
        self
    }

    /// The keyspaces that are judged: those of which the window has traffic, since what goes to others may take
    /// another way.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = &'a Keyspace> {
        let names = self.window.tables.keys().map(|name| &name.keyspace);
        let used: BTreeSet<&String> = names.collect();
        let keyspaces = self.schema.keyspaces.values();
        keyspaces.filter(move |keyspace| {
            !is_system(&keyspace.name) && (self.is_whole_schema || used.contains(&keyspace.name))
        })
    }

    /// Their tables and views.
    pub(super) fn tables(&self) -> impl Iterator<Item = (TableName, &'a Table)> {
        self.keyspaces()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| {
                let name = TableName {
                    keyspace: table.keyspace.clone(),
                    table: table.name.clone(),
                };
                self.count_steps(1);
                (name, table)
            })
    }

    /// Whether the cluster is one node, as a developer's is: what replicas are for does not apply.
    pub(super) fn is_single_node(&self) -> bool {
        self.cluster.nodes == Some(1)
    }

    /// What the application's own statements cost together.
    pub(crate) fn total(&self) -> Cost {
        self.total
    }

    /// Whether latencies say something of the cluster: those of the embedded node do not.
    pub(crate) fn has_latencies(&self) -> bool {
        !self.cluster.is_embedded && self.total.time_us > 0
    }

    /// Whether there may have been traffic that is not in the window: it went past, was left out or could not be
    /// read. What nobody was seen to use may be used all the same.
    pub(crate) fn may_have_missed(&self) -> bool {
        let coverage = &self.window.coverage;
        let lost = coverage.capture.as_ref().map_or(0, |capture| capture.lost_bytes);
        coverage.bypassed
            || coverage.dropped + coverage.undecoded + lost > 0
            || !coverage.opaque_connections.is_empty()
    }

    /// Whether ScyllaDB answers: its indexes are global, it reads backwards natively, and it has other limits.
    pub(crate) fn is_scylladb(&self) -> bool {
        self.cluster.product == Some(Product::ScyllaDb)
    }

    /// Whether the servers have storage-attached indexes (Cassandra 5.0); none where their version is not known.
    pub(crate) fn has_sai(&self) -> Option<bool> {
        match self.cluster.product {
            Some(Product::ScyllaDb) => Some(false),
            // It had them before Cassandra.
            Some(Product::Dse) => Some(true),
            Some(Product::Cassandra) | None => Some(self.major_version()? >= 5),
        }
    }

    /// Whether the servers have transactions (Cassandra 6.0) and this table may be in one: its definition says so, or one
    /// was seen. `system_schema` of 6.0 alpha 2 does not say it.
    pub(crate) fn has_transactions_on(&self, name: &TableName) -> bool {
        let is_cassandra = matches!(self.cluster.product, Some(Product::Cassandra) | None);
        let has_transactions = is_cassandra && self.major_version().is_some_and(|major| major >= 6);
        let table = self.schema.table(&name.keyspace, &name.table);
        has_transactions
            && (table.is_some_and(Table::is_transactional) || !self.transactions_on(name).is_empty())
    }

    fn major_version(&self) -> Option<u32> {
        let version = self.cluster.release_version.as_deref()?;
        version.split('.').next()?.parse().ok()
    }

    /// What the application's queries ask of tables like this one, found once for all suggestions.
    pub(super) fn asked(&self, table: &Table) -> Rc<Asked> {
        let name = TableName {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        };
        let all = self.asked.get_or_init(|| suggest::asked(self));
        all.get(&name).map_or_else(Rc::default, Rc::clone)
    }

    /// The clients that go by this name because their application has none.
    pub(super) fn unnamed(&self, application: &str) -> &[String] {
        let all = self.unnamed.get_or_init(|| application::unnamed(self.window));
        all.get(application).map_or(&[], Vec::as_slice)
    }

    /// Notes that a rule looks at so many patterns, writes or tables.
    pub(super) fn count_steps(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    /// How often rules have looked at a pattern, a write or a table so far: what they take does not depend on how
    /// fast a machine is.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// The template of the pattern as a statement, which is parsed once for all rules; nothing where it is no
    /// CQL, or no pattern of the window.
    pub(crate) fn statement(&self, id: PatternId) -> Parsed<'a> {
        self.count_steps(1);
        let mut statements = self.statements.borrow_mut();
        let parsed = statements.entry(id).or_insert_with(|| {
            let pattern = self.window.patterns.get(&id)?;
            syntax::parse(&pattern.head.cql).ok().map(Rc::new)
        });
        parsed.clone()
    }
}
