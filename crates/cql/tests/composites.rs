//! Values of `CompositeType` and `DynamicCompositeType`. (What Cassandra answers is in
//! `golden/composites.cql`.)

mod memory;

use cql::CqlError;
use memory::Memory;

fn run(memory: &mut Memory, text: &str) {
    let prepared = memory.prepare(text).expect("a valid statement");
    memory.execute(&prepared, &[], None, None).expect("done");
}

/// Where Cassandra 5.0.6 fails by an exception that nobody caught, or keeps bytes that nothing can read.
#[test]
fn what_no_composite_has_is_refused() {
    let mut memory = Memory::new();
    run(
        &mut memory,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(
        &mut memory,
        "CREATE TABLE ks.composites (k int PRIMARY KEY, c 'CompositeType(UTF8Type, Int32Type)', \
         d 'DynamicCompositeType(s => UTF8Type)')",
    );
    run(
        &mut memory,
        "INSERT INTO ks.composites (k, c, d) VALUES (1, 'a:1', 's@a:Int32Type@1')",
    );
    let mut refused = |text: &str| {
        let prepared = match memory.prepare(text) {
            Ok(prepared) => prepared,
            Err(error) => return error.to_string(),
        };
        let answer = memory.execute(&prepared, &[], None, None);
        match answer {
            Err(CqlError::Invalid(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    let full = "'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.UTF8Type,\
                org.apache.cassandra.db.marshal.Int32Type)'";
    let no_json = format!("There is no JSON of values of type {full}");
    for (text, expected) in [
        ("SELECT JSON c FROM ks.composites", &*no_json),
        (
            "INSERT INTO ks.composites JSON '{\"k\": 1, \"c\": \"a:1\"}'",
            &no_json,
        ),
        (
            "SELECT mask_default(c) FROM ks.composites",
            &format!("There isn't a defined masked value for type {full}"),
        ),
        (
            "INSERT INTO ks.composites (k, c) VALUES (1, 'a:1:2')",
            "Too many components: the type has only 2",
        ),
        (
            "INSERT INTO ks.composites (k, c) VALUES (1, '!')",
            "There is no component before the end in '!'",
        ),
        (
            "INSERT INTO ks.composites (k, d) VALUES (1, 's@a@b')",
            "Invalid component representation: s@a@b",
        ),
        (
            "INSERT INTO ks.composites (k, d) VALUES (1, 'x@a')",
            "`x` is no type class: no component may be of such a type at character 1",
        ),
        (
            "INSERT INTO ks.composites (k, d) VALUES (1, 'DynamicCompositeType@')",
            "`DynamicCompositeType` is no type class: no component may be of such a type at \
             character 20",
        ),
        (
            "INSERT INTO ks.composites (k, c) VALUES (1, 0x00)",
            "Not enough bytes to read value size of component 0",
        ),
        (
            "INSERT INTO ks.composites (k, d) VALUES (1, 0x807800016100)",
            "Cannot find comparator for component 0",
        ),
    ] {
        let message = refused(text);
        assert!(message.ends_with(expected), "{text}: {message}");
    }
}
