// Pure functions of the page: lines of series, which get a chart, rates, CSV, what the dialog sends. Bundled in memory, run by Node.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'vite';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const result = await build({
  root, configFile: false, logLevel: 'error',
  build: {write: false, minify: false, lib: {entry: join(root, 'test/modules.ts'), formats: ['es'], fileName: 'out'}},
});
const [{output}] = Array.isArray(result) ? result : [result];
const {collectives, comparison, events, format, request, runList, runSeries, runView, series, spans, units} =
  await import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString('base64')}`);

const rank = (number, step, mean, points = step.map(() => 1)) =>
  ({split: 'train', metric: 'loss', rank: number, count: 0, points: {step, time_us: step.map((s) => s * 1e6), mean, points}});

test('speed-ups are those that the master tells, and else the reason why there are none', () => {
  const half = {speed_up: 1.5, efficiency: 0.75};
  const shown = (run) => Object.fromEntries(comparison.speedUps.map(([name, cell]) => [name, cell(run)]));
  // Twice as fast in every figure: the page makes no ratio of it.
  const figures = {time_to_goal_s: 10, train_s: 10, samples_per_s: 2000, workers: 2};
  assert.deepEqual(shown({...figures, to_goal: half, rate: half, baseline: 'a-1', no_ratio: ''}), {
    'Speed-up to goal': '1.50', 'Efficiency to goal': '75.0 %', 'Speed-up of rate': '1.50', 'Efficiency of rate': '75.0 %',
    'Against': 'a-1', 'Not compared': '–'});
  assert.deepEqual(shown({...figures, to_goal: null, rate: null, baseline: '', no_ratio: 'no speed-up: hardware differs'}), {
    'Speed-up to goal': '–', 'Efficiency to goal': '–', 'Speed-up of rate': '–', 'Efficiency of rate': '–',
    'Against': '–', 'Not compared': 'no speed-up: hardware differs'});
  assert.equal(comparison.heading({baseline: 'a-1', runs: [{baseline: 'a-1'}]}), 'Speed-up against a-1');
  assert.equal(comparison.heading({baseline: '', runs: [{baseline: 'a-1'}, {baseline: 'b-1'}]}), 'Speed-up, each run against its own baseline');
  assert.equal(comparison.heading({baseline: '', runs: [{baseline: ''}]}), 'Runs side by side');
});

test('a size that took ten times as long as both its neighbours is named', () => {
  const line = (label, y) => ({label, x: [32768, 65536, 131072], y});
  assert.equal(collectives.stallsOf([line('gloo', [32, 43978, 181]), line('mpi', [30, 299, 29])]),
    'stalled, ten times both neighbours: 65,536 bytes (gloo)');
  assert.equal(collectives.stallsOf([line('gloo', [32, 90, 181]), line('mpi', [30, 30000, 300000]), line('none', [null, 5, 5])]), '');
});

test('differences are those that the master tells', () => {
  const words = {time_to_goal_ratio: '1.50 [1.21, 1.85], slower', samples_per_s_ratio: '-', paired_by_seed: 'paired by seed'};
  const run = {words, runs: 2, time_to_goal_ratio: {ratio: 1.5, interval: [1.21, 1.853]}, samples_per_s_ratio: null, value_after_ratio: null};
  assert.equal(comparison.wordsOf(run, 'time_to_goal_ratio'), '1.50 [1.21, 1.85], slower');
  assert.equal(comparison.wordsOf(run, 'samples_per_s_ratio'), '–');
  assert.deepEqual([1.885, 0.1, 0.05, 0.00042, 0].map(comparison.short), ['1.89', '0.10', '0.05', '0.00042', '0.00']);
  assert.equal(comparison.pairing(run), 'paired by seed');
  assert.equal(comparison.pairing({...run, time_to_goal_ratio: null}), '–', 'without a ratio nothing was compared');
  assert.equal(comparison.pairing({...run, runs: 1}), '–', 'a single run is no group');
  assert.equal(comparison.sampleText({values: [2, 2], mean: 2, interval: [1, 4]}, (value) => `${value} s`), '2 s [1 s, 4 s]');
  assert.equal(comparison.sampleText({values: [], mean: null, interval: null}, String), '–');
  assert.equal(comparison.rangeText([85.5, null, 84.25], String), '84.25 to 85.5');
  assert.equal(comparison.rangeText([undefined, 3], String), '3');
  assert.equal(comparison.rangeText([null], String), '–');
});

const summary = (name, more = {}) => ({id: 1, name, state: 'finished', task: 'mnist', workers: 2, framework: 'torch', backend: 'gloo', labels: [], tags: [], ...more});
// Rows of figures as the master serves them.
const figure = (key, title, form, unit = '') => ({key, title, unit, form});
const FIGURES = [
  figure('state', 'State', 'text'), figure('task', 'Task', 'text'), figure('workers', 'Workers', 'number'), figure('framework', 'Framework', 'text'), figure('backend', 'Backend', 'text'),
  figure('goal', 'Goal', 'text'), figure('goal_target', 'Target', 'number'), figure('goal_value', 'Value for the goal', 'metric'), figure('goal_epoch', 'Epoch of the goal', 'short'),
  figure('time_to_goal_s', 'Time to goal', 'seconds', 's'), figure('train_s', 'Train clock', 'seconds', 's'), figure('energy_joules', 'Energy', 'kilojoules', 'kJ'),
  figure('energy_to_goal_joules', 'Energy to goal', 'kilojoules', 'kJ to goal'), figure('samples_per_s', 'Samples/s', 'rate', 'samples/s'), figure('device_read_bytes', 'Device read bytes', 'count'),
  figure('communication_share', 'Communication', 'percent', 'of train'), figure('light', 'Light goal', 'text'), figure('seed', 'Seed', 'number'), figure('created_at', 'Made', 'stamp', 'UTC'),
  figure('power_watts', 'Power', 'fixed1', 'W'),  // the page knows nothing of this one
];
const column = (key) => runList.columnOf(FIGURES.find((one) => one.key === key));

test('the energy of a run is that of all its hosts, or is not known', () => {
  const host = (name, joules) => ({host: name, meter: joules === null ? null : 'RAPL: package-0', joules});
  const energy = (joules, to_goal_joules, ...hosts) => format.energyText({joules, to_goal_joules, hosts});
  assert.equal(energy(12345, 8100, host('n1', 12345)), '12.3 kJ, 8.10 kJ to the goal, by all programs of n1');
  assert.equal(energy(1234567, null, host('n1', 34567), host('n2', 1200000)), '1,235 kJ, by all programs of n1, n2');
  assert.equal(energy(null, null, host('n1', 12345), host('n2', null)), 'not known: no meter can be read on n2');
  assert.equal(energy(null, null, host('n1', null)), '–');
  assert.equal(format.energyText(null), '–');
  const texts = (more) => ['energy_joules', 'energy_to_goal_joules'].map((key) => runList.rowText(column(key), {name: 'a-1', runs: [summary('a-1', more)]}));
  assert.deepEqual(texts({energy_joules: 12345, energy_to_goal_joules: null}), ['12.3 kJ', '–']);
});

const sample = (values, mean = null, interval = null) => ({values, mean, interval});

test('repeats are one row, as the master groups them', () => {
  const runs = [summary('b-2', {configuration: 'b-2'}), summary('a-2', {configuration: 'a-2'}), summary('a-2.2', {configuration: 'a-2'}),
    summary('a-2.3', {configuration: 'a-2.3'}), summary('x-1', {configuration: null}), summary('x-1.2', {configuration: null})];
  assert.deepEqual(runList.rowsOf(runs, true).map((row) => [row.name, row.runs.length]),
    [['b-2', 1], ['a-2', 2], ['a-2.3', 1], ['x-1', 1], ['x-1.2', 1]]);
  assert.deepEqual(runList.rowsOf(runs, false).map((row) => row.name), runs.map((run) => run.name));
});

test('a row of repeats has the means that the master gives, and no other', () => {
  const repeats = {runs: 3, reached: 3, time_to_goal_s: sample([2, 8, 4], 4, [1, 16]), samples_per_s: sample([])};
  const row = (more, of = repeats) => ({name: 'a-2', runs: [0, 1, 2].map((i) => summary(`a-2.${i}`, {repeats: of, time_to_goal_s: [2, 8, 4][i], seed: 42 + i, backend: 'gloo', ...more(i)}))});
  const all = row((i) => ({train_s: i + 1, created_at: `2026-01-0${i + 1}T00:00:00Z`, framework: ['torch', 'native', 'torch'][i], communication_share: 0.5}));
  const texts = (of, ...keys) => keys.map((key) => runList.rowText(column(key), of));
  assert.deepEqual(texts(all, 'time_to_goal_s', 'samples_per_s', 'train_s', 'backend', 'framework', 'communication_share'),
    ['4.00 s', '–', '1.00 s to 3.00 s', 'gloo', 'torch, native', '50.0 %']);
  assert.match(runList.rowText(column('created_at'), all), /01-03/);
  assert.equal(runList.meanText(column('time_to_goal_s'), all), '4.00 s [1.00 s, 16.0 s], of 2.00 s, 8.00 s, 4.00 s');
  assert.equal(runList.meanText(column('train_s'), all), '');
  assert.equal(runList.meanText(column('samples_per_s'), all), '');
  const missed = row(() => ({}), {...repeats, reached: 1, time_to_goal_s: sample([])});
  assert.deepEqual(texts(missed, 'time_to_goal_s', 'train_s'), ['1 of 3 reached', '–']);
  const alone = {name: 'a-2', runs: [summary('a-2', {time_to_goal_s: 2, repeats})]};
  assert.equal(runList.rowText(column('time_to_goal_s'), alone), '2.00 s');
  assert.equal(runList.meanText(column('time_to_goal_s'), alone), '');
});

test('the master is asked for what the view says', () => {
  const asked = (text) => runList.askedOf(runList.viewOf(new URLSearchParams(text)));
  assert.deepEqual(asked(''), {sort: '-created_at', repeats: 'together', tracked: 'true'});
  assert.deepEqual(asked('q= a b &state=failed&executor=slurm&tag=x&label=open&workers=4&task=1a&sort=train_s&repeats=apart&page=3'),
    {q: 'a b', state: 'failed', task: '1a', workers: '4', executor: 'slurm', label: 'open', tag: 'x', sort: 'train_s', repeats: 'apart', tracked: 'true'});
});

test('a run of a client of MLflow leads to the address that the client prints', () => {
  const tracked = summary('mlflow:0a1b', {title: 'first try', experiment: 'grid', experiment_id: '3'});
  assert.equal(runList.hrefOf(tracked), '#/experiments/3/runs/0a1b');
  assert.equal(runList.hrefOf(summary('a-2')), '#/runs/a-2');
  assert.match(runList.listCsv([tracked], []), /\r\nfirst try,/);
});

test('a view of the list is its link, and the usual one is none', () => {
  const link = (text) => runList.queryOf(runList.viewOf(new URLSearchParams(text)));
  const said = (text) => Object.fromEntries(Object.entries(link(text)).filter(([, value]) => value !== ''));
  assert.deepEqual(said(''), {});
  const all = 'q=a b&state=failed&task=1a&tag=x&label=open&workers=4&sort=-train_s&columns=state,seed&repeats=apart&page=3';
  assert.deepEqual(said(all), Object.fromEntries(new URLSearchParams(all)));
  assert.deepEqual(said('sort=-created_at&page=-1&columns=,'), {columns: ','});
  assert.deepEqual(runList.viewOf(new URLSearchParams(said('columns=,'))).columns, []);
});

test('a figure is written as its row says', () => {
  const run = summary('a-2', {rules: '2021', light: true, seed: 4242, created_at: '2026-01-05T00:00:00Z', train_s: 61, samples_per_s: 12345.6, communication_share: 0.125, device_read_bytes: 1234567890,
    goal: {reached: false, target: 85, value: 84.253, epoch: 3}});
  const text = (key) => runList.rowText(column(key), {name: 'a-2', runs: [run]});
  assert.deepEqual(['task', 'workers', 'light', 'seed', 'train_s', 'samples_per_s', 'communication_share', 'device_read_bytes', 'time_to_goal_s'].map(text),
    ['mnist · 2021', '2', 'yes', '4242', '61.0 s', '12,346', '12.5 %', '1,234,567,890', '–']);
  assert.deepEqual(['goal', 'goal_target', 'goal_value', 'goal_epoch'].map(text), ['not reached', '85', '84.253', '3']);
  assert.match(text('created_at'), /^2026-01-0/);
  assert.equal(runList.rowText(column('goal_value'), {name: 'a-1', runs: [summary('a-1', {goal: null})]}), '–');
  assert.deepEqual(['state', 'workers', 'created_at', 'power_watts'].map((key) => column(key).numeric), [false, true, true, true]);
});

test('a figure that only the master knows becomes a column, a row of Compare and a part of the CSV', () => {
  const runs = [summary('a-2', {power_watts: 12.5, labels: ['open', 'light'], train_s: 61, seed: 7}), summary('a-2.2', {power_watts: 14, labels: ['open', 'light']})];
  const added = column('power_watts');
  assert.equal(runList.rowText(added, {name: 'a-2', runs: runs.slice(0, 1)}), '12.5 W');
  assert.equal(runList.listCsv(runs, [column('train_s'), added]),
    'Run,Labels,Tags,Train clock,Power\r\na-2,"open, light",,61,12.5\r\na-2.2,"open, light",,,14\r\n');
  const groups = [{words: {time_to_goal_s: '61', samples_per_s: '100'}}];
  const rows = comparison.measuredRows(FIGURES.map(runList.columnOf), groups, [runs]).map(([name, cell, setting]) => [name, cell(0), setting]);
  assert.deepEqual(rows, [['Value for the goal', '–', false], ['Epoch of the goal', '–', false], ['Train clock', '61.0 s', false], ['Energy', '–', false],
    ['Energy to goal', '–', false], ['Device read bytes', '–', false], ['Communication', '–', false], ['Power', '12.5 W to 14 W', false]], 'neither settings nor what the command line has words of');
});

test('text of others is shown as what it is', () => {
  assert.equal(format.visible('Zürich 東京\n\ttab'), 'Zürich 東京\n\ttab');
  assert.equal(format.visible('\u202ecod.exe\u2066 \u001b[2J\u009b'), '\\u202ecod.exe\\u2066 \\u001b[2J\\u009b');
});

test('a line per series says whose it is', () => {
  const of = [rank(0, [1, 2], [1, 2]), rank('all', [1, 2], [3, null]), {...rank('all', [1, 2], [2, 3]), merge: 'mean', ranks: 2}];
  assert.deepEqual(series.lines(of, 'step', 0).map((line) => [line.label, line.y]),
    [['rank 0', [1, 2]], ['all ranks', [3, null]], ['mean of 2 ranks', [2, 3]]]);
  assert.deepEqual(series.lines(of.slice(0, 1), 'time', 1e6), [{label: 'rank 0', x: [0, 1], y: [1, 2]}]);
});

test('charts are in order, the goal first', () => {
  const metric = (split, name) => ({split, metric: name});
  const all = [metric('', 'agg_s'), metric('', 'mine'), metric('', 'lr'), metric('', 'samples_per_s'), metric('train', 'Prec@1'), metric('train', 'loss'), metric('test', 'loss'), metric('test', 'Prec@1')];
  assert.deepEqual(runSeries.charted(all, metric('test', 'Prec@1')).map(runSeries.idOf),
    ['test-Prec@1', 'test-loss', 'train-loss', 'samples_per_s', 'lr', 'train-Prec@1', 'mine']);
  assert.deepEqual(all.map((of) => runSeries.titleOf(of).title),
    ['agg_s', 'mine', 'Learning rate', 'Throughput', 'Training: Prec@1', 'Training loss', 'Evaluation: loss', 'Evaluation: Prec@1']);
  assert.deepEqual(runSeries.charted([metric('', 'agg'), metric('', 'agg_s')], null, true).map(runSeries.idOf), ['agg_s'], 'a script reports kinds under bare names');
  assert.deepEqual([metric('', 'cpu_cores'), metric('', 'host_memory_bytes'), metric('test', 'cpu_cores'), metric('', 'lr')].map(runSeries.isOverTime), [true, true, false, false]);
});

const form = (p50, more = {}) => ({time: 2 * p50, alg_bw: 1, bus_bw: 1.5, nwrong: 0, iterations: {count: 5, p50, p99: p50}, copies: false, capped: false, ...more});
const row = (size, more = {}) => ({operation: 'all_reduce', size, count: size / 4, type: 'float', redop: 'sum', root: -1, device: 'cpu', out_of_place: null, in_place: form(size), ...more});

test('rows become lines over the size, of each type and form', () => {
  const rows = [row(8), row(4, {out_of_place: form(9, {copies: true})}), row(4, {in_place: form(6)}), row(4, {type: 'half'}), row(0, {operation: 'barrier', redop: 'none'})];
  assert.deepEqual(collectives.groupsOf(rows), ['all_reduce, sum'], 'nothing of no bytes: the axes are logarithmic');
  assert.deepEqual(collectives.linesOfRun(rows, 'all_reduce, sum', 'time'), [
    {label: 'float, out of place', x: [4], y: [9]}, {label: 'float, in place', x: [4, 8], y: [5, 8]}, {label: 'half, in place', x: [4], y: [4]}]);
  assert.deepEqual(collectives.linesOfRun([row(8, {in_place: form(8, {bus_bw: null})})], 'all_reduce, sum', 'bus_bw'), []);
  const runs = [{label: 'a', rows: [row(4, {out_of_place: form(9, {copies: true})})]}, {label: 'b', rows: [row(4, {in_place: null, out_of_place: form(3, {copies: true})})]}];
  assert.deepEqual(collectives.linesOfRuns(runs, 'all_reduce, sum', 'time').map((line) => [line.label, line.y]), [['a', [4]], ['b', [3]]]);
  assert.equal(collectives.wrongOf([row(4, {in_place: form(1, {nwrong: 3}), out_of_place: form(1, {nwrong: null})})]), 3);
  assert.deepEqual([5, 4000, 1e8].map(collectives.shortSize), ['5', '4 K', '100 M']);
});

test('a pair is as bad as it is worse than the best', () => {
  assert.deepEqual(collectives.badness([[null, 4], [1, null]], true), [[null, 0], [0.75, null]]);
  assert.deepEqual(collectives.badness([[null, 4], [1, null]], false), [[null, 0.75], [0, null]]);
});

test('an average counts each step once', () => {
  assert.equal(series.average(rank(0, [10, 11], [1, 12], [10, 1])), 2);
  assert.equal(series.average(rank(0, [], [])), 0);
});

test('totals become rates', () => {
  assert.deepEqual(series.rates([0, 2e6, 3e6, 4e6], [10, 14, 13, 15]), [null, 2, null, 2]);
});

test('CSV keeps texts texts', () => {
  assert.equal(series.csv(['a,b', '=1+1', 'x"y'], [[1.5, null, 'z']]), '"a,b",\'=1+1,"x""y"\r\n1.5,,z\r\n');
  assert.equal(series.linesCsv('step', [{label: 'a', x: [1, 2], y: [1, 2]}, {label: 'b', x: [2, 3], y: [5, null]}]),
    'step,a,b\r\n1,1,\r\n2,2,5\r\n3,,\r\n');
});

test('what is no number is a gap, and what another line has alone is none', () => {
  const {x, columns} = series.table([{label: 'a', x: [1, 2, 4], y: [1, null, 3]}, {label: 'b', x: [3], y: [5]}]);
  assert.deepEqual(x, [1, 2, 3, 4]);
  assert.deepEqual(columns, [[1, null, undefined, 3], [undefined, undefined, 5, undefined]]);
});

test('smoothing is a moving average without a start at 0, and a gap stays one', () => {
  assert.deepEqual(series.smoothed([4, 4, null, 4], 0.9).map((value) => value && Number(value.toFixed(9))), [4, 4, null, 4]);
  assert.deepEqual(series.smoothed([0, 3], 0.5), [0, 2]);
  const [line, guide] = series.smooth([{label: 'a', x: [1, 2], y: [0, 3]}, {label: 'goal', x: [1, 2], y: [5, 6], guide: true}], 0.5);
  assert.deepEqual([line.y, line.measured, guide.y, guide.measured], [[0, 2], [0, 3], [5, 6], undefined]);
  assert.deepEqual(series.smooth([{label: 'a', x: [1], y: [7]}], 0)[0].y, [7]);
});

test('a logarithmic axis leaves out what it cannot show, and counts it', () => {
  const of = [{label: 'a', x: [0, 1, 2], y: [5, 0, 3], measured: [5, -1, 3]}, {label: 'goal', x: [0, 2], y: [0, 0], guide: true}];
  assert.deepEqual(series.aboveZero(of, false, true), {lines: [{label: 'a', x: [0, 1, 2], y: [5, null, 3], measured: [5, null, 3]}, {...of[1], y: [null, null]}], left: 1});
  assert.deepEqual(series.aboveZero(of, true, false).lines.map((line) => [line.x, line.y]), [[[1, 2], [0, 3]], [[2], [0]]]);
  assert.equal(series.aboveZero(of, true, true).left, 2);
});

test('a curve has two points', () => {
  assert.equal(series.isCurve([rank(0, [5], [1]), rank(1, [5], [1])]), false);
  assert.equal(series.isCurve([rank(0, [5], [1]), rank(1, [5, 6], [1, 2])]), true);
  assert.equal(series.isCurve([]), false);
});

test('axes have units that people read', () => {
  const name = (quantity, ...values) => values.map((value) => units.unitOf(quantity, value).name);
  assert.deepEqual(name('seconds', 0, 5e-6, 0.03, 1.5, 90, 119, 150, 7199, 7200, 1e6), ['s', 'µs', 'ms', 's', 's', 's', 'min', 'min', 'h', 'h']);
  assert.deepEqual(name('bytes', 0, 100, 1024, 3 * 2 ** 30), ['B', 'B', 'KiB', 'GiB']);
  assert.deepEqual(name('bytes/s', 5 * 2 ** 20), ['MiB/s']);
  assert.deepEqual(units.unitOf(undefined, 1e9), {factor: 1, name: ''});
  assert.equal(units.axisTitle('memory', units.unitOf('bytes', 2048)), 'memory (KiB)');
  assert.equal(units.axisTitle('step', units.unitOf(undefined, 5)), 'step');
});

test('metrics share a chart of at most two axes', () => {
  const charted = (split, metric, ...lines) => ({of: {split, metric}, drawn: lines.map((label) => ({label, x: [1], y: [1]}))});
  const goal = charted('test', 'loss', 'all ranks');
  goal.drawn.push({label: 'goal 1', x: [1], y: [1], guide: true});
  const made = runView.combined([charted('train', 'loss', 'rank 0', 'rank 1'), goal, charted('', 'memory_bytes', 'mean'), charted('', 'lr', 'mean')]);
  assert.deepEqual(made.lines.map((line) => [line.label, line.right ?? false, line.colour]),
    [['Training loss, rank 0', false, 0], ['Training loss, rank 1', false, 1], ['Evaluation: loss', false, 2], ['Memory', true, 3]]);
  assert.deepEqual([made.yLabel, made.yQuantity, made.rightLabel, made.rightQuantity], ['loss', undefined, 'memory in use', 'bytes']);
  const [loss, rate, lr] = [{split: 'train', metric: 'loss'}, {split: '', metric: 'samples_per_s'}, {split: '', metric: 'lr'}];
  assert.deepEqual([runView.hasAxis(lr, []), runView.hasAxis(lr, [loss]), runView.hasAxis(lr, [loss, rate]), runView.hasAxis({split: 'test', metric: 'loss'}, [loss, rate])], [true, true, false, true]);
});

test('how charts are looked at is a link, and the usual way is none', () => {
  const again = (text) => String(runView.runQueryOf(runView.runViewOf(new URLSearchParams(text))));
  assert.equal(again(''), '');
  const all = String(new URLSearchParams([['ranks', 'each'], ['x', 'time'], ['smoothing', '0.9'], ['log', 'y'], ['chart', 'train/loss'], ['chart', '/a,b&c']]));
  assert.equal(again(all), all);
  assert.equal(again('ranks=no&x=no&smoothing=2&log=z'), '');
});

test('a table is saved with its heads in one row, and numbers as numbers', () => {
  const cell = (text, span = 1) => ({text, span});
  assert.equal(series.tableCsv([[cell('', 1), cell('in place', 2)], [cell('Size'), cell('µs'), cell('GB/s')]], [[cell('8'), cell('1.5e-3'), cell('')], [cell('all', 2), cell('1,000')]]),
    'Size,in place µs,in place GB/s\r\n8,0.0015,\r\nall,all,"1,000"\r\n');
});

test('the way to a goal goes both ways', () => {
  assert.equal(series.goalShare(45, 90, true), 0.5);
  assert.equal(series.goalShare(4, 2, false), 0.5);
  assert.equal(series.goalShare(null, 2, false), 0);
  assert.equal(series.goalShare(95, 90, true), 1);
});

test('numbers and times', () => {
  assert.deepEqual([0, 0.5, 1234.5, 91.5, 1e-5, NaN, null].map((value) => format.number(value, 4)), ['0', '0.5', '1,235', '91.5', '0.00001', '–', '–']);
  assert.deepEqual([2e-6, 0.25, 1.234, 9.996, 61, 3600 * 2 + 61, null].map(format.seconds), ['2 µs', '250 ms', '1.23 s', '10.0 s', '61.0 s', '2 h 01 min', '–']);
  assert.equal(format.bytes(1536), '1.5 KiB');
});

// As in the master's description of RunRequest.
const text = {type: 'string'}, list = {type: 'array'}, flag = {type: 'boolean', default: false};
const count = {type: ['string', 'integer'], minimum: 1, maximum: 1024};
const tasks = (field) => ({...field, 'x-applies-to': 'tasks'}), task = (field) => ({...field, 'x-applies-to': 'training'}), command = (field) => ({...field, 'x-applies-to': 'commands'});
const FIELDS = {
  name: text, workers: {type: 'array', items: count}, task: tasks(text), rules: task(text), light: task(flag), set: task(list), backend: text,
  threads_per_worker: {type: ['string', 'number'], minimum: 0.1, maximum: 1024}, command: command(list), env: command(list), max_time: task({type: ['string', 'number'], minimum: 0.001, maximum: 7200, 'x-unit': 's'}),
  seed: {type: ['string', 'integer'], minimum: 0, maximum: 2 ** 64}, netem: tasks(text), timeline: tasks(flag),
};

test('what a field takes and goes with is the master\'s to say', () => {
  assert.equal(request.rangeText(FIELDS.threads_per_worker), '0.1 to 1,024');
  assert.equal(request.rangeText(FIELDS.workers), '1 to 1,024');
  assert.equal(request.rangeText(FIELDS.max_time), '1 ms to 2 h 00 min');
  assert.equal(request.rangeText({type: 'string', minimum: 1e-6, maximum: 1e6}), '0.000001 to 1,000,000');
  assert.equal(request.rangeText(FIELDS.seed), '');
  assert.equal(request.rangeText(FIELDS.task), '');
  assert.deepEqual(['task', 'measure', 'command'].map((kind) => ['task', 'light', 'env', 'backend', 'none'].map((name) => request.applies(FIELDS, name, kind))),
    [[true, true, false, true, false], [true, false, false, true, false], [false, false, true, true, false]]);
  // A master that does not know a field is not asked for it.
  const form = {...request.EMPTY, name: 'x', task: 't', synthetic: true, max_steps: '5', env: 'A=1', command: 'x'};
  assert.deepEqual(request.requestOf(form, FIELDS), {name: 'x', workers: ['1'], task: 't'});
});

test('fields without a place of their own are those that the master takes beside', () => {
  const fields = {...FIELDS, max_bad: task(count), profile: task(flag), task_text: task(text), collectives: {type: 'object'}, disk: text};
  const engines = [{name: 'slurm', usual: true, options: ['disk']}, {name: 'local', options: []}];
  const rest = (kind, chosen) => request.restOf(fields, kind, engines, chosen).map(([name]) => name);
  assert.deepEqual(rest('task', ''), ['max_bad', 'profile', 'disk']);
  assert.deepEqual(rest('task', 'local'), ['max_bad', 'profile']);
  assert.deepEqual(rest('command', 'local'), []);
  const form = {...request.EMPTY, name: 'r', task: 't', rest: {max_bad: ' 3', profile: true, disk: ''}};
  const made = request.requestOf(form, fields, engines);
  assert.deepEqual(made, {name: 'r', workers: ['1'], task: 't', max_bad: '3', profile: true});
  assert.equal(request.commandOf(made), 'mlbench run r 1 --task t --max-bad 3 --profile');
  assert.deepEqual(request.requestOf({...form, kind: 'command', command: 'true'}, fields, engines), {name: 'r', workers: ['1'], command: ['true']});
});

test('the request holds what was given, and the command says the same', () => {
  const form = {...request.EMPTY, name: ' mine ', workers: '1, 2', task: '1a', rules: '2021', threads_per_worker: '2', light: true, set: "a=1\n\n b=x y's \n"};
  const made = request.requestOf(form, FIELDS);
  assert.deepEqual(made, {name: 'mine', workers: ['1', '2'], task: '1a', rules: '2021', threads_per_worker: '2', light: true, set: ['a=1', "b=x y's"]});
  assert.equal(request.commandOf(made), `mlbench run mine 1 2 --task 1a --rules 2021 --threads-per-worker 2 --light --set a=1 --set 'b=x y'\\''s'`);
});

test('a data folder, a data set, a goal and convolutions go with training', () => {
  const fields = {...FIELDS, goal: task(text), data: task(text), data_dir: task(text), convolution: task(text)};
  const form = {...request.EMPTY, name: 'd', workers: '1', task: '1a', goal: ' Prec@1>=75', data: 'madelon', data_dir: ' /my data ', convolution: 'direct'};
  const made = request.requestOf(form, fields);
  assert.deepEqual(made, {name: 'd', workers: ['1'], task: '1a', goal: 'Prec@1>=75', data: 'madelon', data_dir: '/my data', convolution: 'direct'});
  assert.equal(request.commandOf(made), "mlbench run d 1 --task 1a --goal 'Prec@1>=75' --data madelon --data-dir '/my data' --convolution direct");
  assert.deepEqual(request.requestOf({...form, kind: 'command', command: 'true'}, fields), {name: 'd', workers: ['1'], command: ['true']});
});

test('how ranks communicate goes with tasks, and a timeline is named in the command', () => {
  const form = {...request.EMPTY, kind: 'measure', name: 'r', workers: '2', task: '0a', netem: 'latency=1ms;0>1:latency=2ms', timeline: true};
  const made = request.requestOf(form, FIELDS);
  assert.deepEqual(made, {name: 'r', workers: ['2'], task: '0a', netem: 'latency=1ms;0>1:latency=2ms', timeline: true});
  assert.equal(request.commandOf(made), `mlbench run r 2 --task 0a --netem 'latency=1ms;0>1:latency=2ms' --timeline r-timeline.json`);
  assert.deepEqual(request.requestOf({...form, kind: 'command', command: 'true'}, FIELDS), {name: 'r', workers: ['2'], command: ['true']});
});

test('an engine is told what it takes, and no other', () => {
  const fields = {...FIELDS, executor: text, image: text, slurm: list, setup: text, hosts: text, pod_overlay: text, host_network: flag, overlap: task(flag), comm_timeout: tasks(text),
    checkpoint_every: task(text), requeue: task(count)};
  const engines = [{name: 'local', options: ['image']}, {name: 'slurm', options: ['slurm', 'setup', 'image', 'requeue']},
    {name: 'kubernetes', usual: true, options: ['image', 'host_network', 'pod_overlay']}];
  assert.deepEqual(['', 'local', 'slurm', 'none'].map((chosen) => request.engineOf(engines, chosen)?.name), ['kubernetes', 'local', 'slurm', undefined]);
  assert.deepEqual(['', 'local', 'slurm'].map((chosen) => ['image', 'setup', 'pod_overlay', 'seed'].map((name) => request.takes(engines, chosen, name))),
    [[true, false, true, true], [true, false, false, true], [true, true, false, true]]);
  assert.equal(request.takes([], '', 'setup'), true, 'a master that tells nothing of its engines refuses by itself');

  const form = {...request.EMPTY, name: 'r', workers: '4', task: '1a', image: 'w:1', slurm: 'partition=gpu\nexclusive', setup: 'module load x\n',
    pod_overlay: '  spec:\n    hostPID: false\n\n', host_network: true, overlap: true, comm_timeout: '2m'};
  const slurm = request.requestOf({...form, executor: 'slurm'}, fields, engines);
  assert.deepEqual(slurm, {name: 'r', workers: ['4'], task: '1a', executor: 'slurm', comm_timeout: '2m', image: 'w:1', slurm: ['partition=gpu', 'exclusive'], setup: 'module load x\n', overlap: true});
  assert.equal(request.commandOf(slurm), 'mlbench run r 4 --task 1a --executor slurm --comm-timeout 2m --image w:1 --slurm-option partition=gpu --slurm-option exclusive --setup r-setup.sh --overlap');
  const again = request.requestOf({...form, executor: 'slurm', slurm: '', setup: '', image: '', checkpoint_every: 'epoch', requeue: '2'}, fields, engines);
  assert.equal(request.commandOf(again), 'mlbench run r 4 --task 1a --executor slurm --checkpoint-every epoch --requeue=2 --comm-timeout 2m --overlap');
  const usual = request.requestOf({...form, requeue: '2'}, fields, engines);
  assert.deepEqual(usual, {name: 'r', workers: ['4'], task: '1a', comm_timeout: '2m', image: 'w:1', host_network: true, pod_overlay: '  spec:\n    hostPID: false\n', overlap: true});
  assert.equal(request.commandOf(usual), 'mlbench run r 4 --task 1a --comm-timeout 2m --image w:1 --host-network --pod-overlay r-pod.yaml --overlap');
});

test('GPUs are asked for where the hosts of the executor may have some', () => {
  const fields = {...FIELDS, executor: text, gpu: flag};
  const engines = [{name: 'local', usual: true, gpus: 0}, {name: 'mpirun', gpus: null}, {name: 'kubernetes', gpus: 2}, {name: 'old'}];
  const asked = (executor) => request.requestOf({...request.EMPTY, name: 'r', workers: '2', kind: 'command', command: 'true', gpu: true, executor}, fields, engines).gpu ?? false;
  assert.deepEqual(['', 'local', 'mpirun', 'kubernetes', 'old'].map(asked), [false, false, true, true, true]);
  assert.equal(request.commandOf({name: 'r', workers: ['2'], gpu: true, command: ['true']}), 'mlbench run r 2 --gpu -- true');
});

test('a command is split into words as a shell would, without a shell', () => {
  assert.deepEqual(request.commandWords(`python3 'my script.py' --x="a b" c\\ d {rank} '' $HOME`), ['python3', 'my script.py', '--x=a b', 'c d', '{rank}', '', '$HOME']);
  assert.equal(request.commandWords("python3 'open"), null);
  const form = {...request.EMPTY, kind: 'command', name: 'c', workers: '2', command: 'python3 t.py {rank}', backend: 'mine', light: true, env: 'A=1\nB=2'};
  assert.deepEqual(request.requestOf(form, FIELDS), {name: 'c', workers: ['2'], command: ['python3', 't.py', '{rank}'], backend: 'mine', env: ['A=1', 'B=2']});
  assert.equal(request.commandOf(request.requestOf(form, FIELDS)), 'mlbench run c 2 --backend mine --env A=1 --env B=2 -- python3 t.py {rank}');
  assert.equal(request.isComplete({...form, command: "'open"}), false);
});

test('events are read however the stream is cut', () => {
  const stream = 'event: run\ndata: {"a":1}\n\n: still here\n\nevent: end\ndata: {}\n\ndata: x\ndata: y\n\nevent: run\ndata: ha';
  const wanted = [{name: 'run', data: '{"a":1}'}, {name: 'end', data: '{}'}, {name: 'message', data: 'x\ny'}];
  for (let size = 1; size <= stream.length; ++size) {
    const reader = new events.EventReader();
    const got = [];
    for (let at = 0; at < stream.length; at += size) got.push(...reader.push(stream.slice(at, at + size)));
    assert.deepEqual(got, wanted, `pieces of ${size}`);
  }
});

test('spans of a trace lie below those that they lie within, rank by rank', () => {
  const span = (pid, tid, name, ts, dur, cat = 'phase') => ({name, cat, ph: 'X', pid, tid, ts, dur});
  const rows = spans.rowsOf({traceEvents: [
    {name: 'thread_name', ph: 'M', pid: 0, tid: 1, args: {name: 'training thread'}},
    span(1, 1, 'fwd_pass', 0, 10), span(0, 0, 'step 3', 0, 20, 'step'),
    span(0, 1, 'layer', 2, 3, 'layer'), span(0, 1, 'fwd_pass', 0, 10), span(0, 1, 'backprop', 10, 5)]});
  assert.deepEqual(rows.map((row) => [row.rank, row.name, row.depth]), [[0, 'training thread', 2], [1, '', 1]]);
  assert.deepEqual(rows[0].spans.map((one) => [one.name, one.level]), [['fwd_pass', 0], ['layer', 1], ['backprop', 0]]);
});

test('sizes of text and room between boxes are those of the scale', () => {
  const style = readFileSync(join(root, 'src/style.css'), 'utf8');
  const rules = style.slice(style.indexOf('}') + 1);
  const others = [...rules.matchAll(/(?<=[;{\s])(font-size|padding|margin|gap|border-radius)[a-z-]*:([^;}]*)/g)].flatMap(([text, of, value]) => {
    const left = value.replaceAll(/var\(--(text|space|radius)-?[a-z0-9]*\)|calc\(-1 \* |!important/g, '');
    return (of === 'font-size' ? /[\d.]+(rem|px)/ : /[\d.]+rem/).test(left) || (of === 'border-radius' && /[\d.]+px/.test(left.replaceAll(/\b(2|3|99)px/g, ''))) ? [text] : [];
  });
  assert.deepEqual(others, []);
  assert.ok([...rules.matchAll(/var\(--space-/g)].length > 50);
});
