//! A cluster of one node: cqlens' own connection is told what a cluster tells, everybody else gets canned
//! answers.

use std::{net::SocketAddr, thread};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Builder,
};

use crate::backend::{answer_all, schema};

/// Serves until the process ends, in a thread of its own.
pub(crate) fn start() -> SocketAddr {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let node = runtime.block_on(node(address));
    thread::spawn(move || runtime.block_on(serve(listener, node)));
    address
}

/// What speaks for the cluster, and says that it is at `address`.
async fn node(address: SocketAddr) -> Node {
    let options = Options {
        advertise: Some(address),
        ..Options::default()
    };
    let node = Node::start(options).await.unwrap();
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    client.script(&schema()).await.unwrap();
    node
}

async fn serve(listener: TcpListener, node: Node) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(answer(client, node.address()));
    }
}

async fn answer(mut client: TcpStream, node: SocketAddr) -> Option<()> {
    // STARTUP comes in one piece.
    let mut first = [0; 512];
    let length = client.peek(&mut first).await.ok()?;
    if !first[..length].windows(NAME.len()).any(|bytes| bytes == NAME) {
        return answer_all(client).await;
    }
    let mut node = TcpStream::connect(node).await.ok()?;
    copy_bidirectional(&mut client, &mut node).await.ok()?;
    Some(())
}

/// How cqlens calls itself.
const NAME: &[u8] = b"cqlens";
