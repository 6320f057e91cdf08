// Speed-ups and differences of runs as the master tells them, which alone knows what may be compared. Pure.

import {NONE, number, percent} from './format';
import type {Comparison, Ratio, Sample, Scaled} from './types';

export const heading = (of: Comparison): string =>
  of.baseline !== '' ? `Speed-up against ${of.baseline}`
    : of.runs.some((run) => run.baseline !== '') ? 'Speed-up, each run against its own baseline' : 'Runs side by side';

// What the table of figures shows of each run.
export const speedUps: [string, (run: Scaled) => string][] = [
  ['Speed-up to goal', (run) => number(run.to_goal?.speed_up)],
  ['Efficiency to goal', (run) => percent(run.to_goal?.efficiency)],
  ['Speed-up of rate', (run) => number(run.rate?.speed_up)],
  ['Efficiency of rate', (run) => percent(run.rate?.efficiency)],
  ['Against', (run) => run.baseline === '' ? NONE : run.baseline],
  ['Not compared', (run) => run.no_ratio === '' ? NONE : run.no_ratio],
];

type Format = (value: number) => string;

// "12.3 s [11.9 s, 12.8 s]"
export const sampleText = (sample: Sample, format: Format): string =>
  sample.mean === null ? NONE
    : format(sample.mean) + (sample.interval ? ` [${sample.interval.map(format).join(', ')}]` : '');

export const short = (ratio: number): string => ratio > 0 && ratio < 0.0995 ? ratio.toPrecision(2) : ratio.toFixed(2);

const verdict = (of: Ratio, more: string, less: string): string => {
  if (of.differs === null) return of.no_spread ? 'not known: equal repeats' : 'not known: needs repeats';
  if (of.differs) return of.ratio > 1 ? more : less;
  if (of.shown_by_half === null) return 'no difference: all equal';
  const size = (of.shown_by_half * 100).toFixed(of.shown_by_half < 0.1 ? 1 : 0);
  return `no difference shown (${size} % would show in 50 of 100)`;
};

// "1.50 [1.21, 1.85], slower"
export const ratioText = (of: Ratio | null, more: string, less: string): string =>
  of === null ? NONE
    : `${short(of.ratio)}${of.interval ? ` [${of.interval.map(short).join(', ')}]` : ''}, ${verdict(of, more, less)}`;

// Of the repeats: "85.2", "84.1 to 85.2".
export const rangeText = (values: (number | null | undefined)[], format: Format): string => {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length === 0) return NONE;
  const least = format(Math.min(...known)), most = format(Math.max(...known));
  return least === most ? least : `${least} to ${most}`;
};
