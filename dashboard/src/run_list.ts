// The list of all runs: columns, filters, order, repeats as one row, and the link that says all of it. Pure.

import {NONE, number, percent, seconds, stamp, taskLabel} from './format';
import {csv} from './series';
import type {RunSummary} from './types';

export type Cell = string | number | null;

export interface Column {
  key: string;
  title: string;
  value: (run: RunSummary) => Cell;  // what orders the rows, and what the CSV has
  text: (value: Cell) => string;
  numeric: boolean;
  // Of repeats. Times and rates have the mean that `mlbench compare` gives; what has none is listed.
  mean?: 'geometric' | 'arithmetic';
  complete?: true;  // a mean over some repeats would be of those that were quick, so there is none
  date?: true;      // the last one stands for repeats
}

export interface View {
  q: string;
  state: string;
  task: string;
  tag: string;
  label: string;
  workers: string;
  sort: string;  // key of a column
  descending: boolean;
  columns: string[];
  grouped: boolean;
  page: number;
}

const FILTERS = ['q', 'state', 'task', 'tag', 'label', 'workers'] as const;
const NEWEST = '-created_at';

// ---- columns ---------------------------------------------------------------------------------------------------------

const scalar = (value: unknown): Cell =>
  typeof value === 'number' || typeof value === 'string' ? value : typeof value === 'boolean' ? (value ? 'yes' : 'no') : null;
const member = (key: string) => (run: RunSummary): Cell => scalar((run as unknown as Record<string, unknown>)[key]);
const ofGoal = (key: string) => (run: RunSummary): Cell => scalar((run.goal as Record<string, unknown> | null | undefined)?.[key]);
const words = (value: Cell): string => value === null || value === '' ? NONE : String(value);
const asNumber = (format: (value: number) => string) => (value: Cell): string => typeof value === 'number' ? format(value) : NONE;

const text = (key: string, title: string, value = member(key)): Column => ({key, title, value, text: words, numeric: false});
const figure = (key: string, title: string, format: (value: number) => string, mean?: 'geometric' | 'arithmetic', value = member(key)): Column =>
  ({key, title, value, text: asNumber(format), numeric: true, ...(mean ? {mean} : {})});
const time = (key: string, title: string): Column => ({key, title, value: member(key), text: (value) => stamp(value as string | null), numeric: true, date: true});

const plain = (value: number) => String(value);
export const COLUMNS: Column[] = [
  text('state', 'State'), text('task', 'Task', (run) => run.task ? taskLabel(run) : null),
  figure('workers', 'Workers', plain), figure('threads_per_worker', 'Threads per worker', plain),
  text('framework', 'Framework'), text('backend', 'Backend'), text('executor', 'Executor'), text('division', 'Division'),
  text('goal', 'Goal', (run) => run.goal ? (run.goal.reached ? 'reached' : 'not reached') : null),
  text('goal_metric', 'Metric of the goal', ofGoal('metric')), figure('goal_target', 'Target', (value) => number(value, 4), 'arithmetic', ofGoal('target')),
  figure('goal_value', 'Value for the goal', (value) => number(value, 4), 'arithmetic', ofGoal('value')),
  figure('goal_epoch', 'Epoch of the goal', (value) => number(value, 4), 'arithmetic', ofGoal('epoch')),
  {...figure('time_to_goal_s', 'Time to goal', seconds, 'geometric'), complete: true}, figure('train_s', 'Train clock', seconds, 'geometric'),
  figure('wall_s', 'Wall clock', seconds, 'geometric'), figure('samples_per_s', 'Samples/s', (value) => number(value), 'geometric'),
  figure('communication_share', 'Communication', percent, 'arithmetic'), text('evaluation', 'Last evaluation'), text('failure', 'Failure'),
  text('light', 'Light goal'), figure('seed', 'Seed', plain), figure('repeat', 'Repeat', plain), figure('id', 'Number', plain),
  time('created_at', 'Made'), time('started_at', 'Started'), time('finished_at', 'Ended'),
];
export const USUAL_COLUMNS = ['state', 'task', 'workers', 'framework', 'backend', 'goal', 'time_to_goal_s', 'samples_per_s', 'created_at'];
const NAME = text('name', 'Run');

const KNOWN = new Set(['name', 'labels', 'tags', 'goal', 'rules', 'variant', ...COLUMNS.map((column) => column.key)]);

// Also what a later master says of each run in its list.
export function columnsOf(runs: RunSummary[]): Column[] {
  const more = new Map<string, Column>();
  for (const run of runs.slice(0, 1000)) {
    for (const [key, value] of Object.entries(run)) {
      if (KNOWN.has(key) || more.has(key) || scalar(value) === null) continue;
      const title = key.charAt(0).toUpperCase() + key.slice(1).replaceAll('_', ' ');
      more.set(key, typeof value === 'number' ? figure(key, title, (one) => number(one, 4), 'arithmetic') : text(key, title));
    }
  }
  return [...COLUMNS, ...more.values()];
}

// ---- the link --------------------------------------------------------------------------------------------------------

export function viewOf(query: URLSearchParams): View {
  const sort = query.get('sort') ?? NEWEST;
  const columns = query.get('columns');
  return {
    ...Object.fromEntries(FILTERS.map((key) => [key, query.get(key) ?? ''])) as Pick<View, typeof FILTERS[number]>,
    sort: sort.replace(/^-/, ''), descending: sort.startsWith('-'),
    columns: columns === null ? USUAL_COLUMNS : columns.split(',').filter((key) => key !== ''),
    grouped: query.get('repeats') !== 'apart',
    page: Math.max(1, Math.floor(Number(query.get('page') ?? 1)) || 1),
  };
}

// What is usual is left out.
export function queryOf(view: View): Record<string, string> {
  const sort = (view.descending ? '-' : '') + view.sort;
  return {
    ...Object.fromEntries(FILTERS.map((key) => [key, view[key].trim()])),
    sort: sort === NEWEST ? '' : sort,
    columns: view.columns.join() === USUAL_COLUMNS.join() ? '' : view.columns.join() || ',',
    repeats: view.grouped ? '' : 'apart',
    page: view.page > 1 ? String(view.page) : '',
  };
}

export const isFiltered = (view: View): boolean => FILTERS.some((key) => view[key] !== '');

// ---- what is known of all runs ----------------------------------------------------------------------------------------

const isActive = (run: RunSummary): boolean => run.state === 'running' || run.state === 'queued';

// The newest, and those that run or wait, over what is known. Null where that does not explain what there is.
export function refreshed(old: RunSummary[], parts: RunSummary[][], total: number): RunSummary[] | null {
  const fresh = new Map(parts.flat().map((run) => [run.name, run]));
  if (old.some((run) => isActive(run) && !fresh.has(run.name))) return null;
  const known = new Set(old.map((run) => run.name));
  const added = parts.flat().filter((run) => !known.has(run.name));
  const runs = [...new Map(added.map((run) => [run.name, fresh.get(run.name)!])).values(), ...old.map((run) => fresh.get(run.name) ?? run)];
  return runs.length === total ? runs : null;
}

// ---- rows ------------------------------------------------------------------------------------------------------------

// A run, or a run with its repeats, the first of them first.
export interface Row {
  name: string;  // of the run that the others repeat
  runs: RunSummary[];
}

// "first-1.2" is a repeat of "first-1".
export const withoutRepeat = (name: string): string => name.replace(/(?<=.)\.\d+$/, '');

// Repeats have one name but for their number, and the same settings as far as the list has them.
const repeatKey = (run: RunSummary): string => [
  withoutRepeat(run.name), run.task, run.rules, run.variant, run.division, run.framework, run.backend, run.executor,
  run.workers, run.threads_per_worker, run.light, (run.labels ?? []).join('\t'), run.state === 'damaged',
].join('\n');

// In the order of the runs, which is newest first.
export function rowsOf(runs: RunSummary[], grouped: boolean): Row[] {
  if (!grouped) return runs.map((run) => ({name: run.name, runs: [run]}));
  const rows = new Map<string, Row>();
  for (const run of runs) {
    const key = repeatKey(run), row = rows.get(key);
    if (row) row.runs.unshift(run);
    else rows.set(key, {name: run.name, runs: [run]});
  }
  for (const row of rows.values()) row.name = row.runs.find((run) => run.name === withoutRepeat(run.name))?.name ?? row.runs[0]!.name;
  return [...rows.values()];
}

const texts = new WeakMap<RunSummary, string>();
function searched(run: RunSummary): string {
  const known = texts.get(run);
  if (known !== undefined) return known;
  const made = [run.name, run.state, taskLabel(run), run.division, run.framework, run.backend, run.executor, run.evaluation, run.failure,
    ...(run.labels ?? []), ...(run.tags ?? [])].join('\n').toLowerCase();
  texts.set(run, made);
  return made;
}

// Rows of which one run fits; they keep all of their repeats. `noted`: runs in whose notes the master found `q`.
export function fitting(rows: Row[], view: View, noted: ReadonlySet<string>): Row[] {
  const wanted = view.q.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const fits = (run: RunSummary): boolean =>
    (view.state === '' || run.state === view.state) && (view.task === '' || run.task === view.task) &&
    (view.workers === '' || String(run.workers) === view.workers) &&
    (view.tag === '' || (run.tags ?? []).includes(view.tag)) && (view.label === '' || (run.labels ?? []).includes(view.label)) &&
    (wanted.length === 0 || noted.has(run.name) || wanted.every((word) => searched(run).includes(word)));
  return rows.filter((row) => row.runs.some(fits));
}

// ---- cells of rows ---------------------------------------------------------------------------------------------------

export function mean(values: number[], how: 'geometric' | 'arithmetic'): number | null {
  if (values.length === 0 || (how === 'geometric' && values.some((value) => value <= 0))) return null;
  if (how === 'geometric') return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const reached = (row: Row): number => row.runs.filter((run) => run.goal?.reached).length;

// What a row is ordered by.
export function rowValue(column: Column, row: Row): Cell {
  const [first, ...others] = row.runs.map(column.value);
  if (others.length === 0) return first ?? null;
  const known = [first!, ...others].filter((value) => value !== null);
  if (column.mean) {
    if (column.complete && known.length < row.runs.length) return null;
    return mean(known as number[], column.mean);
  }
  if (column.date) return known.sort().at(-1) ?? null;
  return new Set(known).size === 1 ? known[0]! : known[0] ?? null;
}

export function rowText(column: Column, row: Row): string {
  if (row.runs.length > 1) {
    const values = row.runs.map(column.value).filter((value) => value !== null);
    if (column.complete && values.length < row.runs.length) return row.runs.some((run) => run.goal) ? `${reached(row)} of ${row.runs.length} reached` : NONE;
    const distinct = [...new Set(values)];
    if (column.mean === undefined && !column.date && distinct.length > 1) return distinct.map(column.text).join(', ');
  }
  return column.text(rowValue(column, row));
}

// "12.1 s, 12.4 s, 12.9 s": what a mean is of.
export const allValues = (column: Column, row: Row): string => row.runs.map((run) => column.text(column.value(run))).join(', ');

// Numbers within a text count as numbers: mine-2 is before mine-10.
const natural = (value: string): string => value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(20, '0'));

// What has no value comes last, either way.
export function sorted(rows: Row[], column: Column | undefined, descending: boolean): Row[] {
  if (column === undefined) return rows;
  const keyed = rows.map((row) => {
    const value = rowValue(column, row);
    return {row, value: typeof value === 'string' && !column.date ? natural(value) : value};
  });
  const way = descending ? -1 : 1;
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
    return a.value < b.value ? -way : a.value > b.value ? way : 0;
  });
  return keyed.map(({row}) => row);
}

export const columnOf = (columns: Column[], key: string): Column | undefined => key === 'name' ? NAME : columns.find((column) => column.key === key);

// Each run in a row of its own, in the order of the list.
export function listCsv(rows: Row[], columns: Column[]): string {
  return csv(['Run', 'Labels', 'Tags', ...columns.map((column) => column.title)], rows.flatMap((row) => row.runs.map((run) =>
    [run.name, (run.labels ?? []).join(', '), (run.tags ?? []).join(', '), ...columns.map((column) => column.value(run))])));
}

// What there is to filter by, with how many runs have it.
export function choicesOf(runs: RunSummary[]): Record<'state' | 'task' | 'tag' | 'label' | 'workers', Map<string, number>> {
  const made = {state: new Map<string, number>(), task: new Map<string, number>(), tag: new Map<string, number>(), label: new Map<string, number>(), workers: new Map<string, number>()};
  const add = (to: Map<string, number>, value: string | number | null | undefined) => {
    if (value !== null && value !== undefined && value !== '') to.set(String(value), (to.get(String(value)) ?? 0) + 1);
  };
  for (const run of runs) {
    add(made.state, run.state);
    add(made.task, run.task);
    add(made.workers, run.workers);
    for (const tag of run.tags ?? []) add(made.tag, tag);
    for (const label of run.labels ?? []) add(made.label, label);
  }
  return made;
}
