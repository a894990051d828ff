//! What tables hold and how long they take, by percentiles: `tablehistograms`.

use std::io::Write;

use super::Done;
use super::api::{Api, NodetoolError};
use super::statistics::{Table, selected};
use super::text::fixed;

/// Prints histograms of tables (Cassandra's `TableHistograms`).
pub(super) fn table_histograms(api: &Api, arguments: &[String], out: &mut impl Write) -> Done {
    let names = match arguments {
        [] => Vec::new(),
        [keyspace, table] => vec![format!("{keyspace}.{table}")],
        [name] if name.split('.').count() == 2 => vec![name.clone()],
        arguments => {
            let message = match arguments {
                [_] => "tablehistograms requires keyspace and table name arguments",
                _ => {
                    "tablehistograms requires <keyspace> <table> or <keyspace.table> format argument."
                }
            };
            return Err(NodetoolError::Usage(message.to_owned()));
        }
    };
    for table in selected(api, &names, false, |name| format!("Unknown table {name}"))? {
        print_histograms(&table, out)?;
    }
    Ok(())
}

/// What is too large to be counted has no percentiles.
fn print_histograms(table: &Table, out: &mut impl Write) -> Done {
    let histograms = &table.0["histograms"];
    let of = |name: &str, at: usize| histograms[name][at].as_f64().unwrap_or(f64::NAN);
    if histograms["partition_size"].is_null() {
        writeln!(
            out,
            "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' \
                 percentiles"
        )?;
    }
    for (what, name) in [
        ("Row sizes", "partition_size"),
        ("Column counts", "cell_count"),
    ] {
        if let Some(limit) = table.0["too_large"][name].as_i64() {
            writeln!(
                out,
                "{what} are larger than {limit}, unable to calculate percentiles"
            )?;
        }
    }
    writeln!(
        out,
        "{}/{} histograms",
        table.name("keyspace"),
        table.name("table")
    )?;
    let heads = [
        "Read Latency",
        "Write Latency",
        "SSTables",
        "Partition Size",
        "Cell Count",
    ];
    let units = ["(micros)", "(micros)", "", "(bytes)", ""];
    for (first, row) in [("Percentile", heads), ("", units)] {
        let cells: String = row.iter().map(|cell| format!("{cell:>18}")).collect();
        writeln!(out, "{first:<10}{cells}")?;
    }
    let rows = ["50%", "75%", "95%", "98%", "99%", "Min", "Max"];
    for (at, row) in rows.iter().enumerate() {
        let cells = [
            fixed(of("read_latency", at), 2),
            fixed(of("write_latency", at), 2),
            fixed(of("sstables_per_read", at), 2),
            fixed(of("partition_size", at), 0),
            fixed(of("cell_count", at), 0),
        ];
        let cells: String = cells.iter().map(|cell| format!("{cell:>18}")).collect();
        writeln!(out, "{row:<10}{cells}")?;
    }
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_large_for_a_histogram_is_said() {
        let all = [1, 2, 3, 4, 5, 0, 6];
        let table = Table(json!({
            "keyspace": "ks",
            "table": "t",
            "histograms": {
                "read_latency": all, "write_latency": all, "sstables_per_read": all,
                "partition_size": [null, null, null, null, null, 100, i64::MAX], "cell_count": all,
            },
            "too_large": { "partition_size": 1000, "cell_count": null },
        }));
        let mut out = Vec::new();
        print_histograms(&table, &mut out).expect("a buffer takes all");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "Row sizes are larger than 1000, unable to calculate percentiles",
                "ks/t histograms"
            ]
        );
        let of = |row: usize| -> Vec<&str> { lines[row].split_whitespace().collect() };
        assert_eq!(of(4), ["50%", "1.00", "1.00", "1.00", "NaN", "1"]);
        assert_eq!(of(9), ["Min", "0.00", "0.00", "0.00", "100", "0"]);
        assert_eq!(lines.len(), 12, "{text}");
    }
}
