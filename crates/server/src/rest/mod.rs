//! The REST API through which a node is operated: what `helenus nodetool` speaks.
//!
//! Paths, parameters and answers are those of ScyllaDB's REST API where it has the operation
//! (scylladb/scylladb `api/api-doc/*.json`), so that its tools and people's scripts find what they
//! know; all that is the same for every operation is here, what there is to do in [`routes`].
//! `/api-doc` describes it all (OpenAPI 3.1) and is made from the same table as the router.
//!
//! Operations block, so each runs on a thread of the runtime's pool, a bounded number at once.

mod answers;
mod cluster_routes;
mod hint_routes;
mod openapi;
mod requests;
mod routes;
mod setting_routes;
mod statistics;
mod view_routes;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use node::{Admin, AdminError};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::control::Status;

use cluster_routes::CLUSTER_ROUTES;
use hint_routes::HINT_ROUTES;
use routes::ROUTES;
pub(crate) use routes::Route;
use setting_routes::SETTING_ROUTES;
use view_routes::VIEW_ROUTES;

/// All that can be done.
pub(crate) fn routes() -> impl Iterator<Item = &'static Route> {
    let parts = [
        CLUSTER_ROUTES,
        HINT_ROUTES,
        SETTING_ROUTES,
        VIEW_ROUTES,
        ROUTES,
    ];
    parts.into_iter().flatten()
}

/// How many operations may run at once; more are refused.
const MOST_OPERATIONS: usize = 64;

/// What a caller asked for.
#[derive(Debug, Default)]
pub(crate) struct Call {
    values: BTreeMap<String, String>,
}

/// Why a call has no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
}

impl ApiError {
    /// What was asked for makes no sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        let message = message.into();
        let status = StatusCode::BAD_REQUEST;
        ApiError { status, message }
    }

    fn unavailable(message: &str) -> ApiError {
        ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: message.to_owned(),
        }
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> ApiError {
        let status = match error {
            AdminError::UnknownKeyspace(_) | AdminError::UnknownTable(..) => StatusCode::NOT_FOUND,
            AdminError::Refused(_) => StatusCode::BAD_REQUEST,
            AdminError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            AdminError::Busy | AdminError::Closed => StatusCode::SERVICE_UNAVAILABLE,
        };
        let message = error.to_string();
        ApiError { status, message }
    }
}

impl IntoResponse for ApiError {
    /// As ScyllaDB's API: an object with the message and the code.
    fn into_response(self) -> Response {
        let body = json!({ "message": self.message, "code": self.status.as_u16() });
        (self.status, as_json(&body)).into_response()
    }
}

fn as_json(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, format!("{value}\n")).into_response()
}

impl Call {
    /// Takes apart what stands in the path and behind it. What the route does not know is refused:
    /// a misspelt option must not pass for none.
    fn parse<'p>(
        route: &Route,
        path: impl Iterator<Item = (&'p str, &'p str)>,
        query: &str,
    ) -> Result<Call, ApiError> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut values: BTreeMap<String, String> = path.map(owned).collect();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !route.query.iter().any(|(known, _)| *known == name) {
                let known: Vec<&str> = route.query.iter().map(|(known, _)| *known).collect();
                return Err(ApiError::bad_request(format!(
                    "{} has no parameter `{name}`; it has: {}",
                    route.path,
                    known.join(", ")
                )));
            }
            values.insert(name.into_owned(), value.into_owned());
        }
        Ok(Call { values })
    }

    /// A parameter, if it was given and is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// A parameter that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name)
            .ok_or_else(|| ApiError::bad_request(format!("the parameter `{name}` is missing")))
    }

    /// A parameter with values between commas.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.get(name).into_iter().flat_map(|list| list.split(','));
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }

    /// A parameter that is `true` or `false`, which is what it is if it was not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(ApiError::bad_request(format!(
                "`{name}` is true or false, not `{other}`"
            ))),
        }
    }

    /// A parameter that is a number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, ApiError> {
        let parsed = self.get(name).map(|text| parse_number(name, text));
        parsed.transpose()
    }

    /// A parameter that is a number and must be there.
    pub(crate) fn need_number<N: FromStr>(&self, name: &str) -> Result<N, ApiError> {
        parse_number(name, self.need(name)?)
    }
}

fn parse_number<N: FromStr>(name: &str, text: &str) -> Result<N, ApiError> {
    let parsed = text.parse();
    parsed.map_err(|_| ApiError::bad_request(format!("`{name}`: `{text}` is no number")))
}

#[derive(Clone)]
struct Service {
    status: Arc<Status>,
    operations: Arc<Semaphore>,
}

/// Answers until the process ends.
pub(crate) async fn serve(listener: TcpListener, status: Arc<Status>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    axum::serve(listener, router(status)).await
}

fn router(status: Arc<Status>) -> Router {
    let service = Service {
        status,
        operations: Arc::new(Semaphore::new(MOST_OPERATIONS)),
    };
    let documented = Router::new()
        .route(
            "/",
            get(async || "helenus\n\n/api-doc  what can be done here (OpenAPI)\n"),
        )
        .route("/api-doc", get(async || as_json(&openapi::document())));
    let routed = routes().fold(documented, |router, route| {
        let handler = move |state, path, headers, query| answer(route, state, path, headers, query);
        router.route(route.path, on(filter(route.method), handler))
    });
    routed.with_state(service)
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "POST" => MethodFilter::POST,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

async fn answer(
    route: &'static Route,
    State(service): State<Service>,
    path: RawPathParams,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    // A page that somebody looks at beside this machine must not operate the node: browsers name
    // the page's origin with whatever it sends here.
    if headers.contains_key(header::ORIGIN) {
        return Err(ApiError {
            status: StatusCode::FORBIDDEN,
            message: "this is not for web pages: leave out the header Origin".to_owned(),
        });
    }
    let call = Call::parse(route, path.iter(), &query.unwrap_or_default())?;
    let admin = service.status.admin.get().cloned();
    let admin = admin.ok_or_else(|| ApiError::unavailable("the node is starting: try again"))?;
    let status = service.status.clone();
    let Ok(permit) = service.operations.try_acquire_owned() else {
        return Err(AdminError::Busy.into());
    };
    let operation = move || {
        let _permit = permit;
        (route.run)(&Node { admin, status }, &call)
    };
    let done = tokio::task::spawn_blocking(operation).await;
    let value = done.map_err(|_| AdminError::Closed)??;
    Ok(as_json(&value))
}

/// What operations work with.
pub(crate) struct Node {
    admin: Admin,
    status: Arc<Status>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> &'static Route {
        routes()
            .find(|route| route.path == path)
            .expect("there is one")
    }

    #[test]
    fn what_a_route_does_not_know_is_refused() {
        let flush = route("/storage_service/keyspace_flush/{keyspace}");
        let parse = |query| Call::parse(flush, [("keyspace", "ks")].into_iter(), query);
        let call = parse("cf=a,%20b,").expect("it is good");
        assert_eq!(call.get("keyspace"), Some("ks"));
        assert_eq!(call.list("cf"), ["a", "b"]);
        assert_eq!(
            parse("table=a").expect_err("misspelt").to_string(),
            "/storage_service/keyspace_flush/{keyspace} has no parameter `table`; it has: cf"
        );
    }

    #[test]
    fn values_are_checked() {
        let call = Call {
            values: BTreeMap::from([
                ("flag".to_owned(), "yes".to_owned()),
                ("number".to_owned(), "-1".to_owned()),
                ("empty".to_owned(), String::new()),
            ]),
        };
        assert!(call.flag("flag").is_err());
        assert_eq!(call.flag("none"), Ok(false));
        assert!(call.number::<u64>("number").is_err());
        assert_eq!(call.number::<i64>("number"), Ok(Some(-1)));
        assert_eq!(call.need_number::<i64>("number"), Ok(-1));
        assert!(call.need_number::<i64>("none").is_err());
        assert!(call.need("empty").is_err());
    }

    #[test]
    fn the_router_takes_every_route() {
        drop(router(Arc::new(Status::default())));
    }
}
