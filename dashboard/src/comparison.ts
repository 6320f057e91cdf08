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
  sample.geometric_mean === null ? NONE
    : format(sample.geometric_mean) + (sample.interval ? ` [${sample.interval.map(format).join(', ')}]` : '');

// "1.50 [1.21, 1.85], slower"
export const ratioText = (of: Ratio | null, more: string, less: string): string =>
  of === null ? NONE
    : `${of.ratio.toFixed(2)}${of.interval ? ` [${of.interval.map((end) => end.toFixed(2)).join(', ')}]` : ''}, ` +
      (of.differs === null ? 'not known: needs repeats' : !of.differs ? 'no difference shown' : of.ratio > 1 ? more : less);

// Of the repeats: "85.2", "84.1 to 85.2".
export const rangeText = (values: (number | null | undefined)[], format: Format): string => {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length === 0) return NONE;
  const least = format(Math.min(...known)), most = format(Math.max(...known));
  return least === most ? least : `${least} to ${most}`;
};
