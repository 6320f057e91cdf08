// Runs side by side: figures, quality over time, where the time goes.

import {useEffect, useMemo, useState} from 'preact/hooks';
import {get, segment, usePolled} from '../api';
import {Chart} from '../chart';
import {CollectiveCharts} from '../collectives_view';
import {heading, speedUps} from '../comparison';
import {NONE, number, percent, plural, seconds, taskLabel} from '../format';
import {compareHref, go, runHref} from '../router';
import {KIND_TITLES, kinds, loadSeries, LOSS, RATE, type Measured} from '../run_series';
import {lines, type Line} from '../series';
import type {Comparison, FullRecord, RunPage} from '../types';
import {Empty, ErrorNote, Loading, Segmented, StateBadge} from '../ui';

const PERIOD_MS = 3000;
const COMPARED = [LOSS, RATE];

interface Loaded {
  comparison: Comparison;
  records: FullRecord[];
  series: Measured[][];  // of each run, in the order of COMPARED
}

async function load(names: string[]): Promise<Loaded> {
  const [comparison, records, series] = await Promise.all([
    get<Comparison>(`/compare?runs=${names.map(segment).join(',')}`),
    Promise.all(names.map((name) => get<FullRecord>(`/runs/${segment(name)}`))),
    Promise.all(names.map((name) => loadSeries(name, COMPARED, 'merged'))),
  ]);
  return {comparison, records, series};
}

type Axis = 'time' | 'epoch';

function Charts({names, data}: {names: string[]; data: Loaded}) {
  const [axis, setAxis] = useState<Axis>('time');
  const made = useMemo(() => {
    const metrics = [...new Set(data.records.flatMap((run) => run.goal ? [run.goal.metric] : []))];
    const quality = metrics.map((metric) => {
      const lines: Line[] = data.records.flatMap((run, i) => {
        if (run.goal?.metric !== metric) return [];
        const seen = run.evaluations.filter((one) => one.split === run.goal!.split && one.metrics[metric] != null);
        return [{label: run.name, colour: i, x: seen.map((one) => axis === 'time' ? one.train_s : one.epoch), y: seen.map((one) => one.metrics[metric]!)}];
      });
      const all = lines.flatMap((line) => line.x);
      const targets = [...new Set(data.records.flatMap((run) => run.goal?.metric === metric ? [run.goal.target] : []))];
      if (all.length > 0) {
        const ends = [Math.min(...all), Math.max(...all)];
        for (const target of targets) lines.push({label: `goal ${number(target, 4)}`, x: ends, y: [target, target], guide: true});
      }
      return {metric, lines};
    });
    const overSteps = COMPARED.map((_, c) => data.series.flatMap((measured, i): Line[] =>
      lines(measured[c]!.series.slice(0, 1), 'step', 0).map((line) => ({...line, label: names[i]!, colour: i}))));
    const sums = data.records.map((run) => kinds.reduce((sum, kind) => sum + (run.steps_s[kind] ?? 0), 0));
    const steps = kinds.filter((kind) => data.records.some((run) => (run.steps_s[kind] ?? 0) > 0)).map((kind): Line => ({
      label: KIND_TITLES[kind] ?? kind, colour: kinds.indexOf(kind), x: names.map((_, i) => i),
      y: data.records.map((run, i) => sums[i]! > 0 ? (run.steps_s[kind] ?? 0) / sums[i]! * 100 : null),
    }));
    return {quality, overSteps, steps};
  }, [data, axis]);
  const file = (what: string) => `compare-${what}`;
  return (
    <>
      <div class="section-head">
        <h2>Charts</h2>
        <Segmented label="Quality over" value={axis} choices={[['time', 'Train time'], ['epoch', 'Epochs']]} onChoose={setAxis} />
      </div>
      <div class="charts">
        {made.quality.map(({metric, lines}) => (
          <Chart key={metric} title={`Evaluation: ${metric}`} file={file(metric)} xLabel={axis === 'time' ? 'seconds of the train clock' : 'epoch'} yLabel={metric} lines={lines} empty="No run has an evaluation yet." />
        ))}
        <Chart title="Training loss" file={file('train-loss')} xLabel="step" yLabel="loss, mean of ranks" lines={made.overSteps[0]!} empty="No step is on record yet." />
        <Chart title="Throughput" file={file('throughput')} xLabel="step" yLabel="samples per second, all ranks" fromZero lines={made.overSteps[1]!} empty="No step is on record yet." />
        <Chart title="Where the time goes" file={file('time')} kind="bars" fromZero yMax={100} xLabel="run" yLabel="percent of rank 0's train clock" categories={names} lines={made.steps}
          empty="Known when the runs are over." />
      </div>
    </>
  );
}

function Figures({data}: {data: Loaded}) {
  const {comparison, records} = data;
  const rows: [string, (i: number) => string, boolean][] = [
    ['Task', (i) => taskLabel(records[i]!), true], ['Goal', (i) => records[i]!.goal ? `${records[i]!.goal!.metric} ${number(records[i]!.goal!.target, 4)}${records[i]!.limits['light'] ? ', light' : ''}` : 'none', true],
    ['Division', (i) => records[i]!.division ?? NONE, true], ['Workers', (i) => String(records[i]!.workers), true], ['CPUs per worker', (i) => String(records[i]!.threads_per_worker), true],
    ['Framework', (i) => records[i]!.framework ?? NONE, true], ['Backend', (i) => records[i]!.comm_stack ?? records[i]!.backend ?? NONE, true], ['Seed', (i) => String(records[i]!.seed), true],
    ['Overrides', (i) => records[i]!.overrides.map((one) => `${one.key}=${one.value}`).join(' ') || 'none', true],
    ['Build', (i) => String(records[i]!.environment['git_describe'] ?? NONE), true],
    ['Time to goal', (i) => seconds(comparison.runs[i]!.time_to_goal_s), false], ['Best value', (i) => number(records[i]!.goal?.value, 5), false], ['Train clock', (i) => seconds(comparison.runs[i]!.train_s), false],
    ['Samples/s', (i) => number(comparison.runs[i]!.samples_per_s), false], ['Communication', (i) => percent(comparison.runs[i]!.communication_share), false],
    ...speedUps.map(([name, cell]): [string, (i: number) => string, boolean] => [name, (i) => cell(comparison.runs[i]!), false]),
  ];
  return (
    <div class="scroll panel" tabIndex={0} role="region" aria-label="Figures">
      <table class="figures compare">
        <thead><tr><th><span class="hidden">Figure</span></th>{records.map((run, i) => (
          <th key={run.name} class="num"><span class="swatch" style={{background: `var(--series-${i % 9})`}} /> <a href={runHref(run.name)}>{run.name}</a><br /><StateBadge state={run.state} /></th>
        ))}</tr></thead>
        <tbody>
          {rows.map(([name, cell, setting], r) => {
            const cells = records.map((_, i) => cell(i));
            if (!setting && cells.every((text) => text === NONE)) return null;
            const differs = setting && new Set(cells).size > 1;
            return <tr key={name} class={`${differs ? 'differs' : ''} ${r > 0 && setting !== rows[r - 1]![2] ? 'first' : ''}`}><th>{name}{differs && <span class="mark" title="the runs differ in this"> ≠</span>}</th>{cells.map((text, i) => <td class="num" key={i}>{text}</td>)}</tr>;
          })}
        </tbody>
      </table>
    </div>
  );
}

// Benchmarks among the runs: a line each, named by back end and ranks, too.
function Collectives({records}: {records: FullRecord[]}) {
  const runs = useMemo(() => records.flatMap((run) => run.collectives
    ? [{label: `${run.name} (${run.comm_stack ?? run.backend}, ${plural(run.workers ?? 0, 'rank')})`, rows: run.collectives.results}] : []), [records]);
  return runs.length === 0 ? null : <CollectiveCharts runs={runs} file="compare" empty="No row is on record yet." />;
}

export function ComparePage({query}: {query: URLSearchParams}) {
  const names = [...new Set((query.get('runs') ?? '').split(',').filter((name) => name !== ''))];
  const key = names.join(',');
  const known = usePolled('newest', () => get<RunPage>('/runs?limit=200'), 0).data?.runs ?? [];
  const [live, setLive] = useState(true);
  const polled = usePolled(`compare ${key}`, async () => names.length === 0 ? null : load(names), live ? PERIOD_MS : 0);
  const data = polled.data;
  useEffect(() => { if (data) setLive(data.records.some((run) => run.state === 'running' || run.state === 'queued')); }, [data]);
  useEffect(() => setLive(true), [key]);
  const others = known.filter((run) => run.state !== 'damaged' && !names.includes(run.name));
  const show = (list: string[]) => go(list.length === 0 ? '#/compare' : compareHref(list), true);

  return (
    <>
      <div class="page-head"><div><h1>Compare</h1><p class="soft">{data ? heading(data.comparison) : 'Runs side by side'}</p></div></div>
      <div class="toolbar">
        {names.map((name, i) => (
          <span key={name} class="chip"><span class="swatch" style={{background: `var(--series-${i % 9})`}} />{name}
            <button type="button" class="quiet" aria-label={`Take ${name} away`} onClick={() => show(names.filter((one) => one !== name))}>✕</button></span>
        ))}
        {others.length > 0 && names.length < 12 && (
          <select aria-label="Add a run" value="" onChange={(event) => show([...names, event.currentTarget.value])}>
            <option value="">Add a run …</option>
            {others.map((run) => <option key={run.name} value={run.name}>{run.name}</option>)}
          </select>
        )}
      </div>
      <ErrorNote text={polled.error} again={polled.again} />
      {names.length === 0 && <Empty title="Nothing to compare yet."><p class="soft">Add runs above, or select them on the page of <a href="#/runs">all runs</a>.</p></Empty>}
      {names.length > 0 && data === null && polled.error === '' && <Loading what="runs" />}
      {data && data.records.length === names.length && <><Figures data={data} />{data.comparison.notes.map((note) => <p class="soft" key={note}>{note}</p>)}
        <Collectives records={data.records} />{data.records.some((run) => !run.collectives) && <Charts names={names} data={data} />}</>}
    </>
  );
}
