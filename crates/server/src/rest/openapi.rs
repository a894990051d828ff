//! The description of the API, made from the table of its routes.

use serde_json::{Map, Value, json};

use super::{Route, routes};

/// The document (OpenAPI 3.1).
pub(super) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Helenus",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Operating a node. `helenus nodetool` is a client of this.",
        },
        "paths": paths,
    })
}

fn operation(route: &Route) -> Value {
    let in_path =
        in_path(route.path).map(|name| parameter(name, "path", "It stands in the path.", true));
    let in_query = route
        .query
        .iter()
        .map(|(name, about)| parameter(name, "query", about, false));
    json!({
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "Done." },
            "default": {
                "description": "Not done.",
                "content": { "application/json": { "schema": {
                    "type": "object",
                    "properties": {
                        "message": { "type": "string" },
                        "code": { "type": "integer" },
                    },
                } } },
            },
        },
    })
}

fn parameter(name: &str, place: &str, about: &str, required: bool) -> Value {
    json!({
        "name": name,
        "in": place,
        "description": about,
        "required": required,
        "schema": { "type": "string" },
    })
}

/// The names between braces.
fn in_path(path: &str) -> impl Iterator<Item = &str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_once() {
        let document = document();
        let paths = document["paths"].as_object().expect("an object");
        let described: usize = paths
            .values()
            .map(|path| path.as_object().expect("an object").len())
            .sum();
        assert_eq!(described, routes().count());
        let flush = &paths["/storage_service/keyspace_flush/{keyspace}"]["post"];
        assert_eq!(flush["parameters"][0]["name"], "keyspace");
        assert_eq!(flush["parameters"][1]["name"], "cf");
    }
}
