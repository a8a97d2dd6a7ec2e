//! Every message, with the fields that its version has.

use std::net::IpAddr;

use cqlens_proto::envelope::{Opcode, Version};
use cqlens_proto::message::error::{Acknowledged, FailureReason};
use cqlens_proto::message::event::NodeChange;
use cqlens_proto::message::result::{ColumnSpecsBuf, ContinuousPage};
use cqlens_proto::message::*;
use cqlens_proto::types::Uuid;
use proptest::prelude::*;

use super::values::cql_type;
use super::{bytes, only_if, text, texts};

fn is_v4(version: Version) -> bool {
    version != Version::V3
}

fn is_v5(version: Version) -> bool {
    !matches!(version, Version::V3 | Version::V4)
}

fn is_dse(version: Version) -> bool {
    matches!(version, Version::DseV1 | Version::DseV2)
}

fn has_keyspace(version: Version) -> bool {
    is_v5(version) && version != Version::DseV1
}

fn has_now(version: Version) -> bool {
    is_v5(version) && !is_dse(version)
}

/// Version 4 may have Scylla's result metadata ids.
pub(crate) fn dialect() -> impl Strategy<Value = Dialect> {
    (super::version(), any::<bool>()).prop_map(|(version, result_metadata_id)| {
        let is_extended = result_metadata_id && version == Version::V4;
        let extensions = Extensions {
            result_metadata_id: is_extended,
            rate_limit_error: is_extended.then_some(0xf000),
            lwt_mask: 0,
        };
        Dialect::with(version, extensions)
    })
}

fn consistency() -> impl Strategy<Value = Consistency> {
    (0_u16..13).prop_map(Consistency::from_number)
}

fn value(version: Version) -> BoxedStrategy<Value<'static>> {
    let values = prop_oneof![bytes().prop_map(Value::Bytes), Just(Value::Null)];
    if is_v4(version) {
        prop_oneof![values, Just(Value::NotSet)].boxed()
    } else {
        values.boxed()
    }
}

fn positional(version: Version) -> impl Strategy<Value = Values<'static>> {
    proptest::collection::vec(value(version), 0..5)
        .prop_map(|values| Box::leak(Box::new(ValuesBuf::positional(values).unwrap())).values())
}

fn named(version: Version) -> impl Strategy<Value = Values<'static>> {
    proptest::collection::vec((text(), value(version)), 0..5)
        .prop_map(|values| Box::leak(Box::new(ValuesBuf::by_name(values).unwrap())).values())
}

fn serial_consistency() -> impl Strategy<Value = Option<SerialConsistency>> {
    proptest::option::of(consistency().prop_map(SerialConsistency))
}

prop_compose! {
    fn common(version: Version)(
        serial_consistency in serial_consistency(),
        timestamp: Option<i64>,
        keyspace in only_if(has_keyspace(version), text()),
        now_in_seconds in only_if(has_now(version), any::<i32>()),
    ) -> QueryParameters<'static> {
        QueryParameters {
            serial_consistency, timestamp, keyspace, now_in_seconds, ..QueryParameters::new(Consistency::One)
        }
    }
}

prop_compose! {
    fn continuous_paging(version: Version)(
        max_pages: i32, pages_per_second: i32, next_pages: i32
    ) -> ContinuousPaging {
        let next_pages = (version == Version::DseV2).then_some(next_pages);
        ContinuousPaging { max_pages, pages_per_second, next_pages }
    }
}

prop_compose! {
    fn parameters(version: Version)(
        consistency in consistency(),
        values in prop_oneof![positional(version), named(version)],
        skip_metadata: bool,
        page_size: Option<i32>,
        in_bytes: bool,
        paging_state in proptest::option::of(bytes().prop_map(PagingState)),
        continuous_paging in only_if(is_dse(version), continuous_paging(version)),
        unknown_flag: bool,
        common in common(version),
    ) -> QueryParameters<'static> {
        let unknown = if version == Version::V4 { 0x80 } else { 0x1000 };
        QueryParameters {
            consistency, values, skip_metadata, page_size, paging_state, continuous_paging,
            page_size_in_bytes: in_bytes && is_dse(version),
            other_flags: if unknown_flag && (version == Version::V4 || is_v5(version)) { unknown } else { 0 },
            ..common
        }
    }
}

fn metadata_id(dialect: Dialect) -> BoxedStrategy<Option<ResultMetadataId<'static>>> {
    if dialect.has_result_metadata_id() {
        bytes().prop_map(|id| Some(ResultMetadataId(id))).boxed()
    } else {
        Just(None).boxed()
    }
}

fn batch_statement(version: Version) -> impl Strategy<Value = BatchStatement<'static>> {
    let query = prop_oneof![
        text().prop_map(BatchQuery::Text),
        bytes().prop_map(|id| BatchQuery::Prepared(PreparedId(id)))
    ];
    (query, positional(version)).prop_map(|(query, values)| BatchStatement { query, values })
}

fn batch(version: Version) -> impl Strategy<Value = Batch<'static>> {
    let statements = proptest::collection::vec(batch_statement(version), 0..5);
    (0_u8..4, statements, consistency(), common(version)).prop_map(
        |(kind, statements, consistency, common)| Batch {
            kind: BatchKind::from_number(kind),
            statements,
            consistency,
            serial_consistency: common.serial_consistency,
            timestamp: common.timestamp,
            keyspace: common.keyspace,
            now_in_seconds: common.now_in_seconds,
            other_flags: 0x40,
        },
    )
}

fn revise() -> impl Strategy<Value = Revise> {
    (0_i32..4, any::<i32>(), any::<i32>()).prop_map(|(revision, target_stream, next)| Revise {
        revision,
        target_stream,
        next_pages: (revision == 2).then_some(next),
    })
}

pub(crate) fn request(dialect: Dialect) -> BoxedStrategy<Request<'static>> {
    let version = dialect.version;
    let prepare = (text(), only_if(has_keyspace(version), text()), any::<bool>()).prop_map(
        move |(query, keyspace, flag)| Prepare {
            query,
            keyspace,
            other_flags: if flag && has_keyspace(version) { 0x100 } else { 0 },
        },
    );
    let execute = (bytes(), metadata_id(dialect), parameters(version)).prop_map(
        |(id, result_metadata_id, parameters)| Execute {
            id: PreparedId(id),
            result_metadata_id,
            parameters,
        },
    );
    let requests = prop_oneof![
        proptest::collection::vec((text(), text()), 0..4)
            .prop_map(|options| Request::Startup(Startup { options })),
        Just(Request::Options),
        proptest::option::of(bytes()).prop_map(|token| Request::AuthResponse(AuthToken { token })),
        (text(), parameters(version))
            .prop_map(|(query, parameters)| Request::Query(Query { query, parameters })),
        prepare.prop_map(Request::Prepare),
        execute.prop_map(Request::Execute),
        batch(version).prop_map(Request::Batch),
        texts().prop_map(|event_types| Request::Register(Register { event_types })),
        bytes().prop_map(|body| Request::Unknown {
            opcode: Opcode(0x77),
            body
        }),
    ];
    if is_dse(version) {
        prop_oneof![9 => requests, 1 => revise().prop_map(Request::Revise)].boxed()
    } else {
        requests.boxed()
    }
}

fn acknowledged() -> impl Strategy<Value = Acknowledged> {
    (consistency(), any::<i32>(), any::<i32>()).prop_map(|(consistency, received, block_for)| Acknowledged {
        consistency,
        received,
        block_for,
    })
}

fn failures(version: Version) -> BoxedStrategy<Failures> {
    if !is_v5(version) {
        return any::<i32>().prop_map(Failures::Count).boxed();
    }
    let reason =
        (any::<IpAddr>(), any::<u16>()).prop_map(|(address, reason)| (address, FailureReason(reason)));
    proptest::collection::vec(reason, 0..4)
        .prop_map(Failures::Reasons)
        .boxed()
}

fn write_type() -> impl Strategy<Value = WriteType<'static>> {
    proptest::sample::select(&["SIMPLE", "CAS", "BATCH_LOG"][..]).prop_map(WriteType)
}

fn error_details(dialect: Dialect) -> BoxedStrategy<(ErrorCode, ErrorDetails<'static>)> {
    let version = dialect.version;
    let write_timeout = (
        acknowledged(),
        write_type(),
        only_if(has_now(version), any::<u16>()),
    )
        .prop_map(
            |(acknowledged, write_type, contentions)| ErrorDetails::WriteTimeout {
                acknowledged,
                write_type,
                contentions: contentions.filter(|_| write_type.0 == "CAS"),
            },
        );
    let known = prop_oneof![
        (consistency(), any::<i32>(), any::<i32>()).prop_map(|(consistency, required, alive)| (
            ErrorCode::UNAVAILABLE,
            ErrorDetails::Unavailable {
                consistency,
                required,
                alive
            }
        )),
        write_timeout.prop_map(|details| (ErrorCode::WRITE_TIMEOUT, details)),
        (acknowledged(), any::<bool>()).prop_map(|(acknowledged, data_present)| (
            ErrorCode::READ_TIMEOUT,
            ErrorDetails::ReadTimeout {
                acknowledged,
                data_present
            }
        )),
        (acknowledged(), failures(version), any::<bool>()).prop_map(
            |(acknowledged, failures, data_present)| (
                ErrorCode::READ_FAILURE,
                ErrorDetails::ReadFailure {
                    acknowledged,
                    failures,
                    data_present
                }
            )
        ),
        (text(), text(), texts()).prop_map(|(keyspace, function, argument_types)| (
            ErrorCode::FUNCTION_FAILURE,
            ErrorDetails::FunctionFailure {
                keyspace,
                function,
                argument_types
            }
        )),
        (acknowledged(), failures(version), write_type()).prop_map(|(acknowledged, failures, write_type)| (
            ErrorCode::WRITE_FAILURE,
            ErrorDetails::WriteFailure {
                acknowledged,
                failures,
                write_type
            }
        )),
        acknowledged().prop_map(|acknowledged| (
            ErrorCode::CAS_WRITE_UNKNOWN,
            ErrorDetails::CasWriteUnknown(acknowledged)
        )),
        (text(), text()).prop_map(|(keyspace, table)| (
            ErrorCode::ALREADY_EXISTS,
            ErrorDetails::AlreadyExists { keyspace, table }
        )),
        bytes().prop_map(|id| (ErrorCode::UNPREPARED, ErrorDetails::Unprepared(PreparedId(id)))),
        proptest::sample::select(&[0, 0x0a, 0x100, 0x1001, 0x1600, 0x2000, 0x2200, 0x7777][..])
            .prop_map(|code| (ErrorCode(code), ErrorDetails::None)),
    ];
    let Some(code) = dialect.extensions.rate_limit_error else {
        return known.boxed();
    };
    let rate_limit = (any::<u8>(), any::<bool>()).prop_map(move |(operation, rejected_by_coordinator)| {
        (
            ErrorCode(code),
            ErrorDetails::RateLimit {
                operation,
                rejected_by_coordinator,
            },
        )
    });
    prop_oneof![9 => known, 1 => rate_limit].boxed()
}

fn schema_change() -> impl Strategy<Value = SchemaChange<'static>> {
    let object = prop_oneof![
        Just(SchemaObject::Keyspace),
        text().prop_map(SchemaObject::Table),
        text().prop_map(SchemaObject::Type),
        (text(), texts()).prop_map(|(name, arguments)| SchemaObject::Function(name, arguments)),
        (text(), texts()).prop_map(|(name, arguments)| SchemaObject::Aggregate(name, arguments)),
        proptest::option::of(text()).prop_map(|name| SchemaObject::Other {
            target: "TRIGGER",
            name
        }),
    ];
    (text(), text(), object).prop_map(|(change, keyspace, object)| SchemaChange {
        change,
        keyspace,
        object,
    })
}

fn node_change() -> impl Strategy<Value = NodeChange<'static>> {
    (text(), any::<IpAddr>(), any::<i32>()).prop_map(|(change, address, port)| NodeChange {
        change,
        address,
        port,
    })
}

fn event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        node_change().prop_map(Event::TopologyChange),
        node_change().prop_map(Event::StatusChange),
        schema_change().prop_map(Event::SchemaChange),
        (text(), texts(), texts()).prop_map(|(change, connection_ids, host_ids)| Event::ClientRoutesChange {
            change,
            connection_ids,
            host_ids
        }),
        bytes().prop_map(|rest| Event::Unknown {
            event_type: "WEATHER_CHANGE",
            rest
        }),
    ]
}

fn columns() -> impl Strategy<Value = ColumnSpecs<'static>> {
    let table = proptest::sample::select(&["t", "u"][..]);
    let column = (table, text(), cql_type()).prop_map(|(table, name, column_type)| ColumnSpec {
        keyspace: "k",
        table,
        name,
        column_type,
    });
    proptest::collection::vec(column, 0..5)
        .prop_map(|columns| Box::leak(Box::new(ColumnSpecsBuf::new(&columns).unwrap())).columns())
}

prop_compose! {
    fn result_metadata(version: Version)(
        columns in proptest::option::of(columns()),
        unnamed_count in 0_usize..5,
        paging_state in proptest::option::of(bytes().prop_map(PagingState)),
        new_metadata_id in proptest::option::of(bytes().prop_map(ResultMetadataId)),
        page in only_if(is_dse(version), (any::<i32>(), any::<bool>())),
    ) -> ResultMetadata<'static> {
        ResultMetadata {
            column_count: columns.map_or(unnamed_count, |columns| columns.len()),
            columns,
            paging_state,
            new_metadata_id,
            continuous_page: page.map(|(number, is_last)| ContinuousPage { number, is_last }),
            other_flags: 0x100,
        }
    }
}

fn rows(version: Version) -> impl Strategy<Value = Rows<'static>> {
    result_metadata(version).prop_flat_map(|metadata| {
        let row = proptest::collection::vec(proptest::option::of(bytes()), metadata.column_count);
        let row_count = if metadata.column_count == 0 { 0..1 } else { 0..4 };
        proptest::collection::vec(row, row_count).prop_map(move |rows| {
            let content = Box::leak(Box::new(RowsContent::new(metadata.column_count)));
            rows.into_iter().for_each(|row| content.push(row).unwrap());
            Rows::new(metadata, content).unwrap()
        })
    })
}

fn prepared(dialect: Dialect) -> impl Strategy<Value = Prepared<'static>> {
    let version = dialect.version;
    let indices = proptest::collection::vec(any::<u16>(), if is_v4(version) { 0..4 } else { 0..1 });
    (
        bytes(),
        metadata_id(dialect),
        columns(),
        indices,
        result_metadata(version),
    )
        .prop_map(
            |(id, result_metadata_id, markers, partition_key_indices, result)| Prepared {
                id: PreparedId(id),
                result_metadata_id,
                bind: BindMetadata {
                    markers,
                    partition_key_indices,
                    other_flags: 0x8000_0000,
                },
                result,
            },
        )
}

fn query_result(dialect: Dialect) -> impl Strategy<Value = QueryResult<'static>> {
    prop_oneof![
        Just(QueryResult::Void),
        rows(dialect.version).prop_map(QueryResult::Rows),
        text().prop_map(|keyspace| QueryResult::SetKeyspace { keyspace }),
        prepared(dialect).prop_map(QueryResult::Prepared),
        schema_change().prop_map(QueryResult::SchemaChange),
        bytes().prop_map(|rest| QueryResult::Unknown { kind: 99, rest }),
    ]
}

pub(crate) fn response(dialect: Dialect) -> BoxedStrategy<Response<'static>> {
    let error = (error_details(dialect), text()).prop_map(|((code, details), message)| ErrorMessage {
        code,
        message,
        details,
    });
    prop_oneof![
        4 => error.prop_map(Response::Error),
        1 => Just(Response::Ready),
        1 => text().prop_map(|authenticator| Response::Authenticate(Authenticate { authenticator })),
        1 => proptest::collection::vec((text(), texts()), 0..4)
            .prop_map(|options| Response::Supported(Supported { options })),
        5 => query_result(dialect).prop_map(Response::Result),
        2 => event().prop_map(Response::Event),
        1 => proptest::option::of(bytes()).prop_map(|token| Response::AuthChallenge(AuthToken { token })),
        1 => proptest::option::of(bytes()).prop_map(|token| Response::AuthSuccess(AuthToken { token })),
        1 => bytes().prop_map(|body| Response::Unknown { opcode: Opcode(0x70), body }),
    ]
    .boxed()
}

fn custom_payload() -> impl Strategy<Value = Vec<(&'static str, Option<&'static [u8]>)>> {
    proptest::collection::vec((text(), proptest::option::of(bytes())), 0..3)
}

pub(crate) fn request_extras() -> impl Strategy<Value = Extras<'static>> {
    (any::<bool>(), custom_payload()).prop_map(|(tracing, custom_payload)| Extras {
        tracing,
        custom_payload,
        ..Extras::default()
    })
}

pub(crate) fn response_extras() -> impl Strategy<Value = Extras<'static>> {
    (proptest::option::of(any::<[u8; 16]>()), texts(), custom_payload()).prop_map(
        |(tracing_id, warnings, custom_payload)| Extras {
            tracing: tracing_id.is_some(),
            tracing_id: tracing_id.map(Uuid),
            warnings,
            custom_payload,
        },
    )
}
