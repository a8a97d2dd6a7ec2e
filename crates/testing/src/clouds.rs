//! Object stores of clouds, on this machine: the Versity gateway for S3, Azurite for Azure, each out of the registry of its language. None of
//! those for Google Cloud Storage speaks the part of its protocol that libraries use for objects.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::{Missing, cache, process::Supervised, proxy::free_address, tools};

const S3: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const AZURE: &str = "azurite@3.35.0";
const ACCEPTS_WITHIN: Duration = Duration::from_secs(60);
/// Of the only user. Not a secret of anything else.
const ACCESS_KEY: &str = "cqlens-tests";
const SECRET_KEY: &str = "cqlens-tests-secret";

/// The account that the emulator has, and its key, which is in its documentation.
const AZURE_ACCOUNT: &str = "devstoreaccount1";
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A server with one bucket; it ends, and its objects go, when it is dropped.
pub struct Server {
    _process: Supervised,
    url: String,
    environment: Vec<(String, String)>,
}

impl Server {
    /// One that speaks the protocol of S3, with an empty bucket.
    ///
    /// # Errors
    /// [`Missing`] where there is no `go`.
    pub fn s3(bucket: &str) -> Result<Self, Missing> {
        let program = tools::of_go(S3)?;
        let objects = folder_with(bucket);
        let address = free_address();
        let (listen, folder) = (address.to_string(), text(&objects));
        let arguments = [
            "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", &listen, "--quiet", "posix", &folder,
        ];
        let environment = [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        Ok(Self::start(
            &program,
            &arguments,
            address,
            &objects,
            format!("s3://{bucket}"),
            &environment,
        ))
    }

    /// One that speaks the protocol of Azure's blob storage, with an empty container.
    ///
    /// # Errors
    /// [`Missing`] where there is no `npm` or no `python3`.
    pub fn azure(container: &str) -> Result<Self, Missing> {
        let program = tools::of_npm(AZURE, "azurite-blob")?;
        super::program("python3")?;
        let objects = tempfile::tempdir().unwrap().keep();
        let address = free_address();
        let (host, port, folder) = (
            address.ip().to_string(),
            address.port().to_string(),
            text(&objects),
        );
        let arguments = [
            "--blobHost",
            &host,
            "--blobPort",
            &port,
            "--location",
            &folder,
            "--silent",
            "--skipApiVersionCheck",
            "--disableTelemetry",
        ];
        let environment = [
            ("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT.to_owned()),
            (
                "AZURE_STORAGE_ENDPOINT",
                format!("http://{address}/{AZURE_ACCOUNT}"),
            ),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY.to_owned()),
        ];
        let server = Self::start(
            &program,
            &arguments,
            address,
            &objects,
            format!("az://{container}"),
            &environment,
        );
        let mut create = Command::new("python3");
        create.args([
            "-c",
            include_str!("azure_container.py"),
            &format!("http://{address}"),
            container,
            AZURE_ACCOUNT,
            AZURE_KEY,
        ]);
        cache::run(&mut create)?;
        Ok(server)
    }

    /// What a client must have in its environment to reach it.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// The bucket.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn start(
        program: &Path,
        arguments: &[&str],
        address: SocketAddr,
        objects: &Path,
        url: String,
        environment: &[(&str, String)],
    ) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let command: Vec<_> = std::iter::once(text(program)).chain(arguments).collect();
        let process = Supervised::spawn(&command, &[], &cache::log_file("cloud"), Some(objects));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                begun.elapsed() < ACCEPTS_WITHIN,
                "the server does not accept: {}",
                process.log()
            );
            thread::sleep(Duration::from_millis(50));
        }
        Self {
            _process: process,
            url,
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        }
    }
}

/// A new folder with an empty one of this name in it.
fn folder_with(bucket: &str) -> std::path::PathBuf {
    let objects = tempfile::tempdir().unwrap().keep();
    fs::create_dir(objects.join(bucket)).unwrap();
    objects
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
