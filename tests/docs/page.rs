//! Markdown, as far as these tests look into it: fenced blocks, code spans, headings, links.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file of the checkout.
pub(crate) struct Page {
    /// From the top of the checkout.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// What stands between two fences.
#[derive(Debug)]
pub(crate) struct Block<'p> {
    /// What the fence says: `sh`, `toml`, nothing.
    pub(crate) language: &'p str,
    /// The first line, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<&'p str>,
}

/// The top of the checkout.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Folders of what is built or fetched.
const NOT_OURS: [&str; 5] = [".git", "target", "node_modules", "corpus", "artifacts"];

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(checkout().join(path)).unwrap();
        Self {
            path: path.into(),
            text,
        }
    }

    /// The README and the pages in `docs/` that are written by hand.
    pub(crate) fn guides() -> Vec<Self> {
        let is_generated = |page: &Self| {
            ["docs/rules.md", "docs/json.md"]
                .map(Path::new)
                .contains(&&*page.path)
        };
        let mut pages = Self::below("docs");
        // The program has no such command otherwise.
        let is_of_feature = |page: &Self| cfg!(feature = "top") || page.path != Path::new("docs/top.md");
        pages.retain(|page| !is_generated(page) && is_of_feature(page));
        pages.push(Self::read("README.md"));
        pages
    }

    /// All Markdown of a folder and the folders in it, in the order of their names.
    pub(crate) fn below(folder: &str) -> Vec<Self> {
        let mut entries: Vec<_> = fs::read_dir(checkout().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap())
            .collect();
        entries.sort_by_key(fs::DirEntry::path);
        let mut pages = Vec::new();
        for entry in entries {
            let name = entry.file_name().into_string().unwrap();
            let path = Path::new(folder).join(&name);
            let path = path.to_str().unwrap();
            if entry.file_type().unwrap().is_dir() {
                if !NOT_OURS.contains(&&*name) {
                    pages.extend(Self::below(path));
                }
            } else if name.ends_with(".md") {
                pages.push(Self::read(path.trim_start_matches("./")));
            }
        }
        pages
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        self.parts().0
    }

    /// What stands outside of blocks, with the number of each line.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        self.parts().1
    }

    fn parts(&self) -> (Vec<Block<'_>>, Vec<(usize, &str)>) {
        let (mut blocks, mut prose) = (Vec::new(), Vec::new());
        let mut open: Option<Block<'_>> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    open = Some(Block {
                        language: language.trim(),
                        line: number + 1,
                        lines: Vec::new(),
                    });
                }
                (None, Some(block)) => block.lines.push(line),
                (None, None) => prose.push((number, line)),
            }
        }
        (blocks, prose)
    }

    /// The code spans, with the number of the line that each begins in. A span may go on in the next line of its paragraph.
    pub(crate) fn spans(&self) -> Vec<(usize, String)> {
        let mut spans = Vec::new();
        let mut open: Option<(usize, String)> = None;
        for (number, line) in self.prose() {
            if line.is_empty() || line.starts_with('|') {
                open = None;
            }
            let mut parts = line.split('`');
            let first = parts.next().unwrap_or_default();
            if let Some((_, span)) = &mut open {
                span.push(' ');
                span.push_str(first.trim_start());
            }
            for part in parts {
                match open.take() {
                    Some(span) => spans.push(span),
                    None => open = Some((number, part.to_owned())),
                }
            }
        }
        spans
    }
}

#[test]
fn blocks_spans_and_prose_are_told_apart() {
    let page = Page {
        path: "a.md".into(),
        text: "Run `cqlens\nrules` or `b`.\n\n```sh\ncqlens `c`\n```\n| `d | e` |".to_owned(),
    };
    let [block] = &page.blocks()[..] else {
        panic!("there is one block");
    };
    assert_eq!(
        (block.language, block.line, &block.lines[..]),
        ("sh", 5, &["cqlens `c`"][..])
    );
    let spans: Vec<_> = page.spans();
    let expected = [(1, "cqlens rules"), (2, "b"), (7, "d | e")];
    assert_eq!(spans, expected.map(|(line, span)| (line, span.to_owned())));
}
