//! A bucket whose server is hostile: it speaks HTTP over loopback, and the test says what it sends.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::date;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

const DAY: Date = date(2026, 11, 21);

const WINDOW: &str = "20261121T060000000Z-a.cqlens.json.gz";

fn limits() -> Limits {
    Limits {
        put: 64 << 10,
        list: 256 << 10,
        object: 4 << 10,
    }
}

/// What the server sends to each request: a head, a body, and that again without end.
#[derive(Clone)]
struct Answer {
    head: String,
    body: String,
    endless: String,
}

impl Answer {
    fn whole(body: &str) -> Self {
        Self {
            head: format!(
                "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nLast-Modified: Sat, 21 Nov 2026 06:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
                body.len()
            ),
            body: body.to_owned(),
            endless: String::new(),
        }
    }

    fn endless(status: &str, body: &str, endless: &str) -> Self {
        Self {
            head: format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n"),
            body: body.to_owned(),
            endless: endless.repeat(1_000),
        }
    }
}

/// A bucket on a server that gives every request the same answer, and how many it had.
async fn bucket_of(answer: Answer) -> (Objects, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, answer.clone(), Arc::clone(&counted)));
        }
    });
    let environment = [
        ("aws_access_key_id", "key".to_owned()),
        ("aws_secret_access_key", "secret".to_owned()),
        ("aws_region", "eu-west-1".to_owned()),
        ("aws_endpoint", format!("http://{address}")),
        ("aws_allow_http", "true".to_owned()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let url = Url::parse("s3://bucket/fleet").unwrap();
    let mut objects = Objects::open(&url, environment.into_iter()).unwrap();
    objects.limits = limits();
    (objects, requests)
}

async fn serve(mut socket: TcpStream, answer: Answer, requests: Arc<AtomicU64>) -> std::io::Result<()> {
    let mut received = Vec::new();
    loop {
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            if socket.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
        }
        received.clear();
        requests.fetch_add(1, Ordering::Relaxed);
        socket.write_all(answer.head.as_bytes()).await?;
        socket.write_all(answer.body.as_bytes()).await?;
        while !answer.endless.is_empty() {
            socket.write_all(answer.endless.as_bytes()).await?;
        }
    }
}

fn window() -> WindowName {
    WINDOW.parse().unwrap()
}

fn listing(keys: &[&str]) -> String {
    let object = |key: &&str| {
        format!(
            "<Contents><Key>{key}</Key><Size>9</Size><LastModified>2026-11-21T06:00:00.000Z</LastModified></Contents>"
        )
    };
    let objects: String = keys.iter().map(object).collect();
    format!("<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name>{objects}</ListBucketResult>")
}

#[tokio::test]
async fn a_refusal_with_an_endless_body_is_an_error_that_is_short() {
    let (objects, _) = bucket_of(Answer::endless("403 Forbidden", "<Error>", "no ")).await;
    let put = objects.put(&window(), Bytes::from_static(b"x")).await;
    let said = put.unwrap_err().to_string();
    assert!(said.contains("403"), "{said}");
    assert!(said.len() < 8 << 10, "{}", said.len());
}

#[tokio::test]
async fn responses_without_an_end_are_read_up_to_the_limit() {
    let (objects, _) = bucket_of(Answer::endless("200 OK", &listing(&[]), " ")).await;
    assert!(objects.names(DAY, "a").await.is_err());
    assert!(objects.sources(DAY).await.is_err());
    let (objects, _) = bucket_of(Answer::endless("200 OK", "<a>", "<a>")).await;
    assert!(objects.names(DAY, "a").await.is_err());
    assert!(objects.get(&window()).await.is_err());
}

#[tokio::test]
async fn pages_without_an_end_are_read_up_to_the_limit() {
    let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken></ListBucketResult>";
    let page = listing(&[]).replace("</ListBucketResult>", more);
    let (objects, requests) = bucket_of(Answer::whole(&page)).await;
    assert!(objects.names(DAY, "a").await.is_err());
    let pages = requests.load(Ordering::Relaxed);
    assert!((2..=limits().list >> 12).contains(&pages), "{pages}");
}

#[tokio::test]
async fn an_object_is_as_large_as_the_limit_and_no_larger() {
    let (objects, _) = bucket_of(Answer::whole(&"x".repeat(4 << 10))).await;
    assert_eq!(objects.get(&window()).await.unwrap().unwrap().len(), 4 << 10);
    let (objects, _) = bucket_of(Answer::whole(&"x".repeat((4 << 10) + 1))).await;
    assert_eq!(objects.get(&window()).await.unwrap(), None);
    let left_out = objects.left_out();
    assert_eq!((left_out.count, left_out.names), (1, vec![WINDOW.to_owned()]));
}

#[tokio::test]
async fn names_that_are_no_paths_are_left_out_and_named() {
    let below = "fleet/2026-11-21/a";
    let keys = [
        format!("{below}/{WINDOW}"),
        format!("{below}/x&#1;y"),
        format!("{below}//{WINDOW}"),
        format!("{below}/../{WINDOW}"),
        format!("{below}/b/{WINDOW}"),
        format!("{below}/20261121T060000000Z-b.cqlens.json.gz"),
        format!("{below}/notes.txt"),
    ];
    let keys = keys.each_ref().map(String::as_str);
    let (objects, _) = bucket_of(Answer::whole(&listing(&keys))).await;
    assert_eq!(objects.names(DAY, "a").await.unwrap(), [window()]);
    let left_out = objects.left_out();
    assert_eq!(left_out.count, 4, "{left_out:?}");
    assert!(
        left_out.names[0].starts_with(&format!("{below}/x\\")),
        "{left_out:?}"
    );
    assert!(left_out.names[3].contains("-b.cqlens"), "{left_out:?}");
}
