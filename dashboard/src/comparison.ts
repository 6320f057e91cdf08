// Speed-ups and differences of runs as the master tells them, which alone knows what may be compared. Pure.

import {NONE, percent} from './format';
import type {Column} from './run_list';
import type {ComparedRun, Comparison, RepeatedRun, Sample, Scaled} from './types';

export const heading = (of: Comparison): string =>
  of.baseline !== '' ? `Speed-up against ${of.baseline}`
    : of.runs.some((run) => run.baseline !== '') ? 'Speed-up, each run against its own baseline' : 'Runs side by side';

// A ratio as the command line writes it.
export const short = (ratio: number): string => ratio > 0 && ratio < 0.0995 ? String(Number(ratio.toPrecision(2))) : ratio.toFixed(2);

// What the table of figures shows of each run.
export const speedUps: [string, (run: Scaled) => string][] = [
  ['Speed-up to goal', (run) => run.to_goal ? short(run.to_goal.speed_up) : NONE],
  ['Efficiency to goal', (run) => percent(run.to_goal?.efficiency)],
  ['Speed-up of rate', (run) => run.rate ? short(run.rate.speed_up) : NONE],
  ['Efficiency of rate', (run) => percent(run.rate?.efficiency)],
  ['Against', (run) => run.baseline === '' ? NONE : run.baseline],
  ['Not compared', (run) => run.no_ratio === '' ? NONE : run.no_ratio],
];

type Format = (value: number) => string;

// "12.3 s [11.9 s, 12.8 s]"
export const sampleText = (sample: Sample, format: Format): string =>
  sample.mean === null ? NONE
    : format(sample.mean) + (sample.interval ? ` [${sample.interval.map(format).join(', ')}]` : '');

// "1.50 [1.21, 1.85], slower": of a figure what the command line says of it.
export const wordsOf = (run: RepeatedRun, figure: string): string => {
  const words = run.words[figure] ?? '-';
  return words === '-' ? NONE : words;
};

// How the repeats of a run were held against those of the first one; nothing where it has no ratio, or no repeats.
export const pairing = (run: RepeatedRun): string =>
  run.runs > 1 && (run.time_to_goal_ratio || run.samples_per_s_ratio || run.value_after_ratio) ? wordsOf(run, 'paired_by_seed') : NONE;

// The range of the repeats: "85.2", "84.1 to 85.2".
export const rangeText = (values: (number | null | undefined)[], format: Format): string => {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length === 0) return NONE;
  const least = format(Math.min(...known)), most = format(Math.max(...known));
  return least === most ? least : `${least} to ${most}`;
};

// A row of the table of figures: its name, the cell of each run, and whether it is a setting.
export type ComparedRow = [string, (i: number) => string, boolean];

// Figures that the master serves, but those of which the command line has words: the range of each run's repeats.
export const measuredRows = (columns: Column[], groups: RepeatedRun[], repeats: ComparedRun[][]): ComparedRow[] =>
  columns.filter((column) => column.measured && !groups.some((group) => column.key in group.words)).map((column): ComparedRow =>
    [column.title, (i) => rangeText(repeats[i]!.map((run) => column.value(run) as number | null), column.text), false]);
