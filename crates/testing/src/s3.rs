//! A real S3 server: the Versity gateway over a folder, built once out of its Go module.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{Missing, cache, process::Supervised, proxy::free_address, tools};

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const ACCEPTS_WITHIN: Duration = Duration::from_secs(30);
/// Of the only user. Not a secret of anything else.
const ACCESS_KEY: &str = "cqlens-tests";
const SECRET_KEY: &str = "cqlens-tests-secret";

/// A server with one bucket; it ends, and its objects go, when it is dropped.
pub struct Server {
    _process: Supervised,
    environment: Vec<(String, String)>,
}

impl Server {
    /// Starts a server with an empty bucket.
    ///
    /// # Errors
    /// [`Missing`] where there is no `go`.
    pub fn start(bucket: &str) -> Result<Self, Missing> {
        let program = tools::of_go(MODULE)?;
        let objects = tempfile::tempdir().unwrap().keep();
        fs::create_dir(objects.join(bucket)).unwrap();
        let address = free_address();
        let program = program.display().to_string();
        let folder = objects.display().to_string();
        let listen = address.to_string();
        let command = [
            &program, "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", &listen, "--quiet", "posix",
            &folder,
        ];
        let command = command.map(str::to_owned);
        let process = Supervised::spawn(&command, &[], &cache::log_file("s3"), Some(&objects));
        let server = Self {
            environment: environment(address),
            _process: process,
        };
        server.wait_until_it_accepts(address);
        Ok(server)
    }

    /// What a client must have in its environment to reach it.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn wait_until_it_accepts(&self, address: SocketAddr) {
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < ACCEPTS_WITHIN, "the S3 server does not accept");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn environment(address: SocketAddr) -> Vec<(String, String)> {
    let pairs = [
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}
