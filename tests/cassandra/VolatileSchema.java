import java.io.IOException;
import java.util.concurrent.TimeUnit;

import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.service.StorageService;

/**
 * Cassandra with system tables that are not in the commit log, as its own tests have them (CQLTester). Whenever a table is
 * dropped it flushes all that the log has, and that is a dozen system tables for each: half of what it does where
 * schemas come and go. Nothing else is different, but that the node does not find its schema after a crash.
 *
 * Every change of the schema reads all of it, with what was dropped and what hides that: in memory that only grows. It is
 * flushed now and then, as it was with the log.
 */
public class VolatileSchema {
    private static final long FLUSH_SECONDS = 120;

    public static void main(String[] arguments) {
        KeyspaceParams.DEFAULT_LOCAL_DURABLE_WRITES = false;
        Thread flusher = new Thread(VolatileSchema::flushAlways, "schema flusher");
        flusher.setDaemon(true);
        flusher.start();
        CassandraDaemon.main(arguments);
    }

    private static void flushAlways() {
        try {
            while (true) {
                TimeUnit.SECONDS.sleep(FLUSH_SECONDS);
                StorageService.instance.forceKeyspaceFlush("system_schema");
            }
        } catch (InterruptedException | IOException e) {
            System.err.println("system_schema is not flushed any more: " + e);
        }
    }
}
