// The page in Chromium against a real `mlbench serve` with real supervisors: a login, a run that is made and watched as
// it grows, a comparison, downloads, a stop; keyboard, hostile names, and pictures of each page in both colours and at
// four sizes. Environment:
//   MLBENCH_TEST_MLBENCH              the program
//   MLBENCH_TEST_BROWSER_WORKER       the worker: a fake one that takes its time, or the real one
//   MLBENCH_TEST_SCREENSHOTS          folder for the pictures
//   MLBENCH_TEST_PATIENCE_MS          how long a step may take (default: two minutes)
//   CHROMIUM                          the browser (default: chromium of the PATH)
import assert from 'node:assert/strict';
import {execFileSync, spawn, spawnSync} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test as nodeTest} from 'node:test';
import {chromium} from 'playwright-core';

const PATIENCE_MS = Number(process.env.MLBENCH_TEST_PATIENCE_MS ?? 120_000);
const program = process.env.MLBENCH_TEST_MLBENCH;
const worker = process.env.MLBENCH_TEST_BROWSER_WORKER;
const shots = process.env.MLBENCH_TEST_SCREENSHOTS;
assert.ok(program && existsSync(program), `MLBENCH_TEST_MLBENCH names no program: ${program}`);
assert.ok(worker && existsSync(worker), `MLBENCH_TEST_BROWSER_WORKER names no program: ${worker}`);

// A laptop, a large screen, a tablet, a phone.
const SIZES = [[1280, 900], [1920, 1080], [768, 1024], [390, 844]];

if (shots) mkdirSync(shots, {recursive: true});
const folder = mkdtempSync(join(tmpdir(), 'mlbench-browser-'));
const home = join(folder, 'home');
mkdirSync(home);
const env = {
  ...process.env, MLBENCH_HOME: home, MLBENCH_CORE_LOCK: join(folder, 'cores'), MLBENCH_WORKER: worker, FAKE_STEPS: '300', FAKE_STEP_MS: '30',
};
const mlbench = (...words) => execFileSync(program, words, {env, encoding: 'utf8'});

let serve, url, token, browser, context, page;
const problems = [];   // what a page should never do

// Each step stands on those before: the first that fails ends it.
let failed = false;
const test = (name, body) => nodeTest(name, async (context) => {
  if (failed) return context.skip('a step before this one failed');
  try {
    await body(context);
  } catch (error) {
    failed = true;
    if (shots && page) await page.screenshot({path: join(shots, 'failed.png')}).catch(() => {});
    throw error;
  }
});

async function eventually(what, check) {
  const end = Date.now() + PATIENCE_MS;
  for (let last; ; await new Promise((resolve) => setTimeout(resolve, 200))) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) assert.fail(`never: ${what} (last: ${last instanceof Error ? last.message : last})`);
  }
}

function watch(made) {
  made.setDefaultTimeout(PATIENCE_MS);
  made.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  made.on('request', (request) => {
    const to = request.url();
    if (!to.startsWith(`${url}/`) && !to.startsWith('blob:') && !to.startsWith('data:')) problems.push(`request to ${to}`);
  });
  made.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
}

const api = async (path, options = {}) => {
  const answer = await fetch(`${url}/api/v1${path}`, {...options, headers: {Authorization: `Bearer ${token}`, ...options.headers}});
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
};
const stateOf = async (run) => (await api(`/runs/${run}`)).state;
const show = async (hash) => {
  await page.goto('about:blank');
  await page.goto(`${url}/${hash}`);
};
const pointsOf = (file) => page.locator(`figure[data-chart="${file}"]`).getAttribute('data-points').then(Number);
const dialog = () => page.getByRole('dialog');
const download = async (click) => {
  const [made] = await Promise.all([page.waitForEvent('download'), click()]);
  return {name: made.suggestedFilename(), bytes: readFileSync(await made.path())};
};

async function startServe(env) {
  const process = spawn(program, ['serve', '--listen', '127.0.0.1:0'], {env, stdio: ['ignore', 'pipe', 'inherit']});
  const url = await new Promise((resolve, reject) => {
    let text = '';
    process.stdout.on('data', (data) => {
      text += data;
      const found = /^serving .* at (\S+)$/m.exec(text);
      if (found) resolve(found[1]);
    });
    process.on('exit', (code) => reject(new Error(`mlbench serve ended with ${code}: ${text}`)));
  });
  return {process, url};
}

async function endServe(process) {
  if (process.exitCode !== null) return;
  const ended = new Promise((resolve) => process.on('exit', resolve));
  process.kill('SIGTERM');
  await ended;
}

before(async () => {
  ({process: serve, url} = await startServe(env));
  token = readFileSync(join(home, 'token'), 'utf8').trim();
  // A sandbox needs rights that a container may lack; the only pages shown are ours.
  browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
  context = await browser.newContext({viewport: {width: 1440, height: 900}, acceptDownloads: true});
  page = await context.newPage();
  watch(page);
});

after(async () => {
  await browser?.close();
  for (const run of existsSync(join(home, 'runs')) ? readdirSync(join(home, 'runs')).filter((name) => !name.startsWith('.')) : []) {
    try {
      mlbench('stop', run);
    } catch {
      // over already
    }
  }
  if (serve) await endServe(serve);
  rmSync(folder, {recursive: true, force: true, maxRetries: 20, retryDelay: 250});
});

test('a browser logs in with the token, and out again', async () => {
  await page.goto(url);
  await page.getByLabel('Token of this master').fill('wrong');
  await page.getByRole('button', {name: 'Log in'}).click();
  await page.getByText('this is not the token of this server').waitFor();
  await page.getByLabel('Token of this master').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', {name: 'Runs'}).waitFor();
  assert.equal(await page.evaluate(() => document.cookie), '', 'a script can read the cookie');
  await page.getByRole('button', {name: 'Log out'}).click();
  await page.getByLabel('Token of this master').waitFor();
  await page.reload();
  await page.getByLabel('Token of this master').waitFor();
});

test('the link of mlbench dashboard logs in once', async () => {
  const said = JSON.parse(mlbench('dashboard', '--json'));
  assert.equal(said.url, url);
  assert.ok(!said.login_url.includes(token), 'the link holds the token');
  await page.goto('about:blank');
  await page.goto(said.login_url);
  await page.getByRole('heading', {name: 'Runs'}).waitFor();
  assert.equal(new URL(page.url()).hash, '#/runs', 'the code stays in the address');
  await page.getByText('No runs yet.').waitFor();
  const other = await browser.newContext();
  const stranger = await other.newPage();
  watch(stranger);
  await stranger.goto(said.login_url);
  await stranger.getByText('this link was used already').waitFor();
  await other.close();
});

test('a reload and a new tab stay logged in', async () => {
  await page.reload();
  await page.getByText('No runs yet.').waitFor();
  const tab = await context.newPage();
  watch(tab);
  await tab.goto(url);
  await tab.getByText('No runs yet.').waitFor();
  // Nor does a link that was used before end it.
  const {login_url} = JSON.parse(mlbench('dashboard', '--json'));
  for (let time = 0; time < 2; ++time) {
    await tab.goto('about:blank');
    await tab.goto(login_url);
    await tab.getByText('No runs yet.').waitFor();
  }
  await tab.close();
});

test('other ports of this host get nothing of the login', async () => {
  assert.deepEqual(await context.cookies(), [], 'a browser sends cookies to all ports');
  const seen = [];
  const other = createServer((request, response) => {
    seen.push(request.headers);
    response.writeHead(200, {'Content-Type': 'text/html'}).end('<title>other</title>');
  });
  await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
  const tab = await context.newPage();
  await tab.goto(`http://127.0.0.1:${other.address().port}/`);
  assert.equal(await tab.evaluate(() => localStorage.length), 0);
  const got = await tab.evaluate(async (to) => {
    const ask = (path, options) => fetch(to + path, {credentials: 'include', ...options}).then((answer) => answer.type === 'opaque' ? 'opaque' : answer.status, () => 'refused');
    return [await ask('/api/v1/runs'), await ask('/api/v1/session'), await ask('/api/v1/runs', {method: 'POST', mode: 'no-cors', body: '{}'})];
  }, url);
  assert.deepEqual(got, ['refused', 'refused', 'refused']);
  await tab.close();
  other.close();
  for (const headers of seen) assert.ok(!('cookie' in headers) && !('authorization' in headers), 'another port was sent something');
  // Nor does this page's own address without the secret.
  assert.deepEqual(await page.evaluate(async () => [(await fetch('/api/v1/runs')).status, (await fetch('/api/v1/runs', {method: 'POST'})).status]), [401, 401]);
});

test('a run is made in the dialog, with the keyboard alone', async () => {
  await page.keyboard.press('n');
  await page.getByRole('dialog', {name: 'New run'}).waitFor();
  await page.locator('form.new-run').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({state: 'detached'});
  await page.keyboard.press('n');
  const name = dialog().getByLabel(/^Name/);
  await name.waitFor();
  await eventually('the name has the focus', () => name.evaluate((input) => input === document.activeElement));
  await page.keyboard.type('first');
  await dialog().getByLabel(/^Workers/).focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.type('1 2');
  await page.getByText('Limits, data, checkpoints, seed, overrides').focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('synthetic data instead of the real set').focus();
  await page.keyboard.press('Space');
  // For a real worker; the fake one has a number of its own.
  await dialog().getByLabel('Stop after (steps)').fill('400');
  const planned = page.getByRole('region', {name: 'Planned runs'});
  await planned.getByText('first-2').waitFor();
  assert.equal(await planned.locator('tbody tr').count(), 2);
  assert.match(await page.locator('.command').innerText(), /^mlbench run first 1 2 --task fashion-mnist --max-steps 400 --synthetic$/);
  assert.equal((await api('/runs')).total, 0, 'a preview made a run');
  await page.getByRole('button', {name: 'Start 2 runs'}).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', {name: 'first-1'}).waitFor();
  await page.getByRole('link', {name: 'first-2'}).waitFor();
});

test('charts grow while a run goes on', async () => {
  await page.getByRole('link', {name: 'first-1'}).click();
  await page.getByRole('heading', {name: 'first-1'}).waitFor();
  const chart = 'first-1-train-loss';
  await page.locator(`figure[data-chart="${chart}"] canvas`).waitFor();
  let last = await pointsOf(chart);
  for (let round = 0; round < 2; ++round) {
    const before = last;
    last = await eventually('the chart grows', async () => {
      const now = await pointsOf(chart);
      return now > before ? now : 0;
    });
  }
  await eventually('first-1 finishes', async () => (await stateOf('first-1')) === 'finished');
  await page.locator('h1 .badge.finished').waitFor();
});

test('a wrong choice is said before anything starts', async () => {
  await show('#/runs');
  await page.getByRole('button', {name: 'New run'}).first().click();
  await dialog().getByLabel(/^Name/).fill('first');
  await dialog().getByLabel(/^Workers/).fill('1');
  await page.getByText('Limits, data, checkpoints, seed, overrides').click();
  await page.getByLabel('synthetic data instead of the real set').check();
  await page.getByText('name taken').waitFor();
  assert.ok(await page.getByRole('button', {name: 'Start the run'}).isDisabled());
  await page.getByLabel(/^Overrides/).fill('no_such_key=1');
  await page.locator('.preview .note.error').getByText(/no_such_key/).waitFor();
  await page.keyboard.press('Escape');
});

test('how ranks communicate is chosen, checked and said as a command', async () => {
  await page.getByRole('button', {name: 'New run'}).first().click();
  await dialog().getByLabel(/^Name/).fill('tuned');
  await dialog().getByLabel(/^Workers/).fill('2');
  await page.getByText('Limits, data, checkpoints, seed, overrides').click();
  await page.getByLabel('synthetic data instead of the real set').check();
  await page.getByText('Communication', {exact: true}).click();
  await page.getByLabel('Emulated network').fill('latency=1');
  await page.locator('.preview .note.error').getByText(/latency=1/).waitFor();
  await page.getByLabel('Emulated network').fill('latency=1ms');
  await page.getByLabel('Data type on the wire').selectOption('float16');
  await page.getByLabel('record a timeline of all ranks').check();
  await page.locator('.preview code').getByText('--wire-dtype float16 --netem latency=1ms --timeline tuned-timeline.json').waitFor();
  await eventually('it may be started', async () => page.getByRole('button', {name: 'Start the run'}).isEnabled());
  await page.keyboard.press('Escape');
});

test('an engine is told what it takes', async () => {
  await page.getByRole('button', {name: 'New run'}).first().click();
  await dialog().getByLabel(/^Name/).fill('told');
  await dialog().getByLabel(/^Workers/).fill('4');
  await page.getByText('Limits, data, checkpoints, seed, overrides').click();
  await page.getByLabel('synthetic data instead of the real set').check();
  await page.getByText('Communication', {exact: true}).click();
  await page.getByLabel('overlap communication with the backward pass').check();
  await page.getByLabel('Timeout of an operation').fill('2m');
  const said = (words) => page.locator('.preview code').getByText(words, {exact: true}).waitFor();
  await said('mlbench run told 4 --task fashion-mnist --comm-timeout 2m --overlap --synthetic');
  // There is little to say of this machine.
  await page.getByText('Options of the executor local').click();
  await page.getByLabel('Image of the ranks').waitFor();
  assert.equal(await page.getByLabel('Ranks per host').count(), 0);
  assert.equal(await page.getByLabel('Restarts after a lost host').count(), 0);
  assert.equal(await page.getByLabel('Namespace').count(), 0);
  // Engines that are not here are shown as such.
  const executor = dialog().getByLabel('Executor');
  const offered = await executor.locator('option').evaluateAll((all) => all.map((one) => [one.value, one.disabled]));
  for (const [name, disabled] of offered) {
    const row = (await api('/catalog')).executors.find((one) => one.name === name);
    assert.equal(disabled, name !== '' && !row.available, name);
  }
  await executor.selectOption('mpirun');
  await page.getByText('Options of the executor mpirun').waitFor();
  await page.getByLabel(/^Hosts/).fill('h1:2,h2:x');
  await page.locator('.preview .note.error').getByText(/slots of host h2/).waitFor();
  await page.getByLabel(/^Hosts/).fill('h1:2,h2:2');
  await page.getByLabel('Ranks per host').fill('2');
  await said('mlbench run told 4 --task fashion-mnist --executor mpirun --comm-timeout 2m --hosts h1:2,h2:2 --ranks-per-host 2 --overlap --synthetic');
  await eventually('it may be started', async () => page.getByRole('button', {name: 'Start the run'}).isEnabled());
  // Going on by itself needs checkpoints, in the master's words.
  const requeue = page.getByLabel('Restarts after a lost host');
  await requeue.fill('101');
  await page.locator('.preview .note.error').getByText(/requeue '101' is not a whole number from 1 to 100/).waitFor();
  await requeue.fill('2');
  await page.locator('.preview .note.error').getByText(/goes on from the last checkpoint/).waitFor();
  await page.getByLabel('Checkpoint interval (steps)').fill('epoch');
  await said('mlbench run told 4 --task fashion-mnist --executor mpirun --checkpoint-every epoch --requeue=2 --comm-timeout 2m --hosts h1:2,h2:2 --ranks-per-host 2 --overlap --synthetic');
  await eventually('it may be started', async () => page.getByRole('button', {name: 'Start the run'}).isEnabled());
  await page.getByLabel('Checkpoint interval (steps)').fill('');
  // Back again, what mpirun was told is no matter.
  await executor.selectOption('');
  await said('mlbench run told 4 --task fashion-mnist --comm-timeout 2m --overlap --synthetic');
  await page.keyboard.press('Escape');
});

test('the dialog says its defaults, takes a data folder, and closes when the page changes', async () => {
  await page.getByRole('button', {name: 'New run'}).first().click();
  await dialog().getByLabel(/^Name/).fill('elsewhere');
  await dialog().getByLabel(/^Workers/).fill('1');
  const option = (label) => dialog().getByLabel(new RegExp(`^${label}`)).locator('option').first();
  const plan = await api('/plan', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({name: 'elsewhere', workers: [1], task: 'fashion-mnist', synthetic: true})});
  await dialog().getByText('Limits, data, checkpoints, seed, overrides').click();
  await dialog().getByLabel('synthetic data instead of the real set').check();
  await eventually('the defaults are named', async () => await option('Framework').innerText() === `default (${plan.runs[0].framework})`);
  assert.equal(await option('Communication backend').innerText(), `default (${plan.runs[0].backend})`);
  assert.equal(await option('Executor').innerText(), 'default (local)');
  await dialog().getByLabel('synthetic data instead of the real set').uncheck();
  await dialog().getByLabel(/^Data folder/).fill('not/absolute');
  await page.locator('.preview .note.error').getByText(/data_dir|absolute/).waitFor();
  await dialog().getByLabel(/^Data folder/).fill('/no/such');
  await page.locator('.preview code').getByText('mlbench run elsewhere 1 --task fashion-mnist --data-dir /no/such', {exact: true}).waitFor();
  await page.evaluate(() => { location.hash = '#/cluster'; });
  await page.locator('dialog').waitFor({state: 'detached'});
  await show('#/runs');
});

test('the dialog fits its screen', async () => {
  for (const [width, height] of SIZES) {
    await page.setViewportSize({width, height});
    await show('#/runs');
    await page.getByRole('link', {name: 'first-1'}).waitFor();
    await page.keyboard.press('n');
    await dialog().getByLabel(/^Name/).fill('fits');
    await dialog().getByLabel(/^Workers/).fill('1 2');
    await page.locator('.preview table, .preview .note').first().waitFor();
    const seen = await page.evaluate(() => {
      const box = document.querySelector('dialog').getBoundingClientRect(), start = document.querySelector('dialog .primary').getBoundingClientRect();
      const body = document.querySelector('.new-run-body');
      return {box: [box.left, box.top, innerWidth - box.right, innerHeight - box.bottom], below: innerHeight - start.bottom, wide: body.scrollWidth - body.clientWidth, high: body.scrollHeight - body.clientHeight};
    });
    assert.ok(Math.min(...seen.box, seen.below) >= 0, `at ${width}: ${JSON.stringify(seen)}`);
    assert.ok(seen.wide <= 0, `at ${width} it scrolls sideways: ${JSON.stringify(seen)}`);
    if (width >= 1280) assert.ok(seen.high <= 0, `at ${width} it scrolls: ${JSON.stringify(seen)}`);
    await page.keyboard.press('Escape');
  }
  await page.setViewportSize({width: 1440, height: 900});
});

test('a command runs in an image of its own', async () => {
  await page.getByRole('button', {name: 'New run'}).first().click();
  await page.getByRole('button', {name: 'Your own command'}).click();
  await dialog().getByLabel(/^Name/).fill('imaged');
  await dialog().getByLabel(/^Workers/).fill('1');
  await dialog().getByLabel(/^Command, started once/).fill('python3 train.py');
  await dialog().getByLabel('Custom image').fill('lab.example/train:1');
  await page.locator('.preview code').getByText('mlbench run imaged 1 --image lab.example/train:1 -- python3 train.py', {exact: true}).waitFor();
  await page.keyboard.press('Escape');
});

test('ranks are shown merged or each, over steps or time', async () => {
  await eventually('first-2 runs', async () => (await stateOf('first-2')) !== 'queued');
  await show('#/runs/first-2');
  const legend = page.locator('figure[data-chart="first-2-train-loss"] .legend');
  await legend.getByText('mean of 2 ranks').waitFor();
  await page.getByRole('button', {name: 'By rank'}).click();
  await legend.getByText('rank 1').waitFor();
  await page.getByRole('button', {name: 'Time', exact: true}).click();
  await page.getByRole('img', {name: /^Training loss: loss over time since the start \((s|min)\)/}).waitFor();
  assert.match(page.url(), /first-2\?ranks=each&x=time$/);
  await page.getByText('Average per step').waitFor();
});

test('a chart is read with the arrow keys', async () => {
  const figure = page.locator('figure[data-chart="first-2-train-loss"]');
  await figure.locator('.plot').focus();
  await page.keyboard.press('ArrowRight');
  await eventually('the legend says where the cursor is', async () => /time since the start/.test(await figure.locator('.legend-x').innerText()));
});

test('a chart is saved as CSV and as PNG', async () => {
  await page.getByRole('button', {name: 'Steps', exact: true}).click();
  const csv = await download(() => page.getByRole('button', {name: 'Training loss as CSV'}).click());
  assert.equal(csv.name, 'first-2-train-loss.csv');
  const [head, row] = csv.bytes.toString().split('\r\n');
  assert.equal(head, 'step,rank 0,rank 1');
  assert.match(row, /^\d+,[-\d.e]*,[-\d.e]*$/);
  const png = await download(() => page.getByRole('button', {name: 'Training loss as PNG'}).click());
  assert.equal(png.name, 'first-2-train-loss.png');
  assert.equal(png.bytes.subarray(1, 4).toString(), 'PNG');
  assert.ok(png.bytes.readUInt32BE(16) > 250 && png.bytes.readUInt32BE(20) > 250, 'the picture is too small');
  // Each chart of the page has both.
  const charts = await page.locator('figure.chart').count();
  assert.equal(await page.locator('figure.chart').getByRole('button', {name: / as PNG$/}).count(), charts);
  assert.equal(await page.locator('figure.chart').getByRole('button', {name: / as CSV$/}).count(), charts);
  // So has each table, with values that are not rounded.
  const tables = await page.locator('.table-box').count();
  assert.ok(tables > 0);
  assert.equal(await page.locator('.table-box').getByRole('button', {name: / as CSV$/}).count(), tables);
  const saved = await download(() => page.getByRole('button', {name: 'Step time by kind, as a table as CSV'}).click());
  assert.equal(saved.name, 'first-2-step-kinds-table.csv');
  const cells = saved.bytes.toString().trim().split('\r\n').map((line) => line.split(','));
  assert.deepEqual(cells[0], ['Average per step', 'rank 0', 'rank 1', 'Share']);
  const sum = (at) => cells.slice(1, -1).reduce((total, line) => total + Number(line[at]), 0);
  assert.equal(cells.at(-1)[0], 'Sum');
  for (const at of [1, 2]) assert.ok(Math.abs(sum(at) - Number(cells.at(-1)[at])) < 1e-12, saved.bytes.toString());
});

test('several metrics share a chart, and a zoom is that of all charts', async () => {
  await eventually('first-2 finishes', async () => (await stateOf('first-2')) === 'finished');
  await show('#/runs/first-2');
  await page.getByText('Several in one chart').click();
  await page.getByLabel('Training loss', {exact: true}).check();
  await page.getByLabel('Throughput', {exact: true}).check();
  assert.ok(await page.getByLabel('Learning rate (a chart has two axes)').isDisabled());
  await page.keyboard.press('Escape');
  const figure = (what) => page.locator(`figure[data-chart="first-2-${what}"]`);
  await figure('several').locator('canvas').waitFor();
  assert.match(await figure('several').locator('.legend').innerText(), /Training loss[^]*Throughput/);
  await page.getByRole('img', {name: /^Several metrics: loss and samples per second over step/}).waitFor();
  await show(new URL(page.url()).hash);
  await figure('several').locator('canvas').waitFor();
  // With the mouse, as on most charts.
  const over = figure('train-loss').locator('.u-over');
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + 60, {steps: 5});
  await page.mouse.up();
  const part = await eventually('a part is shown', () => figure('train-loss').getAttribute('data-part'));
  const [from, to] = part.split(' ').map(Number);
  assert.ok(from > 30 && to < 270 && to - from > 100, part);
  for (const what of ['several', 'samples_per_s', 'step-kinds']) assert.equal(await figure(what).getAttribute('data-part'), part, what);
  await figure('samples_per_s').getByRole('button', {name: 'Throughput: show all'}).click();
  await eventually('all is shown', async () => await figure('train-loss').getAttribute('data-part') === null);
  // And with the keyboard.
  await figure('several').locator('.plot').focus();
  await page.keyboard.press('+');
  await eventually('a part is shown', () => figure('train-loss').getAttribute('data-part'));
  await page.keyboard.press('Escape');
  await eventually('all is shown', async () => await figure('train-loss').getAttribute('data-part') === null);
});

test('smoothing and logarithmic axes change what is drawn, not what is saved', async () => {
  await show('#/runs/first-2');
  const csv = async () => (await download(() => page.getByRole('button', {name: 'Training loss as CSV'}).click())).bytes.toString();
  const before = await csv();
  const picture = () => page.locator('figure[data-chart="first-2-train-loss"] canvas').evaluate((canvas) => canvas.toDataURL());
  let last = await picture();
  for (const [label, value] of [['Smoothing', '0.9'], ['Logarithmic axes', 'y']]) {
    await page.getByLabel(label).selectOption(value);
    const old = last;
    last = await eventually(`${label} changes the picture`, async () => {
      const now = await picture();
      return now !== old && now;
    });
  }
  await page.locator('figure[data-chart="first-2-train-loss"]').getByText('moving average of weight 0.9, measured values behind it').waitFor();
  assert.equal(await csv(), before);
  assert.match(page.url(), /smoothing=0.9&log=y$/);
});

test('a log is searched', async () => {
  await eventually('first-2 finishes', async () => (await stateOf('first-2')) === 'finished');
  await page.getByLabel('Log', {exact: true}).selectOption('1.1.stderr');
  await page.locator('pre.log').getByText('fake worker, rank 1 of 2').or(page.locator('pre.log').getByText(/rank 1 of 2/)).first().waitFor();
  const text = (await page.locator('pre.log').innerText()).trim().split('\n');
  const word = /[a-z]{4,}/i.exec(text[0])[0];
  await page.getByLabel('Search the log').fill(word.toUpperCase());
  await page.locator('pre.log mark').first().waitFor();
  assert.equal((await page.locator('pre.log mark').first().innerText()).toLowerCase(), word.toLowerCase());
  await page.getByLabel('Search the log').fill('nothing says this');
  await page.getByText('No line holds this.').waitFor();
  await page.getByLabel('Search the log').fill('');
  await page.getByLabel('Log', {exact: true}).selectOption('all.0.both');
  await page.locator('pre.log').getByText(/^rank 1 err \| .*rank 1 of 2/m).first().waitFor();
});

test('notes are written, shown as text and found', async () => {
  const notes = page.locator('section.notes');
  await notes.getByRole('button', {name: 'Add notes'}).click();
  const dialog = page.getByRole('dialog', {name: 'Notes'});
  await dialog.getByLabel('Description').fill('<b>Bigger</b> batches');
  await dialog.getByLabel('Expected result').fill('80 % in 9 epochs');
  await dialog.getByLabel('Tags').fill('batch, , batch, second tag');
  await dialog.getByRole('button', {name: 'Save'}).click();
  await notes.getByText('<b>Bigger</b> batches').waitFor();
  await notes.getByText('batch, second tag').waitFor();
  const answer = await page.evaluate(() => fetch('/api/v1/runs?q=bigger', {headers: {Authorization: `Bearer ${localStorage.getItem('mlbench-login')}`}}).then((one) => one.json()));
  assert.deepEqual(answer.runs.map((run) => [run.name, run.tags]), [['first-2', ['batch', 'second tag']]]);
});

test('a run is downloaded', async () => {
  const zip = await download(() => page.getByRole('button', {name: 'Download'}).click());
  assert.equal(zip.name, 'first-2.zip');
  assert.equal(zip.bytes.subarray(0, 2).toString(), 'PK');
  assert.ok(zip.bytes.includes('run.json'), 'the archive holds no record');
});

// The spans of a rank of the run `identity` as docs/record.md has them: 5 steps, those of rank 1 with 20 ms more of input.
function spansOf(rank, identity) {
  const parts = [], names = new Map();
  const entry = (type, kind, number, rest) => {
    const head = Buffer.alloc(8);
    head.set([type, kind], 0);
    head.writeUInt32LE(number, 4);
    parts.push(head, rest);
  };
  const numbers = (...values) => {
    const out = Buffer.alloc(8 * values.length);
    values.forEach((value, i) => out.writeBigInt64LE(BigInt(value), 8 * i));
    return out;
  };
  const span = (kind, name, begin_ms, end_ms, step, sequence = 0, bytes = 0) => {
    if (!names.has(name)) {
      names.set(name, names.size);
      entry(1, 0, name.length, Buffer.from(name));
    }
    entry(2, kind, names.get(name), numbers(begin_ms * 1e6, end_ms * 1e6, step, sequence, bytes, -1));
  };
  const header = Buffer.alloc(64);
  header.write('MLBSPANS');
  header.writeUInt32LE(1, 8);
  header.writeUInt32LE(64, 12);
  header.writeUInt32LE(1, 24);
  header.writeUInt32LE(rank, 28);
  header.write(identity, 40, 'hex');
  parts.push(header);
  for (let step = 0; step < 5; ++step) {
    const at = step * 40, loaded = at + 2 + 20 * rank;
    entry(3, 0, 0, numbers(at * 1e6, at * 1e6 + 5000, at * 1e6 + 10_000));
    span(0, 'batch_load', at, loaded, step);
    span(1, 'fc1 forward', loaded, loaded + 8, step);
    span(0, 'fwd_pass', loaded, loaded + 10, step);
    span(2, 'all_reduce', loaded + 10, at + 38, step, step + 1, 4096);
    span(0, 'agg', loaded + 10, at + 40, step);
  }
  return Buffer.concat(parts);
}

test('a timeline shows who waits for whom', async () => {
  await page.getByRole('link', {name: 'Timeline'}).click();
  await page.getByText('This run recorded no timeline.').waitFor();
  const run = join(home, 'runs', 'first-2'), timeline = join(run, 'timeline');
  mkdirSync(timeline);
  const {identity} = JSON.parse(readFileSync(join(run, 'spec.json'), 'utf8'));
  for (const rank of [0, 1]) writeFileSync(join(timeline, `rank-${rank}.seg-1.spans`), spansOf(rank, identity));
  await show('#/runs/first-2/timeline');
  await page.getByText('ranks waited 0.100 s for each other, 0.100 s of it for rank 1').waitFor();
  await page.getByText('because of: loading').waitFor();
  await page.getByRole('region', {name: 'Operations with most wait'}).getByText('all_reduce').waitFor();
  const strip = page.getByRole('img', {name: 'rank 0, training thread'});
  await strip.waitFor();
  assert.equal(await strip.locator('rect').count(), 7);  // five, and the two parts of the operation
  await page.getByRole('button', {name: 'Zoom in'}).click();
  await page.getByText(/^20 ms of 40 ms$/).waitFor();
  const trace = await download(() => page.getByRole('button', {name: 'Download the trace'}).click());
  assert.equal(trace.name, 'first-2.timeline.json');
  assert.equal(JSON.parse(trace.bytes.toString()).otherData.format, 'mlbench timeline');
  await page.getByRole('link', {name: 'first-2'}).click();
});

test('runs are searched, filtered, selected and compared', async () => {
  await show('#/runs');
  await page.getByRole('link', {name: 'first-1'}).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('first-2');
  await page.getByRole('link', {name: 'first-1'}).waitFor({state: 'detached'});
  await eventually('the address holds the search', async () => /q=first-2/.test(page.url()));
  await page.getByLabel('Search names and notes').fill('');
  await page.getByLabel('State').selectOption('failed');
  await page.getByText('No run fits.').waitFor();
  await page.getByRole('button', {name: 'Show all'}).click();
  await page.getByLabel('Compare first-1', {exact: true}).check();
  await page.getByLabel('Compare first-2').check();
  await page.getByRole('region', {name: 'Selected runs'}).getByRole('button', {name: 'Compare'}).click();
  await page.getByRole('heading', {name: 'Compare'}).waitFor();
  const figures = page.getByRole('region', {name: 'Figures'});
  await figures.getByRole('link', {name: 'first-2'}).waitFor();
  assert.match(await figures.locator('tr.differs').first().innerText(), /Workers/);
  await page.locator('figure[data-chart="compare-train-loss"] canvas').waitFor();
  const legend = await page.locator('figure[data-chart="compare-train-loss"] .legend').innerText();
  assert.match(legend, /first-1/);
  assert.match(legend, /first-2/);
});

test('the list is ordered, has the columns that are chosen, and its link keeps both', async () => {
  await show('#/runs?sort=name');
  const names = () => page.locator('.runs .name a').allInnerTexts();
  await page.getByRole('link', {name: 'first-1'}).waitFor();
  assert.deepEqual(await names(), ['first-1', 'first-2']);
  await page.getByRole('columnheader', {name: 'Workers'}).getByRole('button').click();
  await page.getByRole('columnheader', {name: 'Workers'}).getByRole('button').click();
  // The master orders the list: the page shows the former order until its answer is there.
  await eventually('the order is the other one', async () => (await names()).join() === 'first-2,first-1');
  assert.equal(await page.getByRole('columnheader', {name: 'Workers'}).getAttribute('aria-sort'), 'descending');
  await page.getByText('Columns', {exact: true}).click();
  await page.getByLabel('Seed', {exact: true}).check();
  await page.getByLabel('Backend', {exact: true}).uncheck();
  await page.keyboard.press('Escape');
  await page.getByRole('columnheader', {name: 'Seed'}).waitFor();
  assert.equal(await page.getByRole('columnheader', {name: 'Backend'}).count(), 0);
  // The labels that the command line prints, and the tags of the notes.
  const {labels} = (await api('/runs?q=first-2')).runs[0];
  assert.ok(labels.includes('synthetic'), labels.join());
  const row = page.getByRole('row', {name: /first-2/});
  assert.deepEqual(await row.locator('.label').allInnerTexts(), labels);
  assert.deepEqual(await row.locator('.tag').allInnerTexts(), ['batch', 'second tag']);
  await page.getByLabel('Tag', {exact: true}).selectOption('batch');
  await page.getByRole('link', {name: 'first-1'}).waitFor({state: 'detached'});
  const link = new URL(page.url()).hash;
  assert.match(link, /tag=batch/);
  assert.match(link, /sort=-workers/);
  await show(link);
  await page.getByRole('columnheader', {name: 'Seed'}).waitFor();
  assert.deepEqual(await names(), ['first-2']);
  const csv = await download(() => page.getByRole('button', {name: 'CSV'}).click());
  const [head, line] = csv.bytes.toString().split('\r\n');
  assert.match(head, /^Run,Labels,Tags,State,Task,Workers,.*Seed/);
  assert.match(line, /^first-2,.*synthetic.*,"batch, second tag",finished,fashion-mnist/);
  // Words of the notes are the master's to find.
  await page.getByLabel('Tag', {exact: true}).selectOption('');
  await page.getByLabel('Search names and notes').fill('80 % in 9');
  await page.getByRole('link', {name: 'first-1'}).waitFor({state: 'detached'});
  await page.getByRole('link', {name: 'first-2'}).waitFor();
});

test('the scaling of selected runs has the figures of the command line', async () => {
  await show('#/runs');
  await page.getByLabel('Compare first-1', {exact: true}).check();
  await page.getByLabel('Compare first-2').check();
  await page.getByRole('region', {name: 'Selected runs'}).getByRole('button', {name: 'Scaling'}).click();
  await page.getByRole('heading', {name: 'Scaling'}).waitFor();
  const told = JSON.parse(mlbench('charts', '--json', '--format', 'csv', '-o', join(folder, 'drawn'), join(home, 'runs', 'first-1'), join(home, 'runs', 'first-2')));
  const line = told.studies[0].lines[0];
  assert.ok(line.answer.length > 1);
  for (const sentence of line.answer) await page.locator('.answer').getByText(sentence, {exact: true}).waitFor();
  const rows = await page.getByRole('region', {name: /^Figures of/}).locator('tbody tr').allInnerTexts();
  assert.equal(rows.length, 2);
  assert.ok(rows[1].includes(line.points[1].speed_up.toFixed(2)), rows[1]);
  await page.locator('figure[data-chart="scaling-1-speed-up"] canvas').waitFor();
});

test('a command of mine becomes a run', async () => {
  await show('#/runs');
  await page.getByRole('button', {name: 'New run'}).click();
  await page.getByRole('button', {name: 'Your own command'}).click();
  await dialog().getByLabel(/^Name/).fill('mine');
  await dialog().getByLabel(/^Workers/).fill('2');
  await dialog().getByLabel(/^Command/).fill("sh -c 'echo I am {rank} of {run_id} over {backend}; echo wrong on {rank} >&2'");
  await dialog().getByLabel(/^Communication backend/).fill('own-backend');
  await page.getByRole('region', {name: 'Planned runs'}).getByText('mine-2').waitFor();
  if (shots) await page.screenshot({path: join(shots, 'command-light-1440.png')});
  await page.getByRole('button', {name: 'Start the run'}).click();
  await page.getByRole('heading', {name: 'mine-2'}).waitFor();
  await eventually('mine-2 finishes', async () => (await stateOf('mine-2')) === 'finished');
  await page.getByLabel('Log', {exact: true}).selectOption('1.1.stdout');
  await page.locator('pre.log').getByText(/^I am 1 of \S+ over own-backend$/).waitFor();
  await page.getByLabel('Log', {exact: true}).selectOption('1.1.stderr');
  await page.locator('pre.log').getByText(/^wrong on 1$/).waitFor();
  await page.getByLabel('Log', {exact: true}).selectOption('all.0.stderr');
  await page.locator('pre.log').getByText(/^rank 0 err \| wrong on 0\s+rank 1 err \| wrong on 1$/).waitFor();
  await page.getByText("sh -c echo I am {rank}", {exact: false}).first().waitFor();
});

test('a custom run has charts of curves, a table of single values, and the kinds of its steps', async () => {
  await page.getByText('Loading charts …').waitFor({state: 'detached'});
  assert.equal(await page.getByText('Where the time goes').count(), 0);
  assert.equal(await page.locator('figure.chart').count(), 0);
  const values = [{speed: 1, fwd_pass: 3, agg: 1, cpu_cores: 1}, {speed: 2, fwd_pass: 3, agg: 1, cpu_cores: 2}, {speed: 4, final: 0.25, cpu_cores: 1}];
  const begin = Date.parse((await api('/runs/mine-2')).started_at) / 1000, after = [1, 30, 60];
  await api('/runs/mine-2/points', {
    method: 'POST', headers: {'Content-Type': 'application/x-ndjson'},
    body: values.map((one, n) => JSON.stringify({rank: 0, sequence: n + 1, step: 10 * n, time: begin + after[n], values: one})).join('\n'),
  });
  await show('#/runs/mine-2');
  await page.locator('figure[data-chart="mine-2-speed"] canvas').waitFor();
  assert.equal(await page.locator('figure[data-chart="mine-2-final"]').count(), 0);
  // What ranks use has time as its axis, and all samples of the run, whatever the others are drawn over.
  const [head, ...used] = (await download(() => page.getByRole('button', {name: 'Processors as CSV'}).click())).bytes.toString().trim().split('\r\n');
  assert.equal(head, '"time since the start, s",rank 0');
  assert.deepEqual(used.map((line) => line.split(',').map((value) => Math.round(Number(value) * 100) / 100)), [[1, 1], [30, 2], [60, 1]]);
  const single = page.getByRole('region', {name: 'Single values'});
  assert.deepEqual((await single.locator('tbody tr').allInnerTexts()).filter((row) => /final|speed|fwd|agg/.test(row)), ['final\trank 0\t20\t0.25']);
  const kinds = page.getByRole('region', {name: 'Step time by kind, as a table'});
  assert.match(await kinds.innerText(), /Average per report of the script[^]*forward\s+3.00 s[^]*75.0 %[^]*communication\s+1.00 s[^]*25.0 %/);
});

// A run folder like that of first-2, with another record.
function copyOfRun(name, id, record = {}) {
  const from = join(home, 'runs', 'first-2'), to = join(home, 'runs', name);
  mkdirSync(to);
  // As text: the task's hash is that of its numbers as they are written, and 40.0 is 40 for JSON.stringify.
  writeFileSync(join(to, 'spec.json'), readFileSync(join(from, 'spec.json'), 'utf8').replaceAll('first-2', name).replace(/("id": *)\d+/, `$1${id}`));
  writeFileSync(join(to, 'run.json'), JSON.stringify({...JSON.parse(readFileSync(join(from, 'run.json'), 'utf8')), id, name, ...record}));
}

test('a run is compared with its repeats', async () => {
  copyOfRun('twice-2', 911);
  copyOfRun('twice-2.2', 912, {repeat: 2, seed: 43});
  await show('#/compare?runs=twice-2,first-1');
  const figures = page.getByRole('region', {name: 'Figures'});
  await figures.getByRole('link', {name: 'first-1'}).waitFor();
  assert.deepEqual(await figures.locator('thead a').allInnerTexts(), ['twice-2', 'first-1']);
  assert.match(await figures.getByRole('row', {name: /^Repeats/}).innerText(), /Repeats\s+2\s+1/);
  assert.match(await figures.locator('tr', {hasText: 'Seeds'}).innerText(), /42, 43\s+42/);
  await page.getByText('Of runs with repeats the one of the median time is drawn: twice-2').waitFor();
  // The list has them as one row, with the interval that the master gives.
  await show('#/runs?q=twice');
  await page.getByRole('link', {name: 'twice-2'}).waitFor();
  assert.equal(await page.locator('.runs tbody tr').count(), 1);
  await page.getByRole('button', {name: '2 repeats'}).click();
  const {samples_per_s} = (await api('/compare?runs=twice-2')).repeated.runs[0];
  assert.equal(samples_per_s.values.length, 2);
  assert.deepEqual((await api('/runs?q=twice')).runs[0].repeats.samples_per_s, samples_per_s);
  await page.locator('.intervals').getByText(samples_per_s.interval ? /95 % interval/ : /have no interval/).waitFor();
  assert.equal(await page.locator('.runs tbody tr').count(), 4);
  await page.getByLabel('repeats as one row').uncheck();
  await page.getByRole('link', {name: 'twice-2.2'}).waitFor();
  assert.equal(await page.locator('.runs tbody tr').count(), 2);
  await show('#/compare?runs=twice-2,first-1');
  await figures.getByRole('link', {name: 'first-1'}).waitFor();
  if (shots) await page.screenshot({path: join(shots, 'repeats-light-1440.png'), fullPage: true});
  for (const name of ['twice-2', 'twice-2.2']) rmSync(join(home, 'runs', name), {recursive: true});
});

// Repeats of a run that reached its goal after so many seconds, with seeds from 42 on.
function repeatsThatReached(name, id, times, record = {}) {
  const of = JSON.parse(readFileSync(join(home, 'runs', 'first-2', 'run.json'), 'utf8'));
  times.forEach((train_s, i) => copyOfRun(i === 0 ? name : `${name}.${i + 1}`, id + i, {
    repeat: i + 1, seed: 42 + i, clocks: {...of.clocks, train_s, wall_s: train_s + 2}, throughput: {...of.throughput, samples_per_s: 60_000 / train_s},
    goal: {...of.goal, reached: true, value: 92.125, epoch: 1, step: 300, train_s},
    evaluations: [{step: 300, epoch: 1, split: 'test', cadence: true, train_s, wall_s: train_s + 1, metrics: {'Prec@1': 92.125}}], ...record,
  }));
  return times.map((_, i) => i === 0 ? name : `${name}.${i + 1}`);
}
// The rows of all tables of a text in Markdown, each with its cells.
const markdownRows = (text) => text.split('\n').filter((line) => line.startsWith('| ')).map((line) => line.slice(2, -2).replaceAll(/\\(.)/g, '$1').split(' | '));

test('the command line, REST and the page say the same of repeats, to the digit', async () => {
  const made = [...repeatsThatReached('slow-2', 921, [40.25, 50.5, 30.125]), ...repeatsThatReached('quick-2', 931, [21.3, 24.9, 16.2], {backend: 'mpi', comm_stack: 'mpi'}),
    ...repeatsThatReached('slow-1', 941, [70, 71.5], {workers: 1})];
  const told = JSON.parse(mlbench('compare', 'slow-2', 'quick-2', '--json'));
  const {repeated} = await api('/compare?runs=slow-2,quick-2');
  const {runs, ...rest} = repeated, {runs: toldRuns, ...toldRest} = told;
  assert.deepEqual(rest, toldRest);
  assert.deepEqual(runs.map(({words, shown, scaling, ...run}) => run), toldRuns);
  assert.equal(toldRuns[1].paired_by_seed, true);
  assert.equal(toldRuns[1].time_to_goal_ratio.interval.length, 2);

  await show('#/compare?runs=slow-2,quick-2');
  const figures = page.getByRole('region', {name: 'Figures'});
  await figures.getByRole('link', {name: 'quick-2'}).waitFor();
  const cells = async (head) => (await figures.locator('tbody tr').filter({has: page.locator('th', {hasText: head})}).first().locator('td').allInnerTexts()).map((text) => text === '–' ? '-' : text);
  const [, slow, quick, , ratio] = markdownRows(mlbench('compare', 'slow-2', 'quick-2', '--format', 'markdown'));
  assert.deepEqual([slow[0], quick[0], ratio[0]], ['slow-2', 'quick-2', 'quick-2']);
  assert.match(quick[3], /^20\.\d \[\d+\.\d, \d+\.\d\]$/);
  assert.deepEqual(await cells(/^Time to goal, s$/), [slow[3], quick[3]]);
  assert.deepEqual(await cells(/^Samples\/s$/), [slow[4], quick[4]]);
  assert.deepEqual(await cells(/^Ratio of time to goal$/), ['-', `${ratio[1]}, ${ratio[2]}`]);
  assert.deepEqual(await cells(/^Ratio of samples\/s$/), ['-', `${ratio[3]}, ${ratio[4]}`]);
  assert.deepEqual(await cells(/^Repeats were compared$/), ['-', 'paired by seed']);
  assert.ok(ratio.includes('paired by seed'), ratio.join());
  // The list: status, REST and the row of the page.
  const listed = (await api('/runs?q=quick-2&repeats=together')).runs[0].repeats;
  assert.deepEqual([listed.runs, listed.reached, listed.time_to_goal_s, listed.samples_per_s], [3, 3, toldRuns[1].time_to_goal_s, toldRuns[1].samples_per_s]);
  const status = mlbench('status', '--format', 'markdown').split('\n').find((line) => line.includes('quick-2')).replaceAll(/\\(.)/g, '$1');
  assert.ok(status.includes(`| ${quick[3]} |`), status);
  await show('#/runs?q=quick-2');
  const cell = page.locator('.runs tbody tr').first().locator('.of-time_to_goal_s');
  await cell.waitFor();
  assert.equal(await cell.innerText(), `${quick[3].split(' ')[0]} s`);
  assert.ok((await cell.getAttribute('title')).startsWith(quick[3].replaceAll(/[\d.]+/g, '$& s')), await cell.getAttribute('title'));

  // The answer: the sentences of charts, of REST and of the page.
  const study = JSON.parse(mlbench('charts', '--json', '--format', 'csv', '-o', join(folder, 'answer'), '-f', 'slow-')).studies[0];
  const scaling = (await api('/scaling?runs=slow-1,slow-2')).studies[0];
  assert.deepEqual(scaling.lines.map(({name, answer}) => [name, answer]), study.lines.map(({name, answer}) => [name, answer]));
  assert.deepEqual(scaling.lines[0].points.map(({workers, seconds, speed_up, speed_up_interval}) => [workers, seconds, speed_up, speed_up_interval]),
    study.lines[0].points.map(({workers, seconds, speed_up, speed_up_interval}) => [workers, seconds, speed_up, speed_up_interval]));
  assert.match(study.lines[0].answer[0], /^2 workers reach .* times as fast as 1 \(\d/);
  await show('#/scaling?runs=slow-1,slow-2');
  await page.locator('.answer p').first().waitFor();
  assert.deepEqual(await page.locator('.answer p').allInnerTexts(), study.lines[0].answer);
  if (shots) await page.screenshot({path: join(shots, 'answer-light-1440.png'), fullPage: true});
  await show('#/compare?runs=slow-2,quick-2,slow-1');
  await figures.getByRole('link', {name: 'slow-1'}).waitFor();
  if (shots) await page.screenshot({path: join(shots, 'paired-light-1440.png'), fullPage: true});
  for (const name of made) rmSync(join(home, 'runs', name), {recursive: true});
});

test('what cannot start is refused before a run exists, in the same words everywhere', async () => {
  const refused = (...words) => {
    const {status, stderr} = spawnSync(program, ['run', 'refused', '2', '--task', 'fashion-mnist', '--synthetic', ...words], {env, encoding: 'utf8'});
    assert.equal(status, 2, stderr);
    return stderr;
  };
  const why = /refused-2 cannot start here: --interface 'no-such0': [^\n(]*/.exec(refused('--local', '--interface', 'no-such0'))[0].trim();
  const answer = await fetch(`${url}/api/v1/runs`, {
    method: 'POST', headers: {Authorization: `Bearer ${token}`, 'Content-Type': 'application/json'},
    body: JSON.stringify({name: 'refused', workers: [2], task: 'fashion-mnist', synthetic: true, interface: 'no-such0'}),
  });
  assert.equal(answer.status, 422);
  assert.ok((await answer.json()).message.startsWith(why), why);
  await show('#/runs');
  await page.getByRole('button', {name: 'New run'}).first().click();
  await dialog().getByLabel(/^Name/).fill('refused');
  await dialog().getByLabel(/^Workers/).fill('2');
  await page.getByText('Limits, data, checkpoints, seed, overrides').click();
  await page.getByLabel('synthetic data instead of the real set').check();
  await page.getByText('Communication', {exact: true}).click();
  await page.getByLabel('Network interface').fill('no-such0');
  await page.locator('.preview .note').getByText(why).waitFor();
  // What is missing altogether cannot be chosen, and has the reason that the command line gives.
  const missing = (await api('/catalog')).backends.find((one) => !one.available);
  if (missing) {
    assert.ok(await dialog().getByLabel(/^Communication backend/).locator(`option[value="${missing.name}"]`).isDisabled());
    await dialog().getByText(new RegExp(`^Why not .*${missing.name}`)).click();
    await dialog().getByText(`${missing.name}: ${missing.reason}`).waitFor();
    assert.ok(refused('--backend', missing.name).includes(`'${missing.name}' is not available here: ${missing.reason}`), missing.name);
  }
  await page.keyboard.press('Escape');
  assert.equal((await api('/runs?q=refused')).total, 0);
  assert.ok(!existsSync(join(home, 'runs', 'refused-2')));
});

// Run folders as two benchmarks leave them: the fake worker measures nothing.
function benchmark(name, id, backend, factor) {
  const form = (us, copies) => ({time: us, alg_bw: 0.5, bus_bw: 0.5, nwrong: 0, iterations: {count: 20, min: us, p50: us, p95: us, p99: us, max: us, avg: us, stdev: 0, cv: 0}, copies, capped: false});
  const results = [8, 4096, 1048576, 400000000].map((size) => ({operation: 'all_reduce', cycle: 1, size, count: size / 4, type: 'float', dtype: 'float32', redop: 'sum',
    root: -1, device: 'cpu', out_of_place: form(factor * (12 + size / 800), true), in_place: form(factor * (10 + size / 1000), false), actual_iterations: 20}));
  const pairs = {hosts: ['n-0', 'n-1'], latency_bytes: 8, bandwidth_bytes: 65536, window: 64, disjoint: false, latency: [[null, 10], [40, null]], bandwidth: [[null, 2], [0.5, null]],
    slow: [], verdict: 'none; two hosts have one link, which nothing can be compared with'};
  copyOfRun(name, id, {task: '0a', rules: '', variant: '', framework: 'none', backend, comm_stack: backend, goal: null, evaluations: [], notes: [], collectives: {config: {}, results, pairs}});
}

test('a benchmark of collectives has a table, charts and pairs of its own', async () => {
  benchmark('gloo-2', 901, 'gloo', 1);
  benchmark('mpi-2', 902, 'mpi', 0.5);
  await show('#/runs/gloo-2');
  const rows = page.getByRole('region', {name: 'Rows of the benchmark'});
  await rows.waitFor();
  assert.equal(await rows.locator('tbody tr').count(), 4);
  assert.match(await rows.locator('tbody tr').last().innerText(), /all_reduce\s+400,000,000\s+100,000,000\s+float\s+sum/);
  const chart = page.locator('figure[data-chart^="gloo-2-all_reduce, sum"]');
  await chart.locator('canvas').waitFor();
  assert.match(await chart.locator('.legend').innerText(), /float, out of place[^]*float, in place/);
  await page.getByRole('button', {name: 'Bus bandwidth'}).click();
  await chart.getByRole('img', {name: /: GB\/s over bytes\./}).waitFor();
  await page.getByText('Slow: none; two hosts').waitFor();
  assert.match(await page.getByRole('region', {name: /^Latency/}).innerText(), /40/);
  assert.equal(await page.getByText('Where the time goes').count(), 0, 'it has no steps');
  if (shots) await page.screenshot({path: join(shots, 'collectives-light-1440.png'), fullPage: true});
  await show('#/compare?runs=gloo-2,mpi-2');
  const compared = page.locator('figure[data-chart^="compare-all_reduce, sum"]');
  await compared.locator('canvas').waitFor();
  assert.match(await compared.locator('.legend').innerText(), /gloo-2 \(gloo, 2 ranks\)[^]*mpi-2 \(mpi, 2 ranks\)/);
  // The task that measures it is offered, without what training takes.
  await show('#/runs');
  await page.getByRole('button', {name: 'New run'}).click();
  await dialog().getByLabel(/^Task/).selectOption('0a');
  await dialog().getByLabel(/^Name/).fill('measured');
  await dialog().getByLabel(/^Workers/).fill('2');
  await page.getByRole('region', {name: 'Planned runs'}).getByText('measured-2').waitFor();
  assert.equal(await dialog().getByLabel('Stop after (steps)').count(), 0);
  assert.match(await page.locator('.command').innerText(), /^mlbench run measured 2 --task 0a$/);
  await page.keyboard.press('Escape');
  for (const name of ['gloo-2', 'mpi-2']) await fetch(`${url}/api/v1/runs/${name}`, {method: 'DELETE', headers: {Authorization: `Bearer ${token}`}});
});

test('a run is retried and stopped', async () => {
  await show('#/runs/first-1');
  await page.getByRole('button', {name: 'Retry'}).click();
  await page.getByRole('heading', {name: 'first-1.2'}).waitFor();
  await eventually('it runs', async () => (await stateOf('first-1.2')) === 'running');
  await page.getByRole('button', {name: 'Stop', exact: true}).click();
  await page.getByRole('button', {name: 'Stop the run'}).click();
  await eventually('it is stopped', async () => (await stateOf('first-1.2')) === 'stopped');
  await page.locator('h1 .badge.stopped').waitFor();
  await page.getByRole('button', {name: 'Delete'}).click();
  await page.getByRole('button', {name: 'Delete the run'}).click();
  await page.getByRole('heading', {name: 'Runs'}).waitFor();
  await eventually('it is gone', async () => (await api('/runs?q=first-1.2')).total === 0);
});

// Runs as the master would list them, newest first; nothing of them was measured.
function madeRuns(count) {
  const tasks = ['mnist', 'fashion-mnist', '1a', '2a'], states = ['finished', 'finished', 'finished', 'failed', 'stopped'];
  return Array.from({length: count}, (_, back) => {
    const n = count - back, g = Math.ceil(n / 3), r = (n - 1) % 3 + 1, workers = 2 ** (g % 6), reached = n % 5 < 3;
    const at = (s) => new Date(Date.UTC(2026, 0, 1) + n * 60_000 + s * 1000).toISOString();
    return {
      id: n, name: `made-${g}-${workers}${r === 1 ? '' : `.${r}`}`, state: states[n % 5], task: tasks[g % 4], rules: null, variant: null, division: 'open', framework: g % 2 ? 'torch' : 'native',
      backend: ['gloo', 'mpi', 'shm'][g % 3], executor: 'local', created_at: at(0), started_at: at(1), finished_at: at(50), workers, threads_per_worker: 1, repeat: r, seed: n, light: false,
      labels: g % 2 ? ['open', 'synthetic'] : ['open'], tags: n % 100 === 0 ? ['kept'] : [], time_to_goal_s: reached ? (n * 7919) % 1000 + 1 : null, train_s: (n * 104729) % 997 + 1, wall_s: 50, samples_per_s: (n * 31) % 5003 + 1,
      communication_share: (n % 90) / 100, evaluation: '', failure: states[n % 5] === 'failed' ? `rank ${n % workers} was lost` : '',
      goal: {metric: 'Prec@1', split: 'test', target: 80, higher_is_better: true, reached, value: 60 + n % 30, epoch: 3, step: 900, train_s: 1},
    };
  });
}

test('a list of 10,000 runs is asked for a page at a time', async (context) => {
  const runs = madeRuns(10_000);
  const own = await browser.newContext({viewport: {width: 1440, height: 900}});
  const many = await own.newPage();
  watch(many);
  await many.addInitScript((secret) => { if (location.protocol === 'http:') localStorage.setItem('mlbench-login', secret); }, await page.evaluate(() => localStorage.getItem('mlbench-login')));
  const asked = [];
  await many.route((to) => to.pathname === '/api/v1/runs', (route) => {
    const query = new URL(route.request().url()).searchParams;
    asked.push(Object.fromEntries(query));
    const limit = Number(query.get('limit')), offset = Number(query.get('offset'));
    const choices = {state: {finished: runs.length}, task: {'1a': 1, '2a': 1}, workers: {}, executor: {}, label: {}, tag: {}};
    return route.fulfill({json: {total: runs.length, count: runs.length, limit, offset, choices, runs: runs.slice(offset, offset + limit)}});
  });
  await many.goto(`${url}/#/runs?repeats=apart`);
  await many.getByText('10,000 in all').waitFor();
  const first = many.locator('.runs .name a').first(), last = () => asked.at(-1);
  assert.equal(await first.innerText(), runs[0].name);
  assert.equal(await many.locator('.runs tbody tr').count(), 50);
  assert.deepEqual(last(), {sort: '-created_at', repeats: 'apart', tracked: 'true', offset: '0', limit: '50'});
  await many.getByRole('button', {name: 'Next'}).click();
  await eventually('the second page', async () => (await first.innerText()) === runs[50].name);
  await many.getByRole('columnheader', {name: 'Samples/s'}).getByRole('button').click();
  await eventually('an order by samples/s', async () => last().sort === 'samples_per_s' && last().offset === '0');
  await many.getByLabel('Task', {exact: true}).selectOption('2a');
  await many.getByLabel('Search names and notes').fill('made-12');
  await eventually('filters', async () => last().task === '2a' && last().q === 'made-12');
  await many.getByLabel('repeats as one row').check();
  await eventually('repeats as one row', async () => last().repeats === 'together');
  await many.goto(`${url}/#/runs?repeats=apart&page=999`);
  await many.getByText('200 of 200').waitFor();
  assert.ok(asked.every((one) => Number(one.limit) <= 50));
  const session = await own.newCDPSession(many);
  await session.send('HeapProfiler.collectGarbage');
  const {usedSize} = await session.send('Runtime.getHeapUsage');
  context.diagnostic(`objects of the page: ${(usedSize / 2 ** 20).toFixed(0)} MiB`);
  if (shots) await many.screenshot({path: join(shots, 'many-light-1440.png')});
  await own.close();
});

// A home with so many run folders, three repeats of each, whose records are that of first-2 with other figures.
function homeOfMany(count) {
  const many = join(folder, 'many'), from = join(home, 'runs', 'first-2');
  const spec = readFileSync(join(from, 'spec.json'), 'utf8'), record = JSON.parse(readFileSync(join(from, 'run.json'), 'utf8'));
  for (const run of madeRuns(count)) {
    const to = join(many, 'runs', run.name), train_s = run.train_s;
    mkdirSync(to, {recursive: true});
    writeFileSync(join(to, 'spec.json'), spec.replaceAll('first-2', run.name));
    const {id, name, task, backend, created_at, workers, repeat, seed} = run;
    writeFileSync(join(to, 'run.json'), JSON.stringify({...record, id, name, task, backend, created_at, workers, repeat, seed, goal: {...record.goal, reached: run.goal.reached, value: run.goal.value, epoch: 1, step: 300, train_s},
      clocks: {...record.clocks, train_s, wall_s: train_s + 2}, throughput: {...record.throughput, samples_per_s: run.samples_per_s}}));
  }
  return many;
}

// How long the page takes from a choice to the list that it asks for, and what it holds then.
test('a list of 10,000 runs is ordered and filtered within 200 ms', async (context) => {
  const own = await startServe({...env, MLBENCH_HOME: homeOfMany(10_000)});
  try {
    const shown = await (await browser.newContext({viewport: {width: 1440, height: 900}})).newPage();
    await shown.goto(own.url);
    await shown.getByLabel('Token of this master').fill(readFileSync(join(folder, 'many', 'token'), 'utf8').trim());
    await shown.keyboard.press('Enter');
    await shown.getByText('10,000 in all').waitFor({timeout: PATIENCE_MS});
    await shown.locator('.runs tbody tr').nth(49).waitFor();
    const took = (kind, of, value) => shown.evaluate(([kind, of, value]) => new Promise((resolve) => {
      const list = document.querySelector('.run-list'), before = list.textContent, begin = performance.now();
      new MutationObserver((_, observer) => {
        if (list.querySelector('tbody').textContent === before) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
      }).observe(list, {childList: true, subtree: true, characterData: true});
      if (kind === 'order') return [...list.querySelectorAll('thead button')].find((one) => one.textContent.startsWith(of)).click();
      const select = document.querySelector(`select[aria-label="${of}"]`);
      select.value = value;
      select.dispatchEvent(new Event('change', {bubbles: true}));
    }), [kind, of, value]);
    const quickest = {};
    for (let round = 0; round < 5; ++round) {   // as other programs run beside
      for (const [kind, of, value] of [['order', 'Samples/s'], ['order', 'Time to goal'], ['order', 'Run'], ['filter', 'Task', '2a'], ['filter', 'Task', ''], ['filter', 'Worker count', '4'], ['filter', 'Worker count', '']]) {
        const what = [kind, of, value === '' ? 'any' : value].filter(Boolean).join(' ');
        quickest[what] = Math.min(quickest[what] ?? Infinity, await took(kind, of, value));
      }
    }
    const session = await shown.context().newCDPSession(shown);
    await session.send('HeapProfiler.collectGarbage');
    const {usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0} = await session.send('Runtime.getHeapUsage');
    const mib = (usedSize + embedderHeapUsedSize + backingStorageSize) / 2 ** 20;
    context.diagnostic(`${Object.entries(quickest).map(([what, ms]) => `${what}: ${ms.toFixed(0)} ms`).join(', ')}; memory of the page: ${mib.toFixed(1)} MiB`);
    assert.ok(mib < 200);
    for (const [what, ms] of Object.entries(quickest)) assert.ok(ms < 200, `${what}: ${ms.toFixed(0)} ms`);
    await shown.context().close();
  } finally {
    await endServe(own.process);
  }
});

test('no name becomes HTML', async () => {
  const evil = '<img src=x onerror="window.hacked=1">';
  await api('/runs/first-1/points', {
    method: 'POST', headers: {'Content-Type': 'application/x-ndjson'},
    body: [0, 1, 2].map((n) => JSON.stringify({rank: 0, sequence: n, step: n, values: {[evil]: n, '=cmd': n}})).join('\n'),
  });
  await show('#/runs/first-1');
  await page.getByRole('heading', {name: evil}).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const csv = await download(() => page.getByRole('button', {name: `${evil} as CSV`}).click());
  assert.match(csv.name, /^[A-Za-z0-9._-]+\.csv$/);
  // The page itself could not do it either.
  const refused = await page.evaluate(() => {
    try {
      document.createElement('div').innerHTML = '<b>x</b>';
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused, 'the policy lets strings become HTML');
});

test('the cluster page shows the host', async () => {
  await show('#/cluster');
  const nodes = page.getByRole('region', {name: 'Nodes of local', exact: true});
  await nodes.getByRole('row').nth(1).waitFor();
  assert.match(await nodes.getByRole('row').nth(1).textContent(), /this host/);
  for (const title of ['CPU', 'Memory', 'Network']) {
    await page.getByRole('heading', {name: title, exact: true}).waitFor();
    await page.getByRole('button', {name: `${title} as CSV`}).waitFor();
  }
  await page.locator('figure canvas').first().waitFor();
  const before = Number(await page.locator('figure').first().getAttribute('data-points'));
  await eventually('samples come', async () => Number(await page.locator('figure').first().getAttribute('data-points')) > before);
});

test('the theme follows the system, and can be chosen', async () => {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.emulateMedia({colorScheme: 'dark'});
  await eventually('dark', async () => (await theme()) === 'dark');
  await page.getByLabel('Colours').selectOption('light');
  assert.equal(await theme(), 'light');
  await page.reload();
  await eventually('it is remembered', async () => (await theme()) === 'light');
  await page.getByLabel('Colours').selectOption('system');
});

test('the keyboard reaches everything, and sees where it is', async () => {
  await show('#/runs');
  await page.getByRole('link', {name: 'first-1'}).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  const reached = new Set();
  for (let i = 0; i < 60; ++i) {
    const [text, ring] = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return [document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0];
    });
    if (text === null) break;
    assert.ok(ring || reached.has(text), `no focus ring on: ${text}`);
    reached.add(text.trim());
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement === document.body)) break;
  }
  for (const one of ['Runs', 'Cluster', 'Compare', 'Log out', 'New run', 'Search names and notes', 'State', 'Task', 'Compare first-1', 'first-1']) {
    assert.ok(reached.has(one), `Tab never reaches ${one}: ${[...reached].join(' | ')}`);
  }
});

// Run in the page: what overlaps, touches or is cut off, in words. What scrolls counts as far as it is seen.
function layoutProblems() {
  const problems = [];
  const scope = document.querySelector('dialog[open]') ?? document.body;
  const words = (one) => `${one.tagName.toLowerCase()}${typeof one.className === 'string' && one.className ? `.${one.className.trim().replaceAll(/\s+/g, '.')}` : ''} "${one.textContent.trim().slice(0, 30)}"`;
  const SCROLLS = '.scroll, .run-list, .log, .tail, .menu-box, .new-run-body';
  const seen = (one) => {
    let {left, top, right, bottom} = one.getBoundingClientRect();
    for (let box = one.parentElement?.closest(SCROLLS); box; box = box.parentElement?.closest(SCROLLS)) {
      const of = box.getBoundingClientRect();
      [left, top, right, bottom] = [Math.max(left, of.left), Math.max(top, of.top), Math.min(right, of.right), Math.min(bottom, of.bottom)];
    }
    return {one, left, top, right, bottom};
  };
  const all = (selector) => [...scope.querySelectorAll(selector)]
    .filter((one) => !one.closest('.hidden, .skip, .uplot, .selection, .menu-box, datalist') && one.checkVisibility({visibilityProperty: true, opacityProperty: true}))
    .map(seen).filter((box) => box.right - box.left > 2 && box.bottom - box.top > 2);
  const meet = (a, b, room) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > room && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > room;
  const pairs = (boxes, room, what) => {
    boxes.sort((a, b) => a.top - b.top);
    boxes.forEach((a, i) => {
      for (let k = i + 1; k < boxes.length && boxes[k].top < a.bottom - room; ++k) {
        const b = boxes[k];
        if (!a.one.contains(b.one) && !b.one.contains(a.one) && meet(a, b, room)) problems.push(`${what}: ${words(a.one)} and ${words(b.one)}`);
      }
    });
  };
  pairs(all('h1, h2, h3, p, dt, dd, li, button, .button, input, select, textarea, summary, label, legend, th, td, figure, .tile, .panel, .note, .badge, .label, .tag, .chip, .plot, pre, code, caption'), 1.5, 'overlap');
  // Whatever has a border.
  const bordered = all('.panel, .tiles, figure.chart, .note, .empty, .run-list, .chip, .button, button, select, textarea, input:not([type=checkbox], [type=radio]), .segmented')
    .filter(({one}) => !one.closest('.segmented > *, .legend, thead, .chip > *') && !one.matches('.quiet'));
  pairs(bordered, -3, 'touch');
  for (const {one, left, right} of all('*')) {
    const style = getComputedStyle(one), own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    if (!own || one.matches('option, textarea, select')) continue;
    if (!one.closest(SCROLLS) && (right > innerWidth + 1 || left < -1)) problems.push(`outside the window: ${words(one)}`);
    const cut = one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && style.display !== 'inline';
    if (cut && !one.matches(SCROLLS) && !(style.textOverflow === 'ellipsis' && one.closest('[title]'))) problems.push(`cut off: ${words(one)}`);
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) problems.push(`the page is ${wide} px too wide`);
  return problems;
}

// Other colours change no more than the contrast.
const RULES = {light: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], dark: {type: 'rule', values: ['color-contrast']}};

test('each page fits and is readable, light and dark, wide and narrow', async () => {
  benchmark('gloo-2', 901, 'gloo', 1);
  const places = {
    runs: '#/runs', columns: '#/runs', 'no-run': '#/runs?q=nothing-has-this', run: '#/runs/first-2', custom: '#/runs/mine-2', collectives: '#/runs/gloo-2', timeline: '#/runs/first-2/timeline', cluster: '#/cluster',
    compare: '#/compare?runs=first-1,first-2', scaling: '#/scaling?runs=first-1,first-2', new: '#/runs', login: '',
  };
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const secret = await page.evaluate(() => localStorage.getItem('mlbench-login'));
  const found = [];
  for (const colorScheme of ['light', 'dark']) {
    for (const [width, height] of SIZES) {
      // The policy of the page would refuse axe, which the test brings.
      const own = await browser.newContext({viewport: {width, height}, colorScheme, reducedMotion: 'reduce', bypassCSP: true});
      for (const [name, place] of Object.entries(places)) {
        const shown = await own.newPage();
        watch(shown);
        if (name !== 'login') await shown.addInitScript((one) => localStorage.setItem('mlbench-login', one), secret);
        else await shown.addInitScript(() => localStorage.removeItem('mlbench-login'));
        await shown.goto(`${url}/${place}`);
        await shown.getByRole('heading').first().waitFor();
        if (['run', 'custom', 'collectives', 'cluster', 'compare', 'scaling'].includes(name)) await shown.locator('figure canvas').first().waitFor();
        if (['runs', 'columns', 'new'].includes(name)) await shown.getByRole('link', {name: 'first-1'}).waitFor();
        if (name === 'no-run') await shown.getByText('No run fits.').waitFor();
        if (name === 'timeline') await shown.getByRole('img', {name: /training thread/}).first().waitFor();
        if (name === 'columns') await shown.getByText('Columns', {exact: true}).click();
        if (name === 'new') {
          await shown.keyboard.press('n');
          await shown.getByRole('dialog').getByLabel(/^Name/).fill('mine');
          await shown.getByRole('dialog').getByLabel(/^Workers/).fill('1 2');
          await shown.locator('.preview table, .preview .note').first().waitFor();
        }
        await shown.waitForTimeout(300);
        const where = `${name} at ${width}, ${colorScheme}`;
        if (colorScheme === 'light') for (const problem of await shown.evaluate(layoutProblems)) found.push(`${where}: ${problem}`);
        await shown.evaluate(axe);
        const {violations, passes} = await shown.evaluate((runOnly) => axe.run(document, {runOnly}), RULES[colorScheme]);
        assert.ok(passes.some((rule) => rule.id === 'color-contrast'), `${where}: no contrast was looked at`);
        for (const {id, nodes} of violations) found.push(`${where}: ${id}: ${nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join('; ')}`);
        const nameless = await shown.evaluate(() => [...document.querySelectorAll('button, a, input, select, textarea')]
          .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).map((one) => one.outerHTML));
        for (const one of nameless) found.push(`${where}: a control without a name: ${one}`);
        if (shots) await shown.screenshot({path: join(shots, `${name}-${colorScheme}-${width}.png`), fullPage: !['new', 'columns'].includes(name)});
        await shown.close();
      }
      await own.close();
    }
  }
  await fetch(`${url}/api/v1/runs/gloo-2`, {method: 'DELETE', headers: {Authorization: `Bearer ${token}`}});
  assert.deepEqual(found, []);
});

test('what is looked for in a layout is found where it is', async () => {
  const own = await browser.newContext({viewport: {width: 600, height: 400}});
  const bad = await own.newPage();
  await bad.setContent(`<!doctype html><style>body{margin:0} .panel{border:1px solid} p{margin:0} .low{margin-top:-12px} .cut{width:40px;overflow:hidden;white-space:nowrap}</style>
    <div class="panel">one</div><div class="panel">two</div><p>upper line</p><p class="low">lower line</p><p class="cut">a text that is too long</p><p style="position:absolute;left:580px;white-space:nowrap">beyond the edge</p>`);
  const problems = (await bad.evaluate(layoutProblems)).join('\n');
  for (const wanted of [/touch: div.panel "one" and div.panel "two"/, /overlap: p "upper line" and p.low "lower line"/, /cut off: p.cut/, /outside the window: p "beyond/, /px too wide/]) assert.match(problems, wanted);
  await bad.setContent('<p>fine</p>');
  assert.deepEqual(await bad.evaluate(layoutProblems), []);
  await own.close();
});

test('pages asked nobody else, and broke no rule of their own', () => {
  // The hostile test provokes the policy once itself.
  const unexpected = problems.filter((text) => !/TrustedHTML|trusted-types|Trusted Type/i.test(text));
  assert.deepEqual(unexpected, []);
  assert.ok(problems.length - unexpected.length <= 2, problems.join('\n'));
});
