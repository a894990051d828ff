package helenus;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;

/** One protocol version's session and keyspace, on the server that the environment names. */
final class App implements AutoCloseable {
  final String version;
  final String keyspace;
  final CqlSession session;

  App(String version) {
    this.version = version;
    this.keyspace = "java_" + version.toLowerCase();
    try (CqlSession first = builder(version, null).build()) {
      first.execute("DROP KEYSPACE IF EXISTS " + keyspace);
      first.execute(
          "CREATE KEYSPACE "
              + keyspace
              + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    }
    this.session = builder(version, null).withKeyspace(keyspace).build();
  }

  /** A session of this protocol version, compressed or not (null). */
  static CqlSessionBuilder builder(String version, String compression) {
    ProgrammaticDriverConfigLoaderBuilder config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(10))
            .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(100))
            .withDuration(DefaultDriverOption.RECONNECTION_MAX_DELAY, Duration.ofMillis(300));
    if (compression != null) {
      config = config.withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression);
    }
    return CqlSession.builder()
        .addContactPoint(
            new InetSocketAddress(
                System.getenv("CQL_ADDRESS"), Integer.parseInt(System.getenv("CQL_PORT"))))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config.build());
  }

  ResultSet execute(String query, Object... values) {
    return session.execute(query, values);
  }

  /** The first column of every row. */
  <T> List<T> column(Class<T> type, String query, Object... values) {
    List<T> all = new ArrayList<>();
    for (Row row : session.execute(query, values)) {
      all.add(row.get(0, type));
    }
    return all;
  }

  /** Asks the harness to stop the server and start it again. */
  static void restartServer() throws Exception {
    Process process =
        new ProcessBuilder("sh", "-c", System.getenv("CQL_RESTART")).inheritIO().start();
    if (process.waitFor() != 0) {
      throw new IllegalStateException("the server did not restart: " + process.exitValue());
    }
  }

  static void eventually(String what, BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (true) {
      try {
        if (condition.getAsBoolean()) {
          return;
        }
      } catch (com.datastax.oss.driver.api.core.DriverException notYet) {
        // The session has no connection yet.
      }
      if (System.nanoTime() > end) {
        throw new AssertionError("after 60 s: " + what);
      }
      Thread.sleep(50);
    }
  }

  @Override
  public void close() {
    session.execute("DROP KEYSPACE " + keyspace);
    session.close();
  }
}
