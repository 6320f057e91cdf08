// How the charts of a run are looked at, and the link that says it. Pure.

import {titleOf, type Ranks} from './run_series';
import type {Line, XAxis} from './series';
import type {Metric} from './types';
import type {Quantity} from './units';

export const SMOOTHING = ['0', '0.6', '0.9', '0.97'] as const;
export const LOG_AXES = ['', 'y', 'x', 'xy'] as const;

export interface RunView {
  ranks: Ranks;
  x: XAxis;
  smoothing: typeof SMOOTHING[number];
  log: typeof LOG_AXES[number];
  together: string[];  // keys of metrics in one chart
}

export const keyOf = ({split, metric}: Metric): string => `${split}/${metric}`;

export function runViewOf(query: URLSearchParams): RunView {
  return {
    ranks: query.get('ranks') === 'each' ? 'rank' : 'merged', x: query.get('x') === 'time' ? 'time' : 'step',
    smoothing: SMOOTHING.find((one) => one === query.get('smoothing')) ?? '0', log: LOG_AXES.find((one) => one === query.get('log')) ?? '',
    together: query.getAll('chart'),
  };
}

// What is usual is left out.
export function runQueryOf(view: RunView): URLSearchParams {
  const query = new URLSearchParams();
  if (view.ranks === 'rank') query.set('ranks', 'each');
  if (view.x === 'time') query.set('x', 'time');
  if (view.smoothing !== '0') query.set('smoothing', view.smoothing);
  if (view.log !== '') query.set('log', view.log);
  for (const key of view.together) query.append('chart', key);
  return query;
}

export interface Charted {
  of: Metric;
  drawn: Line[];
}

export interface Combined {
  lines: Line[];
  yLabel: string;
  yQuantity: Quantity | undefined;
  rightLabel: string | undefined;
  rightQuantity: Quantity | undefined;
}

const unitText = (of: Metric): string => titleOf(of).unit;

// Metrics in one chart: those of the first unit at the left axis, those of a second one at the right. There is no third.
export function combined(charts: Charted[]): Combined {
  const units = [...new Set(charts.map(({of}) => unitText(of)))].slice(0, 2);
  const lines = charts.filter(({of}) => units.includes(unitText(of))).flatMap(({of, drawn}) => {
    const shown = drawn.filter((line) => !line.guide);
    const right = unitText(of) === units[1];
    return shown.map((line): Line => ({...line, label: shown.length === 1 ? titleOf(of).title : `${titleOf(of).title}, ${line.label}`, ...(right ? {right} : {})}));
  }).map((line, colour) => ({...line, colour}));
  const quantity = (unit: string | undefined) => charts.map(({of}) => titleOf(of)).find((one) => one.unit === unit)?.quantity;
  return {lines, yLabel: units[0] ?? '', yQuantity: quantity(units[0]), rightLabel: units[1], rightQuantity: quantity(units[1])};
}

// Whether a chart of `chosen` has an axis left for this metric.
export const hasAxis = (of: Metric, chosen: Metric[]): boolean => {
  const units = new Set(chosen.map(unitText));
  return units.size < 2 || units.has(unitText(of));
};
