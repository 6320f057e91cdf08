// The list of runs: columns, cells of rows, and the link that says filters, order and columns. The master says which
// figures there are, filters, groups and orders. Pure.

import {rangeText, sampleText} from './comparison';
import {kilojoules, NONE, number, percent, seconds, stamp, taskLabel} from './format';
import {mlflowHref, runHref} from './router';
import {csv} from './series';
import type {Figure, Filter, RunSummary, Sample} from './types';

export type Cell = string | number | null;

export interface Column {
  key: string;  // also the master's name of the order
  title: string;
  value: (run: RunSummary) => Cell;  // what the CSV has
  text: (value: Cell) => string;
  numeric: boolean;
  date: boolean;      // the last one stands for repeats
  measured: boolean;  // no setting: repeats differ in it
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

// Numbers in the master's forms of figures; those in another form stand with their unit.
const FORMS: Record<string, (value: number) => string> = {
  number: String, count: (value) => value.toLocaleString('en'), rate: number, seconds, percent, kilojoules, metric: (value) => number(value, 5),
};
const scalar = (value: unknown): Cell =>
  typeof value === 'number' || typeof value === 'string' ? value : typeof value === 'boolean' ? (value ? 'yes' : 'no') : null;

function textOf({form, unit}: Figure, value: Cell): string {
  if (form === 'stamp') return stamp(value as string | null);
  if (form === 'text') return value === null || value === '' ? NONE : String(value);
  return typeof value !== 'number' ? NONE : FORMS[form]?.(value) ?? [number(value, 4), unit].filter(Boolean).join(' ');
}

function valueOf(key: string, run: RunSummary): Cell {
  if (key === 'task') return run.task ? taskLabel(run) : null;
  if (key === 'goal') return run.goal ? (run.goal.reached ? 'reached' : 'not reached') : null;
  const of: object | null | undefined = key.startsWith('goal_') ? run.goal : run;
  return scalar((of as Record<string, unknown> | null | undefined)?.[key.replace(/^goal_/, '')]);
}

// A figure that the master serves, as a column.
export const columnOf = (figure: Figure): Column => ({
  key: figure.key, title: figure.title, value: (run) => valueOf(figure.key, run), text: (value) => textOf(figure, value),
  numeric: figure.form !== 'text', date: figure.form === 'stamp', measured: !['text', 'number', 'stamp'].includes(figure.form),
});
export const USUAL_COLUMNS = ['state', 'task', 'workers', 'framework', 'backend', 'goal', 'time_to_goal_s', 'samples_per_s', 'created_at'];

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

// The mean of the repeats, of figures that the master gives one of.
function sampleOf(column: Column, row: Row): Sample | undefined {
  const found = (row.runs[0]!.repeats as Record<string, Sample | number> | undefined)?.[column.key];
  return typeof found === 'object' ? found : undefined;
}

export const reachedText = (row: Row): string => `${row.runs[0]!.repeats?.reached ?? 0} of ${row.runs.length} reached`;

export function rowText(column: Column, row: Row): string {
  const values = row.runs.map(column.value).filter((value) => value !== null), [first, ...others] = values;
  if (row.runs.length === 1 || first === undefined) return column.text(first ?? null);
  const sample = sampleOf(column, row);
  if (sample) return sample.mean !== null ? column.text(sample.mean) : column.key === 'time_to_goal_s' ? reachedText(row) : NONE;
  if (column.date) return column.text(others.at(-1) ?? first);
  if (typeof first === 'number' && others.length > 1) return rangeText(values as number[], column.text);
  return [...new Set(values.map(column.text))].join(', ');
}

// "12.1 s [11.2 s, 13.1 s], of 12.1 s, 12.4 s, 11.9 s"; '' where there is no mean.
export function meanText(column: Column, row: Row): string {
  const sample = row.runs.length > 1 ? sampleOf(column, row) : undefined;
  if (!sample || sample.mean === null) return '';
  return `${sampleText(sample, column.text)}, of ${sample.values.map(column.text).join(', ')}`;
}

export const hrefOf = (run: RunSummary): string => run.experiment_id === undefined ? runHref(run.name) : mlflowHref(run.experiment_id, run.name.replace(/^mlflow:/, ''));

// Each run in a row of its own, in the order of the list.
export function listCsv(runs: RunSummary[], columns: Column[]): string {
  return csv(['Run', 'Labels', 'Tags', ...columns.map((column) => column.title)], runs.map((run) =>
    [run.title ?? run.name, (run.labels ?? []).join(', '), (run.tags ?? []).join(', '), ...columns.map((column) => column.value(run))]));
}
