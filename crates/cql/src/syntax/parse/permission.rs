//! `GRANT`, `REVOKE` and `LIST`.

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, Kind, Name, Other, QualifiedName};
use crate::syntax::{Expected, Keyword, ParseErrorKind, TokenKind};

use super::name::is_name;
use super::parser::{Parsed, Parser};
use super::role::about;

impl<'text> Parser<'text, '_> {
    // grant ::= GRANT permissions ON resource TO role | GRANT role TO role
    pub(super) fn grant(&mut self) -> Parsed<Other<'text>> {
        self.expect_keyword(Keyword::Grant)?;
        self.grant_or_revoke(Keyword::To, Kind::GrantPermissions, Kind::GrantRole)
    }

    // revoke ::= REVOKE permissions ON resource FROM role | REVOKE role FROM role
    pub(super) fn revoke(&mut self) -> Parsed<Other<'text>> {
        self.expect_keyword(Keyword::Revoke)?;
        self.grant_or_revoke(Keyword::From, Kind::RevokePermissions, Kind::RevokeRole)
    }

    fn grant_or_revoke(
        &mut self,
        preposition: Keyword,
        permissions_kind: Kind,
        role_kind: Kind,
    ) -> Parsed<Other<'text>> {
        // Some permissions are names of roles too.
        if !self.at_permission() || self.keyword_at(1, preposition) {
            let role = self.role()?;
            self.expect_keyword(preposition)?;
            self.role()?;
            return Ok(about(role_kind, role));
        }
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let object = self.checked_resource(&permissions)?;
        self.expect_keyword(preposition)?;
        self.role()?;
        Ok(Other {
            kind: permissions_kind,
            object,
        })
    }

    fn checked_resource(&mut self, permissions: &Permissions) -> Parsed<Option<QualifiedName<'text>>> {
        let start = self.peek().span;
        let resource = self.resource()?;
        if permissions.any_applies_to(resource.kind) {
            return Ok(resource.object);
        }
        Err(Self::refused(ParseErrorKind::ValueNotAllowed, self.since(start)))
    }

    fn at_permission(&self) -> bool {
        matches!(self.kind(), TokenKind::Keyword(keyword) if keyword == Keyword::All || PERMISSIONS.contains(&keyword))
    }

    // permissions ::= ALL PERMISSIONS? | permission PERMISSION? (',' permission PERMISSION?)*
    fn permissions(&mut self) -> Parsed<Permissions> {
        if self.accept_keyword(Keyword::All) {
            self.accept_keyword(Keyword::Permissions);
            return Ok(Permissions::All);
        }
        self.comma_separated(|parser| {
            let permission = parser.permission()?;
            parser.accept_keyword(Keyword::Permission);
            Ok(permission)
        })
        .map(Permissions::Listed)
    }

    // permission ::= CREATE | ALTER | DROP | SELECT | MODIFY | AUTHORIZE | DESCRIBE | EXECUTE | UNMASK |
    // SELECT_MASKED
    fn permission(&mut self) -> Parsed<Keyword> {
        match self.kind() {
            TokenKind::Keyword(keyword) if PERMISSIONS.contains(&keyword) => {
                self.advance();
                Ok(keyword)
            }
            _ => {
                PERMISSIONS
                    .iter()
                    .for_each(|permission| self.expecting(Expected::Keyword(*permission)));
                Err(self.unexpected())
            }
        }
    }

    // resource ::= ALL KEYSPACES | KEYSPACE name | ALL TABLES IN KEYSPACE name | TABLE? table
    //            | ALL ROLES | ROLE role | ALL FUNCTIONS (IN KEYSPACE name)? | FUNCTION function_name types
    //            | ALL MBEANS | MBEAN string | MBEANS string
    fn resource(&mut self) -> Parsed<Resource<'text>> {
        let next_is_name = self.kind_at(1) == TokenKind::String || is_name(self.kind_at(1));
        match self.kind() {
            TokenKind::Keyword(Keyword::All) if self.at_all_of_a_kind() => self.all_of_a_kind(),
            TokenKind::Keyword(Keyword::Keyspace) => {
                self.advance();
                Ok(Resource::named(ResourceKind::Keyspace, self.object_name()?))
            }
            TokenKind::Keyword(Keyword::Role) if next_is_name => {
                self.advance();
                Ok(Resource::named(ResourceKind::Role, self.role()?))
            }
            TokenKind::Keyword(Keyword::Function) if next_is_name || self.keyword_at(1, Keyword::Token) => {
                self.function_resource()
            }
            TokenKind::Keyword(keyword @ (Keyword::Mbean | Keyword::Mbeans)) if next_is_name => {
                self.mbean(keyword == Keyword::Mbeans)
            }
            _ => {
                self.accept_keyword(Keyword::Table);
                Ok(Resource {
                    kind: ResourceKind::Table,
                    object: Some(self.qualified_name()?),
                })
            }
        }
    }

    fn at_all_of_a_kind(&self) -> bool {
        matches!(
            self.kind_at(1),
            TokenKind::Keyword(
                Keyword::Keyspaces | Keyword::Tables | Keyword::Roles | Keyword::Functions | Keyword::Mbeans
            )
        )
    }

    fn all_of_a_kind(&mut self) -> Parsed<Resource<'text>> {
        self.expect_keyword(Keyword::All)?;
        let kind = match self.advance().kind {
            TokenKind::Keyword(Keyword::Keyspaces) => return Ok(Resource::unnamed(ResourceKind::Keyspace)),
            TokenKind::Keyword(Keyword::Roles) => return Ok(Resource::unnamed(ResourceKind::AllRoles)),
            TokenKind::Keyword(Keyword::Mbeans) => return Ok(Resource::unnamed(ResourceKind::Mbean)),
            TokenKind::Keyword(Keyword::Functions) if !self.at_keyword(Keyword::In) => {
                return Ok(Resource::unnamed(ResourceKind::AllFunctions));
            }
            TokenKind::Keyword(Keyword::Functions) => ResourceKind::AllFunctions,
            _ => ResourceKind::Keyspace,
        };
        self.expect_keywords(&[Keyword::In, Keyword::Keyspace])?;
        Ok(Resource::named(kind, self.object_name()?))
    }

    /// A function's resource must say its keyspace.
    fn function_resource(&mut self) -> Parsed<Resource<'text>> {
        self.expect_keyword(Keyword::Function)?;
        let name = self.function_name()?;
        self.types_in_parentheses()?;
        if name.keyspace.is_none() {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, name.name.span));
        }
        Ok(Resource {
            kind: ResourceKind::Function,
            object: Some(name),
        })
    }

    /// The name of a management bean: `domain:key=value,…`; the plural wants a pattern, though not `*:*`.
    fn mbean(&mut self, plural: bool) -> Parsed<Resource<'text>> {
        self.advance();
        let literal = self.string()?;
        let name = literal.decoded();
        let is_pattern = name.contains(['*', '?']);
        let has_properties = name
            .split_once(':')
            .is_some_and(|(_, keys)| keys == "*" || keys.contains('='));
        if !has_properties || name == "*:*" || plural && !is_pattern {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, literal.span));
        }
        Ok(Resource::unnamed(ResourceKind::Mbean))
    }

    // list ::= LIST permissions (ON resource)? of_role | LIST ROLES of_role | LIST USERS
    // of_role ::= (OF role)? NORECURSIVE?
    pub(super) fn list(&mut self) -> Parsed<Other<'text>> {
        self.expect_keyword(Keyword::List)?;
        if self.at_service_levels() {
            return self.list_service_levels();
        }
        let keyword = self.peek().span;
        if self.accept_word("SUPERUSERS") {
            self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
            return Ok(Other {
                kind: Kind::ListSuperusers,
                object: None,
            });
        }
        if self.accept_keyword(Keyword::Users) {
            return Ok(Other {
                kind: Kind::ListUsers,
                object: None,
            });
        }
        if self.accept_keyword(Keyword::Roles) {
            let role = self.of_role()?;
            return Ok(Other {
                kind: Kind::ListRoles,
                object: role.map(unqualified),
            });
        }
        self.permissions()?;
        // What cannot be granted may be listed: permissions and resource need not fit.
        let object = if self.accept_keyword(Keyword::On) {
            self.resource()?.object
        } else {
            None
        };
        let role = self.of_role()?;
        Ok(Other {
            kind: Kind::ListPermissions,
            object: object.or(role.map(unqualified)),
        })
    }

    fn of_role(&mut self) -> Parsed<Option<Name<'text>>> {
        let role = if self.accept_keyword(Keyword::Of) {
            Some(self.role()?)
        } else {
            None
        };
        self.accept_keyword(Keyword::Norecursive);
        Ok(role)
    }
}

const fn unqualified(name: Name<'_>) -> QualifiedName<'_> {
    QualifiedName { keyspace: None, name }
}

/// What may be granted.
const PERMISSIONS: [Keyword; 10] = [
    Keyword::Create,
    Keyword::Alter,
    Keyword::Drop,
    Keyword::Select,
    Keyword::Modify,
    Keyword::Authorize,
    Keyword::Describe,
    Keyword::Execute,
    Keyword::Unmask,
    Keyword::SelectMasked,
];

enum Permissions {
    All,
    Listed(Vec<Keyword>),
}

impl Permissions {
    /// Cassandra refuses a grant of which nothing would apply to the resource.
    fn any_applies_to(&self, kind: ResourceKind) -> bool {
        match self {
            Self::All => true,
            Self::Listed(permissions) => permissions.iter().any(|permission| kind.allows(*permission)),
        }
    }
}

/// What permissions are granted on.
struct Resource<'text> {
    kind: ResourceKind,
    object: Option<QualifiedName<'text>>,
}

impl<'text> Resource<'text> {
    const fn unnamed(kind: ResourceKind) -> Self {
        Self { kind, object: None }
    }

    const fn named(kind: ResourceKind, name: Name<'text>) -> Self {
        Self {
            kind,
            object: Some(unqualified(name)),
        }
    }
}

#[derive(Clone, Copy)]
enum ResourceKind {
    Keyspace,
    Table,
    AllRoles,
    Role,
    AllFunctions,
    Function,
    Mbean,
}

impl ResourceKind {
    /// Source: `applicablePermissions` of `DataResource`, `RoleResource`, `FunctionResource` and
    /// `JMXResource`.
    const fn allows(self, permission: Keyword) -> bool {
        use Keyword::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
        };
        match self {
            Self::Keyspace => {
                matches!(
                    permission,
                    Create | Alter | Drop | Select | Modify | Authorize | Unmask | SelectMasked
                )
            }
            Self::Table => matches!(
                permission,
                Alter | Drop | Select | Modify | Authorize | Unmask | SelectMasked
            ),
            Self::AllRoles => matches!(permission, Create | Alter | Drop | Authorize | Describe),
            Self::Role => matches!(permission, Alter | Drop | Authorize | Describe),
            Self::AllFunctions => matches!(permission, Create | Alter | Drop | Authorize | Execute),
            Self::Function => matches!(permission, Alter | Drop | Authorize | Execute),
            Self::Mbean => matches!(permission, Authorize | Describe | Execute | Modify | Select),
        }
    }
}
