// What an application on the Node.js driver relies on: the checks of ../drivers, one line of JSON each.
//
// usage: node matrix.js NAME=VALUE..., see ../drivers/README.md
'use strict';

const fs = require('fs');
const assert = require('assert');
const cassandra = require('cassandra-driver');

const { consistencies, unset } = cassandra.types;
const PATIENCE = 90_000;

/** The driver does not have it, or not in this version of the protocol. */
class Absent extends Error {}

const given = Object.fromEntries(process.argv.slice(2).map((argument) => {
  const at = argument.indexOf('=');
  return [argument.slice(0, at), argument.slice(at + 1)];
}));
const keyspace = given.keyspace;
const nodes = Number(given.nodes);

function say(line) {
  fs.writeSync(1, JSON.stringify(line) + '\n');
}
const passed = (check, detail) => say({ check, outcome: 'passed', detail });
const reached = (stage) => say({ reached: stage });
const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

async function eventually(what, condition, limit = PATIENCE) {
  const deadline = Date.now() + limit;
  while (!await condition()) {
    assert(Date.now() < deadline, `not within ${limit} ms: ${what}`);
    await pause(50);
  }
}

/** Waits until the harness has come to this stage of an outage. */
function stage(name) {
  return eventually(`stage ${name}`, () => fs.readFileSync(given.stage, 'utf8').split(/\s+/).includes(name), 3 * PATIENCE);
}

/** Where to connect to in place of a node's own address. */
class Translator extends cassandra.policies.addressResolution.AddressTranslator {
  constructor(pairs) {
    super();
    this.pairs = new Map(pairs.split(',').map((pair) => pair.split('/')));
  }

  translate(address, port, callback) {
    callback(`${this.pairs.get(address) ?? address}:${port}`);
  }
}

/** With `contactOnly`, requests go to the contact point and no other node. */
function client({ contactOnly = false, inKeyspace = keyspace, connections = 1, user = given.user, password = given.password } = {}) {
  const { loadBalancing, reconnection, retry } = cassandra.policies;
  let balancing = new loadBalancing.TokenAwarePolicy(new loadBalancing.DCAwareRoundRobinPolicy(given.dc));
  if (contactOnly) {
    balancing = new loadBalancing.AllowListPolicy(balancing, [`${given.host}:${given.port}`]);
  }
  const options = {
    contactPoints: [`${given.host}:${given.port}`],
    localDataCenter: given.dc,
    keyspace: inKeyspace ?? undefined,
    policies: {
      loadBalancing: balancing,
      reconnection: new reconnection.ConstantReconnectionPolicy(500),
      retry: new retry.FallthroughRetryPolicy(),
    },
    pooling: { coreConnectionsPerHost: { 0: connections, 1: connections, 2: connections }, maxRequestsPerConnection: 2048, warmup: true },
    socketOptions: { connectTimeout: 60_000, readTimeout: 60_000 },
    protocolOptions: { port: Number(given.port), maxSchemaAgreementWaitSeconds: 60 },
    queryOptions: { consistency: consistencies.one, prepare: false },
  };
  if (given.translate) {
    options.policies.addressResolution = new Translator(given.translate);
  }
  if (given.version !== 'auto') {
    options.protocolOptions.maxVersion = Number(given.version);
  }
  if (user) {
    options.authProvider = new cassandra.auth.PlainTextAuthProvider(user, password);
  }
  if (given.ca) {
    options.sslOptions = { ca: [fs.readFileSync(given.ca)], rejectUnauthorized: true, host: given.host };
    if (given.cert) {
      Object.assign(options.sslOptions, { cert: fs.readFileSync(given.cert), key: fs.readFileSync(given.key) });
    }
  }
  return new cassandra.Client(options);
}

const app = { plain: null, session: null, version: 0 };

const prepare = { prepare: true };

function plain(value) {
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean') {
    return value ?? null;
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

async function rows(statement, values, options, session = app.session) {
  const result = await session.execute(statement, values, options);
  return result.rows.map((row) => row.values().map(plain));
}

const hosts = (session) => session.getState().getConnectedHosts().map((host) => host.address).sort();
const allUp = async (session) => eventually('all nodes are up', () => hosts(session).length === nodes);

async function connect() {
  app.plain = client({ inKeyspace: null });
  await app.plain.connect();
  await allUp(app.plain);
  const seen = app.plain.hosts.values().map((host) => `${host.address} ${host.datacenter} ${host.rack} ${host.cassandraVersion}`);
  app.version = app.plain.controlConnection.protocolVersion;
  return [app.version, seen.sort()];
}

async function ddl() {
  const replication = `{'class': 'SimpleStrategy', 'replication_factor': ${given.replication}}`;
  const own = `${keyspace}_own`;
  const agreed = [];
  for (const statement of [
    `CREATE KEYSPACE ${own} WITH replication = ${replication}`,
    `CREATE TABLE ${keyspace}.t (id int PRIMARY KEY, name text, note text)`,
  ]) {
    agreed.push((await app.plain.execute(statement)).info.isSchemaInAgreement);
  }
  app.session = client();
  await app.session.connect();
  await allUp(app.session);
  const table = await app.session.metadata.getTable(keyspace, 't');
  return [agreed, own in app.session.metadata.keyspaces, table.columns.map((column) => column.name).sort()];
}

async function simple() {
  await app.session.execute("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')");
  return rows('SELECT id, name, note FROM t WHERE id = 1');
}

async function prepared() {
  for (let id = 0; id < 10; id++) {
    await app.session.execute('INSERT INTO t (id, name, note) VALUES (?, ?, ?)', [id, `n${id}`, 'x'.repeat(id)], prepare);
  }
  const found = [];
  for (let id = 0; id < 10; id++) {
    found.push(await rows('SELECT id, name, note FROM t WHERE id = ?', [id], prepare));
  }
  return found;
}

async function named() {
  const hints = { hints: { id: 'int' } };
  return [
    await rows('SELECT name FROM t WHERE id = :id', { id: 3 }, hints),
    await rows('SELECT name FROM t WHERE id = :id', { id: 4 }, prepare),
  ];
}

async function batch() {
  for (const logged of [true, false]) {
    await app.session.batch([
      { query: 'INSERT INTO t (id, name) VALUES (?, ?)', params: [20, `batch ${logged}`] },
      { query: 'INSERT INTO t (id, name) VALUES (?, ?)', params: [logged ? 21 : 22, 'bound'] },
    ], { prepare: true, logged });
    await app.session.batch(["INSERT INTO t (id, name) VALUES (23, 'literal')"], { logged });
  }
  const add = [1, 2, 1].map((id) => ({ query: 'UPDATE counts SET n = n + ? WHERE id = ?', params: [5, id] }));
  await app.session.batch(add, { prepare: true, counter: true });
  return [
    await rows('SELECT id, name FROM t WHERE id IN (20, 21, 22, 23)'),
    await rows('SELECT id, n FROM counts WHERE id IN (1, 2)'),
  ];
}

async function paging() {
  const insert = (seq) => app.session.execute('INSERT INTO paged (part, seq) VALUES (1, ?)', [seq], prepare);
  await Promise.all(Array.from({ length: 1050 }, (_, seq) => insert(seq)));
  const pages = [];
  let [total, pageState] = [0, undefined];
  do {
    const result = await app.session.execute('SELECT seq FROM paged WHERE part = 1', [], { prepare: true, fetchSize: 100, pageState });
    pages.push(result.rows.length);
    total += result.rows.reduce((sum, row) => sum + row.seq, 0);
    pageState = result.pageState;
  } while (pageState);
  return [pages, total];
}

async function inList() {
  return [await rows('SELECT id, name FROM t WHERE id IN ?', [[1, 2, 2, 3]], prepare), await rows('SELECT id FROM t WHERE id IN (4, 5)')];
}

async function lwt() {
  const insert = 'INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS';
  const applied = [];
  for (const name of ['first', 'second']) {
    applied.push((await app.session.execute(insert, [100, name], prepare)).wasApplied());
  }
  const updated = await rows("UPDATE t SET name = 'third' WHERE id = 100 IF name = 'first'");
  const serial = await rows('SELECT name FROM t WHERE id = 100', [], { consistency: consistencies.serial });
  return [applied, updated, serial];
}

async function types() {
  const { BigDecimal, Integer, InetAddress, Long, Tuple } = cassandra.types;
  await app.session.execute('INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', [
    1, ['b', 'a'], [3, 1], { one: Long.fromNumber(1) }, { 1: [2, 3] }, new Tuple(1, 'two'), { street: 'Main', number: 1 },
    BigDecimal.fromString('-1.50'), Integer.fromString('1180591620717411303424'), InetAddress.fromString('::1'),
  ], prepare);
  return rows('SELECT * FROM kinds WHERE id = 1');
}

async function vector() {
  const v = new cassandra.types.Vector(new Float32Array([1, 2.5, -3]), 'float');
  await app.session.execute('INSERT INTO vectors (id, v) VALUES (1, ?)', [v], prepare);
  const found = await app.session.execute('SELECT v FROM vectors WHERE id = 1', [], prepare);
  return Array.from(found.first().v);
}

async function blob() {
  const large = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => index & 255));
  await app.session.execute('INSERT INTO blobs (id, b) VALUES (1, ?)', [large], prepare);
  const returned = (await app.session.execute('SELECT b FROM blobs WHERE id = 1')).first().b;
  assert(large.equals(returned));
  return returned.length;
}

async function nulls() {
  const insert = (note) => app.session.execute('INSERT INTO t (id, name, note) VALUES (?, ?, ?)', [30, 'kept', note], prepare);
  await insert('gone');
  await insert(null);
  return rows('SELECT name, note FROM t WHERE id = 30');
}

async function unsetValues() {
  if (app.version < 4) {
    throw new Absent('version 3 has no unset values');
  }
  const insert = (name, note) => app.session.execute('INSERT INTO t (id, name, note) VALUES (?, ?, ?)', [31, name, note], prepare);
  await insert('first', 'kept');
  await insert('second', unset);
  return rows('SELECT name, note FROM t WHERE id = 31');
}

/**
 * The trace of a read and the node that has read the data. Nodes write its parts one by one, in no order, and some after the end: it is
 * asked for until all are there.
 */
async function traced(statement, values) {
  const id = (await app.session.execute(statement, values, { traceQuery: true, prepare: true })).info.traceId;
  let [session, events, read] = [];
  await eventually('a trace', async () => {
    const columns = 'request, parameters, coordinator, duration';
    const begun = await app.plain.execute(`SELECT ${columns} FROM system_traces.sessions WHERE session_id = ?`, [id], prepare);
    session = begun.first();
    ({ rows: events } = await app.plain.execute('SELECT activity, source FROM system_traces.events WHERE session_id = ?', [id], prepare));
    read = events.find((event) => event.activity.startsWith('Executing single-partition query'));
    return session && session.coordinator && session.duration !== null && read && events.length > 2;
  });
  return { session, events, reader: read.source };
}

async function tracing() {
  const { session, events } = await traced('SELECT name FROM t WHERE id = ?', [1]);
  return [session.request, session.parameters.query, events.length > 2];
}

async function warnings() {
  if (app.version < 4) {
    throw new Absent('version 3 has no warnings');
  }
  const insert = (id) => `INSERT INTO t (id, note) VALUES (${id}, '${'x'.repeat(4000)}');`;
  return (await app.session.execute(`BEGIN UNLOGGED BATCH ${insert(40)} ${insert(41)} APPLY BATCH`)).info.warnings;
}

async function failure(statement, { session = app.session, ...options } = {}) {
  let found;
  try {
    await session.execute(statement, [], options);
  } catch (error) {
    if (error instanceof TypeError) {
      throw error;
    }
    found = describe(error);
  }
  assert(found, `${statement} did not fail`);
  return found;
}

function describe(error) {
  const inner = Object.values(error.innerErrors ?? {}).map((one) => one.message).sort();
  const { code = null, required = null, alive = null, received = null, blockFor = null } = error;
  return [error.constructor.name, error.message, code, [required, alive, received, blockFor], inner];
}

async function failures(...statements) {
  const found = [];
  for (const statement of statements) {
    found.push(await failure(statement));
  }
  return found;
}

/** More tombstones than the node puts up with. */
async function errorReadFailure() {
  for (let seq = 0; seq < 110; seq++) {
    await app.session.execute('DELETE FROM graves WHERE id = 1 AND seq = ?', [seq], prepare);
  }
  const [kind, , code] = await failure('SELECT seq FROM graves WHERE id = 1');
  return [kind, code];
}

async function errorUnauthorized() {
  if (!given.user) {
    throw new Absent('the cluster asks for no password');
  }
  const role = `${keyspace}_limited`;
  await app.session.execute(`CREATE ROLE IF NOT EXISTS ${role} WITH PASSWORD = 'limited' AND LOGIN = true`);
  const limited = client({ user: role, password: 'limited', inKeyspace: null });
  try {
    await limited.connect();
    return await failure(`SELECT name FROM ${keyspace}.t WHERE id = 1`, { session: limited });
  } finally {
    await limited.shutdown();
  }
}

async function wrongPassword() {
  if (!given.user) {
    throw new Absent('the cluster asks for no password');
  }
  const wrong = client({ password: 'wrong' });
  try {
    await wrong.connect();
  } catch (error) {
    return describe(error);
  } finally {
    await wrong.shutdown();
  }
  throw new Error('a wrong password was taken');
}

async function use() {
  await app.session.execute(`USE ${keyspace}_2`);
  await app.session.execute('INSERT INTO moved (id, v) VALUES (1, 7)');
  const found = await rows('SELECT v FROM moved WHERE id = 1');
  await app.session.execute(`USE ${keyspace}`);
  return [found, await rows('SELECT name FROM t WHERE id = 1')];
}

async function keyspaceOfRequest() {
  throw new Absent('before version 5 requests have no keyspace');
}

async function preparedAgain() {
  await app.session.execute('INSERT INTO altered (id, v) VALUES (1, 1)');
  const read = () => rows('SELECT id, v FROM altered WHERE id = ?', [1], prepare);
  const found = [await read()];
  await app.session.execute('ALTER TABLE altered ADD w text');
  for (let again = 0; again < 2 * nodes; again++) {
    found.push(await read());
  }
  return found;
}

async function schemaEvents() {
  const other = client({ inKeyspace: null });
  await other.connect();
  const table = () => app.session.metadata.getTable(keyspace, 'told');
  // What is not there is not remembered either: only an event drops what was found.
  await other.execute(`CREATE TABLE ${keyspace}.told (id int PRIMARY KEY)`);
  await eventually('the new table is told of', table);
  await other.execute(`DROP TABLE ${keyspace}.told`);
  await eventually('its end is told of', async () => !await table());
  await other.shutdown();
  return 'told';
}

/** Reads of keys that one node has: in how many of them only that node took part, as their traces say. */
async function tokenAware(table = 'keyed') {
  let ofReplicas = 0;
  for (let n = 0; n < 30; n++) {
    await app.session.execute(`INSERT INTO ${table} (k, n) VALUES (?, ?)`, [`key ${n}`, n], prepare);
    const { session, reader } = await traced(`SELECT k FROM ${table} WHERE k = ? AND n = ?`, [`key ${n}`, n]);
    ofReplicas += session.coordinator.toString() === reader.toString();
  }
  return `${ofReplicas} of 30`;
}

/** 500 requests on one connection, none waiting for another's answer. */
async function inFlight() {
  const crowded = client({ contactOnly: true });
  await crowded.connect();
  const all = (perform) => Promise.all(Array.from({ length: 500 }, (_, id) => perform(id)));
  await all((id) => crowded.execute('INSERT INTO crowded (id, v) VALUES (?, ?)', [id, -id], prepare));
  const found = await all((id) => crowded.execute('SELECT v FROM crowded WHERE id = ?', [id], prepare));
  await crowded.shutdown();
  return found.reduce((sum, result) => sum + result.first().v, 0);
}

/** 200 connections to all nodes together, each used. */
async function connections() {
  const each = Math.floor(200 / nodes);
  const many = client({ connections: each });
  await many.connect();
  const open = () => hosts(many).length === nodes && many.getState().getConnectedHosts()
    .every((host) => many.getState().getOpenConnections(host) === each);
  await eventually('all connections are open', open);
  const found = await Promise.all(Array.from({ length: 600 }, () => rows('SELECT name FROM t WHERE id = 1', [], {}, many)));
  await many.shutdown();
  return [each, [...new Set(found.flat(2))]];
}

/** A node stops answering, is killed, and comes back; the harness does it when all programs have said that they are ready. */
async function outage() {
  const contact = client({ contactOnly: true });
  await contact.connect();
  const options = { session: contact, consistency: consistencies.all };
  const [write, read] = ['INSERT INTO held (id, v) VALUES (1, 1)', 'SELECT v FROM held WHERE id = 1'];
  await contact.execute(write, [], options);
  const changes = [];
  app.plain.on('hostDown', (host) => changes.push(`${host.address} down`));
  app.plain.on('hostUp', (host) => changes.push(`${host.address} up`));
  reached('ready');
  await stage('paused');
  passed('timeout-read', await failure(read, options));
  passed('timeout-write', await failure(write, options));
  reached('paused');
  await stage('killed');
  const has = (word) => changes.some((change) => change.endsWith(word));
  await eventually('a node is down', () => has(' down'));
  passed('event-down', [...new Set(changes)]);
  await eventually('the coordinator knows', async () => (await failure(read, options))[1].includes('Not enough replicas') || (await failure(read, options))[1].includes('Cannot achieve'));
  passed('unavailable', await failure(read, options));
  reached('killed');
  await stage('restarted');
  await eventually('the node is up', () => has(' up') && app.plain.hosts.values().every((host) => host.isUp()));
  passed('event-up', [...new Set(changes)]);
  const readAll = () => contact.execute(read, [], { consistency: consistencies.all }).then(() => true, () => false);
  await eventually('reads of all replicas', readAll);
  passed('after-restart', await rows('SELECT v FROM held WHERE id = 1'));
  reached('restarted');
  await contact.shutdown();
}

async function reconnect() {
  await app.session.execute("INSERT INTO t (id, name) VALUES (1, 'kept')");
  reached('ready');
  await stage('restarted');
  const read = () => rows('SELECT name FROM t WHERE id = 1');
  await eventually('reads', () => read().then(() => true, () => false));
  passed('reconnected', await read());
  reached('restarted');
}

const CHECKS = {
  connect,
  ddl,
  simple,
  prepared,
  named,
  batch,
  paging,
  in: inList,
  lwt,
  types,
  vector,
  blob,
  null: nulls,
  unset: unsetValues,
  tracing,
  warnings,
  'error-syntax': () => failure('SELEC name FROM t'),
  'error-invalid': () => failures('SELECT name FROM no_such_table', "SELECT id FROM t WHERE name = 'x'"),
  'error-configuration': () => failure("CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}"),
  'error-exists': () => failures(
    'CREATE TABLE t (id int PRIMARY KEY)',
    `CREATE KEYSPACE ${keyspace} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
  ),
  'error-unavailable': () => failure('SELECT name FROM t WHERE id = 1', { consistency: consistencies.three }),
  'error-function': () => failure('SELECT broken(id) FROM t WHERE id = 1'),
  'error-read-failure': errorReadFailure,
  'error-unauthorized': errorUnauthorized,
  password: wrongPassword,
  use,
  'keyspace-of-request': keyspaceOfRequest,
  'prepared-again': preparedAgain,
  'schema-events': schemaEvents,
  'token-aware': () => tokenAware(),
  'in-flight': inFlight,
  connections,
  outage,
  reconnect,
};

async function run(name, perform) {
  try {
    const detail = await perform();
    if (detail !== undefined) {
      passed(name, detail);
    }
  } catch (error) {
    say({ check: name, outcome: error instanceof Absent ? 'absent' : 'failed', detail: String(describe(error)) });
  }
}

async function main() {
  const wanted = given.checks.split(',');
  for (const [name, perform] of Object.entries(CHECKS)) {
    if (wanted.includes(name) || wanted[0] === 'session' && name !== 'outage' && name !== 'reconnect') {
      await run(name, perform);
    }
  }
  process.exit(0);
}

main();
