//! Statements with one or two faults: a word missing, doubled, swapped, replaced, cut off.

use super::super::random::Random;
use super::style::pieces;

/// The statement, damaged; it may be right by accident.
pub(crate) fn damage(random: &mut Random, sound: &str) -> String {
    let mut words: Vec<String> = pieces(sound).into_iter().map(str::to_owned).collect();
    for _ in 0..random.between(1, 2) {
        if words.len() < 4 {
            break;
        }
        let place = random.below(words.len() - 1);
        match random.below(9) {
            0 | 1 => {
                words.remove(place);
            }
            2 => words.insert(place, words[place].clone()),
            3 => words.swap(place, place + 1),
            4 => words[place] = random.pick(STRAY).to_owned(),
            5 | 6 => words.insert(place, format!(" {} ", random.pick(STRAY))),
            7 if random.chance(40) => words.truncate(place.max(1)),
            _ => {
                let mut letters: Vec<char> = words[place].chars().collect();
                if !letters.is_empty() {
                    letters.remove(random.below(letters.len()));
                }
                words[place] = letters.into_iter().collect();
            }
        }
    }
    words.concat()
}

const STRAY: &[&str] = &[
    ",", ";", "(", ")", "=", "?", ":x", "'", "\"", "$$", "*", "--", "/*", "*/", "FROM", "WHERE", "AND", "IN",
    "SET", "1", "'a'", "NULL", "TOKEN", "IF", "<", "!=", "[", "]", "{", "}", ".", "+", "-", "%", "@", "#",
    "\\", "0x", "1e", "LIMIT", "USING", "JSON", "DISTINCT", "VALUES", "TTL", "COUNT", "KEY", "AS", "BATCH",
    "NOT", "CAST", "..", ":", "é", "P1Y", "PT", "1h30", "12-", "BETWEEN", "true", "select", "DEFAULT",
    "EXISTS", "ORDER", "BY", "OR", "ANN", "OF", "LIKE", "CONTAINS", "`", "~", "/", "\u{0}", "''", "\"\"",
];
