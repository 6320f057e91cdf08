// A run that a client of MLflow recorded: where its client's link "View run" leads.

import {get, segment, usePolled} from '../api';
import {Chart} from '../chart';
import {number, stamp} from '../format';
import type {Line} from '../series';
import {TableBox} from '../table';
import type {State} from '../types';
import {Empty, ErrorNote, Facts, Loading, StateBadge} from '../ui';

const BASE = '/api/2.0/mlflow';
const PERIOD_MS = 3000;
const MOST_CHARTS = 24, MOST_POINTS = 2000;
const STATES: Record<string, State> = {RUNNING: 'running', SCHEDULED: 'queued', FINISHED: 'finished', FAILED: 'failed', KILLED: 'stopped'};

interface Pair { key: string; value: string }
interface Value { key: string; value: number | string; step: number }  // a text: "NaN", "Infinity"
interface Run {
  info: {run_id: string; run_name: string; experiment_id: string; user_id: string; status: string; start_time: number; end_time?: number};
  data: {metrics: Value[]; params: Pair[]; tags: Pair[]};
}
interface Shown { run: Run; experiment: string; lines: Map<string, Line> }

const plain = (value: number | string): number | null => typeof value === 'number' ? value : null;
const date = (ms: number | undefined): string => stamp(ms === undefined ? null : new Date(ms).toISOString());

async function load(id: string): Promise<Shown> {
  const {run} = await get<{run: Run}>(`${BASE}/runs/get?run_id=${segment(id)}`);
  const {experiment} = await get<{experiment: {name: string}}>(`${BASE}/experiments/get?experiment_id=${segment(run.info.experiment_id)}`);
  const curves = run.data.metrics.slice(0, MOST_CHARTS).map(async ({key}): Promise<[string, Line]> => {
    const query = new URLSearchParams({run_id: id, metric_key: key, max_results: String(MOST_POINTS)});
    const {metrics} = await get<{metrics: Value[]}>(`${BASE}/metrics/get-history?${query}`);
    return [key, {label: key, x: metrics.map((one) => one.step), y: metrics.map((one) => plain(one.value))}];
  });
  return {run, experiment: experiment.name, lines: new Map(await Promise.all(curves))};
}

function Pairs({title, file, rows}: {title: string; file: string; rows: [string, string][]}) {
  return rows.length === 0 ? null : (
    <TableBox title={title} file={file} shown={title}>
      <table>
        <thead><tr><th>Name</th><th>Value</th></tr></thead>
        <tbody>{rows.map(([name, value]) => <tr key={name}><td>{name}</td><td>{value}</td></tr>)}</tbody>
      </table>
    </TableBox>
  );
}

export function MlflowPage({id}: {id: string}) {
  const polled = usePolled(`mlflow ${id}`, () => load(id), PERIOD_MS);
  if (polled.data === null) return polled.error === '' ? <Loading what="the run" /> : <ErrorNote text={polled.error} again={polled.again} />;
  const {run: {info, data}, experiment, lines} = polled.data;
  const file = (what: string) => `${info.run_name}-${what}`;
  const charted = [...lines].filter(([, line]) => line.x.length > 1);
  return (
    <>
      <div class="page-head"><div><h1>{info.run_name}</h1><p class="soft">recorded by a client of MLflow</p></div></div>
      <ErrorNote text={polled.error} again={polled.again} />
      <Facts rows={[['State', <StateBadge state={STATES[info.status] ?? 'running'} />], ['Experiment', experiment], ['User', info.user_id],
        ['Started', date(info.start_time)], ['Ended', date(info.end_time)], ['Run of MLflow', info.run_id]]} />
      {data.metrics.length === 0 && <Empty title="No metric is on record yet." />}
      <div class="charts">
        {charted.map(([key, line]) => <Chart key={key} title={key} file={file(key)} xLabel="step" yLabel={key} lines={[line]} />)}
      </div>
      <Pairs title="Last values of metrics" file={file('metrics')} rows={data.metrics.map(({key, value}) => [key, typeof value === 'number' ? number(value, 4) : value])} />
      <Pairs title="Parameters" file={file('parameters')} rows={data.params.map(({key, value}) => [key, value])} />
      <Pairs title="Tags" file={file('tags')} rows={data.tags.map(({key, value}) => [key, value])} />
    </>
  );
}
