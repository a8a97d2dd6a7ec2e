//! Properties of tables: which ones Cassandra 6.0 has, and which values of those that it added.

use cqlens_cql::schema::OptionValue;
use cqlens_cql::syntax::ast::{Body, Property, PropertyValue, Statement, TableChange};

use super::answer::StatementError;

/// `TableParams.Option` of Cassandra 6.0, and what `CREATE TABLE` has beside it.
const PROPERTIES: [&str; 25] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "auto_repair",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "fast_path",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "pending_drop",
    "read_repair",
    "speculative_retry",
    "transactional_migration_from",
    "transactional_mode",
];

/// `TransactionalMode`
const MODES: [&str; 6] = [
    "off",
    "mixed_reads",
    "full",
    "test_unsafe_writes",
    "test_unsafe",
    "test_interop_read",
];

/// Why Cassandra 6.0 refuses a property of a table.
pub(super) fn refused(statement: &Statement<'_>) -> Option<StatementError> {
    let options = match &statement.body {
        Body::CreateTable(create) => &create.options,
        Body::CopyTable(copy) => &copy.options,
        Body::AlterTable(alter) => match &alter.change {
            TableChange::With(options) => options,
            _ => return None,
        },
        _ => return None,
    };
    options.iter().find_map(|option| {
        message(option).map(|message| StatementError {
            stage: "validate",
            message,
            offset: Some(option.name.span.start),
        })
    })
}

fn message(option: &Property<'_>) -> Option<String> {
    let name = option.name.as_str();
    if !PROPERTIES.contains(&name) {
        return Some(format!("Unknown property '{name}'"));
    }
    let value = match &option.value {
        PropertyValue::Literal(literal) => literal.decoded().to_lowercase(),
        PropertyValue::Word(word) => word.as_str().to_owned(),
        PropertyValue::Map(_) | PropertyValue::Indexes(_) => return None,
    };
    let is_known = match name {
        "fast_path" => ["keyspace", "simple", "up"].contains(&value.as_str()),
        "transactional_mode" => MODES.contains(&value.as_str()),
        _ => true,
    };
    (!is_known).then(|| format!("{} is no value of {name}", OptionValue::Text(value)))
}
