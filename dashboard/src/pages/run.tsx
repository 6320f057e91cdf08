// One run: how it stands, its charts as they grow, where the time goes, what it ran on, its logs.

import type {ComponentChildren} from 'preact';
import {useEffect, useMemo, useState} from 'preact/hooks';
import {download, get, post, remove, segment, useActions, useEvents, usePolled} from '../api';
import {Chart, useZoom, type Zoom} from '../chart';
import {wrongOf} from '../collectives';
import {CollectiveCharts, CollectiveTable, Pairs} from '../collectives_view';
import {bytes, energyText, NONE, number, percent, plural, seconds, stamp, taskLabel} from '../format';
import {Logs} from '../logs';
import {Notes} from '../notes';
import {compareHref, go, runHref, timelineHref} from '../router';
import {charted, idOf, isOverTime, isSame, KIND_TITLES, kindOf, kinds, loadSeries, LOSS, metricsOf, titleOf, type Measured, type Ranks} from '../run_series';
import {combined, hasAxis, keyOf, LOG_AXES, runQueryOf, runViewOf, SMOOTHING, type Charted, type RunView} from '../run_view';
import {average, isCurve, labelOf, lines, smooth, type Line} from '../series';
import {TableBox} from '../table';
import type {Exchange, FullRecord, Json, Metric, Progress, RunSummary, SeriesPoints} from '../types';
import {Dialog, ErrorNote, Facts, GoalBar, Loading, Menu, Segmented, StateBadge} from '../ui';

const PERIOD_MS = 2000;
const isActive = (state: string): boolean => state === 'running' || state === 'queued';

type Created = {runs: RunSummary[]};

function Actions({run, onChange}: {run: RunSummary; onChange: () => void}) {
  const actions = useActions(), {busy, error} = actions;
  const [asking, setAsking] = useState<'' | 'stop' | 'delete'>('');
  const active = isActive(run.state);
  const act = (what: string, action: () => Promise<void>) => {
    setAsking('');
    return actions.act(what, action);
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

async function load(run: string, ranks: Ranks, goal: Metric | null | undefined, custom: boolean): Promise<Loaded> {
  const metrics = await metricsOf(run);
  const present = kinds.map((kind) => kindOf(kind, custom)).filter((kind) => metrics.some((one) => isSame(one, kind)));
  const [charts, all] = await Promise.all([loadSeries(run, charted(metrics, goal, custom), ranks), loadSeries(run, present, 'merged')]);
  return {charts, kinds: all, shares: ranks === 'merged' ? all : await loadSeries(run, present, ranks)};
}

const X_AXES = {step: {xLabel: 'step'}, time: {xLabel: 'time since the start', xQuantity: 'seconds'}} as const;

function Breakdown({run, custom, data, view, start_us, zoom}: {run: string; custom: boolean; data: Loaded; view: RunView; start_us: number; zoom: Zoom}) {
  const present = kinds.filter((kind) => data.kinds.some((one) => isSame(one.of, kindOf(kind, custom)) && one.series.length > 0));
  const seriesOf = (measured: Measured[], kind: string): SeriesPoints[] => measured.find((one) => isSame(one.of, kindOf(kind, custom)))?.series ?? [];
  const columns = [...new Set(present.flatMap((kind) => seriesOf(data.shares, kind).map(labelOf)))];
  const share = (kind: string, column: string): number => {
    const found = seriesOf(data.shares, kind).find((one) => labelOf(one) === column);
    return found ? average(found) : 0;
  };
  const whole = (kind: string): number => average(seriesOf(data.kinds, kind)[0]!);
  const all = present.reduce((sum, kind) => sum + whole(kind), 0);
  const area = useMemo((): Line[] => present.map((kind) => {
    const [line] = lines(seriesOf(data.kinds, kind), view.x, start_us);
    return {label: KIND_TITLES[kind] ?? kind, colour: kinds.indexOf(kind), x: line!.x, y: line!.y};
  }), [data, view.x, start_us]);
  const note = present.flatMap((kind) => seriesOf(data.kinds, kind)).find((one) => one.merge !== undefined);
  // A script reports as often as it likes: an epoch, with the Python client.
  const per = custom ? 'report of the script' : 'step';
  const sum = (column: string) => present.reduce((total, kind) => total + share(kind, column), 0);
  return (
    <div class={present.length > 0 ? 'charts two' : 'charts'}>
      <Chart title="Step time by kind" file={`${run}-step-kinds`} kind="stacked" fromZero {...X_AXES[view.x]} yLabel={`time per ${per}`} yQuantity="seconds" zoom={zoom}
        note={note ? labelOf(note) : ''} lines={area} empty="No step is on record yet." />
      {present.length > 0 && <TableBox title="Step time by kind, as a table" file={`${run}-step-kinds-table`} shown="Step time in numbers">
        <table class="figures">
          <thead><tr><th>Average per {per}</th>{columns.map((column) => <th class="num" key={column}>{column}</th>)}<th class="num">Share</th></tr></thead>
          <tbody>
            {present.map((kind) => (
              <tr key={kind}>
                <th><span class="swatch" style={{background: `var(--series-${kinds.indexOf(kind)})`}} /> {KIND_TITLES[kind]}</th>
                {columns.map((column) => <td class="num" key={column} data-value={share(kind, column)}>{seconds(share(kind, column))}</td>)}
                <td class="num" data-value={all > 0 ? whole(kind) / all : ''}>{percent(all > 0 ? whole(kind) / all : null)}</td>
              </tr>
            ))}
            <tr class="total"><th>Sum</th>{columns.map((column) => <td class="num" key={column} data-value={sum(column)}>{seconds(sum(column))}</td>)}<td class="num" /></tr>
          </tbody>
        </table>
      </TableBox>}
    </div>
  );
}

// Waiting for the slowest rank and moving bytes, as the record has it.
function Exchanges({run, exchange}: {run: string; exchange: Exchange}) {
  const [atLeast, atMost] = exchange.exact ? ['', ''] : ['at least ', 'at most '];
  return (
    <TableBox title="Wait and transfer of each rank" file={`${run}-exchange`} shown="Wait and transfer of each rank">
      <table class="figures">
        <thead><tr><th>Communication, {plural(exchange.steps, 'step')}</th><th class="num">{atLeast}wait for the slowest rank</th><th class="num">{atMost}transfer</th></tr></thead>
        <tbody>
          {exchange.wait_s.map((wait, rank) => (
            <tr key={rank}><th>rank {rank}</th><td class="num" data-value={wait}>{seconds(wait)}</td><td class="num" data-value={exchange.transfer_s[rank]}>{seconds(exchange.transfer_s[rank])}</td></tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

// What was measured once has no curve.
function SingleValues({run, of}: {run: string; of: Measured[]}) {
  const rows = of.flatMap(({of: metric, series}) => series.filter((one) => one.points.step.length > 0)
    .map((one) => ({title: titleOf(metric).title, rank: labelOf(one), step: one.points.step[0]!, value: one.points.mean[0]!})));
  if (rows.length === 0) return null;
  return (
    <TableBox title="Single values" file={`${run}-values`} shown="Single values">
      <table class="figures">
        <thead><tr><th>Metric</th><th>Of</th><th class="num">Step</th><th class="num">Value</th></tr></thead>
        <tbody>{rows.map(({title, rank, step, value}) => (
          <tr key={`${title} ${rank}`}><th>{title}</th><td>{rank}</td><td class="num" data-value={step}>{step.toLocaleString('en')}</td><td class="num" data-value={value ?? ''}>{number(value, 5)}</td></tr>
        ))}</tbody>
      </table>
    </TableBox>
  );
}

function Charts({run, active, view, onView}: {run: FullRecord; active: boolean; view: RunView; onView: (part: Partial<RunView>) => void}) {
  const {ranks, x, log} = view;
  const custom = run.custom !== null;
  const polled = usePolled(`series ${run.name} ${active} ${ranks}`, () => load(run.name, ranks, run.goal, custom), active ? PERIOD_MS : 0);
  const [kept, setKept] = useState<Loaded>(NOTHING);
  const overSteps = useZoom('step'), overTime = useZoom('time');
  const zoomOf = (axis: 'step' | 'time'): Zoom => axis === 'step' ? overSteps : overTime;
  const axisOf = (of: Metric) => isOverTime(of) ? 'time' : x;
  useEffect(() => { if (polled.data) setKept(polled.data); }, [polled.data]);
  const start_us = run.started_at ? Date.parse(run.started_at) * 1000 : 0;
  const weight = Number(view.smoothing);
  const charts = useMemo(() => kept.charts.filter(({series}) => isCurve(series)).map(({of, series}): Charted => {
    const drawn = smooth(lines(series, axisOf(of), start_us), weight);
    const target = isSame(of, run.goal) ? run.goal!.target : isSame(of, LOSS) ? run.goal?.target_loss : undefined;
    const all = drawn.flatMap((line) => line.x);
    if (target !== undefined && all.length > 0) {
      const ends = [Math.min(...all), Math.max(...all)];
      if (ends[0] === ends[1]) ends[1] = ends[0]! + 1;
      drawn.push({label: `goal ${number(target, 4)}`, x: ends, y: [target, target], guide: true});
    }
    return {of, drawn};
  }), [kept, x, start_us, weight, run.goal?.split, run.goal?.metric, run.goal?.target]);
  const chosen = charts.filter(({of}) => view.together.includes(keyOf(of)) && axisOf(of) === x);
  const together = useMemo(() => combined(chosen), [charts, view.together.join('\n'), x]);
  const steps = kept.kinds.some(({series}) => series.length > 0);
  const waiting = active ? 'The first values come soon after the start.' : 'Nothing was measured.';
  const smoothing = weight > 0 ? `moving average of weight ${weight}, measured values behind it` : '';
  return (
    <>
      <div class="section-head">
        <h2>Charts</h2>
        <div class="choices">
          <Segmented label="Ranks" value={ranks} choices={[['merged', 'Merged'], ['rank', 'By rank']]} onChoose={(one) => onView({ranks: one})} />
          <Segmented label="Horizontal axis" value={x} choices={[['step', 'Steps'], ['time', 'Time']]} onChoose={(one) => onView({x: one})} />
          <select aria-label="Smoothing" value={view.smoothing} onChange={(event) => onView({smoothing: event.currentTarget.value as RunView['smoothing']})}>
            {SMOOTHING.map((one) => <option key={one} value={one}>{one === '0' ? 'No smoothing' : `Smoothing ${one}`}</option>)}
          </select>
          <select aria-label="Logarithmic axes" value={log} onChange={(event) => onView({log: event.currentTarget.value as RunView['log']})}>
            {LOG_AXES.map((one) => <option key={one} value={one}>{{'': 'Linear axes', y: 'Log values', x: 'Log steps or time', xy: 'Both axes log'}[one]}</option>)}
          </select>
          <Menu title="Several in one chart">
            {charts.map(({of}) => {
              const key = keyOf(of), on = view.together.includes(key);
              const reason = axisOf(of) !== x ? 'over time only' : !on && !hasAxis(of, chosen.map((one) => one.of)) ? 'a chart has two axes' : '';
              return (
                <label key={key} class="check"><input type="checkbox" checked={on} disabled={!on && reason !== ''}
                  onChange={(event) => onView({together: event.currentTarget.checked ? [...view.together, key] : view.together.filter((one) => one !== key)})} /> {titleOf(of).title}{reason !== '' && <span class="soft"> ({reason})</span>}</label>
              );
            })}
          </Menu>
        </div>
      </div>
      <ErrorNote text={polled.error} />
      {charts.length === 0 && (polled.data === null || kept.charts.length === 0) && <div class="empty"><p class="empty-title">{polled.data === null ? 'Loading charts …' : waiting}</p></div>}
      {chosen.length > 0 && <div class="charts wide"><Chart title="Several metrics" file={`${run.name}-several`} {...X_AXES[x]} {...together} log={log} zoom={zoomOf(x)} note={smoothing}
        empty={waiting} /></div>}
      <div class="charts">
        {charts.map(({of, drawn}) => {
          const {title, unit, quantity} = titleOf(of);
          const goal = run.goal && isSame(of, run.goal) && run.goal.higher_is_better !== undefined ? `goal: ${run.goal.higher_is_better ? 'at least' : 'at most'} ${number(run.goal.target, 4)}` : '';
          return <Chart key={keyOf(of)} title={title} file={`${run.name}-${idOf(of)}`} {...X_AXES[axisOf(of)]} yLabel={unit} yQuantity={quantity} lines={drawn} empty={waiting} log={log}
            zoom={zoomOf(axisOf(of))} note={[goal, smoothing].filter(Boolean).join(' · ')} />;
        })}
      </div>
      <SingleValues run={run.name} of={kept.charts.filter(({series}) => !isCurve(series))} />
      {(!custom || steps || run.exchange) && <h2>Where the time goes</h2>}
      {(!custom || steps) && <Breakdown run={run.name} custom={custom} data={kept} view={view} start_us={start_us} zoom={zoomOf(x)} />}
      {run.exchange && <Exchanges run={run.name} exchange={run.exchange} />}
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
          ['Task', taskLabel(run)], ...(run.custom ? [['Command', <code>{run.custom.command.join(' ')}</code>], ...(run.custom.declared ? [['Declares', `${run.custom.declared.task} on ${run.custom.declared.data}, ${run.custom.declared.goal}`]] : []), ['Result', plain(run.custom.result)]] as [string, ComponentChildren][] : []), ['Division', run.division ?? NONE],
          ['Overrides', run.overrides.length === 0 ? 'none' : <ul class="plain">{run.overrides.map((one) => <li key={one.key}><code>{one.key}={one.value}</code></li>)}</ul>],
          ['Limits', Object.entries(run.limits).filter(([, value]) => value !== null && value !== false).map(([key, value]) => key === 'light' ? 'light goal' : key === 'to_the_end' ? 'to the end' : `${key} ${plain(value)}`).join(', ') || 'none'],
          ...(run.stop_reason ? [['Ended by', run.stop_reason.replaceAll('_', ' ')] as [string, string]] : []),
          ['Framework', run.framework ?? NONE], ['Backend', run.comm_stack ?? run.backend ?? NONE], ['Executor', run.executor ?? NONE],
          ['Workers', `${run.workers} × ${plural(run.engine?.cpus ?? run.threads_per_worker ?? 0, 'CPU')}${run.oversubscribed ? ', oversubscribed' : ''}${run.shared_host ? ', shared host' : ''}`],
          ['Data', plain(run.data['name']) + (run.data['synthetic'] ? ', synthetic' : '')], ['Seed', String(run.seed)], ['Parameters', run.parameters === null ? NONE : run.parameters.toLocaleString('en')],
          ...(energyText(run.energy) !== NONE ? [['Energy', energyText(run.energy)] as [string, string]] : []),
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
      {rows.length > 0 && <CollectiveTable run={run.name} rows={rows} />}
      {run.collectives!.pairs && <Pairs run={run.name} pairs={run.collectives!.pairs} />}
    </>
  );
}

function Tile({name, wide = false, children}: {name: string; wide?: boolean; children: ComponentChildren}) {
  return <div class={wide ? 'tile wide' : 'tile'}><span class="tile-name">{name}</span>{children}</div>;
}

export function RunPage({name, query}: {name: string; query: URLSearchParams}) {
  const [period, setPeriod] = useState(0);
  const record = usePolled(`run ${name}`, () => get<FullRecord>(`/runs/${segment(name)}`), period);
  const [live, setLive] = useState<{run: RunSummary; progress: Progress} | null>(null);
  const view = useMemo(() => runViewOf(query), [query]);
  const onView = (part: Partial<RunView>) => {
    const next = runQueryOf({...view, ...part});
    go(`${runHref(name)}${next.size > 0 ? `?${next}` : ''}`, true);
  };
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
          {run.failure.log_tail.length > 0 && <pre class="tail" tabIndex={0} aria-label="The end of the log">{run.failure.log_tail.join('\n')}</pre>}
        </div>
      )}
      {run.collectives && <Measured run={run} active={active} />}
      {!run.collectives && <><div class="tiles">
        {(now.goal || !run.custom) && <Tile name="Goal" wide>{now.goal ? <GoalBar goal={now.goal} value={value} /> : <span class="tile-value soft">none</span>}</Tile>}
        {(now.goal || !run.custom) && <Tile name="Time to goal"><span class="tile-value">{seconds(now.time_to_goal_s)}</span></Tile>}
        {(now.train_s != null || !run.custom) && <Tile name="Train clock"><span class="tile-value">{seconds(now.train_s)}</span></Tile>}
        {run.custom && <Tile name="Wall clock"><span class="tile-value">{seconds(now.wall_s)}</span></Tile>}
        {(rate != null || !run.custom) && <Tile name="Throughput"><span class="tile-value">{number(rate)}<small> samples/s</small></span></Tile>}
        {(epoch !== null || !run.custom) && <Tile name="Epoch"><span class="tile-value">{epoch === null ? NONE : epoch.toFixed(2)}{progress && progress.steps_done > 0 && <small> step {progress.steps_done.toLocaleString('en')}</small>}</span></Tile>}
        {(now.communication_share != null || !run.custom) && <Tile name="Communication"><span class="tile-value">{percent(now.communication_share)}</span></Tile>}
        {run.custom && <Tile name="Workers"><span class="tile-value">{run.workers}</span></Tile>}
        {run.custom && run.custom.result !== null && <Tile name="Result"><span class="tile-value small-value">{plain(run.custom.result)}</span></Tile>}
        <Tile name="Started"><span class="tile-value small-value">{stamp(now.started_at)}</span></Tile>
      </div>
      <Charts run={run} active={active} view={view} onView={onView} /></>}
      <h2>What it is, and where it ran</h2>
      <Notes run={name} />
      <About run={run} />
      <h2>Logs</h2>
      <Logs run={name} active={active} />
    </>
  );
}
