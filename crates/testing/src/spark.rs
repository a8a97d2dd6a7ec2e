//! Spark with a local master, out of its package on PyPI.

use std::{path::Path, process::Command};

use super::{Missing, tools, workspace};

const PACKAGE: &str = "pyspark==4.0.1";

/// Runs a job of `examples/spark` to its end, with the program `cqlens` in its PATH.
///
/// # Errors
/// [`Missing`] where there is no Java, no Python, or no network.
///
/// # Panics
/// If the job fails.
pub fn submit(cqlens: &str, job: &str, arguments: &[&Path]) -> Result<(), Missing> {
    if Command::new("java").arg("-version").output().is_err() {
        return Err(Missing("`java` cannot be run".to_owned()));
    }
    let python = tools::of_python(PACKAGE, "python")?;
    let programs = Path::new(cqlens).parent().unwrap().display().to_string();
    let options = "--master local[*] --driver-memory 4g --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 \
         --conf spark.driver.bindAddress=127.0.0.1 --conf spark.sql.shuffle.partitions=4 pyspark-shell";
    let mut spark = Command::new(&python);
    spark
        .arg(workspace().join("examples/spark").join(job))
        .args(arguments)
        .env("PYSPARK_SUBMIT_ARGS", options)
        .env("PYSPARK_PYTHON", &python)
        .env("SPARK_LOCAL_IP", "127.0.0.1")
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    let output = spark.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{job}: {said}");
    Ok(())
}
