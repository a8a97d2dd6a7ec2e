//! Pages of listings, without the names that `object_store` would refuse the whole page for: those with a control character, an empty
//! part, `.` or `..`.

use bytes::Bytes;
use object_store::{
    client::{HttpError, HttpErrorKind},
    path::Path,
};
use quick_xml::{
    Reader,
    events::{BytesRef, Event},
};

use super::left_out::Notes;

/// Elements inside of elements: listings have four.
const DEEPEST: usize = 32;

/// Whether a request is for a page of a listing: of S3 and Google Cloud Storage, or of Azure.
pub(super) fn is_listing(method: &str, query: Option<&str>) -> bool {
    let mut parameters = query.unwrap_or_default().split('&');
    method == "GET" && parameters.any(|parameter| matches!(parameter, "list-type=2" | "comp=list"))
}

/// The page without elements whose names are no paths, which are noted.
///
/// # Errors
/// What is no XML, or is too deep.
pub(super) fn without_bad_names(page: Bytes, notes: &Notes) -> Result<Bytes, HttpError> {
    let bad = bad_elements(&page).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    if bad.is_empty() {
        return Ok(page);
    }
    let mut kept = Vec::with_capacity(page.len());
    let mut from = 0;
    for BadElement { start, end, name } in bad {
        notes.add(&name);
        kept.extend_from_slice(page.get(from..start).unwrap_or_default());
        from = end;
    }
    kept.extend_from_slice(page.get(from..).unwrap_or_default());
    Ok(kept.into())
}

/// An element of an object or folder with such a name, and where it is.
struct BadElement {
    start: usize,
    end: usize,
    name: String,
}

/// The element that is being read.
struct Open {
    start: usize,
    depth: usize,
    name: String,
    is_in_name: bool,
}

fn bad_elements(page: &[u8]) -> Result<Vec<BadElement>, quick_xml::Error> {
    let mut reader = Reader::from_reader(page);
    let (mut depth, mut open, mut bad) = (0, None::<Open>, Vec::new());
    loop {
        let start = position(&reader);
        match reader.read_event()? {
            Event::Eof => return Ok(bad),
            Event::Start(element) => {
                depth += 1;
                if depth > DEEPEST {
                    return Err(std::io::Error::other("a listing with deep elements").into());
                }
                match &mut open {
                    Some(open) if depth == open.depth + 1 => {
                        open.is_in_name = is_name(element.local_name().as_ref());
                    }
                    None if is_entry(element.local_name().as_ref()) => open = Some(Open::new(start, depth)),
                    _ => {}
                }
            }
            Event::Text(text) => add(&mut open, &String::from_utf8_lossy(&text)),
            Event::CData(text) => add(&mut open, &String::from_utf8_lossy(&text)),
            Event::GeneralRef(reference) => add(&mut open, &resolved(&reference)),
            Event::End(_) => {
                if let Some(ended) = open.take_if(|open| open.depth == depth)
                    && Path::parse(&ended.name).is_err()
                {
                    let (start, name) = (ended.start, ended.name);
                    let end = position(&reader);
                    bad.push(BadElement { start, end, name });
                }
                if let Some(open) = &mut open {
                    open.is_in_name &= depth != open.depth + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
}

impl Open {
    fn new(start: usize, depth: usize) -> Self {
        let (name, is_in_name) = (String::new(), false);
        Self {
            start,
            depth,
            name,
            is_in_name,
        }
    }
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

fn is_entry(element: &[u8]) -> bool {
    matches!(element, b"Contents" | b"CommonPrefixes" | b"Blob" | b"BlobPrefix")
}

fn is_name(element: &[u8]) -> bool {
    matches!(element, b"Key" | b"Prefix" | b"Name")
}

fn add(open: &mut Option<Open>, text: &str) {
    if let Some(open) = open
        && open.is_in_name
    {
        open.name.push_str(text);
    }
}

/// The character of a reference; a control character for what is none, so that the name is left out.
fn resolved(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    match &reference[..] {
        b"amp" => "&".to_owned(),
        b"lt" => "<".to_owned(),
        b"gt" => ">".to_owned(),
        b"quot" => "\"".to_owned(),
        b"apos" => "'".to_owned(),
        _ => "\0".to_owned(),
    }
}
