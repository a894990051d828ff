package helenus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.NodeState;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidConfigurationInQueryException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;

/** The scenario of ../README.md at one protocol version; see the subclasses. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
abstract class ApplicationTest {
  private final String version;
  private App app;

  ApplicationTest(String version) {
    this.version = version;
  }

  @BeforeAll
  void open() {
    app = new App(version);
  }

  @AfterAll
  void close() {
    app.close();
  }

  /** A column of every native type, with two values each. */
  private static Map<String, Object[]> natives() throws Exception {
    Map<String, Object[]> all = new LinkedHashMap<>();
    all.put("ascii", new Object[] {"abc", ""});
    all.put("bigint", new Object[] {Long.MIN_VALUE, Long.MAX_VALUE});
    all.put("blob", new Object[] {ByteBuffer.wrap(new byte[] {0, -1}), ByteBuffer.allocate(0)});
    all.put("boolean", new Object[] {true, false});
    all.put("date", new Object[] {LocalDate.of(2026, 11, 21), LocalDate.of(-100, 1, 1)});
    all.put("decimal", new Object[] {new BigDecimal("-12.345"), new BigDecimal("1E+30")});
    all.put("double", new Object[] {1.5, Double.NEGATIVE_INFINITY});
    all.put("duration", new Object[] {CqlDuration.newInstance(14, 3, 5), CqlDuration.newInstance(-1, -2, -3)});
    all.put("float", new Object[] {-2.5f, Float.NaN});
    all.put("inet", new Object[] {InetAddress.getByName("10.1.2.3"), InetAddress.getByName("2001:db8::1")});
    all.put("int", new Object[] {Integer.MIN_VALUE, Integer.MAX_VALUE});
    all.put("smallint", new Object[] {Short.MIN_VALUE, Short.MAX_VALUE});
    all.put("text", new Object[] {"μῆνιν 🐍", ""});
    all.put("time", new Object[] {LocalTime.of(1, 2, 3, 4), LocalTime.MAX});
    all.put("timestamp", new Object[] {Instant.ofEpochMilli(1795222923456L), Instant.ofEpochMilli(-1)});
    all.put("timeuuid", new Object[] {Uuids.startOf(0), Uuids.timeBased()});
    all.put("tinyint", new Object[] {Byte.MIN_VALUE, Byte.MAX_VALUE});
    all.put("uuid", new Object[] {new UUID(0, 0), UUID.randomUUID()});
    all.put("varint", new Object[] {BigInteger.valueOf(-129), BigInteger.TWO.pow(200)});
    return all;
  }

  @Test
  @Order(1)
  void everyNativeType() throws Exception {
    Map<String, Object[]> natives = natives();
    if (version.equals("V3")) {
      // v3 has no codes for them: servers name the class, which this driver does not know.
      natives.keySet().removeAll(Set.of("date", "time", "smallint", "tinyint", "duration"));
    }
    app.execute(
        "CREATE TABLE natives (id int PRIMARY KEY, "
            + natives.keySet().stream().map(n -> "c_" + n + " " + n).collect(Collectors.joining(", "))
            + ")");
    for (Map.Entry<String, Object[]> entry : natives.entrySet()) {
      String column = "c_" + entry.getKey();
      PreparedStatement insert = app.session.prepare("INSERT INTO natives (id, " + column + ") VALUES (?, ?)");
      for (int i = 0; i < entry.getValue().length; i++) {
        Object value = entry.getValue()[i];
        app.session.execute(insert.bind(i, value));
        assertEquals(value, app.execute("SELECT " + column + " FROM natives WHERE id = " + i).one().getObject(0), column);
      }
      app.session.execute(insert.bind(0, null));
      assertNull(app.execute("SELECT " + column + " FROM natives WHERE id = 0").one().getObject(0), column);
    }
  }

  @Test
  @Order(2)
  void collectionsTuplesAndUserTypes() {
    app.execute("CREATE TYPE place (street text, zip int, tags frozen<set<text>>)");
    app.execute(
        "CREATE TABLE gathered (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>,"
            + " fl frozen<list<text>>, t tuple<int, text>, p place, fp frozen<place>, nested map<int, frozen<list<frozen<place>>>>)");
    UserDefinedType placeType =
        app.session.refreshSchema().getKeyspace(app.keyspace).get().getUserDefinedType("place").get();
    TupleType tupleType =
        (TupleType) app.session.getMetadata().getKeyspace(app.keyspace).get().getTable("gathered").get().getColumn("t").get().getType();
    UdtValue place = placeType.newValue("Hill", 7, Set.of("a", "b"));
    TupleValue tuple = tupleType.newValue(1, null);
    PreparedStatement insert =
        app.session.prepare("INSERT INTO gathered (id, l, s, m, fl, t, p, fp, nested) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    app.session.execute(
        insert.bind(1, List.of(3, 1, 3), Set.of("x", "y"), Map.of("k", 1), List.of(), tuple, place, place, Map.of(5, List.of(place))));
    Row row = app.execute("SELECT * FROM gathered WHERE id = 1").one();
    assertEquals(List.of(3, 1, 3), row.getList("l", Integer.class));
    assertEquals(Set.of("x", "y"), row.getSet("s", String.class));
    assertEquals(Map.of("k", 1), row.getMap("m", String.class, Integer.class));
    assertEquals(List.of(), row.getList("fl", String.class));
    assertEquals(tuple, row.getTupleValue("t"));
    assertEquals(place, row.getUdtValue("p"));
    assertEquals(place, row.getUdtValue("fp"));
    assertEquals(Map.of(5, List.of(place)), row.getObject("nested"));

    app.execute("UPDATE gathered SET l = l + [9], s = s - {'x'}, m['z'] = 26, p.zip = 8 WHERE id = 1");
    app.execute("UPDATE gathered SET l[0] = 4 WHERE id = 1");
    app.execute("DELETE m['k'] FROM gathered WHERE id = 1");
    row = app.execute("SELECT l, s, m, p FROM gathered WHERE id = 1").one();
    assertEquals(List.of(4, 1, 3, 9), row.getList("l", Integer.class));
    assertEquals(Set.of("y"), row.getSet("s", String.class));
    assertEquals(Map.of("z", 26), row.getMap("m", String.class, Integer.class));
    assertEquals(8, row.getUdtValue("p").getInt("zip"));
  }

  @Test
  @Order(3)
  void rowsStaticsAndDeletes() {
    app.execute(
        "CREATE TABLE songs (bard text, album int, track int, title text, length int, genre text static,"
            + " PRIMARY KEY ((bard, album), track)) WITH CLUSTERING ORDER BY (track DESC)");
    for (int track = 0; track < 10; track++) {
      app.execute("INSERT INTO songs (bard, album, track, title) VALUES (?, ?, ?, ?)", "a", 1, track, "t" + track);
    }
    app.execute("UPDATE songs SET genre = 'epic' WHERE bard = 'a' AND album = 1");
    app.execute("DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track > 7");
    app.execute("DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track = 3");
    app.execute("DELETE title FROM songs WHERE bard = 'a' AND album = 1 AND track = 4");
    assertEquals(
        List.of(7, 6, 5, 4, 2, 1, 0),
        app.column(Integer.class, "SELECT track FROM songs WHERE bard = 'a' AND album = 1"));
    assertEquals(
        List.of(1, 2),
        app.column(Integer.class, "SELECT track FROM songs WHERE bard = 'a' AND album = 1 AND track IN (1, 2) ORDER BY track ASC"));
    Row row = app.execute("SELECT title, genre FROM songs WHERE bard = 'a' AND album = 1 AND track = 4").one();
    assertTrue(row.isNull("title"));
    assertEquals("epic", row.getString("genre"));
    assertEquals(7L, app.execute("SELECT count(*) FROM songs WHERE bard = 'a' AND album = 1").one().getLong(0));
  }

  @Test
  @Order(4)
  void preparedNamedUnsetAndNull() {
    app.execute("CREATE TABLE prepared (k int PRIMARY KEY, a text, b int)");
    PreparedStatement insert = app.session.prepare("INSERT INTO prepared (k, a, b) VALUES (:k, :a, :b)");
    app.session.execute(insert.boundStatementBuilder().setInt("b", 3).setInt("k", 1).setString("a", "kept").build());
    if (!version.equals("V3")) {
      BoundStatement unset = insert.bind().setInt("k", 1).setInt("b", 4);
      app.session.execute(unset);
      assertEquals("kept", app.execute("SELECT a FROM prepared WHERE k = 1").one().getString(0));
    }
    app.session.execute(insert.bind(1, null, 5));
    Row row = app.execute("SELECT a, b FROM prepared WHERE k = 1").one();
    assertNull(row.getString(0));
    assertEquals(5, row.getInt(1));
    SimpleStatement named =
        SimpleStatement.newInstance("SELECT b FROM prepared WHERE k = :key", Map.of("key", 1));
    assertEquals(5, app.session.execute(named).one().getInt(0));
  }

  @Test
  @Order(5)
  void preparedStatementSurvivesAlterTable() {
    app.execute("CREATE TABLE altered (k int PRIMARY KEY, a int)");
    PreparedStatement select = app.session.prepare("SELECT * FROM altered WHERE k = ?");
    app.execute("INSERT INTO altered (k, a) VALUES (1, 10)");
    assertEquals(2, app.session.execute(select.bind(1)).one().size());
    app.execute("ALTER TABLE altered ADD b text");
    app.execute("UPDATE altered SET b = 'new' WHERE k = 1");
    Row row = app.session.execute(select.bind(1)).one();
    assertEquals(10, row.getInt("a"));
    if (version.equals("V5")) {
      assertEquals("new", row.getString("b"));
    }
    assertEquals("new", app.session.execute(app.session.prepare("SELECT b FROM altered WHERE k = ?").bind(1)).one().getString(0));
  }

  @Test
  @Order(6)
  void timeToLiveAndTimestamps() throws Exception {
    app.execute("CREATE TABLE timed (k int PRIMARY KEY, v int)");
    app.execute("INSERT INTO timed (k, v) VALUES (1, 1) USING TTL 2");
    app.execute("INSERT INTO timed (k, v) VALUES (2, 10) USING TIMESTAMP 1000");
    app.execute("INSERT INTO timed (k, v) VALUES (2, 9) USING TIMESTAMP 999");
    app.session.execute(SimpleStatement.newInstance("INSERT INTO timed (k, v) VALUES (3, 1)").setQueryTimestamp(4242));
    assertEquals(1000, app.execute("SELECT writetime(v) FROM timed WHERE k = 2").one().getLong(0));
    assertEquals(10, app.execute("SELECT v FROM timed WHERE k = 2").one().getInt(0));
    assertEquals(4242, app.execute("SELECT writetime(v) FROM timed WHERE k = 3").one().getLong(0));
    int left = app.execute("SELECT ttl(v) FROM timed WHERE k = 1").one().getInt(0);
    assertTrue(left > 0 && left <= 2);
    Thread.sleep(3000);
    assertNull(app.execute("SELECT v FROM timed WHERE k = 1").one());
  }

  @Test
  @Order(7)
  void batches() {
    app.execute("CREATE TABLE batched (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = app.session.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)");
    for (DefaultBatchType type : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
      BatchStatementBuilder batch = BatchStatement.builder(type).setConsistencyLevel(DefaultConsistencyLevel.QUORUM);
      for (int c = 0; c < 20; c++) {
        batch.addStatement(insert.bind(type.ordinal(), c, "v"));
      }
      batch.addStatement(SimpleStatement.newInstance("DELETE FROM batched WHERE k = ? AND c = 100", type.ordinal()));
      app.session.execute(batch.setQueryTimestamp(type.ordinal() + 50).build());
      ResultSet rows = app.execute("SELECT c, writetime(v) FROM batched WHERE k = ?", type.ordinal());
      assertEquals(20, rows.all().stream().filter(r -> r.getLong(1) == type.ordinal() + 50).count());
    }
  }

  @Test
  @Order(8)
  void pagesThroughTenThousandRows() {
    app.execute("CREATE TABLE wide (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = app.session.prepare("INSERT INTO wide (k, c, v) VALUES (?, ?, ?)");
    for (int from = 0; from < 10_000; from += 500) {
      List<CompletionStage<?>> pending = new ArrayList<>();
      for (int c = from; c < from + 500; c++) {
        pending.add(app.session.executeAsync(insert.bind(1, c, "value " + c)));
      }
      pending.forEach(p -> p.toCompletableFuture().join());
    }
    SimpleStatement query = SimpleStatement.newInstance("SELECT c FROM wide WHERE k = 1").setPageSize(777);
    List<Integer> all = app.session.execute(query).all().stream().map(r -> r.getInt(0)).collect(Collectors.toList());
    assertEquals(IntStream.range(0, 10_000).boxed().collect(Collectors.toList()), all);

    List<Integer> paged = new ArrayList<>();
    ByteBuffer state = null;
    do {
      ResultSet page = app.session.execute(query.setPagingState(state));
      int available = page.getAvailableWithoutFetching();
      assertTrue(available <= 777);
      for (int i = 0; i < available; i++) {
        paged.add(page.one().getInt(0));
      }
      state = page.getExecutionInfo().getPagingState();
    } while (state != null);
    assertEquals(all, paged);
    SimpleStatement backwards = SimpleStatement.newInstance("SELECT c FROM wide WHERE k = 1 ORDER BY c DESC LIMIT 1500").setPageSize(100);
    assertEquals(1500, app.session.execute(backwards).all().size());
  }

  @Test
  @Order(9)
  void errorsHaveTheirClasses() {
    assertThrows(SyntaxError.class, () -> app.execute("SELEC"));
    assertThrows(InvalidQueryException.class, () -> app.execute("SELECT * FROM missing"));
    assertThrows(InvalidQueryException.class, () -> app.execute("SELECT * FROM system.local WHERE release_version = 'x'"));
    assertThrows(
        InvalidConfigurationInQueryException.class,
        () -> app.execute("CREATE KEYSPACE x WITH replication = {'class': 'Nowhere'}"));
    app.execute("CREATE TABLE twice (k int PRIMARY KEY)");
    assertThrows(AlreadyExistsException.class, () -> app.execute("CREATE TABLE twice (k int PRIMARY KEY)"));
  }

  @Test
  @Order(10)
  void schemaEventsReachTheMetadata() throws Exception {
    try (CqlSession other = App.builder(version, null).withKeyspace(app.keyspace).build()) {
      other.execute("CREATE TABLE events (k int PRIMARY KEY)");
      App.eventually("the table is seen", () -> keyspace().getTable("events").isPresent());
      other.execute("ALTER TABLE events ADD v int");
      App.eventually("the column is seen", () -> keyspace().getTable("events").get().getColumn("v").isPresent());
      other.execute("DROP TABLE events");
      App.eventually("the table is gone", () -> keyspace().getTable("events").isEmpty());
    }
    assertTrue(app.session.checkSchemaAgreement());
    assertTrue(keyspace().describeWithChildren(true).contains("CREATE TABLE"));
    Node node = app.session.getMetadata().getNodes().values().iterator().next();
    assertEquals(NodeState.UP, node.getState());
    assertTrue(node.getCassandraVersion().toString().startsWith("5.0"));
    assertTrue(app.session.getMetadata().getTokenMap().isPresent());
  }

  private KeyspaceMetadata keyspace() {
    return app.session.getMetadata().getKeyspace(app.keyspace).get();
  }

  @Test
  @Order(11)
  void compression() {
    List<String> algorithms = version.equals("V5") ? List.of("lz4") : Arrays.asList("lz4", "snappy");
    for (String algorithm : algorithms) {
      try (CqlSession session = App.builder(version, algorithm).withKeyspace(app.keyspace).build()) {
        session.execute("CREATE TABLE IF NOT EXISTS squeezed (k text PRIMARY KEY, v text)");
        String text = "ab".repeat(150_000);
        session.execute("INSERT INTO squeezed (k, v) VALUES (?, ?)", algorithm, text);
        assertEquals(text, session.execute("SELECT v FROM squeezed WHERE k = ?", algorithm).one().getString(0));
      }
    }
  }

  @Test
  @Order(12)
  void recoversAfterARestart() throws Exception {
    app.execute("CREATE TABLE lasting (k int PRIMARY KEY, v text)");
    PreparedStatement insert = app.session.prepare("INSERT INTO lasting (k, v) VALUES (?, ?)");
    PreparedStatement select = app.session.prepare("SELECT v FROM lasting WHERE k = ?");
    for (int k = 0; k < 300; k++) {
      app.session.execute(insert.bind(k, "before " + k));
    }
    App.restartServer();
    App.eventually("a row is read again", () -> app.session.execute(select.bind(1)).one() != null);
    for (int k = 0; k < 300; k++) {
      assertEquals("before " + k, app.session.execute(select.bind(k)).one().getString(0));
    }
    app.session.execute(insert.bind(1, "after"));
    assertEquals("after", app.session.execute(select.bind(1)).one().getString(0));
  }
}
