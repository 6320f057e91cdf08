// Runs with their repeats side by side, as `mlbench compare` takes them: figures, quality over time, where the time goes.

import {useEffect, useMemo, useState} from 'preact/hooks';
import {get, segment, usePolled} from '../api';
import {Chart, useZoom} from '../chart';
import {ChosenRuns} from '../chosen_runs';
import {CollectiveCharts} from '../collectives_view';
import {heading, measuredRows, pairing, speedUps, wordsOf, type ComparedRow} from '../comparison';
import {NONE, number, plural, seconds, taskLabel} from '../format';
import {compareHref, go, runHref} from '../router';
import {columnOf, type Column} from '../run_list';
import {KIND_TITLES, kinds, loadSeries, LOSS, RATE, type Measured} from '../run_series';
import {lines, type Line} from '../series';
import {TableBox} from '../table';
import type {ComparedRun, Comparison, Figure, FullRecord, RepeatedRun, RunPage} from '../types';
import {Empty, ErrorNote, Loading, Segmented, StateBadge} from '../ui';

const PERIOD_MS = 3000;
const COMPARED = [LOSS, RATE];

interface Loaded {
  key: string;  // what was asked for
  comparison: Comparison;
  columns: Column[];
  groups: RepeatedRun[];
  repeats: ComparedRun[][];  // of each group
  records: FullRecord[];     // of the repeat shown
  series: Measured[][];      // of that, in the order of COMPARED
}

async function load(names: string[]): Promise<Loaded> {
  const [comparison, {figures}] = await Promise.all([get<Comparison>(`/compare?runs=${names.map(segment).join(',')}`), get<{figures: Figure[]}>('/figures')]);
  const groups = comparison.repeated.runs;
  const [records, series] = await Promise.all([
    Promise.all(groups.map((group) => get<FullRecord>(`/runs/${segment(group.shown)}`))),
    Promise.all(groups.map((group) => loadSeries(group.shown, COMPARED, 'merged'))),
  ]);
  const repeats = groups.map((group) => comparison.runs.filter((run) => group.repeats.includes(run.name)));
  return {key: names.join(','), comparison, columns: figures.map(columnOf), groups, repeats, records, series};
}

type Axis = 'time' | 'epoch';

function Charts({data}: {data: Loaded}) {
  const [axis, setAxis] = useState<Axis>('time');
  const overQuality = useZoom(axis), overSteps = useZoom('step');
  const names = data.groups.map((group) => group.name);
  const made = useMemo(() => {
    const metrics = [...new Set(data.records.flatMap((run) => run.goal ? [run.goal.metric] : []))];
    const quality = metrics.map((metric) => {
      const lines: Line[] = data.records.flatMap((run, i) => {
        if (run.goal?.metric !== metric) return [];
        const seen = run.evaluations.filter((one) => one.split === run.goal!.split && one.metrics[metric] !== undefined);
        return [{label: names[i]!, colour: i, x: seen.map((one) => axis === 'time' ? one.train_s : one.epoch), y: seen.map((one) => one.metrics[metric] ?? null)}];
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
      {data.groups.some((group) => group.runs > 1) && <p class="soft">Of runs with repeats the one of the median time is drawn: {data.groups.filter((group) => group.runs > 1).map((group) => group.shown).join(', ')}</p>}
      <div class="charts">
        {made.quality.map(({metric, lines}) => (
          <Chart key={metric} title={`Evaluation: ${metric}`} file={file(metric)} {...(axis === 'time' ? {xLabel: 'train clock', xQuantity: 'seconds' as const} : {xLabel: 'epoch'})} yLabel={metric} zoom={overQuality} lines={lines} empty="No run has an evaluation yet." />
        ))}
        <Chart title="Training loss" file={file('train-loss')} xLabel="step" yLabel="loss, mean of ranks" zoom={overSteps} lines={made.overSteps[0]!} empty="No step is on record yet." />
        <Chart title="Throughput" file={file('throughput')} xLabel="step" yLabel="samples per second, all ranks" fromZero zoom={overSteps} lines={made.overSteps[1]!} empty="No step is on record yet." />
        <Chart title="Where the time goes" file={file('time')} kind="bars" fromZero yMax={100} xLabel="run" yLabel="percent of rank 0's train clock" categories={names} lines={made.steps}
          empty="Known when the runs are over." />
      </div>
    </>
  );
}

function Figures({data}: {data: Loaded}) {
  const {comparison: {repeated}, columns, groups, repeats, records} = data;
  const said = (figure: string) => (i: number) => wordsOf(groups[i]!, figure);
  const after = `${repeated.metric} after ${seconds(repeated.after_s)}`;
  const rows: ComparedRow[] = [
    ['Task', (i) => taskLabel(records[i]!), true], ['Goal', (i) => records[i]!.goal ? `${records[i]!.goal!.metric} ${number(records[i]!.goal!.target, 4)}${records[i]!.limits['light'] ? ', light' : ''}` : 'none', true],
    ['Division', (i) => records[i]!.division ?? NONE, true], ['Workers', (i) => String(records[i]!.workers), true], ['CPUs per worker', (i) => String(records[i]!.engine?.cpus ?? records[i]!.threads_per_worker), true],
    ['Framework', (i) => records[i]!.framework ?? NONE, true], ['Backend', (i) => records[i]!.comm_stack ?? records[i]!.backend ?? NONE, true], ['Seeds', (i) => repeats[i]!.map((run) => run.seed ?? NONE).join(', '), true],
    ['Overrides', (i) => records[i]!.overrides.map((one) => `${one.key}=${one.value}`).join(' ') || 'none', true],
    ['Build', (i) => String(records[i]!.environment['git_describe'] ?? NONE), true],
    ['Repeats', (i) => String(groups[i]!.runs), false],
    ['Time to goal, s', (i) => records[i]!.goal ? said('time_to_goal_s')(i) : NONE, false],
    ...measuredRows(columns, groups, repeats),
    ['Samples/s', said('samples_per_s'), false], [after, said('value_after'), false], ['Communication / compute', said('communication_per_compute'), false],
    ['Ratio of time to goal', said('time_to_goal_ratio'), false], ['Ratio of samples/s', said('samples_per_s_ratio'), false],
    [`Ratio of ${after}`, said('value_after_ratio'), false], ['Repeats were compared', (i) => pairing(groups[i]!), false],
    ['Differs in', (i) => groups[i]!.differs_in.join(', ').replaceAll('_', ' ') || NONE, false],
    ...speedUps.map(([name, cell]): ComparedRow => [name, (i) => cell(groups[i]!.scaling), false]),
  ];
  return (
    <>
      <h2>Figures</h2>
      <TableBox title="Figures" file="compare">
        <table class="figures compare">
          <thead><tr><th><span class="hidden">Figure</span></th>{groups.map((group, i) => (
            <th key={group.name} class="num"><span class="swatch" style={{background: `var(--series-${i % 9})`}} /> <a href={runHref(group.shown)}>{group.name}</a><br /><StateBadge state={records[i]!.state} /></th>
          ))}</tr></thead>
          <tbody>
            {rows.map(([name, cell, setting], r) => {
              const cells = groups.map((_, i) => cell(i));
              if (!setting && cells.every((text) => text === NONE)) return null;
              const differs = setting && new Set(cells).size > 1;
              return <tr key={name} class={`${differs ? 'differs' : ''} ${r > 0 && setting !== rows[r - 1]![2] ? 'first' : ''}`}><th>{name}{differs && <span class="mark" title="the runs differ in this"> ≠</span>}</th>{cells.map((text, i) => <td class="num" key={i}>{text}</td>)}</tr>;
            })}
          </tbody>
        </table>
      </TableBox>
    </>
  );
}

// Benchmarks among the runs: a line each, named by back end and ranks, too.
function Collectives({groups, records}: {groups: RepeatedRun[]; records: FullRecord[]}) {
  const runs = useMemo(() => records.flatMap((run, i) => run.collectives
    ? [{label: `${groups[i]!.name} (${run.comm_stack ?? run.backend}, ${plural(run.workers ?? 0, 'rank')})`, rows: run.collectives.results}] : []), [groups, records]);
  return runs.length === 0 ? null : <CollectiveCharts runs={runs} file="compare" empty="No row is on record yet." />;
}

export function ComparePage({query}: {query: URLSearchParams}) {
  const names = [...new Set((query.get('runs') ?? '').split(',').filter((name) => name !== ''))];
  const key = names.join(',');
  const known = usePolled('newest', () => get<RunPage>('/runs?limit=200'), 0).data?.runs ?? [];
  const [live, setLive] = useState(true);
  const polled = usePolled(`compare ${key}`, async () => names.length === 0 ? null : load(names), live ? PERIOD_MS : 0);
  const data = polled.data;
  useEffect(() => { if (data) setLive(data.comparison.runs.some((run) => run.state === 'running' || run.state === 'queued')); }, [data]);
  useEffect(() => setLive(true), [key]);
  const compared = new Set([...names, ...data?.comparison.runs.map((run) => run.name) ?? []]);
  const colourOf = (name: string) => data ? data.groups.findIndex((group) => group.name === name || group.repeats.includes(name)) : names.indexOf(name);
  const show = (list: string[]) => go(list.length === 0 ? '#/compare' : compareHref(list), true);

  return (
    <>
      <div class="page-head"><div><h1>Compare</h1><p class="soft">{data ? heading(data.comparison) : 'Runs side by side'}</p></div></div>
      <ChosenRuns names={names} known={known} taken={compared} colourOf={colourOf} onChange={show} />
      <ErrorNote text={polled.error} again={polled.again} />
      {names.length === 0 && <Empty title="Nothing to compare yet."><p class="soft">Add runs above, or select them on the page of <a href="#/runs">all runs</a>.</p></Empty>}
      {names.length > 0 && data === null && polled.error === '' && <Loading what="runs" />}
      {data && data.key === key && <><Figures data={data} />{[...new Set([...data.comparison.repeated.notes, ...data.comparison.notes])].map((note) => <p class="soft" key={note}>{note}</p>)}
        <Collectives groups={data.groups} records={data.records} />{data.records.some((run) => !run.collectives) && <Charts data={data} />}</>}
    </>
  );
}
