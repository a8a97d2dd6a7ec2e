import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * The session of the Java driver that is recorded: what its API can make it say.
 *
 * <p>usage: Session HOST PORT VERSION|auto none|lz4|snappy FOLDER [schema]
 *
 * <p>Each line of FOLDER/tables.cql is sent as it is, refused ones too; without compression those of FOLDER/more.cql follow.
 * With {@code schema} the driver reads the schema as it does by default. A session of this kind, or one that negotiates its
 * version, does nothing beyond its first query.
 */
class Session {
  private final CqlSession session;
  private final int version;

  private Session(CqlSession session, int version) {
    this.session = session;
    this.version = version;
  }

  public static void main(String[] arguments) throws Exception {
    String version = arguments[2];
    String compression = arguments[3];
    Path folder = Path.of(arguments[4]);
    List<String> tables = Files.readAllLines(folder.resolve("tables.cql"));
    try (CqlSession session = connect(arguments)) {
      if (version.equals("auto") || arguments.length > 5) {
        session.execute("SELECT release_version FROM system.local");
        return;
      }
      Session recorded = new Session(session, Integer.parseInt(version));
      tables.subList(0, 2).forEach(recorded::ask);
      recorded.ask("USE golden");
      tables.subList(2, tables.size()).forEach(recorded::ask);
      recorded.bound();
      if (compression.equals("lz4")) {
        // Longer than a segment of version 5.
        String insert = "INSERT INTO queue (k, t, v) VALUES ('long', 9, ?)";
        recorded.ask(SimpleStatement.newInstance(insert, "long ".repeat(30_000)));
        recorded.ask("SELECT v FROM queue WHERE k = 'long'");
      }
      if (compression.equals("none")) {
        Files.readAllLines(folder.resolve("more.cql")).forEach(recorded::ask);
        recorded.batches();
        recorded.options();
      }
      recorded.ask("DROP KEYSPACE golden");
    }
  }

  private static CqlSession connect(String[] arguments) {
    ProgrammaticDriverConfigLoaderBuilder config =
        DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofMinutes(1))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofMinutes(1))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofMinutes(1))
            .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, arguments.length > 5)
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, arguments[3]);
    if (!arguments[2].equals("auto")) {
      config.withString(DefaultDriverOption.PROTOCOL_VERSION, "V" + arguments[2]);
    }
    CqlSessionBuilder builder = CqlSession.builder();
    return builder
        .addContactPoint(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config.build())
        .build();
  }

  private void bound() {
    PreparedStatement insert =
        session.prepare("INSERT INTO bound (a, b, c, v, s) VALUES (?, ?, ?, ?, ?)");
    for (int c = 0; c < 12; c++) {
      ask(insert.bind(2, "paged", c, "v".repeat(c), c % 2 == 0 ? c : null));
    }
    if (version >= 4) {
      ask(insert.bind(2, "unset", 1));
    }
    PreparedStatement select = session.prepare("SELECT a, b, c, v FROM bound WHERE a = ? AND b = ?");
    ask(select.bind(2, "paged").setPageSize(5));
    PreparedStatement listed = session.prepare("SELECT * FROM bound WHERE a IN ? AND b = :b");
    ask(listed.bind(Arrays.asList(1, 2, 2), "first").setConsistencyLevel(ConsistencyLevel.LOCAL_QUORUM));
    ask(session.prepare("SELECT * FROM every_type WHERE k = ?").bind(1));
    ask(SimpleStatement.newInstance("SELECT * FROM bound WHERE a = :a AND b = :b", Map.of("a", 1, "b", "first")));
    // The node forgets what the change concerns: version 4 and later hear UNPREPARED.
    ask("ALTER TABLE bound ADD extra int");
    ask(select.bind(2, "paged"));
    ask(listed.bind(List.of(1), "first"));
  }

  private void batches() {
    PreparedStatement insert = session.prepare("INSERT INTO bound (a, b, c, v) VALUES (?, ?, ?, ?)");
    BatchStatementBuilder unlogged = BatchStatement.builder(BatchType.UNLOGGED);
    for (int a = 0; a < 11; a++) {
      unlogged.addStatement(insert.bind(a, "batch", a, "v"));
    }
    unlogged.addStatement(SimpleStatement.newInstance("INSERT INTO bound (a, b, c) VALUES (?, 'text', 1)", 7));
    ask(unlogged.setConsistencyLevel(ConsistencyLevel.ONE).build());
    BatchStatementBuilder logged = BatchStatement.builder(BatchType.LOGGED);
    logged.addStatement(SimpleStatement.newInstance("DELETE FROM queue WHERE k = 'a'"));
    logged.addStatement(SimpleStatement.newInstance("DELETE FROM bound WHERE a = 0 AND b = 'batch'"));
    ask(logged.setSerialConsistencyLevel(DefaultConsistencyLevel.LOCAL_SERIAL).build());
    BatchStatementBuilder counters = BatchStatement.builder(BatchType.COUNTER);
    counters.addStatement(SimpleStatement.newInstance("UPDATE counted SET n = n - 1 WHERE k = 1"));
    ask(counters.build());
  }

  private void options() {
    SimpleStatement select = SimpleStatement.newInstance("SELECT n FROM counted");
    ask(SimpleStatement.newInstance("SELECT * FROM bound").setConsistencyLevel(ConsistencyLevel.TWO));
    ask(select.setTracing(true));
    if (version >= 4) {
      ask(select.setCustomPayload(Map.of("key", ByteBuffer.wrap(new byte[] {0, 1}))));
    }
    if (version >= 5) {
      ask(select.setKeyspace("golden").setNowInSeconds(1_700_000_000));
    }
  }

  private void ask(String statement) {
    ask(SimpleStatement.newInstance(statement));
  }

  /** Reads all rows; what the node refuses is part of the recording. */
  private void ask(Statement<?> statement) {
    try {
      session.execute(statement).forEach(row -> {});
    } catch (RuntimeException refused) {
      System.out.println(refused);
    }
  }
}
