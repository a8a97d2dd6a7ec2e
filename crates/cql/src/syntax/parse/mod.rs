//! From text to tree: a recursive descent over tokens, one function per production of Cassandra's grammar.
//!
//! What Cassandra does while it parses belongs to the grammar here too: a vector's dimension must fit 32
//! bits, a property must not be set twice, a grant must apply to its resource. What it checks later does not.

mod annotation;
mod check;
mod describe;
mod expression;
mod function;
mod modification;
mod name;
mod parser;
mod permission;
mod property;
mod relation;
mod role;
mod schema;
mod scylla;
mod select;
mod selector;
mod table;
mod term;
mod transaction;
mod types;

pub use parser::MAX_DEPTH;

use super::ast::{Body, Dropped, Kind, Statement};
use super::{Expected, Keyword, ParseError, Token, TokenKind, Work, lexer};
pub(super) use name::unquoted;
use parser::{Parsed, Parser};
pub(super) use term::literal_kind;
pub(super) use types::class_name;

/// Parses one statement; semicolons may follow.
///
/// # Errors
///
/// What Cassandra 6.0 calls a syntax error, except the extensions that [`Statement::extension`] reports; and
/// nesting beyond [`MAX_DEPTH`].
pub fn parse(text: &str) -> Result<Statement<'_>, ParseError> {
    parse_within(text, &Work::of_text(text))
}

/// As [`parse`], with the steps taken from `work`: up to four for each byte.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_within<'text>(text: &'text str, work: &Work) -> Result<Statement<'text>, ParseError> {
    parse_counted(text, &lexer::tokens_within(text, work)?, work)
}

/// As [`parse_within`], for a server to which a named marker is one marker however often it occurs
/// (ScyllaDB's default): all of one name have one [`index`](crate::syntax::ast::BindMarker::index), and
/// [`Statement::bind_markers`] has the first of each.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_with_shared_markers<'text>(
    text: &'text str,
    work: &Work,
) -> Result<Statement<'text>, ParseError> {
    let tokens = lexer::tokens_within(text, work)?;
    statement(Parser::sharing_names(text, &tokens), text, work)
}

/// As [`parse_within`], of a text that was cut into `tokens` before; the steps which that took are counted too.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_tokens<'text>(
    text: &'text str,
    tokens: &[Token],
    work: &Work,
) -> Result<Statement<'text>, ParseError> {
    work.spend(text.len() as u64);
    parse_counted(text, tokens, work)
}

/// The same, where the steps are counted already.
pub(super) fn parse_counted<'text>(
    text: &'text str,
    tokens: &[Token],
    work: &Work,
) -> Result<Statement<'text>, ParseError> {
    // Nearly all statements are right: only for a wrong one is it worth while to note what would have been.
    statement(Parser::new(text, tokens), text, work)
        .or_else(|_| statement(Parser::explaining(text, tokens), text, work))
}

// query ::= statement ';'* end
fn statement<'text>(
    mut parser: Parser<'text, '_>,
    text: &'text str,
    work: &Work,
) -> Parsed<Statement<'text>> {
    let parsed = whole_statement(&mut parser, text);
    work.spend(parser.steps());
    parsed
}

fn whole_statement<'text>(parser: &mut Parser<'text, '_>, text: &'text str) -> Parsed<Statement<'text>> {
    let start = parser.peek().span;
    let body = parser.body()?;
    let span = parser.since(start);
    while parser.accept(TokenKind::Semicolon).is_some() {}
    parser.expect(TokenKind::End)?;
    let (bind_markers, extension) = parser.findings();
    Ok(Statement {
        text,
        span,
        bind_markers,
        extension,
        body,
    })
}

impl<'text> Parser<'text, '_> {
    // statement ::= select | insert | update | delete | batch | transaction | let | comment | security_label | use | truncate | create | alter | drop
    //             | grant | revoke | list | add_identity | describe | prune_view | attach | detach
    fn body(&mut self) -> Parsed<Body<'text>> {
        let TokenKind::Keyword(keyword) = self.kind() else {
            return self.body_of_word();
        };
        match keyword {
            Keyword::Select => self.select().map(Body::Select),
            Keyword::Insert => self.insert().map(Body::Insert),
            Keyword::Update => self.update().map(Body::Update),
            Keyword::Delete => self.delete().map(Body::Delete),
            Keyword::Begin if self.word_at(1, "TRANSACTION") => self.transaction().map(Body::Transaction),
            Keyword::Begin => self.batch().map(Body::Batch),
            Keyword::Use => self.use_keyspace().map(Body::Use),
            Keyword::Truncate => self.truncate().map(Body::Truncate),
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop(),
            Keyword::Grant => self.grant().map(Body::Other),
            Keyword::Revoke => self.revoke().map(Body::Other),
            Keyword::List => self.list().map(Body::Other),
            Keyword::Add => self.add_identity().map(Body::Other),
            Keyword::Describe | Keyword::Desc => self.describe().map(Body::Other),
            _ => Err(self.missing(Expected::Statement)),
        }
    }

    fn body_of_word(&mut self) -> Parsed<Body<'text>> {
        if self.at_word("PRUNE") {
            return self.prune_view().map(Body::Other);
        }
        if self.at_word("COMMENT") {
            return self.comment_on().map(Body::Annotate);
        }
        if self.at_word("SECURITY") {
            return self.security_label().map(Body::Annotate);
        }
        // The read of a transaction is a statement of its own too.
        if self.at_word("LET") {
            return self.row_read().map(|read| Body::Select(read.select));
        }
        let kind = if self.at_word("ATTACH") {
            Kind::AttachServiceLevel
        } else if self.at_word("DETACH") {
            Kind::DetachServiceLevel
        } else {
            return Err(self.missing(Expected::Statement));
        };
        self.advance();
        self.service_level(kind).map(Body::Other)
    }

    // create ::= CREATE (keyspace | table | type | CUSTOM? INDEX | MATERIALIZED VIEW | trigger | user | role
    //          | (OR REPLACE)? (FUNCTION | AGGREGATE))
    fn create(&mut self) -> Parsed<Body<'text>> {
        self.advance();
        if self.accept_keyword(Keyword::Or) {
            self.expect_keyword(Keyword::Replace)?;
            if self.accept_keyword(Keyword::Aggregate) {
                return self.create_aggregate().map(Body::Other);
            }
            self.expect_keyword(Keyword::Function)?;
            return self.create_function().map(Body::Other);
        }
        if self.at_word("GENERATED") {
            return self.create_generated_role().map(Body::Other);
        }
        match self.created_object()? {
            Keyword::Keyspace => self.create_keyspace().map(Body::CreateKeyspace),
            Keyword::Table => self.create_table(),
            Keyword::Type => self.create_type().map(Body::CreateType),
            Keyword::Index => self.create_index(false).map(Body::CreateIndex),
            Keyword::Custom => {
                self.expect_keyword(Keyword::Index)?;
                self.create_index(true).map(Body::CreateIndex)
            }
            Keyword::Materialized => {
                self.expect_keyword(Keyword::View)?;
                self.create_view().map(Body::CreateView)
            }
            Keyword::Trigger => self.create_trigger().map(Body::Other),
            Keyword::User => self.create_user().map(Body::Other),
            Keyword::Role => self.create_role().map(Body::Other),
            Keyword::Function => self.create_function().map(Body::Other),
            Keyword::Aggregate => self.create_aggregate().map(Body::Other),
            _ => self.service_level(Kind::CreateServiceLevel).map(Body::Other),
        }
    }

    fn created_object(&mut self) -> Parsed<Keyword> {
        self.object_keyword(&[
            Keyword::Keyspace,
            Keyword::Table,
            Keyword::Type,
            Keyword::Index,
            Keyword::Custom,
            Keyword::Materialized,
            Keyword::Trigger,
            Keyword::User,
            Keyword::Role,
            Keyword::Function,
            Keyword::Aggregate,
        ])
    }

    /// Takes one of those keywords. `SELECT` stands for a service level of ScyllaDB, which no keyword begins.
    fn object_keyword(&mut self, allowed: &[Keyword]) -> Parsed<Keyword> {
        if self.at_service_level() {
            return Ok(Keyword::Select);
        }
        match self.kind() {
            TokenKind::Keyword(keyword) if allowed.contains(&keyword) => {
                self.advance();
                Ok(keyword)
            }
            _ => {
                allowed
                    .iter()
                    .for_each(|keyword| self.expecting(Expected::Keyword(*keyword)));
                Err(self.unexpected())
            }
        }
    }

    // alter ::= ALTER (keyspace | table | type | MATERIALIZED VIEW | user | role)
    fn alter(&mut self) -> Parsed<Body<'text>> {
        self.advance();
        let allowed = [
            Keyword::Keyspace,
            Keyword::Table,
            Keyword::Type,
            Keyword::Materialized,
            Keyword::User,
            Keyword::Role,
        ];
        match self.object_keyword(&allowed)? {
            Keyword::Keyspace => self.alter_keyspace().map(Body::AlterKeyspace),
            Keyword::Table => self.alter_table().map(Body::AlterTable),
            Keyword::Type => self.alter_type().map(Body::AlterType),
            Keyword::Materialized => {
                self.expect_keyword(Keyword::View)?;
                self.alter_view().map(Body::AlterView)
            }
            Keyword::User => self.alter_user().map(Body::Other),
            Keyword::Role => self.alter_role().map(Body::Other),
            _ => self.service_level(Kind::AlterServiceLevel).map(Body::Other),
        }
    }

    // drop ::= DROP (keyspace | table | type | index | MATERIALIZED VIEW | function | aggregate | trigger |
    // user
    //        | role | identity)
    fn drop(&mut self) -> Parsed<Body<'text>> {
        self.advance();
        let allowed = [
            Keyword::Keyspace,
            Keyword::Table,
            Keyword::Type,
            Keyword::Index,
            Keyword::Materialized,
            Keyword::Function,
            Keyword::Aggregate,
            Keyword::Trigger,
            Keyword::User,
            Keyword::Role,
            Keyword::Identity,
        ];
        match self.object_keyword(&allowed)? {
            Keyword::Keyspace => self.drop_schema(Dropped::Keyspace).map(Body::Drop),
            Keyword::Table => self.drop_schema(Dropped::Table).map(Body::Drop),
            Keyword::Type => self.drop_schema(Dropped::Type).map(Body::Drop),
            Keyword::Index => self.drop_schema(Dropped::Index).map(Body::Drop),
            Keyword::Materialized => {
                self.expect_keyword(Keyword::View)?;
                self.drop_schema(Dropped::View).map(Body::Drop)
            }
            Keyword::Function => self.drop_function(Kind::DropFunction).map(Body::Other),
            Keyword::Aggregate => self.drop_function(Kind::DropAggregate).map(Body::Other),
            Keyword::Trigger => self.drop_trigger().map(Body::Other),
            Keyword::User => self.drop_user().map(Body::Other),
            Keyword::Role => self.drop_role().map(Body::Other),
            Keyword::Identity => self.drop_identity().map(Body::Other),
            _ => self.service_level(Kind::DropServiceLevel).map(Body::Other),
        }
    }
}
