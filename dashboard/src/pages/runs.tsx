// All runs: search, filter, order, columns, repeats as one row; what is chosen stands in the address. Select to compare.

import {Fragment} from 'preact';
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {get, save, textOf, usePolled} from '../api';
import {ago, plural, stamp} from '../format';
import {allRuns, useListedRuns} from '../listed_runs';
import {compareHref, go, runsHref, scalingHref} from '../router';
import {askedOf, columnOf, hrefOf, isFiltered, listCsv, meanText, queryOf, reachedText, rowsOf, rowText, USUAL_COLUMNS, viewOf, type Column, type Row, type View} from '../run_list';
import type {Figure, Filter as FilterName, RunSummary, State} from '../types';
import {Empty, ErrorNote, GoalBar, Loading, Menu, StateBadge, useNow} from '../ui';

const STATES: State[] = ['queued', 'running', 'finished', 'failed', 'stopped', 'damaged'];
const PER_PAGE = 50;
const MOST_COMPARED = 12;
// Filters that are shown where there is something to choose.
const OFTEN_ONE: {filter: FilterName; title: string; least: number}[] = [
  {filter: 'executor', title: 'Executor', least: 2}, {filter: 'label', title: 'Label', least: 1}, {filter: 'tag', title: 'Tag', least: 1},
];
const NOTHING: ReadonlySet<string> = new Set();

function Goal({row}: {row: Row}) {
  const [run] = row.runs;
  if (row.runs.length > 1) return <>{reachedText(row)}</>;
  if (run!.state === 'failed' || run!.state === 'damaged') return <span class="failure" title={run!.failure}>{run!.failure || run!.state}</span>;
  if (!run!.goal) return <span class="soft">{run!.evaluation ?? ''}</span>;
  // While it runs, the goal's own value may be that of no evaluation yet.
  return <GoalBar goal={run!.goal} value={run!.goal.value} />;
}

function States({row}: {row: Row}) {
  const counts = new Map<State, number>();
  for (const run of row.runs) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  return <>{[...counts].map(([state, count]) => <StateBadge key={state} state={state} count={row.runs.length > 1 ? count : 1} />)}</>;
}

function Value({column, row, now}: {column: Column; row: Row; now: number}) {
  const several = row.runs.length > 1;
  const shown = column.key === 'state' ? <States row={row} />
    : column.key === 'goal' && (!several || row.runs.some((run) => run.goal)) ? <Goal row={row} />
    : column.key === 'created_at' ? ago(row.runs.at(-1)!.created_at, now)
    : column.key === 'failure' ? <span class="failure" title={rowText(column, row)}>{rowText(column, row)}</span>
    : rowText(column, row);
  const title = column.key === 'created_at' ? stamp(row.runs.at(-1)!.created_at) : meanText(column, row) || undefined;
  return <td class={`${column.numeric ? 'num' : ''} of-${column.key}`} data-title={column.title} title={title}>{shown}</td>;
}

const Marks = ({run}: {run: RunSummary}) => (
  <>
    {(run.labels ?? []).map((label) => <span key={label} class="label" title="label: know this before you compare">{label}</span>)}
    {(run.tags ?? []).map((tag) => <span key={tag} class="tag" title="tag">{tag}</span>)}
  </>
);

// The means of repeats with their intervals, which are the master's.
function Intervals({row, columns}: {row: Row; columns: Column[]}) {
  const known = columns.flatMap((column) => meanText(column, row) === '' ? [] : [`${column.title}: ${meanText(column, row)}`]);
  const interval = row.runs[0]!.repeats?.samples_per_s.interval ?? row.runs[0]!.repeats?.time_to_goal_s.interval;
  return known.length === 0 ? <span class="soft">These repeats have no mean.</span> : (
    <span class="soft">{known.join(' · ')}{interval ? ' (geometric mean, 95 % interval)' : ' (geometric mean; these repeats have no interval)'}</span>
  );
}

function Filter({label, value, choices, order, onChange}: {label: string; value: string; choices: Record<string, number>; order?: readonly string[]; onChange: (value: string) => void}) {
  const names = order ?? [...new Set([...Object.keys(choices), value])].filter((name) => name !== '').sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">Any {label.toLowerCase()}</option>
      {names.map((name) => <option key={name} value={name}>{name}{choices[name] ? ` (${choices[name].toLocaleString('en')})` : ''}</option>)}
    </select>
  );
}

export function RunsPage({query, onNew}: {query: URLSearchParams; onNew: () => void}) {
  const linked = useMemo(() => viewOf(query), [query]);
  const [search, setSearch] = useState(linked.q);
  const [selected, setSelected] = useState<string[]>([]);
  const [open, setOpen] = useState<ReadonlySet<string>>(NOTHING);
  const now = useNow(10_000);
  const typing = useRef(0);   // a search that waits for more letters
  const view: View = {...linked, q: search.trim()};
  const served = usePolled('figures', () => get<{figures: Figure[]}>('/figures'), 0);
  const list = useListedRuns(askedOf(linked), (linked.page - 1) * PER_PAGE, PER_PAGE);
  const [csvError, setCsvError] = useState('');
  const change = (part: Partial<View>) => {
    clearTimeout(typing.current);
    go(runsHref(queryOf({...view, page: 1, ...part})), true);
  };
  useEffect(() => () => clearTimeout(typing.current), []);
  useEffect(() => { setSearch(linked.q); }, [linked.q]);
  const onSearch = (text: string) => {
    setSearch(text);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => change({q: text.trim()}), 250);
  };
  const choices = (filter: FilterName) => list.page?.choices[filter] ?? {};
  const columns = useMemo(() => (served.data?.figures ?? []).map(columnOf), [served.data]);
  const rows = useMemo(() => rowsOf(list.page?.runs ?? [], view.grouped), [list.page, view.grouped]);
  const shown = view.columns.flatMap((key) => columns.find((column) => column.key === key) ?? []);
  const total = list.page?.total ?? 0, pages = Math.max(1, Math.ceil(total / PER_PAGE));
  const all = Object.values(choices('state')).reduce((sum, count) => sum + count, 0);
  const of = (state: State) => (choices('state')[state] ?? 0).toLocaleString('en');
  useEffect(() => { if (list.page !== null && rows.length === 0 && linked.page > pages) change({page: pages}); }, [list.page]);
  const saveCsv = () => {
    setCsvError('');
    allRuns(askedOf(view)).then((runs) => save(new Blob([listCsv(runs, shown)], {type: 'text/csv;charset=utf-8'}), 'runs.csv'),
      (problem: unknown) => setCsvError(textOf(problem)));
  };
  const select = (name: string, on: boolean) => setSelected((old) => on ? [...old, name] : old.filter((one) => one !== name));
  const toggle = (name: string) => setOpen((old) => new Set(old.has(name) ? [...old].filter((one) => one !== name) : [...old, name]));
  const orderBy = (key: string) => change({sort: key, descending: view.sort === key && !view.descending});
  const choose = (key: string, on: boolean) => change({page: view.page, columns: columns.map((column) => column.key).filter((one) => one === key ? on : view.columns.includes(one))});

  const head = (key: string, title: string, numeric: boolean) => (
    <th key={key} class={numeric ? 'num' : ''} aria-sort={view.sort === key ? (view.descending ? 'descending' : 'ascending') : undefined}>
      <button type="button" onClick={() => orderBy(key)}>{title}<span class="order" aria-hidden="true">{view.sort !== key ? '' : view.descending ? '↓' : '↑'}</span></button>
    </th>
  );
  // A run is compared with its repeats, so these are not chosen by themselves.
  const line = (row: Row, child: boolean) => (
    <tr key={`${child} ${row.name}`} class={`${!child && selected.includes(row.name) ? 'selected' : ''} ${child ? 'child' : ''}`}>
      <td class="pick">
        {!child && <input type="checkbox" aria-label={`Compare ${row.runs[0]!.title ?? row.name}`} checked={selected.includes(row.name)}
          disabled={row.runs.some((run) => run.state === 'damaged' || run.experiment_id !== undefined) || (selected.length >= MOST_COMPARED && !selected.includes(row.name))}
          onChange={(event) => select(row.name, event.currentTarget.checked)} />}
      </td>
      <td class="name"><a href={hrefOf(row.runs[0]!)}>{row.runs[0]!.title ?? row.name}</a>
        {row.runs.length > 1 && <button type="button" class="small" aria-expanded={open.has(row.name)} onClick={() => toggle(row.name)}>{row.runs.length} repeats</button>}
        <Marks run={row.runs[0]!} /></td>
      {shown.map((column) => <Value key={column.key} column={column} row={row} now={now} />)}
    </tr>
  );

  return (
    <>
      <div class="page-head">
        <div>
          <h1>Runs</h1>
          <p class="soft" role="status">{list.page === null ? ' ' : `${all.toLocaleString('en')} in all · ${of('running')} running · ${of('queued')} waiting${isFiltered(view) ? ` · ${list.page.count.toLocaleString('en')} shown` : ''}`}</p>
        </div>
        <button type="button" class="primary" onClick={onNew} title="Key: n">New run</button>
      </div>
      <div class="toolbar" role="search">
        <input type="search" aria-label="Search names and notes" placeholder="Search names and notes" title="Key: /" value={search}
          onInput={(event) => onSearch(event.currentTarget.value)} />
        <Filter label="State" value={view.state} choices={choices('state')} order={STATES} onChange={(state) => change({state})} />
        <Filter label="Task" value={view.task} choices={choices('task')} onChange={(task) => change({task})} />
        <Filter label="Worker count" value={view.workers} choices={choices('workers')} onChange={(workers) => change({workers})} />
        {OFTEN_ONE.map(({filter, title, least}) => (Object.keys(choices(filter)).length >= least || view[filter] !== '') &&
          <Filter key={filter} label={title} value={view[filter]} choices={choices(filter)} onChange={(value) => change({[filter]: value})} />)}
      </div>
      <div class="toolbar">
        <label class="check"><input type="checkbox" checked={view.grouped} onChange={(event) => change({grouped: event.currentTarget.checked})} /> repeats as one row</label>
        <Menu title="Columns">
          {columns.map((column) => (
            <label key={column.key} class="check"><input type="checkbox" checked={view.columns.includes(column.key)} onChange={(event) => choose(column.key, event.currentTarget.checked)} /> {column.title}</label>
          ))}
          <button type="button" class="small" onClick={() => change({page: view.page, columns: USUAL_COLUMNS})}>Default columns</button>
        </Menu>
        <select class="narrow-only" aria-label="Order" value={`${view.descending ? '-' : ''}${view.sort}`} onChange={(event) => change({sort: event.currentTarget.value.replace(/^-/, ''), descending: event.currentTarget.value.startsWith('-')})}>
          {[{key: 'name', title: 'Run'}, ...shown].flatMap(({key, title}) => [<option key={key} value={key}>{title} ↑</option>, <option key={`-${key}`} value={`-${key}`}>{title} ↓</option>])}
        </select>
        <button type="button" disabled={rows.length === 0} onClick={saveCsv}>CSV</button>
      </div>
      <ErrorNote text={list.error || served.error || csvError} again={() => { list.again(); served.again(); }} />
      {list.page === null && list.error === '' && <Loading what="runs" />}
      {list.page !== null && total === 0 && (isFiltered(view)
        ? <Empty title="No run fits."><button type="button" onClick={() => change({q: '', state: '', task: '', tag: '', label: '', workers: '', executor: ''})}>Show all</button></Empty>
        : <Empty title="No runs yet.">
            <p class="soft">Start one here, or with <code>mlbench run</code>.</p>
            <button type="button" class="primary" onClick={onNew}>New run</button>
          </Empty>)}
      {rows.length > 0 && columns.length > 0 && (
        <div class="run-list" tabIndex={0} role="region" aria-label="List of runs">
          <table class="runs">
            <thead><tr><th class="pick"><span class="hidden">Compare</span></th>{head('name', 'Run', false)}{shown.map((column) => head(column.key, column.title, column.numeric))}</tr></thead>
            <tbody>
              {rows.map((row) => {
                const expanded = row.runs.length > 1 && open.has(row.name);
                return (
                  <Fragment key={row.name}>
                    {line(row, false)}
                    {expanded && <tr class="child"><td class="pick" /><td class="intervals" colSpan={shown.length + 1}><Intervals row={row} columns={columns} /></td></tr>}
                    {expanded && row.runs.map((run) => line({name: run.name, runs: [run]}, true))}
                  </Fragment>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {pages > 1 && (
        <nav class="pages" aria-label="Pages of the list">
          <button type="button" disabled={view.page <= 1} onClick={() => change({page: view.page - 1})}>Previous</button>
          <span class="soft">{view.page} of {pages}</span>
          <button type="button" disabled={view.page >= pages} onClick={() => change({page: view.page + 1})}>Next</button>
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
