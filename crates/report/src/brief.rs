//! A statement in one line: its kind, columns, restrictions and conditions.
//!
//! The table is left out, since lists have a column for it; a batch names the tables that it writes.

use cqlens_cql::syntax::{
    self,
    ast::{
        Batch, BatchKind, Body, Comparand, Delete, If, Insert, InsertSource, Modification, Name, Relation,
        RelationOperator, Select, Selection, Statement, Subject, Term, Transaction, Update, Using, Where,
    },
};

/// Letters of a line.
const LINE: usize = 120;
/// Columns that are named before the others are counted.
const NAMED: usize = 4;

/// `INSERT (id, day, kind, value … 11 columns)`, `SELECT … WHERE a, b = ?`,
/// `UNLOGGED BATCH INSERT orders + 3 UPDATE customers IF version`; the beginning of what is none of these.
pub(crate) fn brief(cql: &str) -> String {
    let line = syntax::parse(cql).ok().and_then(|statement| of(cql, &statement));
    cut(&line.unwrap_or_else(|| cql.to_owned()))
}

fn of(cql: &str, statement: &Statement<'_>) -> Option<String> {
    let words = match &statement.body {
        Body::Select(select) => of_select(cql, select),
        Body::Insert(insert) => of_insert(insert),
        Body::Update(update) => of_update(cql, update),
        Body::Delete(delete) => of_delete(cql, delete),
        Body::Batch(batch) => of_batch(batch),
        Body::Transaction(transaction) => of_transaction(transaction),
        _ => return None,
    };
    Some(words.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Clauses; none where the statement does not have it.
type Clauses = Vec<Option<String>>;

fn of_select(cql: &str, select: &Select<'_>) -> Clauses {
    let selected = match &select.selection {
        Selection::All => "*".to_owned(),
        Selection::Selectors(selectors) => {
            let shown: Vec<_> = selectors
                .iter()
                .map(|selector| shown(cql, &selector.term))
                .collect();
            listed(&shown)
        }
    };
    let order = select.order_by.first().map(|order| {
        let of = match &order.ann_of {
            Some(_) => " ANN OF ?",
            None => "",
        };
        format!("ORDER BY {}{of}", order.column)
    });
    vec![
        Some("SELECT".to_owned()),
        select.distinct.then(|| "DISTINCT".to_owned()),
        Some(selected),
        restricted(cql, &select.where_clause),
        (!select.group_by.is_empty()).then(|| "GROUP BY".to_owned()),
        order,
        select.limit.is_some().then(|| "LIMIT ?".to_owned()),
        select.allow_filtering.then(|| "ALLOW FILTERING".to_owned()),
    ]
}

fn of_insert(insert: &Insert<'_>) -> Clauses {
    let columns = match &insert.source {
        InsertSource::Values { columns, .. } => {
            let names: Vec<_> = columns.iter().map(ToString::to_string).collect();
            format!("({})", listed(&names))
        }
        InsertSource::Json { .. } => "JSON ?".to_owned(),
    };
    vec![
        Some("INSERT".to_owned()),
        Some(columns),
        insert.if_not_exists.then(|| "IF NOT EXISTS".to_owned()),
        using(&insert.using),
    ]
}

fn of_update(cql: &str, update: &Update<'_>) -> Clauses {
    let mut names: Vec<_> = update
        .assignments
        .iter()
        .map(|one| one.column.to_string())
        .collect();
    names.dedup();
    vec![
        Some(format!("UPDATE SET {}", listed(&names))),
        using(&update.using),
        restricted(cql, &update.where_clause),
        conditions(update.condition.as_ref()),
    ]
}

fn of_delete(cql: &str, delete: &Delete<'_>) -> Clauses {
    let names: Vec<_> = delete
        .deletions
        .iter()
        .map(|one| one.column.to_string())
        .collect();
    vec![
        Some("DELETE".to_owned()),
        (!names.is_empty()).then(|| listed(&names)),
        using(&delete.using),
        restricted(cql, &delete.where_clause),
        conditions(delete.condition.as_ref()),
    ]
}

fn of_batch(batch: &Batch<'_>) -> Clauses {
    let kind = match batch.kind {
        BatchKind::Logged => "BATCH",
        BatchKind::Unlogged => "UNLOGGED BATCH",
        BatchKind::Counter => "COUNTER BATCH",
    };
    vec![
        Some(kind.to_owned()),
        Some(modifications(&batch.statements)),
        all_conditions(&batch.statements),
    ]
}

fn of_transaction(transaction: &Transaction<'_>) -> Clauses {
    vec![
        Some("TRANSACTION".to_owned()),
        (!transaction.updates.is_empty()).then(|| modifications(&transaction.updates)),
    ]
}

/// `INSERT orders + 3 UPDATE customers`, in the order in which each appears first.
fn modifications(all: &[Modification<'_>]) -> String {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for one in all {
        let verb = match one {
            Modification::Insert(_) => "INSERT",
            Modification::Update(_) => "UPDATE",
            Modification::Delete(_) => "DELETE",
        };
        let words = format!("{verb} {}", one.table().name);
        match counted.iter_mut().find(|(known, _)| *known == words) {
            Some((_, times)) => *times += 1,
            None => counted.push((words, 1)),
        }
    }
    let counted = counted.iter().map(|(words, times)| match times {
        1 => words.clone(),
        times => format!("{times} {words}"),
    });
    counted.collect::<Vec<_>>().join(" + ")
}

/// What all statements of a batch ask before any of them is applied.
fn all_conditions(statements: &[Modification<'_>]) -> Option<String> {
    let mut names = Vec::new();
    for statement in statements {
        let condition = match statement {
            Modification::Insert(insert) if insert.if_not_exists => return Some("IF NOT EXISTS".to_owned()),
            Modification::Insert(_) => None,
            Modification::Update(update) => update.condition.as_ref(),
            Modification::Delete(delete) => delete.condition.as_ref(),
        };
        match condition {
            None => {}
            Some(If::Exists) => return Some("IF EXISTS".to_owned()),
            Some(If::Conditions(relations)) => names.extend(columns(relations)),
        }
    }
    names.dedup();
    (!names.is_empty()).then(|| format!("IF {}", listed(&names)))
}

fn conditions(condition: Option<&If<'_>>) -> Option<String> {
    match condition? {
        If::Exists => Some("IF EXISTS".to_owned()),
        If::Conditions(relations) => Some(format!("IF {}", listed(&columns(relations)))),
    }
}

fn columns(relations: &[Relation<'_>]) -> Vec<String> {
    let subjects = relations.iter().flat_map(|relation| relation.subject.columns());
    subjects.map(Name::to_string).collect()
}

fn using(using: &Using<'_>) -> Option<String> {
    let parts = [(&using.ttl, "TTL"), (&using.timestamp, "TIMESTAMP")];
    let parts: Vec<_> = parts
        .iter()
        .filter_map(|(value, name)| value.as_ref().map(|_| *name))
        .collect();
    (!parts.is_empty()).then(|| format!("USING {}", parts.join(" AND ")))
}

/// `WHERE a, b = ? AND c > ?`: columns that are equal to a marker stand together.
fn restricted(cql: &str, clause: &Where<'_>) -> Option<String> {
    let is_equal = |relation: &&Relation<'_>| {
        matches!(relation.subject, Subject::Column(_))
            && relation.operator == RelationOperator::Equal
            && matches!(relation.comparand, Comparand::One(Term::BindMarker(_)))
    };
    let equal: Vec<_> = clause
        .relations
        .iter()
        .filter(is_equal)
        .flat_map(|one| one.subject.columns())
        .collect();
    let equal = (!equal.is_empty()).then(|| {
        let names: Vec<_> = equal.iter().map(|name| name.as_str()).collect();
        format!("{} = ?", names.join(", "))
    });
    let others = clause.relations.iter().filter(|one| !is_equal(one));
    let others = others.filter_map(|relation| cql.get(relation.span.range()).map(str::to_owned));
    let by_index = (!clause.custom_index_expressions.is_empty()).then(|| "expr(…)".to_owned());
    let all: Vec<_> = equal.into_iter().chain(others).chain(by_index).collect();
    (!all.is_empty()).then(|| format!("WHERE {}", all.join(" AND ")))
}

/// A selected column or expression.
fn shown(cql: &str, term: &Term<'_>) -> String {
    match term {
        Term::Column(name) => name.to_string(),
        other => cql.get(other.span().range()).unwrap_or("…").to_owned(),
    }
}

/// The first names, and how many there are where there are more.
fn listed(names: &[String]) -> String {
    match names.len() {
        0..=NAMED => names.join(", "),
        many => format!("{} … {many} columns", names[..NAMED - 1].join(", ")),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_kind_columns_restrictions_and_conditions() {
        let lines = [
            (
                "INSERT INTO j.traces (trace_id, span_id, span_hash, parent_id, duration) VALUES (?, ?, ?, ?, ?) USING TTL ?",
                "INSERT (trace_id, span_id, span_hash … 5 columns) USING TTL",
            ),
            (
                "SELECT trace_id FROM j.tag_index WHERE service = ? AND tag_key = ? AND start_time > ? LIMIT ?",
                "SELECT trace_id WHERE service, tag_key = ? AND start_time > ? LIMIT ?",
            ),
            (
                "SELECT * FROM j.traces WHERE id IN ? ALLOW FILTERING",
                "SELECT * WHERE id IN ? ALLOW FILTERING",
            ),
            ("SELECT count(*) FROM j.traces", "SELECT count(*)"),
            (
                "SELECT a FROM j.traces WHERE id = ? AND at = now()",
                "SELECT a WHERE id = ? AND at = now()",
            ),
            (
                "UPDATE t.executions SET state = ?, version = ? WHERE id = ? IF version = ?",
                "UPDATE SET state, version WHERE id = ? IF version",
            ),
            (
                "DELETE tags FROM j.traces WHERE id = ?",
                "DELETE tags WHERE id = ?",
            ),
            (
                "BEGIN BATCH INSERT INTO t.executions (id) VALUES (?); UPDATE t.executions SET a = ? WHERE id = ? IF a = ?; \
                 UPDATE t.executions SET a = ? WHERE id = ?; APPLY BATCH",
                "BATCH INSERT executions + 2 UPDATE executions IF a",
            ),
            (
                "BEGIN UNLOGGED BATCH INSERT INTO k.points (id) VALUES (?); INSERT INTO k.points (id) VALUES (?); APPLY BATCH",
                "UNLOGGED BATCH 2 INSERT points",
            ),
            ("this is no CQL", "this is no CQL"),
        ];
        for (cql, line) in lines {
            assert_eq!(brief(cql), line);
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let cql = format!("SELECT * FROM a.b WHERE {} > ?", "c".repeat(300));
        assert_eq!(brief(&cql).chars().count(), LINE + 1);
        assert!(brief(&"x ".repeat(300)).ends_with('…'));
    }
}
