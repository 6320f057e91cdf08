// All runs: search, filter, state, progress to the goal, select to compare.

import {useEffect, useRef, useState} from 'preact/hooks';
import {get, useEvents, usePolled} from '../api';
import {ago, number, plural, seconds, stamp, taskLabel} from '../format';
import {compareHref, go, runHref, runsHref, scalingHref} from '../router';
import type {RunPage as Page, RunSummary, State, Task} from '../types';
import {Empty, ErrorNote, GoalBar, Loading, StateBadge, useNow} from '../ui';

const STATES: State[] = ['queued', 'running', 'finished', 'failed', 'stopped', 'damaged'];
const PER_PAGE = 50;
const MOST_COMPARED = 12;

interface Overview {
  total: number;
  states: Partial<Record<State, number>>;
}

function Result({run}: {run: RunSummary}) {
  if (run.state === 'failed' || run.state === 'damaged') return <span class="failure" title={run.failure}>{run.failure || run.state}</span>;
  if (!run.goal && run.evaluation) return <span class="soft">{run.evaluation}</span>;
  if (!run.goal) return <span class="soft">{run.state === 'finished' ? `${number(run.samples_per_s)} samples/s` : ''}</span>;
  // While it runs, the goal's own value may be that of no evaluation yet.
  return <GoalBar goal={run.goal} value={run.goal.value} />;
}

export function RunsPage({query, onNew}: {query: URLSearchParams; onNew: () => void}) {
  const filters = {q: query.get('q') ?? '', state: query.get('state') ?? '', task: query.get('task') ?? '', page: query.get('page') ?? ''};
  const page = Math.max(1, Number(filters.page) || 1);
  const [search, setSearch] = useState(filters.q);
  const [selected, setSelected] = useState<string[]>([]);
  const [overview, setOverview] = useState<Overview | null>(null);
  const now = useNow(10_000);
  const typing = useRef(0);   // a search that waits for more letters
  const change = (part: Partial<typeof filters>) => {
    clearTimeout(typing.current);
    go(runsHref({...filters, page: '', q: search.trim(), ...part}), true);
  };
  useEffect(() => () => clearTimeout(typing.current), []);

  const ask = new URLSearchParams({limit: String(PER_PAGE), offset: String((page - 1) * PER_PAGE)});
  for (const key of ['q', 'state', 'task'] as const) {
    if (filters[key] !== '') ask.set(key, filters[key]);
  }
  const list = usePolled(`/runs?${ask}`, () => get<Page>(`/runs?${ask}`), 0);
  const tasks = usePolled('/tasks', () => get<{tasks: Task[]}>('/tasks'), 0).data?.tasks ?? [];
  useEvents('/events', {runs: (data) => {
    setOverview(data as Overview);
    list.again();
  }});

  useEffect(() => { setSearch(filters.q); }, [filters.q]);
  const onSearch = (text: string) => {
    setSearch(text);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => change({q: text.trim()}), 250);
  };
  const select = (name: string, on: boolean) => setSelected((old) => on ? [...old, name] : old.filter((one) => one !== name));

  const runs = list.data?.runs ?? [];
  const total = list.data?.total ?? 0;
  const pages = Math.max(1, Math.ceil(total / PER_PAGE));
  const filtered = filters.q !== '' || filters.state !== '' || filters.task !== '';
  const known = [...new Set([...tasks.map((task) => task.name), filters.task].filter((name) => name !== ''))];
  const of = (state: State) => overview?.states[state] ?? 0;

  return (
    <>
      <div class="page-head">
        <div>
          <h1>Runs</h1>
          <p class="soft">{overview === null ? ' ' : `${overview.total} in all · ${of('running')} running · ${of('queued')} waiting`}</p>
        </div>
        <button type="button" class="primary" onClick={onNew} title="Key: n">New run</button>
      </div>
      <div class="toolbar" role="search">
        <input type="search" aria-label="Search names and notes" placeholder="Search names and notes" title="Key: /" value={search}
          onInput={(event) => onSearch(event.currentTarget.value)} />
        <select aria-label="State" value={filters.state} onChange={(event) => change({state: event.currentTarget.value})}>
          <option value="">Any state</option>
          {STATES.map((state) => <option key={state} value={state}>{state}{overview && of(state) > 0 ? ` (${of(state)})` : ''}</option>)}
        </select>
        <select aria-label="Task" value={filters.task} onChange={(event) => change({task: event.currentTarget.value})}>
          <option value="">Any task</option>
          {known.map((task) => <option key={task} value={task}>{task}</option>)}
        </select>
      </div>
      <ErrorNote text={list.error} again={list.again} />
      {list.data === null && list.error === '' && <Loading what="runs" />}
      {list.data !== null && runs.length === 0 && (filtered
        ? <Empty title="No run fits."><button type="button" onClick={() => change({q: '', state: '', task: ''})}>Show all</button></Empty>
        : <Empty title="No runs yet.">
            <p class="soft">Start one here, or with <code>mlbench run</code>.</p>
            <button type="button" class="primary" onClick={onNew}>New run</button>
          </Empty>)}
      {runs.length > 0 && (
        <table class="runs">
          <thead>
            <tr>
              <th class="pick"><span class="hidden">Compare</span></th><th>Run</th><th>State</th><th>Task</th><th>Computed by</th>
              <th>Goal</th><th class="num">Time to goal</th><th class="num">Samples/s</th><th class="num">Made</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.name} class={selected.includes(run.name) ? 'selected' : ''}>
                <td class="pick">
                  <input type="checkbox" aria-label={`Compare ${run.name}`} checked={selected.includes(run.name)}
                    disabled={run.state === 'damaged' || (selected.length >= MOST_COMPARED && !selected.includes(run.name))}
                    onChange={(event) => select(run.name, event.currentTarget.checked)} />
                </td>
                <td class="name"><a href={runHref(run.name)}>{run.name}</a>{(run.tags ?? []).map((tag) => <span key={tag} class="label">{tag}</span>)}</td>
                <td class="state"><StateBadge state={run.state} /></td>
                <td class="task">{taskLabel(run)}{run.light && <span class="soft"> · light goal</span>}</td>
                <td class="how">{run.workers != null && <>{plural(run.workers, 'worker')}<span class="soft"> × {run.threads_per_worker} · {run.framework} · {run.backend}</span></>}</td>
                <td class="result"><Result run={run} /></td>
                <td class="num" data-label="to goal">{seconds(run.time_to_goal_s)}</td>
                <td class="num" data-label="samples/s">{number(run.samples_per_s)}</td>
                <td class="num made" title={stamp(run.created_at)}>{ago(run.created_at, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {pages > 1 && (
        <nav class="pages" aria-label="Pages of the list">
          <button type="button" disabled={page <= 1} onClick={() => change({page: String(page - 1)})}>Newer</button>
          <span class="soft">{page} of {pages}</span>
          <button type="button" disabled={page >= pages} onClick={() => change({page: String(page + 1)})}>Older</button>
        </nav>
      )}
      {selected.length > 0 && (
        <div class="selection" role="region" aria-label="Selected runs">
          <span>{plural(selected.length, 'run')} selected</span>
          <button type="button" onClick={() => setSelected([])}>Clear</button>
          <button type="button" class="primary" disabled={selected.length < 2} onClick={() => go(compareHref(selected))}>Compare</button>
          <button type="button" disabled={selected.length < 2} onClick={() => go(scalingHref(selected))}>Scaling</button>
        </div>
      )}
    </>
  );
}
