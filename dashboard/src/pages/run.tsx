// One run: how it stands, its charts as they grow, where the time goes, what it ran on, its logs.

import type {ComponentChildren} from 'preact';
import {useEffect, useMemo, useState} from 'preact/hooks';
import {download, get, post, remove, segment, textOf, useEvents, usePolled} from '../api';
import {Chart} from '../chart';
import {wrongOf} from '../collectives';
import {CollectiveCharts, CollectiveTable, Pairs} from '../collectives_view';
import {bytes, NONE, number, percent, plural, seconds, stamp, taskLabel} from '../format';
import {Logs} from '../logs';
import {Notes} from '../notes';
import {compareHref, go, runHref, timelineHref} from '../router';
import {charted, idOf, isOverTime, isSame, KIND_TITLES, kindOf, kinds, loadSeries, LOSS, metricsOf, titleOf, type Measured, type Ranks} from '../run_series';
import {average, labelOf, lines, type Line, type XAxis} from '../series';
import type {Exchange, FullRecord, Json, Metric, Progress, RunSummary, SeriesPoints} from '../types';
import {Dialog, ErrorNote, Facts, GoalBar, Loading, Segmented, StateBadge} from '../ui';

const PERIOD_MS = 2000;
const isActive = (state: string): boolean => state === 'running' || state === 'queued';

type Created = {runs: RunSummary[]};

function Actions({run, onChange}: {run: RunSummary; onChange: () => void}) {
  const [busy, setBusy] = useState('');
  const [error, setError] = useState('');
  const [asking, setAsking] = useState<'' | 'stop' | 'delete'>('');
  const active = isActive(run.state);
  const act = async (what: string, action: () => Promise<void>) => {
    setBusy(what);
    setError('');
    setAsking('');
    try {
      await action();
    } catch (problem) {
      setError(textOf(problem));
    }
    setBusy('');
  };
  const path = `/runs/${segment(run.name)}`;
  const stop = () => act('stop', async () => {
    await post(`${path}/stop`);
    onChange();
  });
  const retry = () => act('retry', async () => {
    const [made] = (await post<Created>(`${path}/retry`)).runs;
    if (made) go(runHref(made.name));
  });
  const erase = () => act('delete', async () => {
    await remove(path);
    go('#/runs');
  });
  return (
    <>
      <div class="page-actions">
        {active && <button type="button" class="danger" disabled={busy !== ''} onClick={() => setAsking('stop')}>{busy === 'stop' ? 'Stopping …' : 'Stop'}</button>}
        {!active && <button type="button" disabled={busy !== ''} onClick={() => void retry()} title="The same specification once more">Retry</button>}
        <button type="button" disabled={busy !== ''} onClick={() => void act('download', () => download(run.name))}>{busy === 'download' ? 'Downloading …' : 'Download'}</button>
        <a class="button" href={timelineHref(run.name)}>Timeline</a>
        <a class="button" href={compareHref([run.name])}>Compare</a>
        {!active && <button type="button" class="danger" disabled={busy !== ''} onClick={() => setAsking('delete')}>Delete</button>}
      </div>
      <ErrorNote text={error} />
      {asking !== '' && (
        <Dialog title={asking === 'stop' ? `Stop ${run.name}?` : `Delete ${run.name}?`} onClose={() => setAsking('')}>
          <p>{asking === 'stop' ? 'It ends as stopped. What it measured so far is kept.' : 'Everything that it recorded goes with it.'}</p>
          <div class="dialog-actions">
            <button type="button" onClick={() => setAsking('')}>Cancel</button>
            <button type="button" class="danger" onClick={() => void (asking === 'stop' ? stop() : erase())}>{asking === 'stop' ? 'Stop the run' : 'Delete the run'}</button>
          </div>
        </Dialog>
      )}
    </>
  );
}

interface Loaded {
  charts: Measured[];
  kinds: Measured[];   // of all ranks
  shares: Measured[];  // of all ranks, or of each
}

const NOTHING: Loaded = {charts: [], kinds: [], shares: []};

async function load(run: string, ranks: Ranks, goal: Metric | null | undefined): Promise<Loaded> {
  const metrics = await metricsOf(run);
  const present = kinds.map(kindOf).filter((kind) => metrics.some((one) => isSame(one, kind)));
  const [charts, all] = await Promise.all([loadSeries(run, charted(metrics, goal), ranks), loadSeries(run, present, 'merged')]);
  return {charts, kinds: all, shares: ranks === 'merged' ? all : await loadSeries(run, present, ranks)};
}

function Breakdown({run, data, x, start_us}: {run: string; data: Loaded; x: XAxis; start_us: number}) {
  const present = kinds.filter((kind) => data.kinds.some((one) => isSame(one.of, kindOf(kind)) && one.series.length > 0));
  const seriesOf = (measured: Measured[], kind: string): SeriesPoints[] => measured.find((one) => isSame(one.of, kindOf(kind)))?.series ?? [];
  const columns = [...new Set(present.flatMap((kind) => seriesOf(data.shares, kind).map(labelOf)))];
  const share = (kind: string, column: string): number => {
    const found = seriesOf(data.shares, kind).find((one) => labelOf(one) === column);
    return found ? average(found) : 0;
  };
  const whole = (kind: string): number => average(seriesOf(data.kinds, kind)[0]!);
  const all = present.reduce((sum, kind) => sum + whole(kind), 0);
  const area = useMemo((): Line[] => present.map((kind) => {
    const [line] = lines(seriesOf(data.kinds, kind), x, start_us);
    return {label: KIND_TITLES[kind] ?? kind, colour: kinds.indexOf(kind), x: line!.x, y: line!.y.map((value) => value === null ? null : value * 1e3)};
  }), [data, x, start_us]);
  const note = present.flatMap((kind) => seriesOf(data.kinds, kind)).find((one) => one.merge !== undefined);
  return (
    <div class="charts two">
      <Chart title="Step time by kind" file={`${run}-step-kinds`} kind="stacked" fromZero xLabel={x === 'step' ? 'step' : 'seconds'}
        yLabel="milliseconds per step" note={note ? labelOf(note) : ''} lines={area} empty="No step is on record yet." />
      {present.length > 0 && <div class="panel scroll" tabIndex={0} role="region" aria-label="Step time by kind, as a table">
        <table class="figures">
          <thead><tr><th>Average per step</th>{columns.map((column) => <th class="num" key={column}>{column}</th>)}<th class="num">Share</th></tr></thead>
          <tbody>
            {present.map((kind) => (
              <tr key={kind}>
                <th><span class="swatch" style={{background: `var(--series-${kinds.indexOf(kind)})`}} /> {KIND_TITLES[kind]}</th>
                {columns.map((column) => <td class="num" key={column}>{seconds(share(kind, column))}</td>)}
                <td class="num">{percent(all > 0 ? whole(kind) / all : null)}</td>
              </tr>
            ))}
            <tr class="total"><th>together</th>{columns.map((column) => <td class="num" key={column}>{seconds(present.reduce((sum, kind) => sum + share(kind, column), 0))}</td>)}<td class="num" /></tr>
          </tbody>
        </table>
      </div>}
    </div>
  );
}

// Waiting for the slowest rank and moving bytes, as the record has it.
function Exchanges({exchange}: {exchange: Exchange}) {
  const [atLeast, atMost] = exchange.exact ? ['', ''] : ['at least ', 'at most '];
  return (
    <div class="panel scroll" tabIndex={0} role="region" aria-label="Wait and transfer of each rank">
      <table class="figures">
        <thead><tr><th>Communication, {plural(exchange.steps, 'step')}</th><th class="num">wait for the slowest rank</th><th class="num">transfer</th></tr></thead>
        <tbody>
          {exchange.wait_s.map((wait, rank) => (
            <tr key={rank}><th>rank {rank}</th><td class="num">{atLeast}{seconds(wait)}</td><td class="num">{atMost}{seconds(exchange.transfer_s[rank])}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Charts({run, active, by, x}: {run: FullRecord; active: boolean; by: Ranks; x: XAxis}) {
  const polled = usePolled(`series ${run.name} ${active} ${by}`, () => load(run.name, by, run.goal), active ? PERIOD_MS : 0);
  const [kept, setKept] = useState<Loaded>(NOTHING);
  useEffect(() => { if (polled.data) setKept(polled.data); }, [polled.data]);
  const start_us = run.started_at ? Date.parse(run.started_at) * 1000 : 0;
  const charts = useMemo(() => kept.charts.map(({of, series}) => {
    const drawn = lines(series, isOverTime(of) ? 'time' : x, start_us);
    const target = isSame(of, run.goal) ? run.goal!.target : isSame(of, LOSS) ? run.goal?.target_loss : undefined;
    const all = drawn.flatMap((line) => line.x);
    if (target !== undefined && all.length > 0) {
      const ends = [Math.min(...all), Math.max(...all)];
      if (ends[0] === ends[1]) ends[1] = ends[0]! + 1;
      drawn.push({label: `goal ${number(target, 4)}`, x: ends, y: [target, target], guide: true});
    }
    return {of, drawn};
  }), [kept, x, start_us, run.goal?.split, run.goal?.metric, run.goal?.target]);
  const waiting = active ? 'The first values come soon after the start.' : 'Nothing was measured.';
  return (
    <>
      <ErrorNote text={polled.error} />
      {charts.length === 0 && <div class="empty"><p class="empty-title">{polled.data === null ? 'Loading charts …' : waiting}</p></div>}
      <div class="charts">
        {charts.map(({of, drawn}) => {
          const {title, unit} = titleOf(of);
          return <Chart key={`${of.split}/${of.metric}`} title={title} file={`${run.name}-${idOf(of)}`} xLabel={x === 'step' && !isOverTime(of) ? 'step' : 'seconds'} yLabel={unit} lines={drawn} empty={waiting}
            note={run.goal && isSame(of, run.goal) && run.goal.higher_is_better !== undefined ? `goal: ${run.goal.higher_is_better ? 'at least' : 'at most'} ${number(run.goal.target, 4)}` : ''} />;
        })}
      </div>
      <h2>Where the time goes</h2>
      <Breakdown run={run.name} data={kept} x={x} start_us={start_us} />
      {run.exchange && <Exchanges exchange={run.exchange} />}
    </>
  );
}

const plain = (value: Json | undefined): string => {
  if (value === null || value === undefined || value === '') return NONE;
  if (Array.isArray(value)) return value.map(plain).join(', ') || NONE;
  if (typeof value === 'object') return Object.entries(value).map(([key, one]) => `${key} ${plain(one)}`).join(', ');
  return String(value);
};

function About({run}: {run: FullRecord}) {
  const {environment: env, effective, requested, hosts} = run;
  const differs = Object.keys(effective).filter((key) => requested[key] !== undefined && requested[key] !== null && requested[key] !== effective[key]);
  return (
    <div class="about">
      <section class="panel">
        <h3>What ran</h3>
        <Facts rows={[
          ['Task', taskLabel(run)], ...(run.custom ? [['Command', <code>{run.custom.command.join(' ')}</code>], ['Result', plain(run.custom.result)]] as [string, ComponentChildren][] : []), ['Division', run.division ?? NONE],
          ['Overrides', run.overrides.length === 0 ? 'none' : <ul class="plain">{run.overrides.map((one) => <li key={one.key}><code>{one.key}={one.value}</code></li>)}</ul>],
          ['Limits', Object.entries(run.limits).filter(([, value]) => value !== null && value !== false).map(([key, value]) => key === 'light' ? 'light goal' : key === 'to_the_end' ? 'to the end' : `${key} ${plain(value)}`).join(', ') || 'none'],
          ...(run.stop_reason ? [['Ended by', run.stop_reason.replaceAll('_', ' ')] as [string, string]] : []),
          ['Framework', run.framework ?? NONE], ['Backend', run.comm_stack ?? run.backend ?? NONE], ['Executor', run.executor ?? NONE],
          ['Workers', `${run.workers} × ${plural(run.engine?.cpus ?? run.threads_per_worker ?? 0, 'CPU')}${run.oversubscribed ? ', oversubscribed' : ''}${run.shared_host ? ', shared host' : ''}`],
          ['Data', plain(run.data['name']) + (run.data['synthetic'] ? ', synthetic' : '')], ['Seed', String(run.seed)], ['Parameters', run.parameters === null ? NONE : run.parameters.toLocaleString('en')],
          ['Exit codes', run.exit_codes === null ? NONE : run.exit_codes.map((code) => code ?? '?').join(' ')],
          ...(run.notes.length > 0 ? [['Remarks', run.notes.join('; ')] as [string, string]] : []),
        ]} />
      </section>
      <section class="panel">
        <h3>Settings in effect</h3>
        <Facts rows={Object.entries(effective).map(([key, value]): [string, string] =>
          [key.replaceAll('_', ' '), plain(value) + (differs.includes(key) ? ` (asked for ${plain(requested[key])})` : '')])} />
      </section>
      <section class="panel">
        <h3>Environment</h3>
        <Facts rows={[
          ['mlbench', `${plain(env['version'])}, ${plain(env['git_describe'])}, ${plain(env['build_type'])}`], ['Compiler', plain(env['compiler'])], ['System', plain(env['os'])], ['Kernel', plain(env['kernel'])],
          ...(env['gpu_driver'] ? [['GPU driver', plain(env['gpu_driver'])] as [string, string]] : []),
          ['Libraries', plain(env['libraries'])],
          ...hosts.map((host): [string, string] => [`Host ${plain(host['name'])}`,
            [plain(host['cpu']), `${plain(host['cores'])} cores`, bytes(Number(host['ram_bytes'])), ...(Array.isArray(host['gpus']) && host['gpus'].length > 0 ? [plain(host['gpus'])] : [])].join(', ')]),
        ]} />
      </section>
    </div>
  );
}

// A benchmark of collectives has no steps, goal or evaluations.
function Measured({run, active}: {run: FullRecord; active: boolean}) {
  const rows = run.collectives!.results, wrong = wrongOf(rows);
  const runs = useMemo(() => [{label: run.name, rows}], [run.name, rows]);
  const waiting = active ? 'The first rows come soon after the start.' : 'Nothing was measured.';
  return (
    <>
      <div class="tiles">
        <div class="tile"><span class="tile-name">Rows</span><span class="tile-value">{rows.length}</span></div>
        <div class="tile"><span class="tile-name">Wrong elements</span><span class={wrong > 0 ? 'tile-value failure-cell' : 'tile-value'}>{rows.length === 0 ? NONE : wrong.toLocaleString('en')}</span></div>
        <div class="tile"><span class="tile-name">Ranks</span><span class="tile-value">{run.workers}</span></div>
        <div class="tile wide"><span class="tile-name">Backend</span><span class="tile-value small-value">{run.comm_stack ?? run.backend}{run.oversubscribed && ', oversubscribed'}</span></div>
        <div class="tile"><span class="tile-name">Started</span><span class="tile-value small-value">{stamp(run.started_at)}</span></div>
      </div>
      <CollectiveCharts runs={runs} file={run.name} empty={waiting} />
      {rows.length > 0 && <CollectiveTable rows={rows} />}
      {run.collectives!.pairs && <Pairs pairs={run.collectives!.pairs} />}
    </>
  );
}

export function RunPage({name}: {name: string}) {
  const [period, setPeriod] = useState(0);
  const record = usePolled(`run ${name}`, () => get<FullRecord>(`/runs/${segment(name)}`), period);
  const [live, setLive] = useState<{run: RunSummary; progress: Progress} | null>(null);
  const [by, setBy] = useState<Ranks>('merged');
  const [x, setX] = useState<XAxis>('step');
  const run = record.data;
  // What comes live is newer than the record, while there is something to come.
  const state = live?.run.state ?? run?.state ?? 'queued';
  const active = isActive(state);
  // The record holds the rows of a benchmark, which come one by one.
  useEffect(() => setPeriod(run?.collectives && active ? PERIOD_MS : 0), [!run?.collectives, active]);
  // A run that is over has one event: its summary.
  useEvents(run ? `/runs/${segment(name)}/events` : null, {
    run: (data) => {
      const now = data as {run: RunSummary; progress: Progress};
      // The record says more once it has a state of its own.
      if (now.run.state !== state) record.again();
      setLive(now);
    },
    end: () => { if (run && isActive(run.state)) record.again(); },
  });

  if (run === null) return record.error === '' ? <Loading what={name} /> : <><h1>{name}</h1><ErrorNote text={record.error} again={record.again} /></>;
  const now: RunSummary = {...run, failure: run.failure?.message ?? '', ...(live?.run ?? {})};
  const progress = live?.progress;
  const lastEvaluation = run.evaluations.filter((one) => one.split === run.goal?.split).at(-1);
  const value = now.goal?.reached ? now.goal.value : progress?.evaluation?.metrics?.[run.goal?.metric ?? ''] ?? now.goal?.value ?? lastEvaluation?.metrics[run.goal?.metric ?? ''] ?? null;
  const epoch = progress && progress.steps_per_epoch > 0 ? progress.steps_done / progress.steps_per_epoch : lastEvaluation?.epoch ?? null;
  const rate = (active ? progress?.samples_per_s : null) ?? now.samples_per_s;

  return (
    <>
      <div class="page-head run-head">
        <div>
          <h1>{name} <StateBadge state={state} /></h1>
          <p class="soft">{taskLabel(run)} · {plural(run.workers ?? 0, 'worker')} × {plural(run.engine?.cpus ?? run.threads_per_worker ?? 0, 'CPU')} {run.collectives ? '' : ` · ${run.framework}`} · {run.backend}
            {(now.labels ?? []).map((label) => <span key={label} class="label">{label}</span>)}</p>
        </div>
        <Actions run={{...now, state}} onChange={record.again} />
      </div>
      {run.failure && (
        <div class="note error" role="alert">
          <p><strong>{run.failure.kind}</strong>{run.failure.rank !== null && <> · rank {run.failure.rank}</>}{run.failure.host && <> on {run.failure.host}</>}{run.failure.operation && <> · in {run.failure.operation}</>}</p>
          <p>{run.failure.message}</p>
          {run.failure.log_tail.length > 0 && <pre class="tail">{run.failure.log_tail.join('\n')}</pre>}
        </div>
      )}
      {run.collectives && <Measured run={run} active={active} />}
      {!run.collectives && <><div class="tiles">
        <div class="tile wide"><span class="tile-name">Goal</span>{now.goal ? <GoalBar goal={now.goal} value={value} /> : <span class="tile-value soft">none</span>}</div>
        <div class="tile"><span class="tile-name">Time to goal</span><span class="tile-value">{seconds(now.time_to_goal_s)}</span></div>
        <div class="tile"><span class="tile-name">Train clock</span><span class="tile-value">{seconds(now.train_s)}</span></div>
        <div class="tile"><span class="tile-name">Throughput</span><span class="tile-value">{number(rate)}<small> samples/s</small></span></div>
        <div class="tile"><span class="tile-name">Epoch</span><span class="tile-value">{epoch === null ? NONE : epoch.toFixed(2)}{progress && progress.steps_done > 0 && <small> step {progress.steps_done.toLocaleString('en')}</small>}</span></div>
        <div class="tile"><span class="tile-name">Communication</span><span class="tile-value">{percent(now.communication_share)}</span></div>
        <div class="tile"><span class="tile-name">Started</span><span class="tile-value small-value">{stamp(now.started_at)}</span></div>
      </div>
      <div class="section-head">
        <h2>Charts</h2>
        <div class="choices">
          <Segmented label="Ranks" value={by} choices={[['merged', 'Merged'], ['rank', 'By rank']]} onChoose={setBy} />
          <Segmented label="Horizontal axis" value={x} choices={[['step', 'Steps'], ['time', 'Time']]} onChoose={setX} />
        </div>
      </div>
      <Charts run={run} active={active} by={by} x={x} /></>}
      <h2>What it is, and where it ran</h2>
      <Notes run={name} />
      <About run={run} />
      <h2>Logs</h2>
      <Logs run={name} active={active} />
    </>
  );
}
