//! The templates of statements: everything but definitions.

use crate::syntax::ast::{
    Assignment, AssignmentOperation, Batch, BatchKind, Body, Comparand, Delete, DeletionTarget, Direction,
    If, Insert, InsertSource, JsonDefault, Modification, Ordering, Relation, Select, Selection, Statement,
    Subject, Term, Update, Using, Where,
};

use super::fingerprint::child_text;
use super::unparsed;
use super::writer::{VALUE, Writer};

impl Writer<'_> {
    pub(super) fn statement(&mut self, statement: &Statement<'_>) {
        match &statement.body {
            Body::Select(select) => self.select(select),
            Body::Insert(insert) => self.insert(insert),
            Body::Update(update) => self.update(update),
            Body::Delete(delete) => self.delete(delete),
            Body::Batch(batch) => self.batch_text(batch),
            Body::Transaction(transaction) => self.transaction(transaction),
            Body::Annotate(annotation) => self.annotation(annotation),
            Body::Truncate(truncate) => {
                self.push("TRUNCATE ");
                self.table(&truncate.table);
                self.using(&truncate.using);
            }
            Body::Use(use_keyspace) => {
                self.push("USE ");
                self.name(&use_keyspace.keyspace);
            }
            Body::Other(other) => self.push(&unparsed::of_other(statement, other, self.keyspace())),
            definition => self.definition(definition),
        }
    }

    pub(super) fn select(&mut self, select: &Select<'_>) {
        self.push("SELECT ");
        self.push_if(select.json, "JSON ");
        self.push_if(select.distinct, "DISTINCT ");
        self.selection(&select.selection);
        self.push(" FROM ");
        self.table(&select.table);
        self.where_clause(&select.where_clause);
        if !select.group_by.is_empty() {
            self.push(" GROUP BY ");
            self.separated(", ", &select.group_by, |writer, term| _ = writer.term(term));
        }
        if !select.order_by.is_empty() {
            self.push(" ORDER BY ");
            self.separated(", ", &select.order_by, Self::ordering);
        }
        self.push_if(select.per_partition_limit.is_some(), " PER PARTITION LIMIT ?");
        self.push_if(select.limit.is_some(), " LIMIT ?");
        self.push_if(select.allow_filtering, " ALLOW FILTERING");
        self.options(&select.options);
        self.push_if(select.bypass_cache, " BYPASS CACHE");
        self.using(&select.using);
    }

    pub(super) fn push_if(&mut self, condition: bool, text: &str) {
        if condition {
            self.push(text);
        }
    }

    pub(super) fn selection(&mut self, selection: &Selection<'_>) {
        match selection {
            Selection::All => self.push("*"),
            Selection::Selectors(selectors) => self.separated(", ", selectors, |writer, selector| {
                writer.term(&selector.term);
                if let Some(alias) = &selector.alias {
                    writer.push(" AS ");
                    writer.selected_name(alias);
                }
            }),
        }
    }

    fn ordering(&mut self, ordering: &Ordering<'_>) {
        self.name(&ordering.column);
        if let Some(vector) = &ordering.ann_of {
            self.push(" ANN OF ");
            self.term(vector);
        }
        self.push_if(ordering.direction == Direction::Descending, " DESC");
    }

    pub(super) fn where_clause(&mut self, clause: &Where<'_>) {
        if clause.relations.is_empty() && clause.custom_index_expressions.is_empty() {
            return;
        }
        self.push(" WHERE ");
        self.separated(" AND ", &clause.relations, Self::relation);
        self.push_if(
            !clause.relations.is_empty() && !clause.custom_index_expressions.is_empty(),
            " AND ",
        );
        self.separated(" AND ", &clause.custom_index_expressions, |writer, expression| {
            writer.push("expr(");
            writer.name(&expression.index.name);
            writer.push(", ");
            writer.term(&expression.value);
            writer.push(")");
        });
    }

    fn relation(&mut self, relation: &Relation<'_>) {
        self.subject(&relation.subject);
        self.push(" ");
        self.push(relation.operator.as_str());
        match &relation.comparand {
            Comparand::None => {}
            Comparand::One(term) => self.after_blank(term),
            Comparand::Range(range) => {
                self.after_blank(&range.0);
                self.push(" AND");
                self.after_blank(&range.1);
            }
            Comparand::Marker(_) => self.push(" ?"),
            Comparand::List(items) => {
                self.push(" ");
                self.in_list(items, matches!(relation.subject, Subject::Columns(_)));
            }
        }
    }

    fn after_blank(&mut self, term: &Term<'_>) {
        self.push(" ");
        self.term(term);
    }

    fn subject(&mut self, subject: &Subject<'_>) {
        match subject {
            Subject::Column(column) => self.name(column),
            Subject::Columns(columns) => {
                self.push("(");
                self.names(columns);
                self.push(")");
            }
            Subject::Token(columns) => {
                self.push("token(");
                self.names(columns);
                self.push(")");
            }
            Subject::Element(column, key) => {
                self.name(column);
                self.push("[");
                self.term(key);
                self.push("]");
            }
            Subject::Field(column, field) => {
                self.name(column);
                self.push(".");
                self.name(field);
            }
        }
    }

    fn insert(&mut self, insert: &Insert<'_>) {
        self.push("INSERT INTO ");
        self.table(&insert.table);
        match &insert.source {
            InsertSource::Values { columns, values } => {
                self.push(" (");
                self.names(columns);
                self.push(") VALUES (");
                self.separated(", ", values, |writer, value| _ = writer.term(value));
                self.push(")");
            }
            InsertSource::Json { default, .. } => {
                self.push(" JSON ?");
                self.push_if(*default == JsonDefault::Unset, " DEFAULT UNSET");
            }
        }
        self.push_if(insert.if_not_exists, " IF NOT EXISTS");
        self.using(&insert.using);
    }

    fn update(&mut self, update: &Update<'_>) {
        self.push("UPDATE ");
        self.table(&update.table);
        self.using(&update.using);
        self.push(" SET ");
        self.separated(", ", &update.assignments, Self::assignment);
        self.where_clause(&update.where_clause);
        self.condition(update.condition.as_ref());
    }

    fn assignment(&mut self, assignment: &Assignment<'_>) {
        let column = &assignment.column;
        self.name(column);
        match &assignment.operation {
            AssignmentOperation::Set(term) => {
                self.push(" =");
                self.after_blank(term);
            }
            AssignmentOperation::Add(term) => {
                self.push(" = ");
                self.name(column);
                self.push(" +");
                self.after_blank(term);
            }
            AssignmentOperation::Subtract(term) => {
                self.push(" = ");
                self.name(column);
                self.push(" -");
                self.after_blank(term);
            }
            AssignmentOperation::Prepend(term) => {
                self.push(" =");
                self.after_blank(term);
                self.push(" + ");
                self.name(column);
            }
            AssignmentOperation::SetElement { key, value } => {
                self.push("[");
                self.term(key);
                self.push("] =");
                self.after_blank(value);
            }
            AssignmentOperation::SetField { field, value } => {
                self.push(".");
                self.name(field);
                self.push(" =");
                self.after_blank(value);
            }
        }
    }

    fn delete(&mut self, delete: &Delete<'_>) {
        self.push("DELETE ");
        self.separated(", ", &delete.deletions, |writer, deletion| {
            writer.name(&deletion.column);
            match &deletion.target {
                DeletionTarget::Column => {}
                DeletionTarget::Element(key) => {
                    writer.push("[");
                    writer.term(key);
                    writer.push("]");
                }
                DeletionTarget::Field(field) => {
                    writer.push(".");
                    writer.name(field);
                }
            }
        });
        self.push_if(!delete.deletions.is_empty(), " ");
        self.push("FROM ");
        self.table(&delete.table);
        self.using(&delete.using);
        self.where_clause(&delete.where_clause);
        self.condition(delete.condition.as_ref());
    }

    fn condition(&mut self, condition: Option<&If<'_>>) {
        match condition {
            None => {}
            Some(If::Exists) => self.push(" IF EXISTS"),
            Some(If::Conditions(conditions)) => {
                self.push(" IF ");
                self.separated(" AND ", conditions, Self::relation);
            }
        }
    }

    fn using(&mut self, using: &Using<'_>) {
        let parts = [
            ("TIMESTAMP", &using.timestamp),
            ("TTL", &using.ttl),
            ("TIMEOUT", &using.timeout),
        ];
        let given = parts.iter().filter(|(_, value)| value.is_some());
        self.push_if(!using.is_empty(), " USING ");
        self.separated(" AND ", given, |writer, (name, _)| {
            writer.push(name);
            writer.push(" ");
            writer.push(VALUE);
        });
    }

    fn batch_text(&mut self, batch: &Batch<'_>) {
        let mut children: Vec<String> = Vec::new();
        for child in &batch.statements {
            let child = self.child(child);
            // Most batches repeat one statement: what is told apart below should be short.
            if children.last() != Some(&child) {
                children.push(child);
            }
        }
        let using = (!batch.using.is_empty()).then_some(&batch.using);
        self.batch(batch.kind, using, children.iter().map(String::as_str).collect());
    }

    pub(super) fn child(&mut self, modification: &Modification<'_>) -> String {
        let mut writer = Writer::new(self.keyspace(), 0);
        match modification {
            Modification::Insert(insert) => writer.insert(insert),
            Modification::Update(update) => writer.update(update),
            Modification::Delete(delete) => writer.delete(delete),
        }
        self.add_steps(writer.steps());
        child_text(writer.into_text())
    }

    /// Writes a batch of statements whose templates are given.
    pub(super) fn batch(&mut self, kind: BatchKind, using: Option<&Using<'_>>, mut children: Vec<&str>) {
        children.sort_unstable();
        children.dedup();
        self.push(match kind {
            BatchKind::Logged => "BEGIN BATCH",
            BatchKind::Unlogged => "BEGIN UNLOGGED BATCH",
            BatchKind::Counter => "BEGIN COUNTER BATCH",
        });
        if let Some(using) = using {
            self.using(using);
        }
        for child in children {
            self.push(" ");
            self.push(child);
            self.push(";");
        }
        self.push(" APPLY BATCH");
    }
}
