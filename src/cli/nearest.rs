//! What was probably meant by a name that does not exist.

/// The known names that come closest to `name`, the closest first; none where nothing comes close.
pub(super) fn names<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut by_distance: Vec<_> = known
        .into_iter()
        .map(|known| (likeness(name, known), known))
        .collect();
    by_distance.sort_by_key(|(likeness, known)| (std::cmp::Reverse(*likeness), *known));
    // With many names some share a word with anything: those far behind the first are no hint.
    let best = by_distance.first().map_or(0, |(likeness, _)| *likeness);
    by_distance
        .into_iter()
        .take_while(|(likeness, _)| *likeness >= ALIKE.max(best * 3 / 4))
        .take(MOST)
        .map(|(_, known)| known)
        .collect()
}

/// ``is it `a` or `b`?``; none without names.
pub(super) fn question(names: &[&str]) -> Option<String> {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    (!quoted.is_empty()).then(|| format!("is it {}?", quoted.join(" or ")))
}

/// ``is it `a`?``; `there are` and all that are known where nothing comes close.
pub(super) fn hint(name: &str, known: &[&str]) -> String {
    let close = names(name, known.iter().copied());
    question(&close).unwrap_or_else(|| format!("there are {}", known.join(", ")))
}

/// The likeness of a name that is mistyped; unrelated ones have less.
const ALIKE: usize = 40;
/// More are no hint.
const MOST: usize = 3;

/// How much two names have in common, 0 to 100: by pairs of letters, or, where few letters are wrong, by those. Words in
/// another order keep their pairs; two letters in the wrong order keep few.
fn likeness(left: &str, right: &str) -> usize {
    common_pairs(left, right).max(right_letters(left, right))
}

/// 100 less the part of letters that are wrong, missing, too many or swapped; 0 where that is more than a third.
fn right_letters(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let most = left.len().max(right.len()).max(1);
    let wrong = mistakes(&left, &right);
    if wrong * 3 > most {
        0
    } else {
        100 - 100 * wrong / most
    }
}

/// The distance of two names in letters (optimal string alignment).
fn mistakes(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let mut this = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut least = replaced.min(last[column + 1] + 1).min(this[column] + 1);
            let is_swap = row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == other;
            if is_swap {
                least = least.min(before_last[column - 1] + 1);
            }
            this.push(least);
        }
        before_last = std::mem::replace(&mut last, this);
    }
    last[right.len()]
}

/// Twice the common pairs of letters over all pairs (Dice).
fn common_pairs(left: &str, right: &str) -> usize {
    let pairs = |name: &str| -> Vec<(char, char)> {
        let name = name.to_lowercase().replace('_', "-");
        name.chars().zip(name.chars().skip(1)).collect()
    };
    let (left, mut right) = (pairs(left), pairs(right));
    let all = left.len() + right.len();
    let common = left
        .into_iter()
        .filter(|pair| {
            let at = right.iter().position(|other| other == pair);
            at.map(|at| right.swap_remove(at)).is_some()
        })
        .count();
    200 * common / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_close_is_asked_and_all_are_named_otherwise() {
        let known = ["upstream", "window", "upstream-tls-ca"];
        assert_eq!(hint("upstraem", &known), "is it `upstream`?");
        assert_eq!(hint("windwo", &known), "is it `window`?");
        assert_eq!(
            hint("colour", &known),
            "there are upstream, window, upstream-tls-ca"
        );
        assert_eq!(names("UPSTREAM", known), ["upstream"]);
        assert!(names("", known).is_empty());
        assert_eq!(hint("onwer", &["owner", "reason"]), "is it `owner`?");
    }
}
