//! Who the nodes are and how they are: `status`, `ring`.

use std::io::Write;

use super::{Api, Cluster, Done, Naming, Node, Ownership, TextTable, with_port};

/// Prints the nodes of the cluster (Cassandra's `Status`).
pub(in crate::nodetool) fn status(
    api: &Api,
    keyspace: Option<&str>,
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let owned = Ownership::ask(api, keyspace)?;
    print_status(&Cluster::ask(api, naming)?, &owned, out)
}

pub(super) fn print_status(cluster: &Cluster, owned: &Ownership, out: &mut impl Write) -> Done {
    let datacenters = cluster.by_datacenter();
    let all: usize = cluster.nodes().map(Node::token_count).sum();
    // Each node has a token only, as Cassandra guesses it.
    let one_token = datacenters.len() >= all;
    let mut table = TextTable::default();
    for nodes in datacenters.values() {
        let (counted, shown) = match one_token {
            true => (None, Some("Token")),
            false => (Some("Tokens"), None),
        };
        let heads = [Some("--"), Some("Address"), Some("Load"), counted];
        let more = [Some(owned.heading()), Some("Host ID"), shown, Some("Rack")];
        table.add(heads.into_iter().chain(more).flatten());
        for node in nodes {
            let letters = |word: &str| word.chars().next().unwrap_or('?');
            let code = [letters(node.status()), letters(node.text("state"))];
            let count = node.token_count().to_string();
            let token = node.tokens().next().map(|token| token.to_string());
            let row = [
                Some(code.iter().collect()),
                Some(cluster.named(*node)),
                Some(node.load()),
                Some(count).filter(|_| !one_token),
                Some(owned.share(*node, 1)),
                Some(node.text("host_id").to_owned()),
                one_token.then(|| token.unwrap_or_default()),
                Some(node.text("rack").to_owned()),
            ];
            table.add(row.into_iter().flatten());
        }
    }
    // The columns of all data centres are as wide.
    let text = table.text_with("  ");
    let mut lines = text.lines();
    for (place, (name, nodes)) in datacenters.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        let heading = format!("Datacenter: {name}");
        writeln!(out, "{heading}\n{}", "=".repeat(heading.chars().count()))?;
        writeln!(
            out,
            "Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving"
        )?;
        for line in lines.by_ref().take(nodes.len() + 1) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(write!(out, "\n{}", owned.note())?)
}

/// Prints all tokens and whose they are (Cassandra's `Ring`).
pub(in crate::nodetool) fn ring(
    api: &Api,
    keyspace: Option<&str>,
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let owned = Ownership::ask(api, keyspace)?;
    print_ring(&Cluster::ask(api, naming)?, &owned, out)
}

pub(super) fn print_ring(cluster: &Cluster, owned: &Ownership, out: &mut impl Write) -> Done {
    // It is not wider for names, nor here.
    let addresses = cluster
        .nodes()
        .map(|node| with_port(node.text("address"), node));
    let width = addresses.map(|address| address.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        format!("{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}")
    };
    writeln!(out)?;
    for (name, nodes) in cluster.by_datacenter() {
        let tokens = nodes
            .iter()
            .flat_map(|node| node.tokens().map(|token| (token, *node)));
        let mut tokens: Vec<(i64, Node<'_>)> = tokens.collect();
        tokens.sort_by_key(|(token, _)| *token);
        let Some((last, _)) = tokens.last() else {
            continue;
        };
        writeln!(out, "Datacenter: {name}\n==========")?;
        let heads = [
            "Address", "Rack", "Status", "State", "Load", "Owns", "Token",
        ];
        writeln!(out, "{}", line(heads))?;
        match tokens.len() {
            1 => writeln!(out)?,
            _ => writeln!(out, "{}", line(["", "", "", "", "", "", &last.to_string()]))?,
        }
        for (token, node) in &tokens {
            let cells = [
                &*cluster.named(*node),
                node.text("rack"),
                node.status(),
                node.text("state"),
                &node.load(),
                &owned.share(*node, 2),
                &token.to_string(),
            ];
            writeln!(out, "{}", line(cells))?;
        }
        writeln!(out)?;
    }
    if cluster.nodes().any(|node| node.token_count() > 1) {
        writeln!(
            out,
            "  Warning: \"nodetool ring\" is used to output all the tokens of a node."
        )?;
        writeln!(
            out,
            "  To view status related info of a node use \"nodetool status\" instead.\n"
        )?;
    }
    Ok(write!(out, "\n  {}", owned.note())?)
}
