// From what the master answers to what a chart draws. Pure.

import type {SeriesHead, SeriesPoints} from './types';

export interface Line {
  label: string;
  x: number[];
  y: (number | null)[];
  guide?: boolean;     // a thin dashed line, e.g. the goal
  colour?: number;     // index into the palette; default: the place in the list
  right?: boolean;     // its values belong to the axis at the right
  measured?: (number | null)[];  // where y is smoothed: what was measured
}

// The exponential moving average of weight `weight` without its start at 0, as TensorBoard draws it. A gap stays one.
export function smoothed(y: (number | null)[], weight: number): (number | null)[] {
  let sum = 0, share = 0;
  return y.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

export const smooth = (of: Line[], weight: number): Line[] =>
  weight === 0 ? of : of.map((line) => line.guide ? line : {...line, y: smoothed(line.y, weight), measured: line.y});

// Whether there is a line to draw: some series with two points or more.
export const isCurve = (of: SeriesPoints[]): boolean => of.some((one) => one.points.step.length > 1);

// What a logarithmic axis cannot show becomes a gap.
export function aboveZero(of: Line[], x: boolean, y: boolean): {lines: Line[]; left: number} {
  let left = 0;
  const made = of.map((line) => {
    const keep = line.x.map((value) => !x || value > 0);
    left += line.guide ? 0 : keep.filter((one) => !one).length;
    const above = (values: (number | null)[]) => values.filter((_, i) => keep[i]).map((value) => {
      if (!y || value === null || value > 0) return value;
      if (!line.guide && values === line.y) ++left;
      return null;
    });
    return {...line, x: line.x.filter((_, i) => keep[i]), y: above(line.y), ...(line.measured ? {measured: above(line.measured)} : {})};
  });
  return {lines: made, left};
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

// A table of the page, row by row, each cell with how many columns it spans. Rows of the head become one.
export type TableCell = {text: string; span: number};
export function tableCsv(head: TableCell[][], body: TableCell[][]): string {
  const spread = (row: TableCell[]): string[] => row.flatMap(({text, span}) => Array<string>(span).fill(text));
  const heads = head.map(spread);
  const titles = (heads.at(-1) ?? []).map((_, i) => [...new Set(heads.map((row) => row[i] ?? '').filter((text) => text !== ''))].join(' '));
  return csv(titles, body.map((row) => spread(row).map((text) => text !== '' && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(text) ? Number(text) : text)));
}

// How far a run is on the way to its goal, from 0 to 1.
export function goalShare(value: number | null | undefined, target: number, higherIsBetter: boolean): number {
  if (value === null || value === undefined || !Number.isFinite(value)) return 0;
  const share = higherIsBetter ? value / target : target / value;
  return Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0));
}
