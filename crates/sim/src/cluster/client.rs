//! A client of a simulated cluster: the native protocol over the simulated network, one request at a
//! time.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cluster::Consistency;
use io::{Env, TcpStream};
use wire::client::{ClientConnection, QueryResult, Response, ResponseMessage};
use wire::{ErrorReply, Query, QueryParameters, Request, Version};

/// How long a client waits for the answer to a request.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes that one read has room for.
const READ: usize = 16 << 10;

/// Why a request has no result.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The server said so.
    Error(Box<ErrorReply>),
    /// The connection broke, or there was no answer in time: nobody knows whether it was done.
    Lost(String),
}

/// What a statement gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The rows, if it gives any.
    pub rows: Vec<Vec<Option<Bytes>>>,
}

/// A client's connection.
pub struct Client {
    env: Env,
    stream: TcpStream,
    connection: ClientConnection,
    input: BytesMut,
    next_stream: i16,
}

impl Client {
    /// Connects to a node and starts up.
    ///
    /// # Errors
    /// It cannot be reached, or does not serve.
    pub async fn connect(env: &Env, address: SocketAddr) -> Result<Client, Failure> {
        let connecting = env.timeout(PATIENCE, env.connect(address)).await;
        let stream = match connecting {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Failure::Lost(error.to_string())),
            Err(_) => return Err(Failure::Lost("no connection in time".to_owned())),
        };
        let mut client = Client {
            env: env.clone(),
            stream,
            connection: ClientConnection::new(Version::V5, None),
            input: BytesMut::new(),
            next_stream: 0,
        };
        client.connection.start_up(0);
        client.exchange(0).await?;
        Ok(client)
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn query(&mut self, text: &str, consistency: Consistency) -> Result<Answer, Failure> {
        let parameters = QueryParameters {
            consistency,
            ..QueryParameters::default()
        };
        self.run(&Query { text, parameters }).await
    }

    /// Runs a statement with parameters.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn run(&mut self, query: &Query<'_>) -> Result<Answer, Failure> {
        self.next_stream = (self.next_stream + 1) % 1000;
        let stream = self.next_stream;
        self.connection
            .request(stream, &Request::Query(query.clone()));
        self.exchange(stream).await
    }

    async fn exchange(&mut self, stream: i16) -> Result<Answer, Failure> {
        let env = self.env.clone();
        match env.timeout(PATIENCE, self.talk(stream)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Lost("no answer in time".to_owned())),
        }
    }

    async fn talk(&mut self, stream: i16) -> Result<Answer, Failure> {
        let lost = |reason: &dyn ToString| Failure::Lost(reason.to_string());
        let mut output = Vec::new();
        self.connection.take_output(&mut output);
        let (sent, _) = self.stream.write_all(output).await;
        sent.map_err(|error| lost(&error))?;
        loop {
            while let Some(envelope) = self
                .connection
                .receive(&mut self.input)
                .map_err(|error| lost(&error))?
            {
                if envelope.header.stream != stream {
                    continue;
                }
                let message = ResponseMessage::decode(&envelope).map_err(|error| lost(&error))?;
                return match message.response {
                    Response::Error(error) => Err(Failure::Error(Box::new(error))),
                    Response::Result(QueryResult::Rows(rows)) => Ok(Answer {
                        rows: rows.rows().map(owned).collect(),
                    }),
                    _ => Ok(Answer::default()),
                };
            }
            let (read, bytes) = self.stream.read(Vec::with_capacity(READ)).await;
            match read {
                Ok(0) => return Err(lost(&"the node closed the connection")),
                Ok(_) => self.input.extend_from_slice(&bytes),
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

fn owned(row: &[Option<&[u8]>]) -> Vec<Option<Bytes>> {
    let values = row.iter();
    values
        .map(|value| value.map(Bytes::copy_from_slice))
        .collect()
}
