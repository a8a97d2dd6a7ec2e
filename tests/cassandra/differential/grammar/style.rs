//! How a text looks: the case of its keywords, the white space and the comments between its words.

use super::super::random::Random;

/// The same statement in another dress; what stands in quotes stays as it is.
pub(super) fn dress(random: &mut Random, plain: &str) -> String {
    if random.chance(50) {
        return plain.to_owned();
    }
    let (odd_space, odd_case) = (random.chance(60), random.chance(60));
    let mut dressed = String::with_capacity(plain.len() * 2);
    for piece in pieces(plain) {
        match piece {
            " " if odd_space && random.chance(40) => dressed += random.pick(SPACES),
            word if odd_case && is_keyword(word) => dressed.extend(word.chars().map(|letter| {
                if random.chance(50) {
                    letter.to_ascii_lowercase()
                } else {
                    letter
                }
            })),
            other => dressed += other,
        }
    }
    if random.chance(10) {
        dressed += random.pick(&[" -- the end\n", " /* done */", "\n\n", "  ;  ", " // done\n"]);
    }
    dressed
}

const SPACES: &[&str] = &[
    "  ",
    "\n",
    "\t",
    "\r\n",
    " /* ? and :name 'are' not markers here */ ",
    " -- \"quoted\" ? ;\n",
    " // it's a comment; really\n",
    "/**/",
    " /* a ** b // c */ ",
    "\n\n   ",
];

/// Upper case letters only: names and constants of the generator have at least one other character.
fn is_keyword(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase())
}

/// Words, blanks and signs one by one; a string, quoted name or run of letters and digits is one piece.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => 1 + rest[1..].find(first).map_or(rest.len() - 1, |end| end + 1),
            '$' if rest.starts_with("$$") => 2 + rest[2..].find("$$").map_or(rest.len() - 2, |end| end + 2),
            letter if letter.is_alphanumeric() || letter == '_' => rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (piece, behind) = rest.split_at(length);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
