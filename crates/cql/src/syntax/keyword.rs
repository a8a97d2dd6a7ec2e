//! CQL's keywords: which words they are and where each may stand as a name.
//!
//! Words that only Cassandra 6.0 or ScyllaDB know (`BETWEEN`, `LET`, `BYPASS`, `TIMEOUT`, …) are not here: they are
//! plain names to Cassandra 5.0, and may be names to 6.0, and the productions that allow them compare the text.

macro_rules! keywords {
    ($($name:ident $text:literal $class:ident,)*) => {
        /// A keyword of CQL, in any case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the keyword of that name")]
        pub enum Keyword { $($name,)* }

        impl Keyword {
            /// All keywords, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The keyword in upper case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Where the keyword may stand as an unquoted name.
            #[must_use]
            pub const fn class(self) -> KeywordClass {
                match self { $(Self::$name => KeywordClass::$class,)* }
            }
        }
    };
}

/// Where a keyword may stand as an unquoted name; each class allows less than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeywordClass {
    /// Everywhere (`basic_unreserved_keyword` of Cassandra's grammar).
    Unreserved,
    /// Everywhere but as the name of a user-defined type: the native types.
    NativeType,
    /// As a column, table or keyspace, not as a function or type.
    ColumnOnly,
    /// Nowhere.
    Reserved,
}

keywords! {
    Access "ACCESS" Unreserved,
    Aggregate "AGGREGATE" Unreserved,
    Aggregates "AGGREGATES" Unreserved,
    All "ALL" Unreserved,
    Ann "ANN" Unreserved,
    As "AS" Unreserved,
    Called "CALLED" Unreserved,
    Cidrs "CIDRS" Unreserved,
    Cluster "CLUSTER" Unreserved,
    Clustering "CLUSTERING" Unreserved,
    Compact "COMPACT" Unreserved,
    Contains "CONTAINS" Unreserved,
    Custom "CUSTOM" Unreserved,
    Datacenters "DATACENTERS" Unreserved,
    Default "DEFAULT" Unreserved,
    Exists "EXISTS" Unreserved,
    Filtering "FILTERING" Unreserved,
    Finalfunc "FINALFUNC" Unreserved,
    Frozen "FROZEN" Unreserved,
    Function "FUNCTION" Unreserved,
    Functions "FUNCTIONS" Unreserved,
    Group "GROUP" Unreserved,
    Hashed "HASHED" Unreserved,
    Identity "IDENTITY" Unreserved,
    Initcond "INITCOND" Unreserved,
    Input "INPUT" Unreserved,
    Internals "INTERNALS" Unreserved,
    Keys "KEYS" Unreserved,
    Keyspaces "KEYSPACES" Unreserved,
    Language "LANGUAGE" Unreserved,
    Like "LIKE" Unreserved,
    List "LIST" Unreserved,
    Login "LOGIN" Unreserved,
    Map "MAP" Unreserved,
    Masked "MASKED" Unreserved,
    Mbean "MBEAN" Unreserved,
    Mbeans "MBEANS" Unreserved,
    Nologin "NOLOGIN" Unreserved,
    Nosuperuser "NOSUPERUSER" Unreserved,
    Only "ONLY" Unreserved,
    Options "OPTIONS" Unreserved,
    Partition "PARTITION" Unreserved,
    Password "PASSWORD" Unreserved,
    Per "PER" Unreserved,
    Permission "PERMISSION" Unreserved,
    Permissions "PERMISSIONS" Unreserved,
    Replace "REPLACE" Unreserved,
    Returns "RETURNS" Unreserved,
    Role "ROLE" Unreserved,
    Roles "ROLES" Unreserved,
    SelectMasked "SELECT_MASKED" Unreserved,
    Sfunc "SFUNC" Unreserved,
    Static "STATIC" Unreserved,
    Storage "STORAGE" Unreserved,
    Stype "STYPE" Unreserved,
    Superuser "SUPERUSER" Unreserved,
    Tables "TABLES" Unreserved,
    Trigger "TRIGGER" Unreserved,
    Tuple "TUPLE" Unreserved,
    Type "TYPE" Unreserved,
    Types "TYPES" Unreserved,
    Unmask "UNMASK" Unreserved,
    Unset "UNSET" Unreserved,
    User "USER" Unreserved,
    Users "USERS" Unreserved,
    Values "VALUES" Unreserved,
    Vector "VECTOR" Unreserved,
    Ascii "ASCII" NativeType,
    Bigint "BIGINT" NativeType,
    Blob "BLOB" NativeType,
    Boolean "BOOLEAN" NativeType,
    Counter "COUNTER" NativeType,
    Date "DATE" NativeType,
    Decimal "DECIMAL" NativeType,
    Double "DOUBLE" NativeType,
    Duration "DURATION" NativeType,
    Float "FLOAT" NativeType,
    Inet "INET" NativeType,
    Int "INT" NativeType,
    Smallint "SMALLINT" NativeType,
    Text "TEXT" NativeType,
    Time "TIME" NativeType,
    Timestamp "TIMESTAMP" NativeType,
    Timeuuid "TIMEUUID" NativeType,
    Tinyint "TINYINT" NativeType,
    Uuid "UUID" NativeType,
    Varchar "VARCHAR" NativeType,
    Varint "VARINT" NativeType,
    Cast "CAST" ColumnOnly,
    Count "COUNT" ColumnOnly,
    Distinct "DISTINCT" ColumnOnly,
    Json "JSON" ColumnOnly,
    Key "KEY" ColumnOnly,
    Maxwritetime "MAXWRITETIME" ColumnOnly,
    Ttl "TTL" ColumnOnly,
    Writetime "WRITETIME" ColumnOnly,
    Add "ADD" Reserved,
    Allow "ALLOW" Reserved,
    Alter "ALTER" Reserved,
    And "AND" Reserved,
    Apply "APPLY" Reserved,
    Asc "ASC" Reserved,
    Authorize "AUTHORIZE" Reserved,
    Batch "BATCH" Reserved,
    Begin "BEGIN" Reserved,
    By "BY" Reserved,
    Create "CREATE" Reserved,
    Delete "DELETE" Reserved,
    Desc "DESC" Reserved,
    Describe "DESCRIBE" Reserved,
    Drop "DROP" Reserved,
    Entries "ENTRIES" Reserved,
    Execute "EXECUTE" Reserved,
    From "FROM" Reserved,
    Full "FULL" Reserved,
    Grant "GRANT" Reserved,
    If "IF" Reserved,
    In "IN" Reserved,
    Index "INDEX" Reserved,
    Insert "INSERT" Reserved,
    Into "INTO" Reserved,
    Is "IS" Reserved,
    Keyspace "KEYSPACE" Reserved,
    Limit "LIMIT" Reserved,
    Materialized "MATERIALIZED" Reserved,
    Modify "MODIFY" Reserved,
    Norecursive "NORECURSIVE" Reserved,
    Not "NOT" Reserved,
    Null "NULL" Reserved,
    Of "OF" Reserved,
    On "ON" Reserved,
    Or "OR" Reserved,
    Order "ORDER" Reserved,
    Primary "PRIMARY" Reserved,
    Rename "RENAME" Reserved,
    Revoke "REVOKE" Reserved,
    Schema "SCHEMA" Reserved,
    Select "SELECT" Reserved,
    Set "SET" Reserved,
    Table "TABLE" Reserved,
    To "TO" Reserved,
    Token "TOKEN" Reserved,
    Truncate "TRUNCATE" Reserved,
    Unlogged "UNLOGGED" Reserved,
    Update "UPDATE" Reserved,
    Use "USE" Reserved,
    Using "USING" Reserved,
    View "VIEW" Reserved,
    Where "WHERE" Reserved,
    With "WITH" Reserved,
}

impl Keyword {
    /// The keyword that `word` is, whatever its case; Cassandra's synonyms (`COLUMNFAMILY` for `TABLE`,
    /// `COLUMNFAMILIES` for `TABLES`) included.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::at_start(word.as_bytes(), word.len())
    }

    /// The keyword that the first `length` bytes of `text` make up.
    #[inline]
    pub(super) fn at_start(text: &[u8], length: usize) -> Option<Self> {
        let letter = text.first()?.to_ascii_uppercase().wrapping_sub(b'A');
        if letter >= LETTERS || length == 0 || length >= LENGTHS {
            return None;
        }
        let bucket = usize::from(letter) * LENGTHS + length;
        let (begin, end) = (TABLE.ends[bucket - 1], TABLE.ends[bucket]);
        if begin == end {
            return None;
        }
        let packed = packed(text, length);
        let candidates = &TABLE.words[usize::from(begin)..usize::from(end)];
        candidates
            .iter()
            .find(|(text, _)| *text == packed)
            .map(|(_, keyword)| *keyword)
    }

    /// Whether the keyword cannot be the unquoted name of anything.
    #[must_use]
    pub(crate) const fn is_reserved(self) -> bool {
        matches!(self.class(), KeywordClass::Reserved)
    }

    /// Whether the keyword may be the unquoted name of a function; `token` may, though it is reserved.
    #[must_use]
    pub(crate) const fn may_name_function(self) -> bool {
        matches!(self.class(), KeywordClass::Unreserved | KeywordClass::NativeType)
            || matches!(self, Self::Token | Self::Count)
    }

    /// Whether the keyword may be the unquoted name of a user-defined type.
    #[must_use]
    pub(crate) const fn may_name_type(self) -> bool {
        matches!(self.class(), KeywordClass::Unreserved) || matches!(self, Self::Key)
    }
}

const LETTERS: u8 = 26;

/// One more than the length of `COLUMNFAMILIES`; any longer word is a name.
const LENGTHS: usize = 15;

/// Words that are a keyword under another name.
const SYNONYMS: [(&str, Keyword); 2] = [
    ("COLUMNFAMILY", Keyword::Table),
    ("COLUMNFAMILIES", Keyword::Tables),
];

/// All words by first letter and length, which hardly two of them share: most names are told apart at once.
static TABLE: KeywordTable = KeywordTable::build();

struct KeywordTable {
    words: [(u128, Keyword); KeywordTable::SIZE],
    /// Where in `words` the bucket of a letter and a length ends and the next one begins. No word has length
    /// 0, so that every bucket that is asked for has one before it.
    ends: [u8; LETTERS as usize * LENGTHS],
}

impl KeywordTable {
    const SIZE: usize = Keyword::ALL.len() + SYNONYMS.len();

    /// Run by the compiler: a counting sort.
    const fn build() -> Self {
        let mut table = Self {
            words: [(0, Keyword::All); Self::SIZE],
            ends: [0; LETTERS as usize * LENGTHS],
        };
        let mut filled = 0;
        let mut bucket = 0;
        while bucket < table.ends.len() {
            let mut index = 0;
            while index < Self::SIZE {
                let (word, keyword) = Self::word(index);
                if Self::bucket(word) == bucket {
                    table.words[filled as usize] = (packed(word.as_bytes(), word.len()), keyword);
                    filled += 1;
                }
                index += 1;
            }
            table.ends[bucket] = filled;
            bucket += 1;
        }
        table
    }

    const fn word(index: usize) -> (&'static str, Keyword) {
        if index < SYNONYMS.len() {
            return SYNONYMS[index];
        }
        let keyword = Keyword::ALL[index - SYNONYMS.len()];
        (keyword.as_str(), keyword)
    }

    const fn bucket(word: &str) -> usize {
        (word.as_bytes()[0] - b'A') as usize * LENGTHS + word.len()
    }
}

/// The first `length` bytes of a text as one number, letters in upper case; `length` is from 1 to 16.
///
/// Bit 5 is the case of a letter; clearing it in a digit cannot make it a letter, and it is clear in `_`.
#[inline]
const fn packed(text: &[u8], length: usize) -> u128 {
    let bytes = match text.first_chunk() {
        Some(bytes) => *bytes,
        None => padded(text),
    };
    u128::from_le_bytes(bytes) & MASKS[length]
}

/// For each length of a word the bits that count: all of its bytes, but for the case.
static MASKS: [u128; 17] = {
    let mut masks = [0; 17];
    let mut length = 1;
    while length < masks.len() {
        masks[length] = (masks[length - 1] << 8) | 0xDF;
        length += 1;
    }
    masks
};

/// A text of fewer than 16 bytes with zeros after it.
const fn padded(text: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.split_at_mut(text.len()).0.copy_from_slice(text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for keyword in Keyword::ALL {
            assert_eq!(Keyword::of(keyword.as_str()), Some(*keyword));
            assert_eq!(Keyword::of(&keyword.as_str().to_lowercase()), Some(*keyword));
        }
    }

    #[test]
    fn synonyms_are_one_keyword() {
        assert_eq!(Keyword::of("ColumnFamily"), Some(Keyword::Table));
        assert_eq!(Keyword::of("columnfamilies"), Some(Keyword::Tables));
    }

    #[test]
    fn other_words_are_names() {
        for word in [
            "",
            "selects",
            "user_id",
            "select_masked_too",
            "between",
            "k3y",
            "S\u{7}LECT",
            "key\0",
        ] {
            assert_eq!(Keyword::of(word), None, "{word}");
        }
    }
}
