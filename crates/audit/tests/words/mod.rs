//! Words that texts for people do without, and what they say instead: the list of CONTRIBUTING.md, as far as a program can look
//! for it. Shared by the tests of rules and of the documentation.

/// What no text says, and what it says instead.
const AVOIDED: [(&str, &str); 14] = [
    ("asked by", "queried by"),
    ("whoever", "the client, the writer"),
    ("somebody", "the client, the application"),
    ("lately", "recently, in the last minutes"),
    (" bears ", "accepts"),
    (" bear ", "accept"),
    ("all the same", "still, nevertheless"),
    ("answers nothing", "returns nothing"),
    ("answer nothing", "return nothing"),
    ("different values", "distinct values"),
    ("different partitions", "distinct partitions"),
    ("different keys", "distinct keys"),
    ("data centre", "datacenter"),
    ("in the mean", "on average"),
];

/// Words of "to tell … apart", which is "to distinguish" or "to identify".
const TELL: [&str; 4] = ["tell ", "tells ", "told ", "telling "];

/// What a text says that another word says better.
pub(crate) fn complaints(place: &str, text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let avoided = AVOIDED.iter().filter(|(words, _)| text.contains(words));
    let mut complaints: Vec<_> = avoided
        .map(|(words, instead)| format!("{place}: \"{words}\" is {instead}"))
        .collect();
    let mut clauses = text.split(['.', ';', ':']);
    if clauses.any(|clause| clause.contains(" apart") && TELL.iter().any(|word| clause.contains(word))) {
        complaints.push(format!("{place}: \"tell … apart\" is distinguish, identify"));
    }
    complaints
}

#[test]
fn words_that_are_avoided_are_named_with_better_ones() {
    let said = |text| complaints("a", text);
    assert_eq!(
        said("A table that is asked by city."),
        ["a: \"asked by\" is queried by"]
    );
    assert_eq!(
        said("What tells rows apart."),
        ["a: \"tell … apart\" is distinguish, identify"]
    );
    assert_eq!(said("No error tells. Keep large values apart."), [""; 0]);
}
