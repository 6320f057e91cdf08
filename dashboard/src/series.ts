// From what the master answers to what a chart draws. Pure.

import type {SeriesHead, SeriesPoints} from './types';

export interface Line {
  label: string;
  x: number[];
  y: (number | null)[];
  guide?: boolean;     // a thin dashed line, e.g. the goal
  colour?: number;     // index into the palette; default: the place in the list
}

export const labelOf = ({rank, merge, ranks}: SeriesHead): string =>
  merge !== undefined ? `${merge} of ${ranks} ranks` : rank === 'all' ? 'all ranks' : `rank ${rank}`;

export type XAxis = 'step' | 'time';

// A line for each series. start_us: of the run, so that time counts from there, in seconds.
export const lines = (of: SeriesPoints[], x: XAxis, start_us: number): Line[] => of.map((one) => ({
  label: labelOf(one),
  x: x === 'step' ? one.points.step : one.points.time_us.map((t) => (t - start_us) / 1e6),
  y: one.points.mean,
}));

// Seconds per step of each kind over the whole series: a row counts as many times as it has points.
export function average(series: SeriesPoints): number {
  let sum = 0, count = 0;
  series.points.mean.forEach((mean, i) => {
    if (mean === null) return;
    sum += mean * series.points.points[i]!;
    count += series.points.points[i]!;
  });
  return count === 0 ? 0 : sum / count;
}

// Totals since the start to rates; the first has none. A counter that went back (a restart) has no rate there.
export function rates(time_us: number[], total: number[]): (number | null)[] {
  return total.map((value, i) => {
    const elapsed = i === 0 ? 0 : (time_us[i]! - time_us[i - 1]!) / 1e6;
    return elapsed <= 0 || value < total[i - 1]! ? null : (value - total[i - 1]!) / elapsed;
  });
}

// A column of a table: null where the line has a gap there, as it was no number; undefined where it has no point.
export type Column = (number | null | undefined)[];

// Lines with x of their own as one table of columns: all x, then one column per line.
export function table(of: Line[]): {x: number[]; columns: Column[]} {
  const x = [...new Set(of.flatMap((line) => line.x))].sort((a, b) => a - b);
  const at = new Map(x.map((value, i) => [value, i]));
  const columns = of.map((line) => {
    const column: Column = x.map(() => undefined);
    line.x.forEach((value, i) => { column[at.get(value)!] = line.y[i] ?? null; });
    return column;
  });
  return {x, columns};
}

// RFC 4180. A cell that a spreadsheet would take for a formula is text.
export function csvCell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(head: string[], rows: (string | number | null)[][]): string {
  return [head, ...rows].map((row) => row.map(csvCell).join(',')).join('\r\n') + '\r\n';
}

export function linesCsv(xLabel: string, of: Line[]): string {
  const {x, columns} = table(of);
  return csv([xLabel, ...of.map((line) => line.label)], x.map((value, i) => [value, ...columns.map((column) => column[i] ?? null)]));
}

// How far a run is on the way to its goal, from 0 to 1.
export function goalShare(value: number | null | undefined, target: number, higherIsBetter: boolean): number {
  if (value === null || value === undefined || !Number.isFinite(value)) return 0;
  const share = higherIsBetter ? value / target : target / value;
  return Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0));
}
