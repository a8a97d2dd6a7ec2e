//! The place in the tokens where a parser stands, and the steps that all productions are made of.
//!
//! The grammar is parsed without ever going back: every choice is made by looking at most a few tokens ahead.
//! So time is linear in the length of the text, and the first error is the furthest one.

use std::collections::HashMap;

use crate::ServerVersion;
use crate::syntax::ast::{BindMarker, Dialect, Extension, Name};
use crate::syntax::{Expected, Keyword, ParseError, ParseErrorKind, Span, Token, TokenKind};

/// How deep brackets may nest: far deeper than any statement needs, and shallow enough for a stack of 2 MiB,
/// of which it takes the greater half without optimisation and a fifth with it.
pub const MAX_DEPTH: usize = 128;

/// The unreserved keywords that Cassandra 6.0 added.
const NEW_WORDS: [&str; 18] = [
    "BETWEEN",
    "CHECK",
    "COLUMN",
    "COMMENT",
    "COMMENTS",
    "COMMIT",
    "END",
    "FIELD",
    "FOR",
    "GENERATED",
    "INDEXES",
    "LABEL",
    "LABELS",
    "LET",
    "SECURITY",
    "SUPERUSERS",
    "THEN",
    "TRANSACTION",
];

/// What a production gives.
pub(super) type Parsed<T> = Result<T, ParseError>;

/// A cursor over the tokens of one statement.
pub(super) struct Parser<'text, 'tokens> {
    text: &'text str,
    tokens: &'tokens [Token],
    position: usize,
    depth: usize,
    bind_markers: Vec<BindMarker<'text>>,
    /// Where a named marker is one however often it occurs: the index of each.
    shared_names: Option<HashMap<String, usize>>,
    extension: Option<Extension>,
    /// Whether values may refer to rows that a transaction has read.
    in_transaction: bool,
    /// What was asked for since the last step; only kept by a second parse, to explain the error of the
    /// first.
    expected: Option<Vec<Expected>>,
}

impl<'text, 'tokens> Parser<'text, 'tokens> {
    /// A parser before the first of `tokens`, which were cut from `text`.
    pub(super) const fn new(text: &'text str, tokens: &'tokens [Token]) -> Self {
        Self {
            text,
            tokens,
            position: 0,
            depth: 0,
            bind_markers: Vec::new(),
            shared_names: None,
            extension: None,
            in_transaction: false,
            expected: None,
        }
    }

    /// The same, for a server that binds all markers of one name by one value.
    pub(super) fn sharing_names(text: &'text str, tokens: &'tokens [Token]) -> Self {
        Self {
            shared_names: Some(HashMap::new()),
            ..Self::new(text, tokens)
        }
    }

    /// The same, remembering what would have been right.
    pub(super) fn explaining(text: &'text str, tokens: &'tokens [Token]) -> Self {
        Self {
            expected: Some(Vec::new()),
            ..Self::new(text, tokens)
        }
    }

    /// The bind markers passed so far and the syntax that the fewest servers read.
    pub(super) fn findings(&mut self) -> (Vec<BindMarker<'text>>, Option<Extension>) {
        (std::mem::take(&mut self.bind_markers), self.extension)
    }

    /// The steps taken so far: every loop of the grammar takes a token each time round.
    pub(super) const fn steps(&self) -> u64 {
        self.position as u64
    }

    /// The source text of a span.
    pub(super) fn covered(&self, span: Span) -> &'text str {
        span.of(self.text)
    }

    /// The source text of a token.
    #[inline]
    pub(super) fn text_of(&self, token: Token) -> &'text str {
        token.span.of(self.text)
    }

    /// The next token; past the last one, the end.
    #[inline]
    pub(super) fn peek(&self) -> Token {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or_else(|| self.end())
    }

    /// The kind of the next token.
    #[inline]
    pub(super) fn kind(&self) -> TokenKind {
        self.kind_at(0)
    }

    /// The kind of the token `ahead` of the next one.
    #[inline]
    pub(super) fn kind_at(&self, ahead: usize) -> TokenKind {
        self.tokens
            .get(self.position + ahead)
            .map_or(TokenKind::End, |token| token.kind)
    }

    /// Whether the next token is that keyword; says nothing about what is expected.
    #[inline]
    pub(super) fn at_keyword(&self, keyword: Keyword) -> bool {
        self.kind() == TokenKind::Keyword(keyword)
    }

    /// Whether the token `ahead` of the next one is that keyword.
    #[inline]
    pub(super) fn keyword_at(&self, ahead: usize, keyword: Keyword) -> bool {
        self.kind_at(ahead) == TokenKind::Keyword(keyword)
    }

    /// Takes the next token.
    #[inline]
    pub(super) fn advance(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        if let Some(expected) = &mut self.expected {
            expected.clear();
        }
        token
    }

    /// Where the last token taken stands.
    pub(super) fn last_span(&self) -> Span {
        self.position
            .checked_sub(1)
            .and_then(|last| self.tokens.get(last))
            .map_or(Span::default(), |token| token.span)
    }

    /// From the beginning of `start` to the end of the last token taken.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    /// Takes the next token if it is of that kind.
    #[inline]
    pub(super) fn accept(&mut self, kind: TokenKind) -> Option<Token> {
        if self.kind() == kind {
            return Some(self.advance());
        }
        self.expecting(Expected::Token(kind));
        None
    }

    /// Takes the next token if it is that keyword.
    #[inline]
    pub(super) fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        if self.at_keyword(keyword) {
            self.advance();
            return true;
        }
        self.expecting(Expected::Keyword(keyword));
        false
    }

    /// Takes the keywords if all of them follow.
    pub(super) fn accept_keywords(&mut self, keywords: &[Keyword]) -> bool {
        if keywords
            .iter()
            .enumerate()
            .all(|(ahead, keyword)| self.keyword_at(ahead, *keyword))
        {
            keywords.iter().for_each(|_| _ = self.advance());
            return true;
        }
        if let Some(first) = keywords.first() {
            self.expecting(Expected::Keyword(*first));
        }
        false
    }

    /// Whether the next token is `word` (in upper case), which is no keyword to all versions of Cassandra.
    pub(super) fn at_word(&self, word: &'static str) -> bool {
        self.word_at(0, word)
    }

    /// Whether the token `ahead` of the next one is `word`.
    pub(super) fn word_at(&self, ahead: usize, word: &'static str) -> bool {
        self.tokens.get(self.position + ahead).is_some_and(|token| {
            token.kind == TokenKind::Identifier && self.text_of(*token).eq_ignore_ascii_case(word)
        })
    }

    /// Takes the next token if it is `word`.
    pub(super) fn accept_word(&mut self, word: &'static str) -> bool {
        if self.at_word(word) {
            self.advance();
            return true;
        }
        self.expecting(Expected::Word(word));
        false
    }

    /// Takes the next token, which must be of that kind.
    pub(super) fn expect(&mut self, kind: TokenKind) -> Parsed<Token> {
        self.accept(kind).ok_or_else(|| self.unexpected())
    }

    /// Takes the next token, which must be that keyword.
    pub(super) fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.accept_keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Takes the next tokens, which must be those keywords.
    pub(super) fn expect_keywords(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords
            .iter()
            .try_for_each(|keyword| self.expect_keyword(*keyword))
    }

    /// Takes the next token, which must be `word`.
    pub(super) fn expect_word(&mut self, word: &'static str) -> Parsed<()> {
        if self.accept_word(word) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Notes that something could have stood here.
    #[inline]
    pub(super) fn expecting(&mut self, what: Expected) {
        if let Some(expected) = &mut self.expected
            && !expected.contains(&what)
        {
            expected.push(what);
        }
    }

    /// The error that the next token must not stand here.
    pub(super) fn unexpected(&self) -> ParseError {
        let next = self.peek();
        let kind = match next.kind {
            TokenKind::End => ParseErrorKind::UnexpectedEnd,
            _ => ParseErrorKind::UnexpectedToken,
        };
        ParseError {
            kind,
            span: next.span,
            expected: self.expected.clone().unwrap_or_default(),
        }
    }

    /// The error that `what` should stand here.
    pub(super) fn missing(&mut self, what: Expected) -> ParseError {
        self.expecting(what);
        self.unexpected()
    }

    /// Another error, about what stands at `span`.
    pub(super) const fn refused(kind: ParseErrorKind, span: Span) -> ParseError {
        ParseError {
            kind,
            span,
            expected: Vec::new(),
        }
    }

    /// Runs a production one level deeper. Every production that can contain itself goes through here.
    ///
    /// # Errors
    ///
    /// Beyond [`MAX_DEPTH`].
    pub(super) fn nested<T>(&mut self, production: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Self::refused(ParseErrorKind::TooDeep, self.peek().span));
        }
        self.depth += 1;
        let parsed = production(self);
        self.depth -= 1;
        parsed
    }

    /// Refuses a chain of `length` links that would nest too deeply.
    pub(super) fn check_depth(&self, length: usize) -> Parsed<()> {
        if self.depth + length > MAX_DEPTH {
            return Err(Self::refused(ParseErrorKind::TooDeep, self.peek().span));
        }
        Ok(())
    }

    // list ::= item (',' item)*
    pub(super) fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        // One allocation serves most lists.
        let mut items = Vec::with_capacity(8);
        items.push(item(self)?);
        while self.accept(TokenKind::Comma).is_some() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    // list ::= item (AND item)*
    pub(super) fn and_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_keyword(Keyword::And) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Adds a bind marker, which gets the next index, or that of its name.
    pub(super) fn push_bind_marker(&mut self, name: Option<Name<'text>>, span: Span) -> BindMarker<'text> {
        let mut index = self.bind_markers.len();
        if let (Some(shared), Some(name)) = (&mut self.shared_names, &name) {
            index = *shared.entry(name.as_str().to_owned()).or_insert(index);
        }
        let marker = BindMarker { index, name, span };
        if index == self.bind_markers.len() {
            self.bind_markers.push(marker.clone());
        }
        marker
    }

    /// Notes syntax that not all servers read; kept is what the fewest do, and of that the first.
    pub(super) fn extend(&mut self, dialect: Dialect, span: Span) {
        if self.extension.is_none_or(|known| known.dialect < dialect) {
            self.extension = Some(Extension { dialect, span });
        }
    }

    /// Notes that the text since `start` is read by Cassandra from a version on.
    pub(super) fn since_version(&mut self, version: ServerVersion, start: Span) {
        let span = self.since(start);
        self.extend(Dialect::Cassandra(version), span);
    }

    /// Runs the production of a transaction, in which values may refer to rows.
    pub(super) fn within_transaction<T>(
        &mut self,
        production: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        self.in_transaction = true;
        let parsed = production(self);
        self.in_transaction = false;
        parsed
    }

    /// Whether values may refer to rows.
    pub(super) const fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Whether the next token is a word that Cassandra 6.0 made a keyword and still accepts as a name.
    pub(super) fn at_new_word(&self) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Identifier
            && NEW_WORDS
                .iter()
                .any(|word| word.eq_ignore_ascii_case(self.text_of(token)))
    }

    #[cold]
    fn end(&self) -> Token {
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        Token::new(TokenKind::End, Span::new(end, end))
    }
}
