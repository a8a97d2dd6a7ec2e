//! Links inside the checkout: the file is there, and so is the heading.

use std::collections::BTreeMap;

use crate::docs::page::{Page, checkout};

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let pages = Page::below(".");
    assert!(pages.len() > 20, "{}", pages.len());
    let broken: Vec<_> = pages.iter().flat_map(broken).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn broken(page: &Page) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, target) in targets(page) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = match file {
            "" => checkout().join(&page.path),
            file => checkout().join(&page.path).with_file_name(file),
        };
        let is_there = path.exists()
            && (anchor.is_empty() || {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = page.path.clone();
                anchors(&Page { path, text }).contains(&anchor.to_owned())
            });
        if !is_there {
            broken.push(format!("{}:{number}: {target}", page.path.display()));
        }
    }
    broken
}

/// Where the links and pictures of a page lead, but for other sites and the items of Rust.
fn targets(page: &Page) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (number, line) in page.prose() {
        let line = without_spans(line);
        for (before, after) in [("](", ")"), ("src=\"", "\""), ("srcset=\"", "\"")] {
            let found = line
                .split(before)
                .skip(1)
                .filter_map(|rest| rest.split(after).next());
            targets.extend(found.map(|target| (number, target.to_owned())));
        }
    }
    targets.retain(|(_, target)| !target.contains("://") && !target.contains("::"));
    targets
}

/// Code spans without what is in them.
fn without_spans(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The names of headings in links, as GitHub makes them: small letters, blanks as hyphens, no punctuation, numbered where a
/// name comes again.
fn anchors(page: &Page) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let prose = page.prose();
    let headings = prose.iter().filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (line.starts_with('#') && title.starts_with(' ')).then_some(title.trim())
    });
    headings
        .map(|title| {
            let kept = title
                .chars()
                .filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter));
            let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let times = seen.entry(anchor.clone()).or_default();
            *times += 1;
            match *times {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

#[test]
fn headings_have_the_anchors_that_github_gives_them() {
    let page = Page {
        path: "a.md".into(),
        text: "# The `--map` option, twice\n## It's\n## It's\n```\n# not one\n```".to_owned(),
    };
    assert_eq!(anchors(&page), ["the---map-option-twice", "its", "its-1"]);
}

#[test]
fn a_link_to_what_is_not_there_is_named() {
    let page = Page {
        path: "docs/a.md".into(),
        text: "[a](proxy.md#tls) [b](proxy.md#none)\n`[c](x)` [d](missing.md) [e](https://example.org)"
            .to_owned(),
    };
    assert_eq!(
        broken(&page),
        ["docs/a.md:1: proxy.md#none", "docs/a.md:2: missing.md"]
    );
}
