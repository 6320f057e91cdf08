// All runs: search, filter, order, columns, repeats as one row; what is chosen stands in the address. Select to compare.

import {Fragment} from 'preact';
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {useAllRuns} from '../all_runs';
import {get, save, segment, usePolled} from '../api';
import {sampleText} from '../comparison';
import {ago, number, plural, seconds, stamp} from '../format';
import {compareHref, go, runHref, runsHref, scalingHref} from '../router';
import {allValues, choicesOf, columnOf, columnsOf, fitting, isFiltered, listCsv, queryOf, rowsOf, rowText, sorted, USUAL_COLUMNS, viewOf, type Column, type Row, type View} from '../run_list';
import type {Comparison, RunPage as Page, RunSummary, State} from '../types';
import {Empty, ErrorNote, GoalBar, Loading, Menu, StateBadge, useNow} from '../ui';

const STATES: State[] = ['queued', 'running', 'finished', 'failed', 'stopped', 'damaged'];
const PER_PAGE = 50;
const MOST_COMPARED = 12;
const NOTHING: ReadonlySet<string> = new Set();

function Goal({row}: {row: Row}) {
  const [run] = row.runs;
  if (row.runs.length > 1) return <>{`${row.runs.filter((one) => one.goal?.reached).length} of ${row.runs.length} reached`}</>;
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
  const title = column.key === 'created_at' ? stamp(row.runs.at(-1)!.created_at) : several && column.mean ? `${column.mean} mean of ${allValues(column, row)}` : undefined;
  return <td class={`${column.numeric ? 'num' : ''} of-${column.key}`} data-title={column.title} title={title}>{shown}</td>;
}

const Marks = ({run}: {run: RunSummary}) => (
  <>
    {(run.labels ?? []).map((label) => <span key={label} class="label" title="label: know this before you compare">{label}</span>)}
    {(run.tags ?? []).map((tag) => <span key={tag} class="tag" title="tag">{tag}</span>)}
  </>
);

// The means of repeats with their intervals are the master's.
function Intervals({name}: {name: string}) {
  const polled = usePolled(`repeats ${name}`, () => get<Comparison>(`/compare?runs=${segment(name)}`), 0);
  const group = polled.data?.repeated.runs[0];
  if (polled.error !== '') return <span class="soft">{polled.error}</span>;
  if (group === undefined) return <Loading what="the interval of the repeats" />;
  const samples = [['Time to goal', group.time_to_goal_s, seconds], ['Samples/s', group.samples_per_s, number]] as const;
  const known = samples.filter(([, sample]) => sample.geometric_mean !== null);
  return known.length === 0 ? <span class="soft">These repeats have no mean.</span> : (
    <span class="soft">{known.map(([title, sample, format]) => `${title}: ${sampleText(sample, format)}`).join(' · ')}
      {known.some(([, sample]) => sample.interval) ? ' (geometric mean, 95 % interval)' : ' (geometric mean; these repeats have no interval)'}</span>
  );
}

function Filter({label, value, choices, order, onChange}: {label: string; value: string; choices: Map<string, number>; order?: readonly string[]; onChange: (value: string) => void}) {
  const names = order ?? [...new Set([...choices.keys(), value])].filter((name) => name !== '').sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">Any {label.toLowerCase()}</option>
      {names.map((name) => <option key={name} value={name}>{name}{choices.has(name) ? ` (${choices.get(name)!.toLocaleString('en')})` : ''}</option>)}
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
  const list = useAllRuns();
  const view: View = {...linked, q: search.trim()};
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
  // Only the master knows the notes.
  const found = usePolled(`notes ${linked.q}`, async () => linked.q === '' ? NOTHING
    : new Set((await get<Page>(`/runs?${new URLSearchParams({q: linked.q, limit: '1000'})}`)).runs.map((run) => run.name)), 0);
  const noted = (view.q === linked.q ? found.data : null) ?? NOTHING;

  const all = list.runs;
  const columns = useMemo(() => columnsOf(all ?? []), [all]);
  const choices = useMemo(() => choicesOf(all ?? []), [all]);
  const grouped = useMemo(() => rowsOf(all ?? [], view.grouped), [all, view.grouped]);
  const fits = useMemo(() => fitting(grouped, view, noted), [grouped, view.q, view.state, view.task, view.tag, view.label, view.workers, noted]);
  const rows = useMemo(() => sorted(fits, columnOf(columns, view.sort), view.descending), [fits, columns, view.sort, view.descending]);
  const shown = view.columns.flatMap((key) => columns.find((column) => column.key === key) ?? []);
  const pages = Math.max(1, Math.ceil(rows.length / PER_PAGE));
  const page = Math.min(view.page, pages);
  const here = rows.slice((page - 1) * PER_PAGE, page * PER_PAGE);
  const count = rows.reduce((sum, row) => sum + row.runs.length, 0);
  const of = (state: State) => (choices.state.get(state) ?? 0).toLocaleString('en');
  const select = (name: string, on: boolean) => setSelected((old) => on ? [...old, name] : old.filter((one) => one !== name));
  const toggle = (name: string) => setOpen((old) => new Set(old.has(name) ? [...old].filter((one) => one !== name) : [...old, name]));
  const orderBy = (key: string) => change({sort: key, descending: view.sort === key && !view.descending});
  const choose = (key: string, on: boolean) => change({page, columns: columns.map((column) => column.key).filter((one) => one === key ? on : view.columns.includes(one))});

  const head = (key: string, title: string, numeric: boolean) => (
    <th key={key} class={numeric ? 'num' : ''} aria-sort={view.sort === key ? (view.descending ? 'descending' : 'ascending') : undefined}>
      <button type="button" onClick={() => orderBy(key)}>{title}<span class="order" aria-hidden="true">{view.sort !== key ? '' : view.descending ? '↓' : '↑'}</span></button>
    </th>
  );
  // A run is compared with its repeats, so these are not chosen by themselves.
  const line = (row: Row, child: boolean) => (
    <tr key={`${child} ${row.name}`} class={`${!child && selected.includes(row.name) ? 'selected' : ''} ${child ? 'child' : ''}`}>
      <td class="pick">
        {!child && <input type="checkbox" aria-label={`Compare ${row.name}`} checked={selected.includes(row.name)}
          disabled={row.runs.some((run) => run.state === 'damaged') || (selected.length >= MOST_COMPARED && !selected.includes(row.name))}
          onChange={(event) => select(row.name, event.currentTarget.checked)} />}
      </td>
      <td class="name"><a href={runHref(row.name)}>{row.name}</a>
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
          <p class="soft" role="status">{all === null ? ' ' : `${all.length.toLocaleString('en')} in all · ${of('running')} running · ${of('queued')} waiting${isFiltered(view) ? ` · ${count.toLocaleString('en')} shown` : ''}`}
            {list.loading !== '' && ` · loading ${list.loading} …`}</p>
        </div>
        <button type="button" class="primary" onClick={onNew} title="Key: n">New run</button>
      </div>
      <div class="toolbar" role="search">
        <input type="search" aria-label="Search names and notes" placeholder="Search names and notes" title="Key: /" value={search}
          onInput={(event) => onSearch(event.currentTarget.value)} />
        <Filter label="State" value={view.state} choices={choices.state} order={STATES} onChange={(state) => change({state})} />
        <Filter label="Task" value={view.task} choices={choices.task} onChange={(task) => change({task})} />
        <Filter label="Worker count" value={view.workers} choices={choices.workers} onChange={(workers) => change({workers})} />
        {(choices.label.size > 0 || view.label !== '') && <Filter label="Label" value={view.label} choices={choices.label} onChange={(label) => change({label})} />}
        {(choices.tag.size > 0 || view.tag !== '') && <Filter label="Tag" value={view.tag} choices={choices.tag} onChange={(tag) => change({tag})} />}
      </div>
      <div class="toolbar">
        <label class="check"><input type="checkbox" checked={view.grouped} onChange={(event) => change({grouped: event.currentTarget.checked})} /> repeats as one row</label>
        <Menu title="Columns">
          {columns.map((column) => (
            <label key={column.key} class="check"><input type="checkbox" checked={view.columns.includes(column.key)} onChange={(event) => choose(column.key, event.currentTarget.checked)} /> {column.title}</label>
          ))}
          <button type="button" class="small" onClick={() => change({page, columns: USUAL_COLUMNS})}>Default columns</button>
        </Menu>
        <select class="narrow-only" aria-label="Order" value={`${view.descending ? '-' : ''}${view.sort}`} onChange={(event) => change({sort: event.currentTarget.value.replace(/^-/, ''), descending: event.currentTarget.value.startsWith('-')})}>
          {[{key: 'name', title: 'Run'}, ...shown].flatMap(({key, title}) => [<option key={key} value={key}>{title} ↑</option>, <option key={`-${key}`} value={`-${key}`}>{title} ↓</option>])}
        </select>
        <button type="button" disabled={rows.length === 0} onClick={() => save(new Blob([listCsv(rows, shown)], {type: 'text/csv;charset=utf-8'}), 'runs.csv')}>CSV</button>
      </div>
      <ErrorNote text={list.error || found.error} again={list.again} />
      {all === null && list.error === '' && <Loading what="runs" />}
      {all !== null && rows.length === 0 && (isFiltered(view)
        ? <Empty title="No run fits."><button type="button" onClick={() => change({q: '', state: '', task: '', tag: '', label: '', workers: ''})}>Show all</button></Empty>
        : <Empty title="No runs yet.">
            <p class="soft">Start one here, or with <code>mlbench run</code>.</p>
            <button type="button" class="primary" onClick={onNew}>New run</button>
          </Empty>)}
      {rows.length > 0 && (
        <div class="run-list" tabIndex={0} role="region" aria-label="List of runs">
          <table class="runs">
            <thead><tr><th class="pick"><span class="hidden">Compare</span></th>{head('name', 'Run', false)}{shown.map((column) => head(column.key, column.title, column.numeric))}</tr></thead>
            <tbody>
              {here.map((row) => {
                const expanded = row.runs.length > 1 && open.has(row.name);
                return (
                  <Fragment key={row.name}>
                    {line(row, false)}
                    {expanded && <tr class="child"><td class="pick" /><td class="intervals" colSpan={shown.length + 1}><Intervals name={row.name} /></td></tr>}
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
          <button type="button" disabled={page <= 1} onClick={() => change({page: page - 1})}>Previous</button>
          <span class="soft">{page} of {pages}</span>
          <button type="button" disabled={page >= pages} onClick={() => change({page: page + 1})}>Next</button>
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
