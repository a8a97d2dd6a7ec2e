//! `CREATE` and `ALTER KEYSPACE` (`KeyspaceAttributes`, `AbstractReplicationStrategy`).

use super::{Validated, is_of_a_jar, is_plain, properties, refused};
use crate::ServerVersion;
use crate::syntax::ast::{AlterKeyspace, CreateKeyspace, Literal, Property, PropertyValue};

/// `SchemaConstants.LOCAL_SYSTEM_KEYSPACE_NAMES`
const OF_THE_NODE: [&str; 2] = ["system", "system_schema"];

/// `SchemaConstants.NAME_LENGTH`
const LONGEST_NAME: usize = 48;

pub(super) fn create(create: &CreateKeyspace<'_>, version: ServerVersion) -> Validated {
    let name = create.name.as_str();
    if OF_THE_NODE.contains(&name) {
        return Err(refused(
            create.name.span,
            format!("System keyspace '{name}' is not user-modifiable"),
        ));
    }
    if !is_plain(name) {
        return Err(refused(
            create.name.span,
            format!(
                "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
            ),
        ));
    }
    if name.len() > LONGEST_NAME {
        return Err(refused(
            create.name.span,
            format!(
                "Keyspace name must not be more than {LONGEST_NAME} characters long (got {} characters for \"{name}\")",
                name.len()
            ),
        ));
    }
    options(&create.options, version)?;
    let has_replication = create
        .options
        .iter()
        .any(|option| option.name.as_str() == "replication");
    match has_replication {
        true => Ok(()),
        false => Err(refused(
            create.name.span,
            "Missing mandatory option 'replication'",
        )),
    }
}

pub(super) fn alter(alter: &AlterKeyspace<'_>, version: ServerVersion) -> Validated {
    let name = alter.name.as_str();
    if OF_THE_NODE.contains(&name) {
        return Err(refused(
            alter.name.span,
            format!("{name} keyspace is not user-modifiable."),
        ));
    }
    options(&alter.options, version)
}

fn options(options: &[Property<'_>], version: ServerVersion) -> Validated {
    for option in options {
        match option.name.as_str() {
            "replication" => check_replication(option)?,
            "durable_writes" => properties::check_boolean(option)?,
            "fast_path" if version >= ServerVersion::V6_0 => {}
            _ => return Err(properties::unknown(option)),
        }
    }
    Ok(())
}

fn check_replication(option: &Property<'_>) -> Validated {
    let PropertyValue::Map(entries) = &option.value else {
        return Err(properties::no_map(option));
    };
    let class = entries.iter().find(|(key, _)| key.decoded() == "class");
    let Some((_, class)) = class else {
        return Err(refused(option.name.span, "Missing replication strategy class"));
    };
    let text = class.decoded();
    let simple = text
        .strip_prefix("org.apache.cassandra.locator.")
        .unwrap_or(&text);
    let factors = entries.iter().filter(|(key, _)| key.decoded() != "class");
    match simple {
        "SimpleStrategy" => {
            for (key, factor) in factors {
                if key.decoded() != "replication_factor" {
                    return Err(refused(
                        key.span,
                        format!(
                            "Unrecognized strategy option {{{}}} passed to SimpleStrategy",
                            key.decoded()
                        ),
                    ));
                }
                check_factor(factor)?;
            }
            Ok(())
        }
        // Its other options are data centers, which only the cluster knows.
        "NetworkTopologyStrategy" => factors.map(|(_, factor)| factor).try_for_each(check_factor),
        "LocalStrategy" => Err(refused(
            class.span,
            "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
        )),
        _ if is_of_a_jar(&text) => Ok(()),
        simple => Err(refused(
            class.span,
            format!("Unable to find replication strategy class 'org.apache.cassandra.locator.{simple}'"),
        )),
    }
}

/// A number of replicas; with `3/1` one of three is transient.
fn check_factor(factor: &Literal<'_>) -> Validated {
    let text = factor.decoded();
    let (replicas, transient) = text.split_once('/').unwrap_or((&text, "0"));
    match (replicas.trim().parse::<i32>(), transient.trim().parse::<i32>()) {
        (Ok(replicas), Ok(_)) if replicas < 0 => Err(refused(
            factor.span,
            format!("Replication factor must be non-negative, found {replicas}"),
        )),
        (Ok(_), Ok(_)) => Ok(()),
        _ => Err(refused(factor.span, format!("For input string: \"{text}\""))),
    }
}
