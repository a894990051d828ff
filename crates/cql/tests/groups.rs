//! Where groups of rows end.

mod memory;

use memory::Memory;

fn rows(memory: &mut Memory, text: &str, page: Option<u32>) -> Option<usize> {
    let prepared = memory.prepare(text).expect("it is a statement");
    let (mut rows, mut state) = (0, None);
    for _ in 0..10 {
        let answer = memory.execute(&prepared, &[], page, state.as_deref());
        let answer = answer.ok()?;
        rows += answer.rows.len();
        state = answer.state;
        if state.is_none() {
            return Some(rows);
        }
    }
    None
}

/// Cassandra refuses it or not, as the ranges of tokens lie.
#[test]
fn a_row_behind_the_last_group_that_is_wanted_is_not_grouped() {
    let mut memory = Memory::new();
    // Of keys in the order of tokens; what is before 1970 is in no span.
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class':'SimpleStrategy','replication_factor':1}",
        "CREATE TABLE ks.t (k int, c timestamp, PRIMARY KEY (k, c))",
        "INSERT INTO ks.t (k, c) VALUES (5, 0)",
        "INSERT INTO ks.t (k, c) VALUES (1, 0)",
        "INSERT INTO ks.t (k, c) VALUES (8, -1)",
    ] {
        assert_eq!(rows(&mut memory, text, None), Some(0), "{text}");
    }
    let grouped = "SELECT k FROM ks.t GROUP BY k, floor(c, 1y)";
    let limited = format!("{grouped} LIMIT 2");
    for page in [None, Some(1), Some(2), Some(100)] {
        assert_eq!(rows(&mut memory, &limited, page), Some(2), "{page:?}");
        assert_eq!(rows(&mut memory, grouped, page), None, "{page:?}");
    }
}
