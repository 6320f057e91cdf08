// Rows of benchmarks of collectives as lines of charts. Pure.

import type {Line} from './series';
import type {CollectiveForm, CollectiveRow} from './types';

export type Measure = 'time' | 'alg_bw' | 'bus_bw';
export const MEASURES: Record<Measure, {title: string; unit: string}> = {
  time: {title: 'Time', unit: 'microseconds'},
  alg_bw: {title: 'Algorithm bandwidth', unit: 'GB/s'},
  bus_bw: {title: 'Bus bandwidth', unit: 'GB/s'},
};

export const FORMS = [['out_of_place', 'out of place'], ['in_place', 'in place']] as const;
type FormName = typeof FORMS[number][0];

// A time is the median, where the iterations are known.
const valueOf = (form: CollectiveForm, measure: Measure): number | null =>
  measure === 'time' ? form.iterations?.p50 ?? form.time : form[measure];

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

// "all_reduce, sum, cuda": what has a chart of its own.
export const groupOf = (row: CollectiveRow): string =>
  [row.operation, ...(row.redop === 'none' ? [] : [row.redop]), ...(row.device === 'cpu' ? [] : [row.device])].join(', ');

export const groupsOf = (rows: CollectiveRow[]): string[] => [...new Set(rows.filter((row) => row.size > 0).map(groupOf))];

// One line; a size that was measured several times has the median. Nothing of no bytes: both axes are logarithmic.
function lineOf(label: string, rows: CollectiveRow[], form: (row: CollectiveRow) => CollectiveForm | null, measure: Measure): Line[] {
  const values = new Map<number, number[]>();
  for (const row of rows) {
    const of = form(row), value = of === null ? null : valueOf(of, measure);
    if (row.size > 0 && value !== null && value > 0) values.set(row.size, [...values.get(row.size) ?? [], value]);
  }
  const sizes = [...values.keys()].sort((a, b) => a - b);
  return sizes.length === 0 ? [] : [{label, x: sizes, y: sizes.map((size) => median(values.get(size)!))}];
}

const typesOf = (rows: CollectiveRow[]): string[] => [...new Set(rows.map((row) => row.type))];

// One run has a line per type and form.
export function linesOfRun(rows: CollectiveRow[], group: string, measure: Measure): Line[] {
  const own = rows.filter((row) => groupOf(row) === group);
  return typesOf(own).flatMap((type) => FORMS.flatMap(([name, words]) =>
    lineOf(`${type}, ${words}`, own.filter((row) => row.type === type), (row) => row[name], measure)));
}

// The form that the interface has without a copy, else the other.
function ownForm(row: CollectiveRow): CollectiveForm | null {
  const there = FORMS.map(([name]: readonly [FormName, string]) => row[name]).filter((form) => form !== null);
  return there.find((form) => !form.copies) ?? there[0] ?? null;
}

// Several runs have a line per run and type.
export function linesOfRuns(runs: {label: string; rows: CollectiveRow[]}[], group: string, measure: Measure): Line[] {
  const own = runs.map((run) => ({...run, rows: run.rows.filter((row) => groupOf(row) === group)}));
  const several = new Set(own.flatMap((run) => typesOf(run.rows))).size > 1;
  return own.flatMap((run) => typesOf(run.rows).flatMap((type) =>
    lineOf(several ? `${run.label}, ${type}` : run.label, run.rows.filter((row) => row.type === type), ownForm, measure)));
}

// Sizes that took ten times as long as both their neighbours, as tables and documents of the command mark them:
// "stalled, ten times both neighbours: 65,536 bytes (float, in place)"; '' where none did.
export function stallsOf(times: Line[]): string {
  const stalled = times.flatMap(({label, x, y}) => x.flatMap((size, i) => {
    const [before, own, after] = [y[i - 1], y[i], y[i + 1]];
    if (!before || !own || !after || own < 10 * Math.max(before, after)) return [];
    return [`${size.toLocaleString('en')} bytes (${label})`];
  }));
  return stalled.length === 0 ? '' : `stalled, ten times both neighbours: ${stalled.join('; ')}`;
}

export const wrongOf = (rows: CollectiveRow[]): number =>
  rows.reduce((sum, row) => sum + (row.out_of_place?.nwrong ?? 0) + (row.in_place?.nwrong ?? 0), 0);

// How much worse than the best pair, from 0 to 1.
export function badness(values: (number | null)[][], higherIsBetter: boolean): (number | null)[][] {
  const known = values.flat().filter((value): value is number => value !== null && value > 0);
  const best = higherIsBetter ? Math.max(...known) : Math.min(...known);
  return values.map((row) => row.map((value) =>
    value === null || value <= 0 ? null : Math.max(0, 1 - (higherIsBetter ? value / best : best / value))));
}

// "8", "4 K", "100 M": of an axis.
export function shortSize(value: number): string {
  for (const [unit, name] of [[1e9, ' G'], [1e6, ' M'], [1e3, ' K']] as const) {
    if (value >= unit) return `${Number((value / unit).toPrecision(3))}${name}`;
  }
  return String(value);
}
