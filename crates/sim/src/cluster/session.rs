//! A client that goes on: connected anew, to any node, where something went wrong.

use std::net::SocketAddr;
use std::time::Duration;

use cluster::Consistency;
use io::Env;

use super::client::{Answer, Client, Failure};
use crate::Random;

/// A client's connection, made anew where it broke.
pub struct Session {
    env: Env,
    addresses: Vec<SocketAddr>,
    random: Random,
    client: Option<Client>,
}

impl Session {
    /// A client of the nodes at these addresses.
    pub fn new(env: &Env, addresses: &[SocketAddr], random: Random) -> Session {
        Session {
            env: env.clone(),
            addresses: addresses.to_vec(),
            random,
            client: None,
        }
    }

    /// What chance it decides by.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Runs a statement, once.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn run(&mut self, text: &str, consistency: Consistency) -> Result<Answer, Failure> {
        if self.client.is_none() {
            let address = *self.random.pick(&self.addresses);
            self.client = Some(Client::connect(&self.env, address).await?);
        }
        let Some(client) = &mut self.client else {
            return Err(Failure::Lost("no connection".to_owned()));
        };
        let answer = client.query(text, consistency).await;
        // Another node may do better.
        if answer.is_err() {
            self.client = None;
        }
        answer
    }

    /// The next statement goes to any node.
    pub fn leave(&mut self) {
        self.client = None;
    }

    /// Does nothing for a while, at most so many milliseconds.
    pub async fn rest(&mut self, most: u64) {
        let rest = Duration::from_millis(self.random.below(most));
        self.env.sleep(rest).await;
    }
}
