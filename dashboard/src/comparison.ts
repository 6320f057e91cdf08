// Speed-ups of runs as the master tells them, which alone knows what may be compared. Pure.

import {NONE, number, percent} from './format';
import type {ComparedRun, Comparison} from './types';

export const heading = (of: Comparison): string =>
  of.baseline !== '' ? `Speed-up against ${of.baseline}`
    : of.runs.some((run) => run.baseline !== '') ? 'Speed-up, each run against its own baseline' : 'Runs side by side';

// What the table of figures shows of each run.
export const speedUps: [string, (run: ComparedRun) => string][] = [
  ['Speed-up to goal', (run) => number(run.to_goal?.speed_up)],
  ['Efficiency to goal', (run) => percent(run.to_goal?.efficiency)],
  ['Speed-up of rate', (run) => number(run.rate?.speed_up)],
  ['Efficiency of rate', (run) => percent(run.rate?.efficiency)],
  ['Against', (run) => run.baseline === '' ? NONE : run.baseline],
  ['Not compared', (run) => run.no_ratio === '' ? NONE : run.no_ratio],
];
