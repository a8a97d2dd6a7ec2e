//! Sends a scenario to a node.

use std::net::SocketAddr;
use std::sync::Arc;

use cqlens_client::{Client, ClientOptions};
use tokio::task::JoinSet;

use super::client::ScenarioClient;
use super::expression::Random;
use super::outcome::{RunError, StepError, Totals};
use super::{Phase, Results, Scenario, Step};

impl Scenario {
    /// Makes the schema and sends the traffic.
    ///
    /// # Errors
    /// The first step that fails, unless it may.
    pub async fn run(&self, address: SocketAddr, options: &ClientOptions) -> Result<Totals, RunError> {
        let schema = |source| RunError::Schema {
            scenario: self.id.clone(),
            source,
        };
        let mut client = Client::connect(address, options).await.map_err(schema)?;
        client.script(&self.schema).await.map_err(schema)?;
        let mut totals = Totals::default();
        for (number, phase) in (1..).zip(&self.traffic.phases) {
            let mut clients = JoinSet::new();
            for client in 0..phase.clients {
                let worker = Worker {
                    scenario: self.id.clone(),
                    phase: Arc::new(phase.clone()),
                    seed: self.traffic.seed.wrapping_mul(31).wrapping_add(number),
                    address,
                    options: options.clone(),
                    client,
                };
                clients.spawn(worker.run());
            }
            while let Some(ended) = clients.join_next().await {
                let its = ended.map_err(|_| RunError::CutOff)??;
                totals.requests += its.requests;
                totals.sent_again += its.sent_again;
                totals.refused += its.refused;
                totals.rows += its.rows;
            }
        }
        Ok(totals)
    }
}

/// One client of a phase.
struct Worker {
    scenario: String,
    phase: Arc<Phase>,
    seed: u64,
    address: SocketAddr,
    options: ClientOptions,
    client: u64,
}

impl Worker {
    async fn run(self) -> Result<Totals, RunError> {
        let phase = Arc::clone(&self.phase);
        let connecting = Client::connect(self.address, &self.options).await;
        let client = connecting.map_err(|error| self.failed("connect", error.into()))?;
        let mut session = ScenarioClient::new(client);
        let mut iteration = phase.first + self.client;
        while iteration < phase.first + phase.repeat {
            let mut random = Random::new(self.seed, iteration);
            let mut results = Results::new();
            for step in &phase.steps {
                let ran = session.step(step, iteration, &mut results, &mut random).await;
                ran.map_err(|error| self.failed(step.label(), error))?;
            }
            iteration += phase.clients;
        }
        Ok(session.totals())
    }

    fn failed(&self, cql: &str, source: StepError) -> RunError {
        RunError::Step {
            scenario: self.scenario.clone(),
            phase: self.phase.name.clone(),
            cql: cql.to_owned(),
            source,
        }
    }
}

impl Step {
    fn label(&self) -> &str {
        let cql = self.cql.as_ref().and_then(|cql| cql.constant());
        cql.or(self.statements.first().map(|part| part.cql.as_str()))
            .unwrap_or("a statement")
    }
}
