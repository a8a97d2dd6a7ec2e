// What an application on the Java driver relies on: the checks of ../drivers, one line of JSON each.
//
// usage: java Matrix NAME=VALUE..., see ../drivers/README.md

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.cql.TraceEvent;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.NodeState;
import com.datastax.oss.driver.api.core.metadata.NodeStateListenerBase;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Matrix {
  private static final int PATIENCE_SECONDS = 90;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The driver does not have it, or not in this version of the protocol. */
  private static class Absent extends RuntimeException {
    Absent(String why) {
      super(why);
    }
  }

  private final Map<String, String> given;
  private final String keyspace;
  private final int nodes;
  private final Set<String> changes = new ConcurrentSkipListSet<>();
  private CqlSession session;
  private int version;

  private Matrix(Map<String, String> given) {
    this.given = given;
    keyspace = given.get("keyspace");
    nodes = Integer.parseInt(given.get("nodes"));
  }

  private ProgrammaticDriverConfigLoaderBuilder settings() {
    ProgrammaticDriverConfigLoaderBuilder settings =
        DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONNECTION_CONNECT_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(60))
            // Five seconds, and the connection is given up: what a busy machine takes now and then.
            .withDuration(DefaultDriverOption.HEARTBEAT_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_AGREEMENT_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(60))
            .withString(DefaultDriverOption.RECONNECTION_POLICY_CLASS, "ConstantReconnectionPolicy")
            .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(500))
            .withInt(DefaultDriverOption.REQUEST_TRACE_ATTEMPTS, 100)
            .withDuration(DefaultDriverOption.REQUEST_TRACE_INTERVAL, Duration.ofMillis(50))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(50))
            .withInt(DefaultDriverOption.CONNECTION_MAX_REQUESTS, 2048)
            .withString(DefaultDriverOption.REQUEST_CONSISTENCY, "ONE");
    if (!given.get("version").equals("auto")) {
      settings.withString(DefaultDriverOption.PROTOCOL_VERSION, "V" + given.get("version"));
    }
    if (!given.get("compression").equals("none")) {
      settings.withString(DefaultDriverOption.PROTOCOL_COMPRESSION, given.get("compression"));
    }
    if (given.containsKey("translate")) {
      settings
          .withString(DefaultDriverOption.ADDRESS_TRANSLATOR_CLASS, "SubnetAddressTranslator")
          .withStringMap(DefaultDriverOption.ADDRESS_TRANSLATOR_SUBNET_ADDRESSES, translations());
    }
    return settings;
  }

  /** Where to connect to in place of a node's own address, as the driver wants it: each address is a network of its own. */
  private Map<String, String> translations() {
    Map<String, String> listeners = new HashMap<>();
    for (String pair : given.get("translate").split(",")) {
      String[] nodeAndListener = pair.split("/");
      listeners.put("\"" + nodeAndListener[0] + "/32\"", nodeAndListener[1] + ":" + given.get("port"));
    }
    return listeners;
  }

  private CqlSession open(ProgrammaticDriverConfigLoaderBuilder settings, String user, String password, boolean inKeyspace)
      throws Exception {
    CqlSessionBuilder builder =
        CqlSession.builder()
            .withConfigLoader(settings.build())
            .withLocalDatacenter(given.get("dc"))
            .addContactPoint(new InetSocketAddress(given.get("host"), Integer.parseInt(given.get("port"))));
    if (user != null) {
      builder.withAuthCredentials(user, password);
    }
    if (given.containsKey("ca")) {
      builder.withSslContext(tls());
    }
    if (inKeyspace) {
      builder.withKeyspace(keyspace);
    }
    builder.addNodeStateListener(
        new NodeStateListenerBase() {
          @Override
          public void onUp(Node node) {
            changes.add(address(node) + " up");
          }

          @Override
          public void onDown(Node node) {
            changes.add(address(node) + " down");
          }
        });
    return builder.build();
  }

  private CqlSession open(ProgrammaticDriverConfigLoaderBuilder settings, boolean inKeyspace) throws Exception {
    return open(settings, given.get("user"), given.get("password"), inKeyspace);
  }

  private SSLContext tls() throws Exception {
    CertificateFactory certificates = CertificateFactory.getInstance("X.509");
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null);
    trusted.setCertificateEntry("authority", certificates.generateCertificate(Files.newInputStream(Path.of(given.get("ca")))));
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    KeyStore own = KeyStore.getInstance(KeyStore.getDefaultType());
    own.load(null);
    if (given.containsKey("cert")) {
      Certificate certificate = certificates.generateCertificate(Files.newInputStream(Path.of(given.get("cert"))));
      String pem = Files.readString(Path.of(given.get("key"))).replaceAll("-----.*?-----|\\s", "");
      PKCS8EncodedKeySpec key = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
      own.setKeyEntry(
          "own", KeyFactory.getInstance("EC").generatePrivate(key), new char[0], new Certificate[] {certificate});
    }
    keys.init(own, new char[0]);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  private static void eventually(String what, BooleanSupplier condition) throws Exception {
    eventually(what, PATIENCE_SECONDS, condition);
  }

  private static void eventually(String what, int seconds, BooleanSupplier condition) throws Exception {
    long deadline = System.nanoTime() + seconds * 1_000_000_000L;
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("not within " + seconds + " s: " + what);
      }
      Thread.sleep(50);
    }
  }

  /** Waits until the harness has come to this stage of an outage. */
  private void stage(String name) throws Exception {
    eventually(
        "stage " + name,
        3 * PATIENCE_SECONDS,
        () -> {
          try {
            return Files.readAllLines(Path.of(given.get("stage"))).contains(name);
          } catch (java.io.IOException error) {
            return false;
          }
        });
  }

  private static void say(Object... fields) {
    Map<String, Object> line = new LinkedHashMap<>();
    for (int index = 0; index < fields.length; index += 2) {
      line.put((String) fields[index], fields[index + 1]);
    }
    try {
      System.out.println(JSON.writeValueAsString(line));
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void passed(String check, Object detail) {
    say("check", check, "outcome", "passed", "detail", detail);
  }

  private static void reached(String stage) {
    say("reached", stage);
  }

  /**
   * Definitions go to the node that the control connection is to: of a definition that another node has just taken, it may not have heard
   * yet when it is asked whether all nodes agree.
   */
  private ResultSet execute(String statement, Object... values) {
    SimpleStatement simple = SimpleStatement.newInstance(statement, values);
    boolean defines = List.of("CREATE", "ALTER", "DROP").contains(statement.split(" ", 2)[0]);
    return session.execute(defines ? simple.setNode(contact()) : simple);
  }

  private static List<String> plain(Iterable<Row> rows) {
    List<String> found = new ArrayList<>();
    rows.forEach(row -> found.add(row.getFormattedContents()));
    return found;
  }

  private List<String> rows(String statement, Object... values) {
    return plain(execute(statement, values));
  }

  private static List<String> rows(CqlSession session, Statement<?> statement) {
    return plain(session.execute(statement));
  }

  private long up() {
    return session.getMetadata().getNodes().values().stream().filter(node -> node.getState() == NodeState.UP).count();
  }

  private Object connect() throws Exception {
    session = open(settings(), false);
    eventually("all nodes are up", () -> up() == nodes);
    version = session.getContext().getProtocolVersion().getCode();
    TreeSet<String> seen = new TreeSet<>();
    for (Node node : session.getMetadata().getNodes().values()) {
      seen.add(address(node) + " " + node.getDatacenter() + " " + node.getRack() + " " + node.getCassandraVersion());
    }
    return List.of(version, session.getMetadata().getClusterName().get(), seen);
  }

  private Object ddl() throws Exception {
    String replication = "{'class': 'SimpleStrategy', 'replication_factor': " + given.get("replication") + "}";
    String own = keyspace + "_own";
    List<Boolean> agreed = new ArrayList<>();
    for (String statement :
        List.of(
            "CREATE KEYSPACE " + own + " WITH replication = " + replication,
            "CREATE TABLE " + keyspace + ".t (id int PRIMARY KEY, name text, note text)")) {
      agreed.add(execute(statement).getExecutionInfo().isSchemaInAgreement());
    }
    execute("USE " + keyspace);
    boolean isKnown = session.getMetadata().getKeyspace(own).isPresent();
    return List.of(agreed, isKnown, keyspaceMetadata().getTable("t").get().getColumns().keySet().toString());
  }

  private KeyspaceMetadata keyspaceMetadata() {
    return session.getMetadata().getKeyspace(keyspace).get();
  }

  private Object simple() {
    execute("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')");
    return rows("SELECT id, name, note FROM t WHERE id = 1");
  }

  private Object prepared() {
    PreparedStatement insert = session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)");
    PreparedStatement select = session.prepare("SELECT id, name, note FROM t WHERE id = ?");
    List<Object> found = new ArrayList<>();
    for (int id = 0; id < 10; id++) {
      session.execute(insert.bind(id, "n" + id, "x".repeat(id)));
      found.add(rows(session, select.bind(id)));
    }
    return found;
  }

  private Object named() {
    SimpleStatement simple = SimpleStatement.newInstance("SELECT name FROM t WHERE id = :id", Map.of("id", 3));
    return List.of(
        rows(session, simple),
        rows(session, session.prepare("SELECT name FROM t WHERE id = :id").bind().setInt("id", 4)));
  }

  private Object batch() {
    PreparedStatement insert = session.prepare("INSERT INTO t (id, name) VALUES (?, ?)");
    for (DefaultBatchType kind : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
      session.execute(
          BatchStatement.newInstance(
              kind,
              insert.bind(20, kind.name()),
              SimpleStatement.newInstance("INSERT INTO t (id, name) VALUES (?, ?)", 21 + kind.ordinal(), "simple")));
    }
    BatchStatementBuilder counter = BatchStatement.builder(DefaultBatchType.COUNTER);
    PreparedStatement add = session.prepare("UPDATE counts SET n = n + ? WHERE id = ?");
    List.of(1, 2, 1).forEach(id -> counter.addStatement(add.bind(5L, id)));
    session.execute(counter.build());
    return List.of(rows("SELECT id, name FROM t WHERE id IN (20, 21, 22)"), rows("SELECT id, n FROM counts WHERE id IN (1, 2)"));
  }

  private List<AsyncResultSet> together(int count, java.util.function.IntFunction<CompletionStage<AsyncResultSet>> send)
      throws Exception {
    List<CompletionStage<AsyncResultSet>> sent = IntStream.range(0, count).mapToObj(send).collect(Collectors.toList());
    List<AsyncResultSet> found = new ArrayList<>();
    for (CompletionStage<AsyncResultSet> one : sent) {
      found.add(one.toCompletableFuture().get());
    }
    return found;
  }

  private Object paging() throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO paged (part, seq) VALUES (1, ?)");
    together(1050, seq -> session.executeAsync(insert.bind(seq)));
    PreparedStatement select = session.prepare("SELECT seq FROM paged WHERE part = 1");
    AsyncResultSet page = session.executeAsync(select.bind().setPageSize(100)).toCompletableFuture().get();
    List<Integer> pages = new ArrayList<>();
    long total = 0;
    while (true) {
      int size = 0;
      for (Row row : page.currentPage()) {
        total += row.getInt(0);
        size++;
      }
      pages.add(size);
      if (!page.hasMorePages()) {
        return List.of(pages, total);
      }
      page = page.fetchNextPage().toCompletableFuture().get();
    }
  }

  private Object in() {
    PreparedStatement select = session.prepare("SELECT id, name FROM t WHERE id IN ?");
    return List.of(rows(session, select.bind(List.of(1, 2, 2, 3))), rows("SELECT id FROM t WHERE id IN (4, 5)"));
  }

  private Object lwt() {
    PreparedStatement insert = session.prepare("INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS");
    boolean first = session.execute(insert.bind(100, "first")).wasApplied();
    boolean second = session.execute(insert.bind(100, "second")).wasApplied();
    List<String> updated = rows("UPDATE t SET name = 'third' WHERE id = 100 IF name = 'first'");
    SimpleStatement serial =
        SimpleStatement.newInstance("SELECT name FROM t WHERE id = 100").setConsistencyLevel(ConsistencyLevel.SERIAL);
    return List.of(first, second, updated, rows(session, serial));
  }

  private Object types() throws Exception {
    UserDefinedType place = keyspaceMetadata().getUserDefinedType("place").get();
    UdtValue main = place.newValue("Main", 1);
    // Of the prepared statement: it knows the session's codecs.
    TupleType pair = (TupleType) session.prepare("SELECT t FROM kinds WHERE id = 1").getResultSetDefinitions().get(0).getType();
    TupleValue two = pair.newValue(1, "two");
    PreparedStatement insert =
        session.prepare("INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    session.execute(
        insert.bind(
            1,
            List.of("b", "a"),
            Set.of(3, 1),
            Map.of("one", 1L),
            Map.of(1, List.of(2, 3)),
            two,
            main,
            new BigDecimal("-1.50"),
            BigInteger.TWO.pow(70),
            InetAddress.getByName("::1")));
    return rows("SELECT id, l, s, m, n, t, u, d, v, i FROM kinds WHERE id = 1");
  }

  private Object vector() {
    session.execute(session.prepare("INSERT INTO vectors (id, v) VALUES (1, ?)").bind(CqlVector.newInstance(1f, 2.5f, -3f)));
    return rows("SELECT v FROM vectors WHERE id = 1");
  }

  private Object blob() {
    byte[] large = new byte[1 << 20];
    for (int index = 0; index < large.length; index++) {
      large[index] = (byte) index;
    }
    session.execute(session.prepare("INSERT INTO blobs (id, b) VALUES (1, ?)").bind(ByteBuffer.wrap(large)));
    ByteBuffer returned = execute("SELECT b FROM blobs WHERE id = 1").one().getByteBuffer(0);
    if (!returned.equals(ByteBuffer.wrap(large))) {
      throw new IllegalStateException("other bytes");
    }
    return returned.remaining();
  }

  private Object nulls() {
    PreparedStatement insert = session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)");
    session.execute(insert.bind(30, "kept", "gone"));
    session.execute(insert.bind(30, "kept", null));
    return rows("SELECT name, note FROM t WHERE id = 30");
  }

  private Object unset() {
    if (version < 4) {
      throw new Absent("version 3 has no unset values");
    }
    PreparedStatement insert = session.prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)");
    session.execute(insert.bind(31, "first", "kept"));
    session.execute(insert.bind(31, "second"));
    return rows("SELECT name, note FROM t WHERE id = 31");
  }

  /** What the node that has the data says when it reads. */
  private static boolean isRead(TraceEvent event) {
    return event.getActivity().startsWith("Executing single-partition query");
  }

  /** The trace of a read. Nodes write its parts one by one, in no order, and some after the end: it is asked for until all are there. */
  private static QueryTrace trace(ResultSet result) throws Exception {
    QueryTrace[] found = new QueryTrace[1];
    eventually(
        "a trace",
        () -> {
          found[0] = result.getExecutionInfo().getQueryTrace();
          boolean hasBegun = found[0].getRequestType() != null;
          return hasBegun && found[0].getEvents().size() > 2 && found[0].getEvents().stream().anyMatch(Matrix::isRead);
        });
    return found[0];
  }

  private Object tracing() throws Exception {
    SimpleStatement select = SimpleStatement.newInstance("SELECT name FROM t WHERE id = 1").setTracing(true);
    QueryTrace trace = trace(session.execute(select));
    return List.of(trace.getRequestType(), trace.getParameters().get("query"), trace.getEvents().size() > 2);
  }

  private Object warnings() {
    if (version < 4) {
      throw new Absent("version 3 has no warnings");
    }
    String insert = "INSERT INTO t (id, note) VALUES (%d, '" + "x".repeat(4000) + "');";
    return execute("BEGIN UNLOGGED BATCH " + String.format(insert, 40) + String.format(insert, 41) + " APPLY BATCH")
        .getExecutionInfo()
        .getWarnings();
  }

  private static List<String> failure(CqlSession session, Statement<?> statement) {
    try {
      session.execute(statement);
    } catch (RuntimeException error) {
      return described(error);
    }
    throw new IllegalStateException("a statement did not fail");
  }

  private static List<String> described(Throwable error) {
    List<String> found = new ArrayList<>(List.of(error.getClass().getSimpleName()));
    if (error instanceof AllNodesFailedException) {
      // Its own text names the nodes in the order in which they were asked.
      TreeSet<String> reasons = new TreeSet<>();
      ((AllNodesFailedException) error).getAllErrors().values().forEach(all -> all.forEach(one -> reasons.add(one.toString())));
      found.addAll(reasons);
    } else {
      found.add(String.valueOf(error.getMessage()));
    }
    return found;
  }

  private List<String> failure(String statement) {
    return failure(session, SimpleStatement.newInstance(statement));
  }

  /** More tombstones than the node puts up with. */
  private Object errorReadFailure() throws Exception {
    PreparedStatement delete = session.prepare("DELETE FROM graves WHERE id = 1 AND seq = ?");
    together(110, seq -> session.executeAsync(delete.bind(seq)));
    return failure("SELECT seq FROM graves WHERE id = 1").get(0);
  }

  private void needPasswords() {
    if (!given.containsKey("user")) {
      throw new Absent("the cluster asks for no password");
    }
  }

  private Object errorUnauthorized() throws Exception {
    needPasswords();
    String role = keyspace + "_limited";
    execute("CREATE ROLE IF NOT EXISTS " + role + " WITH PASSWORD = 'limited' AND LOGIN = true");
    try (CqlSession limited = open(settings(), role, "limited", false)) {
      return failure(limited, SimpleStatement.newInstance("SELECT name FROM " + keyspace + ".t WHERE id = 1"));
    }
  }

  private Object password() throws Exception {
    needPasswords();
    try (CqlSession wrong = open(settings(), given.get("user"), "wrong", false)) {
      throw new IllegalStateException("a wrong password was taken by " + wrong.getName());
    } catch (AllNodesFailedException error) {
      return described(error);
    }
  }

  private Object use() {
    execute("USE " + keyspace + "_2");
    execute("INSERT INTO moved (id, v) VALUES (1, 7)");
    List<String> found = rows("SELECT v FROM moved WHERE id = 1");
    execute("USE " + keyspace);
    return List.of(found, rows("SELECT name FROM t WHERE id = 1"));
  }

  private Object keyspaceOfRequest() {
    if (version < 5) {
      throw new Absent("before version 5 requests have no keyspace");
    }
    CqlIdentifier other = CqlIdentifier.fromInternal(keyspace + "_2");
    SimpleStatement simple = SimpleStatement.newInstance("SELECT v FROM moved WHERE id = 1").setKeyspace(other);
    SimpleStatement select = SimpleStatement.newInstance("SELECT id, v FROM moved WHERE id = ?").setKeyspace(other);
    return List.of(rows(session, simple), rows(session, session.prepare(select).bind(1)));
  }

  private Object preparedAgain() {
    execute("INSERT INTO altered (id, v) VALUES (1, 1)");
    PreparedStatement select = session.prepare("SELECT id, v FROM altered WHERE id = ?");
    List<Object> found = new ArrayList<>(List.of(rows(session, select.bind(1))));
    execute("ALTER TABLE altered ADD w text");
    for (int again = 0; again < 2 * nodes; again++) {
      found.add(rows(session, select.bind(1)));
    }
    return found;
  }

  private Object schemaEvents() throws Exception {
    try (CqlSession other = open(settings(), false)) {
      other.execute("CREATE TABLE " + keyspace + ".told (id int PRIMARY KEY)");
      eventually("the new table is told of", () -> keyspaceMetadata().getTable("told").isPresent());
      other.execute("DROP TABLE " + keyspace + ".told");
      eventually("its end is told of", () -> !keyspaceMetadata().getTable("told").isPresent());
    }
    return "told";
  }

  /** Reads of keys that one node has: how many that node was asked for, as their traces say. */
  private Object tokenAware() throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO keyed (k, n) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT k FROM keyed WHERE k = ? AND n = ?");
    int ofReplicas = 0;
    for (int n = 0; n < 30; n++) {
      session.execute(insert.bind("key " + n, n));
      QueryTrace trace = trace(session.execute(select.bind("key " + n, n).setTracing(true)));
      InetAddress reader = trace.getEvents().stream().filter(Matrix::isRead).findFirst().get().getSourceAddress().getAddress();
      InetAddress coordinator = trace.getCoordinatorAddress().getAddress();
      ofReplicas += coordinator.equals(reader) ? 1 : 0;
      if (!coordinator.equals(reader)) {
        System.err.println("key " + n + " was asked of " + coordinator + ", read by " + reader + "; " + session.getMetadata().getNodes());
      }
    }
    return ofReplicas + " of 30";
  }

  /** Where the driver connects to for a node; one that was translated is looked up each time, and has no other form than this. */
  private static String address(Node node) {
    InetSocketAddress address = (InetSocketAddress) node.getEndPoint().resolve();
    return address.getHostString() + ":" + address.getPort();
  }

  private Node contact() {
    String contact = given.get("host") + ":" + given.get("port");
    for (Node node : session.getMetadata().getNodes().values()) {
      if (address(node).equals(contact)) {
        return node;
      }
    }
    throw new IllegalStateException("the contact point is no node");
  }

  /** 500 requests on one connection, none waiting for another's answer. */
  private Object inFlight() throws Exception {
    Node contact = contact();
    PreparedStatement insert = session.prepare("INSERT INTO crowded (id, v) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT v FROM crowded WHERE id = ?");
    together(500, id -> session.executeAsync(insert.bind(id, -id).setNode(contact)));
    return together(500, id -> session.executeAsync(select.bind(id).setNode(contact))).stream()
        .mapToInt(found -> found.one().getInt(0))
        .sum();
  }

  /** 200 connections to all nodes together, each used. */
  private Object connections() throws Exception {
    int each = 200 / nodes;
    try (CqlSession many = open(settings().withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, each), true)) {
      // One more is the control connection's.
      eventually(
          "all connections are open",
          () -> many.getMetadata().getNodes().values().stream().mapToInt(Node::getOpenConnections).sum() == each * nodes + 1);
      together(600, id -> many.executeAsync("SELECT name FROM t WHERE id = 1"));
    }
    return each;
  }

  /** A node stops answering, is killed, and comes back; the harness does it when all programs have said that they are ready. */
  private Object outage() throws Exception {
    Node contact = contact();
    SimpleStatement write =
        SimpleStatement.newInstance("INSERT INTO held (id, v) VALUES (1, 1)")
            .setConsistencyLevel(ConsistencyLevel.ALL)
            .setNode(contact);
    SimpleStatement read =
        SimpleStatement.newInstance("SELECT v FROM held WHERE id = 1").setConsistencyLevel(ConsistencyLevel.ALL).setNode(contact);
    session.execute(write);
    changes.clear();
    reached("ready");
    stage("paused");
    passed("timeout-read", failure(session, read));
    passed("timeout-write", failure(session, write));
    reached("paused");
    stage("killed");
    eventually("a node is down", () -> changes.stream().anyMatch(change -> change.endsWith("down")));
    passed("event-down", changes);
    // The driver tries the next node once, and a statement that is for one node has none: what failed it is inside of what is thrown.
    eventually("the coordinator knows", () -> String.join(" ", failure(session, read)).contains("UnavailableException"));
    passed("unavailable", failure(session, read));
    reached("killed");
    stage("restarted");
    eventually("the node is up", () -> changes.stream().anyMatch(change -> change.endsWith("up")) && up() == nodes);
    passed("event-up", changes);
    eventually("reads of all replicas", () -> succeeds(read));
    passed("after-restart", rows("SELECT v FROM held WHERE id = 1"));
    reached("restarted");
    return null;
  }

  private Object reconnect() throws Exception {
    execute("INSERT INTO t (id, name) VALUES (1, 'kept')");
    reached("ready");
    stage("restarted");
    eventually("reads", () -> succeeds(SimpleStatement.newInstance("SELECT name FROM t WHERE id = 1")));
    passed("reconnected", rows("SELECT name FROM t WHERE id = 1"));
    reached("restarted");
    return null;
  }

  private boolean succeeds(Statement<?> statement) {
    try {
      session.execute(statement);
      return true;
    } catch (RuntimeException error) {
      return false;
    }
  }

  private Map<String, Callable<Object>> checks() {
    Map<String, Callable<Object>> checks = new LinkedHashMap<>();
    checks.put("connect", this::connect);
    checks.put("ddl", this::ddl);
    checks.put("simple", this::simple);
    checks.put("prepared", this::prepared);
    checks.put("named", this::named);
    checks.put("batch", this::batch);
    checks.put("paging", this::paging);
    checks.put("in", this::in);
    checks.put("lwt", this::lwt);
    checks.put("types", this::types);
    checks.put("vector", this::vector);
    checks.put("blob", this::blob);
    checks.put("null", this::nulls);
    checks.put("unset", this::unset);
    checks.put("tracing", this::tracing);
    checks.put("warnings", this::warnings);
    checks.put("error-syntax", () -> failure("SELEC name FROM t"));
    checks.put(
        "error-invalid",
        () -> List.of(failure("SELECT name FROM no_such_table"), failure("SELECT id FROM t WHERE name = 'x'")));
    checks.put("error-configuration", () -> failure("CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}"));
    checks.put(
        "error-exists",
        () ->
            List.of(
                failure("CREATE TABLE t (id int PRIMARY KEY)"),
                failure("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")));
    checks.put(
        "error-unavailable",
        () -> failure(session, SimpleStatement.newInstance("SELECT name FROM t WHERE id = 1").setConsistencyLevel(ConsistencyLevel.THREE)).get(0));
    checks.put("error-function", () -> failure("SELECT broken(id) FROM t WHERE id = 1"));
    checks.put("error-read-failure", this::errorReadFailure);
    checks.put("error-unauthorized", this::errorUnauthorized);
    checks.put("password", this::password);
    checks.put("use", this::use);
    checks.put("keyspace-of-request", this::keyspaceOfRequest);
    checks.put("prepared-again", this::preparedAgain);
    checks.put("schema-events", this::schemaEvents);
    checks.put("token-aware", this::tokenAware);
    checks.put("in-flight", this::inFlight);
    checks.put("connections", this::connections);
    checks.put("outage", this::outage);
    checks.put("reconnect", this::reconnect);
    return checks;
  }

  private static void run(String name, Callable<Object> check) {
    try {
      Object detail = check.call();
      if (detail != null) {
        passed(name, detail);
      }
    } catch (Absent reason) {
      say("check", name, "outcome", "absent", "detail", reason.getMessage());
    } catch (Exception error) {
      say("check", name, "outcome", "failed", "detail", described(error));
    }
  }

  public static void main(String[] arguments) {
    System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
    Map<String, String> given = new HashMap<>();
    for (String argument : arguments) {
      String[] parts = argument.split("=", 2);
      given.put(parts[0], parts[1]);
    }
    List<String> wanted = Arrays.asList(given.get("checks").split(","));
    Set<String> outages = Set.of("outage", "reconnect");
    Matrix matrix = new Matrix(given);
    matrix
        .checks()
        .forEach(
            (name, check) -> {
              if (wanted.contains(name) || wanted.contains("session") && !outages.contains(name)) {
                run(name, check);
              }
            });
    System.exit(0);
  }
}
