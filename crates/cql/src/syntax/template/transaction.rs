//! The templates of transactions, comments and security labels.

use crate::syntax::ast::{
    AnnotatedObject, Annotation, AnnotationKind, Returning, RowCondition, RowReference, Transaction,
};

use super::writer::{VALUE, Writer};

impl Writer<'_> {
    /// Writes a transaction; its writes, of which it may have any number, as those of a batch.
    pub(super) fn transaction(&mut self, transaction: &Transaction<'_>) {
        self.push("BEGIN TRANSACTION ");
        for read in &transaction.lets {
            self.push("LET ");
            self.push(read.name.as_str());
            self.push(" = (");
            self.select(&read.select);
            self.push("); ");
        }
        match &transaction.returning {
            Some(Returning::Select(select)) => {
                self.select(select);
                self.push("; ");
            }
            Some(Returning::References(references)) => {
                self.push("SELECT ");
                self.separated(", ", references, Self::reference);
                self.push("; ");
            }
            None => {}
        }
        if !transaction.conditions.is_empty() {
            self.push("IF ");
            self.separated(" AND ", &transaction.conditions, Self::row_condition);
            self.push(" THEN ");
        }
        let mut updates: Vec<String> = transaction
            .updates
            .iter()
            .map(|update| self.child(update))
            .collect();
        updates.sort_unstable();
        updates.dedup();
        for update in &updates {
            self.push(update);
            self.push("; ");
        }
        self.push_if(!transaction.conditions.is_empty(), "END IF ");
        self.push("COMMIT TRANSACTION");
    }

    fn row_condition(&mut self, condition: &RowCondition<'_>) {
        let operator = condition.operator.as_str();
        match &condition.value {
            Some(value) if condition.is_value_first => {
                self.term(value);
                self.push(" ");
                self.push(operator);
                self.push(" ");
                self.reference(&condition.reference);
            }
            value => {
                self.reference(&condition.reference);
                self.push(" ");
                self.push(operator);
                if let Some(value) = value {
                    self.push(" ");
                    self.term(value);
                }
            }
        }
    }

    /// Writes what is said of a row that was read, with the letters of the text: in transactions they count.
    pub(super) fn reference(&mut self, reference: &RowReference<'_>) {
        self.name(&reference.row);
        if let Some(part) = &reference.part {
            self.push(".");
            self.term(part);
        }
    }

    /// Writes a comment or a security label.
    pub(super) fn annotation(&mut self, annotation: &Annotation<'_>) {
        self.push(match annotation.kind {
            AnnotationKind::Comment => "COMMENT",
            AnnotationKind::SecurityLabel => "SECURITY LABEL",
        });
        if let Some(provider) = &annotation.provider {
            self.push(" FOR ");
            self.name(provider);
        }
        self.push(" ON ");
        match &annotation.object {
            AnnotatedObject::Keyspace(name) => {
                self.push("KEYSPACE ");
                self.name(name);
            }
            AnnotatedObject::Table(name) => {
                self.push("TABLE ");
                self.table(name);
            }
            AnnotatedObject::Column(table, column) => {
                self.push("COLUMN ");
                self.table(table);
                self.push(".");
                self.name(column);
            }
            AnnotatedObject::Type(name) => {
                self.push("TYPE ");
                self.user_type(name);
            }
            AnnotatedObject::Field(name, field) => {
                self.push("FIELD ");
                self.user_type(name);
                self.push(".");
                self.name(field);
            }
        }
        self.push(" IS ");
        self.push(if annotation.text.is_some() { VALUE } else { "NULL" });
    }
}
