//! Where the text of a statement may end: a dump prints texts as they are, so that one may have lines that look like the dump's own.
//!
//! Cassandra logs what it has executed. There no comment, string or quoted name is open at the end, and no bracket; and outside
//! of brackets no statement has a colon behind `Values`.

/// What is open where a text has been read up to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Ending {
    inside: Inside,
    /// The byte before, if it may begin something together with the next.
    before: u8,
    brackets: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    LineComment,
    Comment,
    /// `'…'` or `"…"`; two of its quotes leave it and enter it again.
    Quoted(u8),
    /// `$$…$$`
    Dollars,
}

impl Ending {
    /// Whether a statement may end here.
    pub(super) fn is_possible(self) -> bool {
        matches!(self.inside, Inside::Nothing | Inside::LineComment) && self.brackets == 0
    }

    /// Reads on.
    pub(super) fn read(&mut self, text: &[u8]) {
        text.iter().for_each(|&byte| self.step(byte));
    }

    fn step(&mut self, byte: u8) {
        let before = std::mem::replace(&mut self.before, byte);
        let inside = match (self.inside, before, byte) {
            (Inside::Nothing, b'/', b'*') => Inside::Comment,
            (Inside::Nothing, b'/', b'/') | (Inside::Nothing, b'-', b'-') => Inside::LineComment,
            (Inside::Nothing, b'$', b'$') => Inside::Dollars,
            (Inside::Nothing, _, b'\'' | b'"') => Inside::Quoted(byte),
            (Inside::LineComment, _, b'\n' | b'\r')
            | (Inside::Comment, b'*', b'/')
            | (Inside::Dollars, b'$', b'$') => Inside::Nothing,
            (Inside::Quoted(quote), _, _) if quote == byte => Inside::Nothing,
            (inside, _, _) => {
                if inside == Inside::Nothing {
                    self.count(byte);
                }
                return;
            }
        };
        self.inside = inside;
        // What ends or begins one begins no other: `/*/` is open, and so is `$$$`.
        self.before = 0;
    }

    fn count(&mut self, byte: u8) {
        match byte {
            b'(' | b'[' | b'{' => self.brackets += 1,
            b')' | b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_end(text: &str) -> bool {
        let mut ending = Ending::default();
        // However it is cut.
        text.as_bytes().chunks(1).for_each(|part| ending.read(part));
        ending.is_possible()
    }

    #[test]
    fn a_statement_ends_where_nothing_is_open() {
        for whole in [
            "SELECT a FROM k.t WHERE b = 'it''s /*' AND c = \"\"\"(\" AND d = $$'/*$$",
            "SELECT a /* ' */ FROM t -- '(\nWHERE b IN (1, [2], {3: 4})",
            "SELECT a FROM t -- /*",
            "SELECT a FROM t // '",
            "SELECT a FROM t /**/",
            "SELECT 4 / 2 - 1",
        ] {
            assert!(may_end(whole), "{whole}");
        }
        for open in [
            "SELECT a FROM t /*",
            "SELECT a FROM t /*/",
            "SELECT a FROM t /* -- */ /*",
            "SELECT a FROM t WHERE b = '",
            "SELECT a FROM t WHERE b = 'it''",
            "SELECT a FROM t WHERE b = $$ $",
            "SELECT \"",
            "INSERT INTO t (a) VALUES ({",
            "SELECT a FROM t -- \n/*",
            "SELECT a FROM t -- \r/*",
        ] {
            assert!(!may_end(open), "{open}");
        }
    }
}
