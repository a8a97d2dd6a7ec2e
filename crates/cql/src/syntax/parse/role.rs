//! Roles, users and identities: kind and name. Their options may hold passwords, of which nothing is kept.

use std::collections::HashSet;

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, Kind, Name, Other, QualifiedName};
use crate::syntax::{Expected, Keyword, ParseErrorKind, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // create_role ::= CREATE ROLE (IF NOT EXISTS)? role? (WITH role_option (AND role_option)*)?
    pub(super) fn create_role(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_not_exists()?;
        if matches!(
            self.kind(),
            TokenKind::End | TokenKind::Semicolon | TokenKind::Keyword(Keyword::With)
        ) {
            return self.role_without_name();
        }
        self.role_with_options(Kind::CreateRole)
    }

    // create_generated_role ::= CREATE GENERATED ROLE (WITH role_option (AND role_option)*)?
    pub(super) fn create_generated_role(&mut self) -> Parsed<Other<'text>> {
        self.expect_word("GENERATED")?;
        self.expect_keyword(Keyword::Role)?;
        self.role_without_name()
    }

    /// The server makes up a name, or refuses to.
    fn role_without_name(&mut self) -> Parsed<Other<'text>> {
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.last_span());
        if self.accept_keyword(Keyword::With) {
            self.role_options()?;
        }
        Ok(Other {
            kind: Kind::CreateRole,
            object: None,
        })
    }

    // alter_role ::= ALTER ROLE (IF EXISTS)? role (WITH role_option (AND role_option)*)?
    pub(super) fn alter_role(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_exists_of_alter()?;
        self.role_with_options(Kind::AlterRole)
    }

    fn role_with_options(&mut self, kind: Kind) -> Parsed<Other<'text>> {
        let role = self.role()?;
        if self.accept_keyword(Keyword::With) {
            self.role_options()?;
        }
        Ok(about(kind, role))
    }

    // drop_role ::= DROP ROLE (IF EXISTS)? role
    pub(super) fn drop_role(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_exists()?;
        Ok(about(Kind::DropRole, self.role()?))
    }

    // role ::= name | string
    pub(super) fn role(&mut self) -> Parsed<Name<'text>> {
        if self.kind() == TokenKind::String {
            return self.string_as_name();
        }
        self.object_name()
    }

    /// A name that is written as a string; its case stays.
    fn string_as_name(&mut self) -> Parsed<Name<'text>> {
        let literal = self.string()?;
        Ok(Name {
            text: literal.decoded(),
            is_quoted: true,
            span: literal.span,
        })
    }

    // role_option ::= PASSWORD '=' string | HASHED PASSWORD '=' string | GENERATED PASSWORD | OPTIONS '=' map
    //               | SUPERUSER '=' boolean | LOGIN '=' boolean | access
    fn role_options(&mut self) -> Parsed<()> {
        let mut given = HashSet::new();
        loop {
            let start = self.peek().span;
            let option = self.role_option()?;
            let passwords = [
                RoleOption::Password,
                RoleOption::HashedPassword,
                RoleOption::GeneratedPassword,
            ];
            let excluded = passwords
                .iter()
                .any(|other| passwords.contains(&option) && *other != option && given.contains(other));
            let is_new = option == RoleOption::Access || given.insert(option);
            if !is_new || excluded {
                return Err(Self::refused(ParseErrorKind::Duplicate, self.since(start)));
            }
            if !self.accept_keyword(Keyword::And) {
                return Ok(());
            }
        }
    }

    fn role_option(&mut self) -> Parsed<RoleOption> {
        if self.accept_keyword(Keyword::Password) {
            return self.option_value(RoleOption::Password, TokenKind::String);
        }
        let start = self.peek().span;
        if self.accept_keyword(Keyword::Hashed) {
            self.expect_keyword(Keyword::Password)?;
            self.since_version(ServerVersion::V4_1, start);
            return self.option_value(RoleOption::HashedPassword, TokenKind::String);
        }
        if self.generated_password()? {
            return Ok(RoleOption::GeneratedPassword);
        }
        if self.accept_keyword(Keyword::Superuser) {
            return self.option_value(RoleOption::Superuser, TokenKind::Boolean);
        }
        if self.accept_keyword(Keyword::Login) {
            return self.option_value(RoleOption::Login, TokenKind::Boolean);
        }
        if self.accept_keyword(Keyword::Options) {
            self.expect(TokenKind::Equal)?;
            self.literal_map()?;
            return Ok(RoleOption::Options);
        }
        self.expect_keyword(Keyword::Access)?;
        self.access()?;
        Ok(RoleOption::Access)
    }

    // generated_password ::= GENERATED PASSWORD
    fn generated_password(&mut self) -> Parsed<bool> {
        let start = self.peek().span;
        if !self.accept_word("GENERATED") {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Password)?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.since(start));
        Ok(true)
    }

    fn option_value(&mut self, option: RoleOption, kind: TokenKind) -> Parsed<RoleOption> {
        self.expect(TokenKind::Equal)?;
        self.expect(kind)?;
        Ok(option)
    }

    // access ::= ACCESS (TO (ALL DATACENTERS | DATACENTERS strings) | FROM (ALL CIDRS | CIDRS strings))
    // strings ::= '{' string (',' string)* '}'
    fn access(&mut self) -> Parsed<()> {
        let what = if self.accept_keyword(Keyword::To) {
            Keyword::Datacenters
        } else {
            let start = self.peek().span;
            self.expect_keyword(Keyword::From)?;
            self.since_version(ServerVersion::V5_0, start);
            Keyword::Cidrs
        };
        if self.accept_keyword(Keyword::All) {
            return self.expect_keyword(what);
        }
        self.expect_keyword(what)?;
        self.expect(TokenKind::OpenBrace)?;
        self.comma_separated(|parser| parser.expect(TokenKind::String))?;
        self.expect(TokenKind::CloseBrace)?;
        Ok(())
    }

    // create_user ::= CREATE USER (IF NOT EXISTS)? user user_options
    pub(super) fn create_user(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_not_exists()?;
        self.user_with_options(Kind::CreateRole)
    }

    // alter_user ::= ALTER USER (IF EXISTS)? user user_options
    pub(super) fn alter_user(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_exists_of_alter()?;
        self.user_with_options(Kind::AlterRole)
    }

    // user_options ::= (WITH (HASHED? PASSWORD string | GENERATED PASSWORD))? (SUPERUSER | NOSUPERUSER)?
    fn user_with_options(&mut self, kind: Kind) -> Parsed<Other<'text>> {
        let user = self.user()?;
        if self.accept_keyword(Keyword::With) && !self.generated_password()? {
            let start = self.peek().span;
            let is_hashed = self.accept_keyword(Keyword::Hashed);
            self.expect_keyword(Keyword::Password)?;
            if is_hashed {
                self.since_version(ServerVersion::V4_1, start);
            }
            self.expect(TokenKind::String)?;
        }
        if !self.accept_keyword(Keyword::Superuser) {
            self.accept_keyword(Keyword::Nosuperuser);
        }
        Ok(about(kind, user))
    }

    // drop_user ::= DROP USER (IF EXISTS)? user
    pub(super) fn drop_user(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_exists()?;
        Ok(about(Kind::DropRole, self.user()?))
    }

    // user ::= identifier | string      (a quoted name parses in Cassandra, and is refused)
    fn user(&mut self) -> Parsed<Name<'text>> {
        match self.kind() {
            TokenKind::Identifier => Ok(self.take_name()),
            TokenKind::String => self.string_as_name(),
            TokenKind::QuotedName => Err(Self::refused(ParseErrorKind::ValueNotAllowed, self.peek().span)),
            _ => Err(self.missing(Expected::Name)),
        }
    }

    // add_identity ::= ADD IDENTITY (IF NOT EXISTS)? user TO ROLE user
    pub(super) fn add_identity(&mut self) -> Parsed<Other<'text>> {
        let start = self.peek().span;
        self.expect_keywords(&[Keyword::Add, Keyword::Identity])?;
        self.since_version(ServerVersion::V5_0, start);
        self.optional_if_not_exists()?;
        self.user()?;
        self.expect_keywords(&[Keyword::To, Keyword::Role])?;
        Ok(about(Kind::AddIdentity, self.user()?))
    }

    // drop_identity ::= DROP IDENTITY (IF EXISTS)? user
    pub(super) fn drop_identity(&mut self) -> Parsed<Other<'text>> {
        self.since_version(ServerVersion::V5_0, self.last_span());
        self.optional_if_exists()?;
        self.user()?;
        Ok(Other {
            kind: Kind::DropIdentity,
            object: None,
        })
    }
}

/// The options of a role, of which each but access may be given once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RoleOption {
    Password,
    HashedPassword,
    GeneratedPassword,
    Superuser,
    Login,
    Options,
    Access,
}

/// A statement about a role.
pub(super) const fn about(kind: Kind, role: Name<'_>) -> Other<'_> {
    Other {
        kind,
        object: Some(QualifiedName {
            keyspace: None,
            name: role,
        }),
    }
}
