//! What has to be known of a statement before it is sent elsewhere, and before its rows are compared.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use cqlens_capture::memory::Part;
use cqlens_cql::syntax::{
    Template,
    ast::{Body, Comparand, Dropped, Modification, Name, QualifiedName, Select, Selection, Statement, Term},
    parse,
};

use crate::{
    budget::{Share, separate},
    effect::Action,
};

/// What a text says, apart from its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementFacts {
    /// The statement without its values.
    pub shape: Arc<str>,
    /// The keyspaces that the text names; an unqualified table is of the request's.
    pub keyspaces: BTreeSet<Box<str>>,
    /// The tables, and of definitions types and their like, each with its keyspace where the text names it.
    pub tables: Vec<(Option<Box<str>>, Box<str>)>,
    /// Whether a table is of the request's keyspace.
    pub is_unqualified: bool,
    /// What it does.
    pub action: Action,
    /// What in its rows depends on when and where it is run.
    pub unstable: Unstable,
}

/// What in the rows of a statement depends on when and where it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unstable {
    /// These columns, by their place; mostly none.
    Columns(Vec<usize>),
    /// Everything: `now()` decides which rows there are.
    All,
}

impl Unstable {
    /// Nothing.
    pub const NOTHING: Self = Self::Columns(Vec::new());
}

/// The facts of texts, each parsed once.
#[derive(Debug)]
pub struct StatementCache {
    facts: HashMap<Arc<str>, Arc<StatementFacts>>,
    /// Of the texts and what is known of them, about.
    share: Share,
}

impl Default for StatementCache {
    fn default() -> Self {
        Self::within(&separate())
    }
}

impl StatementCache {
    /// More texts than applications have statements: all are forgotten where there are more.
    const MOST: usize = 10_000;
    /// Beside the text, its shape and its names.
    const EACH: usize = 512;

    /// None yet, in a part of the budget.
    pub fn within(part: &Part) -> Self {
        Self {
            facts: HashMap::new(),
            share: Share::of(part, 16),
        }
    }

    /// The facts of a text.
    pub fn facts(&mut self, cql: &Arc<str>) -> Arc<StatementFacts> {
        if let Some(facts) = self.facts.get(cql) {
            return Arc::clone(facts);
        }
        let facts = Arc::new(StatementFacts::of(cql));
        let bytes = Self::EACH + 3 * cql.len();
        // A long one would make others go.
        if bytes > self.share.limit() / 8 {
            return facts;
        }
        self.share.take(bytes);
        if self.facts.len() >= Self::MOST || self.share.is_over() {
            self.share.count_evicted(self.facts.len());
            self.facts.clear();
            self.share.give_back(self.share.used() - bytes);
        }
        self.facts.insert(Arc::clone(cql), Arc::clone(&facts));
        facts
    }
}

impl StatementFacts {
    /// The facts of a text. One that does not parse is compared as it is.
    pub fn of(cql: &str) -> Self {
        let Ok(statement) = parse(cql) else {
            return Self {
                shape: Template::unparsed(cql).text.into(),
                keyspaces: BTreeSet::new(),
                tables: Vec::new(),
                is_unqualified: true,
                action: Action::Unknown,
                unstable: Unstable::NOTHING,
            };
        };
        let tables = tables(&statement);
        let of_tables = tables.iter().filter_map(|table| table.keyspace.as_ref());
        Self {
            shape: Template::of(&statement, None).text.into(),
            keyspaces: of_tables
                .chain(keyspace(&statement))
                .map(|name| name.as_str().into())
                .collect(),
            tables: tables.iter().map(|table| table_key(table)).collect(),
            is_unqualified: tables.iter().any(|table| table.keyspace.is_none()),
            action: Action::of(&statement),
            unstable: unstable(&statement),
        }
    }

    /// The keyspaces that the statement touches.
    pub fn touched<'f>(&'f self, of_request: Option<&'f str>) -> impl Iterator<Item = &'f str> {
        let unqualified = of_request.filter(|_| self.is_unqualified);
        self.keyspaces.iter().map(AsRef::as_ref).chain(unqualified)
    }
}

fn table_key(table: &QualifiedName<'_>) -> (Option<Box<str>>, Box<str>) {
    let keyspace = table.keyspace.as_ref().map(|keyspace| keyspace.as_str().into());
    (keyspace, table.name.as_str().into())
}

fn tables<'s, 'text>(statement: &'s Statement<'text>) -> Vec<&'s QualifiedName<'text>> {
    match &statement.body {
        Body::Select(select) => vec![&select.table],
        Body::Insert(insert) => vec![&insert.table],
        Body::Update(update) => vec![&update.table],
        Body::Delete(delete) => vec![&delete.table],
        Body::Truncate(truncate) => vec![&truncate.table],
        Body::Batch(batch) => batch.statements.iter().map(Modification::table).collect(),
        Body::CreateTable(create) => vec![&create.table],
        Body::AlterTable(alter) => vec![&alter.table],
        Body::CreateType(create) => vec![&create.name],
        Body::AlterType(alter) => vec![&alter.name],
        Body::CreateIndex(create) => vec![&create.table],
        Body::CreateView(create) => vec![&create.view, &create.base],
        Body::AlterView(alter) => vec![&alter.view],
        Body::Drop(drop) if drop.dropped != Dropped::Keyspace => vec![&drop.name],
        Body::Other(other) if other.kind.is_of_keyspace_object() => other.object.iter().collect(),
        _ => Vec::new(),
    }
}

/// The keyspace that a statement is about as a whole.
fn keyspace<'s, 'text>(statement: &'s Statement<'text>) -> Option<&'s Name<'text>> {
    match &statement.body {
        Body::CreateKeyspace(create) => Some(&create.name),
        Body::AlterKeyspace(alter) => Some(&alter.name),
        Body::Drop(drop) if drop.dropped == Dropped::Keyspace => Some(&drop.name.name),
        _ => None,
    }
}

fn unstable(statement: &Statement<'_>) -> Unstable {
    let Body::Select(select) = &statement.body else {
        return Unstable::NOTHING;
    };
    let is_restricted_by_time = select
        .where_clause
        .relations
        .iter()
        .any(|relation| comparand_depends(&relation.comparand));
    let columns = unstable_columns(select);
    if is_restricted_by_time || (select.json && !columns.is_empty()) {
        return Unstable::All;
    }
    Unstable::Columns(columns)
}

fn unstable_columns(select: &Select<'_>) -> Vec<usize> {
    let Selection::Selectors(selectors) = &select.selection else {
        return Vec::new();
    };
    let unstable = |(place, depends): (usize, bool)| depends.then_some(place);
    selectors
        .iter()
        .map(|selector| depends(&selector.term))
        .enumerate()
        .filter_map(unstable)
        .collect()
}

fn comparand_depends(comparand: &Comparand<'_>) -> bool {
    match comparand {
        Comparand::One(term) => depends(term),
        Comparand::Range(ends) => depends(&ends.0) || depends(&ends.1),
        Comparand::List(terms) => terms.iter().any(depends),
        Comparand::None | Comparand::Marker(_) => false,
    }
}

/// Functions that give another value each time. Write times and expiry are of one cluster, even where clients
/// give time stamps: `USING TTL` counts from the server's clock.
const CHANGING: [&str; 6] = [
    "now",
    "uuid",
    "currenttimestamp",
    "currentdate",
    "currenttime",
    "currenttimeuuid",
];

fn depends(term: &Term<'_>) -> bool {
    let any = |terms: &[Term<'_>]| terms.iter().any(depends);
    match term {
        Term::Function(call) => {
            let name = call.name.name.as_str().replace('_', "").to_lowercase();
            CHANGING.contains(&name.as_str()) || any(&call.arguments)
        }
        Term::Metadata { .. } => true,
        Term::Cast { term, .. } | Term::TypeHint { term, .. } | Term::Negation { term, .. } => depends(term),
        Term::List { items, .. } | Term::Set { items, .. } | Term::Tuple { items, .. } => any(items),
        Term::Map { entries, .. } => entries.iter().any(|(key, value)| depends(key) || depends(value)),
        Term::UserType { fields, .. } => fields.iter().any(|(_, value)| depends(value)),
        Term::Arithmetic { first, rest, .. } => {
            depends(first) || rest.iter().any(|(_, operand)| depends(operand))
        }
        Term::Field { receiver, .. } => depends(receiver),
        Term::Element { receiver, key, .. } => depends(receiver) || depends(key),
        Term::Slice { receiver, .. } => depends(receiver),
        // Rows hold the same in both clusters, or are compared where they are read.
        Term::Reference(_)
        | Term::Literal(_)
        | Term::Null(_)
        | Term::BindMarker(_)
        | Term::Column(_)
        | Term::CountRows(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_depend_on_the_moment_are_known_by_their_place() {
        let unstable = |cql| StatementFacts::of(cql).unstable;
        assert_eq!(unstable("SELECT a, b FROM k.t"), Unstable::NOTHING);
        assert_eq!(unstable("SELECT token(a), count(*) FROM k.t"), Unstable::NOTHING);
        assert_eq!(
            unstable("SELECT a, writetime(b), ttl(b) AS t, toTimestamp(now()), current_timestamp() FROM k.t"),
            Unstable::Columns(vec![1, 2, 3, 4])
        );
        assert_eq!(
            unstable("SELECT a FROM k.t WHERE a = 1 AND b > maxTimeuuid(now() - 1d)"),
            Unstable::All
        );
        assert_eq!(unstable("SELECT JSON a, ttl(b) FROM k.t"), Unstable::All);
    }

    #[test]
    fn texts_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 16 << 20);
        let mut cache = StatementCache::within(&part);
        let long = "a".repeat(16 << 10);
        for number in 0..100 {
            cache.facts(&format!("SELECT {number} '{long}").into());
            let kept: usize = cache.facts.keys().map(|cql| cql.len()).sum();
            assert!(kept <= part.used() && part.used() <= 1 << 20);
        }
        assert!(!cache.facts.is_empty());
        let kept = cache.facts.len();
        cache.facts(&"b".repeat(1 << 20).into());
        assert_eq!(cache.facts.len(), kept);
        assert!(part.evicted() > 0);
        drop(cache);
        assert_eq!(part.used(), 0);
    }

    #[test]
    fn keyspaces_are_those_of_the_text_and_of_the_request() {
        let facts = StatementFacts::of(
            "BEGIN BATCH INSERT INTO k.t (a) VALUES (1); DELETE FROM u WHERE a = 1 APPLY BATCH",
        );
        assert_eq!(facts.touched(Some("r")).collect::<Vec<_>>(), ["k", "r"]);
        let facts = StatementFacts::of("SELECT * FROM \"K\".t WHERE a = 'secret'");
        assert_eq!(facts.touched(Some("r")).collect::<Vec<_>>(), ["K"]);
        assert!(!facts.shape.contains("secret"));
    }
}
