import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.service.CassandraDaemon;

/**
 * Cassandra with system tables that are not in the commit log, as its own tests have them (CQLTester). Whenever a table is
 * dropped it flushes all that the log has, and that is a dozen system tables for each: half of what it does where
 * schemas come and go. Nothing else is different, but that the node does not find its schema after a crash.
 */
public class VolatileSchema {
    public static void main(String[] arguments) {
        KeyspaceParams.DEFAULT_LOCAL_DURABLE_WRITES = false;
        CassandraDaemon.main(arguments);
    }
}
