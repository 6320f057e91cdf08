// The list of runs: columns, cells of rows, and the link that says filters, order and columns. The master filters, groups
// and orders. Pure.

import {rangeText, sampleText} from './comparison';
import {kilojoules, NONE, number, percent, seconds, stamp, taskLabel} from './format';
import {mlflowHref, runHref} from './router';
import {csv} from './series';
import type {Filter, RunSummary} from './types';

export type Cell = string | number | null;

export interface Column {
  key: string;  // also the master's name of the order
  title: string;
  value: (run: RunSummary) => Cell;  // what the CSV has
  text: (value: Cell) => string;
  numeric: boolean;
  mean?: 'time_to_goal_s' | 'samples_per_s';  // the master gives the mean of repeats
  date?: true;                                // the last one stands for repeats
}

export type View = Record<Filter | 'q', string> & {
  sort: string;  // key of a column
  descending: boolean;
  columns: string[];
  grouped: boolean;
  page: number;
};

const NEWEST = '-created_at';

// ---- columns ---------------------------------------------------------------------------------------------------------

const scalar = (value: unknown): Cell =>
  typeof value === 'number' || typeof value === 'string' ? value : typeof value === 'boolean' ? (value ? 'yes' : 'no') : null;
const member = (key: string) => (run: RunSummary): Cell => scalar((run as unknown as Record<string, unknown>)[key]);
const ofGoal = (key: string) => (run: RunSummary): Cell => scalar((run.goal as Record<string, unknown> | null | undefined)?.[key]);
const words = (value: Cell): string => value === null || value === '' ? NONE : String(value);
const asNumber = (format: (value: number) => string) => (value: Cell): string => typeof value === 'number' ? format(value) : NONE;

const text = (key: string, title: string, value = member(key)): Column => ({key, title, value, text: words, numeric: false});
const figure = (key: string, title: string, format: (value: number) => string, value = member(key)): Column =>
  ({key, title, value, text: asNumber(format), numeric: true});
const time = (key: string, title: string): Column => ({key, title, value: member(key), text: (value) => stamp(value as string | null), numeric: true, date: true});

const plain = (value: number) => String(value);
export const COLUMNS: Column[] = [
  text('state', 'State'), text('task', 'Task', (run) => run.task ? taskLabel(run) : null),
  figure('workers', 'Workers', plain), figure('threads_per_worker', 'Threads per worker', plain),
  text('framework', 'Framework'), text('backend', 'Backend'), text('executor', 'Executor'), text('division', 'Division'),
  text('goal', 'Goal', (run) => run.goal ? (run.goal.reached ? 'reached' : 'not reached') : null),
  text('goal_metric', 'Metric of the goal', ofGoal('metric')), figure('goal_target', 'Target', (value) => number(value, 4), ofGoal('target')),
  figure('goal_value', 'Value for the goal', (value) => number(value, 4), ofGoal('value')),
  figure('goal_epoch', 'Epoch of the goal', (value) => number(value, 4), ofGoal('epoch')),
  {...figure('time_to_goal_s', 'Time to goal', seconds), mean: 'time_to_goal_s'}, figure('train_s', 'Train clock', seconds),
  figure('wall_s', 'Wall clock', seconds),
  figure('energy_joules', 'Energy', kilojoules), figure('energy_to_goal_joules', 'Energy to goal', kilojoules),
  {...figure('samples_per_s', 'Samples/s', (value) => number(value)), mean: 'samples_per_s'},
  figure('communication_share', 'Communication', percent), text('evaluation', 'Last evaluation'), text('failure', 'Failure'),
  text('light', 'Light goal'), figure('seed', 'Seed', plain), figure('repeat', 'Repeat', plain), figure('id', 'Number', plain),
  time('created_at', 'Made'), time('started_at', 'Started'), time('finished_at', 'Ended'),
];
export const USUAL_COLUMNS = ['state', 'task', 'workers', 'framework', 'backend', 'goal', 'time_to_goal_s', 'samples_per_s', 'created_at'];

const KNOWN = new Set(['name', 'labels', 'tags', 'goal', 'rules', 'variant', 'shared_host', 'configuration', 'repeats', 'title', 'experiment_id', ...COLUMNS.map((column) => column.key)]);

// Also what a later master says of each run in its list.
export function columnsOf(runs: RunSummary[]): Column[] {
  const more = new Map<string, Column>();
  for (const run of runs) {
    for (const [key, value] of Object.entries(run)) {
      if (KNOWN.has(key) || more.has(key) || scalar(value) === null) continue;
      const title = key.charAt(0).toUpperCase() + key.slice(1).replaceAll('_', ' ');
      more.set(key, typeof value === 'number' ? figure(key, title, (one) => number(one, 4)) : text(key, title));
    }
  }
  return [...COLUMNS, ...more.values()];
}

// ---- the link --------------------------------------------------------------------------------------------------------

const ASKED = ['q', 'state', 'task', 'workers', 'executor', 'label', 'tag'] as const;

export function viewOf(query: URLSearchParams): View {
  const sort = query.get('sort') ?? NEWEST;
  const columns = query.get('columns');
  return {
    ...Object.fromEntries(ASKED.map((key) => [key, query.get(key) ?? ''])) as Record<Filter | 'q', string>,
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
    ...Object.fromEntries(ASKED.map((key) => [key, view[key].trim()])),
    sort: sort === NEWEST ? '' : sort,
    columns: view.columns.join() === USUAL_COLUMNS.join() ? '' : view.columns.join() || ',',
    repeats: view.grouped ? '' : 'apart',
    page: view.page > 1 ? String(view.page) : '',
  };
}

export const isFiltered = (view: View): boolean => ASKED.some((key) => view[key] !== '');

// What the master is asked for.
export const askedOf = (view: View): Record<string, string> => ({
  ...Object.fromEntries(ASKED.map((key) => [key, view[key].trim()]).filter(([, value]) => value !== '')),
  sort: (view.descending ? '-' : '') + view.sort,
  repeats: view.grouped ? 'together' : 'apart',
  tracked: 'true',
});

// ---- rows ------------------------------------------------------------------------------------------------------------

// A run, or a run with its repeats, the first of them first.
export interface Row {
  name: string;  // of the run that the others repeat
  runs: RunSummary[];
}

// The master gives repeats one behind the other.
export function rowsOf(runs: RunSummary[], grouped: boolean): Row[] {
  const rows: Row[] = [];
  for (const run of runs) {
    const before = rows.at(-1);
    if (grouped && before && run.configuration && before.runs[0]!.configuration === run.configuration) before.runs.push(run);
    else rows.push({name: run.name, runs: [run]});
  }
  return rows;
}

export const reachedText = (row: Row): string => `${row.runs[0]!.repeats?.reached ?? 0} of ${row.runs.length} reached`;

export function rowText(column: Column, row: Row): string {
  const values = row.runs.map(column.value).filter((value) => value !== null), [first, ...others] = values;
  if (row.runs.length === 1 || first === undefined) return column.text(first ?? null);
  if (column.mean) {
    const sample = row.runs[0]!.repeats?.[column.mean];
    if (sample && sample.mean !== null) return column.text(sample.mean);
    return column.mean === 'time_to_goal_s' ? reachedText(row) : NONE;
  }
  if (column.date) return column.text(others.at(-1) ?? first);
  if (typeof first === 'number' && others.length > 1) return rangeText(values as number[], column.text);
  return [...new Set(values.map(column.text))].join(', ');
}

// "12.1 s [11.2 s, 13.1 s], of 12.1 s, 12.4 s, 11.9 s"; '' where there is no mean.
export function meanText(column: Column, row: Row): string {
  const sample = row.runs.length > 1 && column.mean ? row.runs[0]!.repeats?.[column.mean] : undefined;
  if (!sample || sample.mean === null) return '';
  return `${sampleText(sample, column.text)}, of ${sample.values.map(column.text).join(', ')}`;
}

export const hrefOf = (run: RunSummary): string => run.experiment_id === undefined ? runHref(run.name) : mlflowHref(run.experiment_id, run.name.replace(/^mlflow:/, ''));

// Each run in a row of its own, in the order of the list.
export function listCsv(runs: RunSummary[], columns: Column[]): string {
  return csv(['Run', 'Labels', 'Tags', ...columns.map((column) => column.title)], runs.map((run) =>
    [run.title ?? run.name, (run.labels ?? []).join(', '), (run.tags ?? []).join(', '), ...columns.map((column) => column.value(run))]));
}
