// Series of runs, asked for as they are needed.

import {get, segment} from './api';
import type {Metric, SeriesHead, SeriesPoints} from './types';

export const POINTS = 600;

const KINDS = ['batch_load', 'init', 'fwd_pass', 'comp_loss', 'backprop', 'agg', 'opt_step', 'comp_metrics', 'checkpoint'];
export const KIND_TITLES: Record<string, string> = {
  batch_load: 'loading', init: 'initialising', fwd_pass: 'forward', comp_loss: 'loss', backprop: 'backward', agg: 'communication',
  opt_step: 'optimizer', comp_metrics: 'metrics', checkpoint: 'checkpoint',
};
export const kinds: readonly string[] = KINDS;
export const kindOf = (kind: string): Metric => ({split: '', metric: `${kind}_s`});

export const LOSS: Metric = {split: 'train', metric: 'loss'};
export const RATE: Metric = {split: '', metric: 'samples_per_s'};

export const isSame = (a: Metric, b: Metric | null | undefined): boolean => a.split === b?.split && a.metric === b.metric;
// In the names of files.
export const idOf = ({split, metric}: Metric): string => split === '' ? metric : `${split}-${metric}`;

// Of what belongs to no split, the most telling first.
const TITLES = new Map<string, [string, string]>([
  ['samples_per_s', ['Throughput', 'samples per second']],
  ['step_s', ['Step time', 'seconds per step']],
  ['lr', ['Learning rate', 'learning rate']],
  ['bytes', ['Bytes sent', 'bytes per step']],
  ['cpu_cores', ['Processors', 'cores in use']],
  ['memory_bytes', ['Memory', 'bytes in use']],
  ['network_in_bytes_per_s', ['Network in', 'bytes per second']],
  ['network_out_bytes_per_s', ['Network out', 'bytes per second']],
]);
const ORDER = [...TITLES.keys()];

// What the supervisor sees from time to time belongs to no step.
export const isOverTime = ({split, metric}: Metric): boolean => split === '' &&
  ['cpu_cores', 'memory_bytes', 'network_in_bytes_per_s', 'network_out_bytes_per_s'].includes(metric);

export function titleOf(of: Metric): {title: string; unit: string} {
  const {split, metric} = of;
  if (isSame(of, LOSS)) return {title: 'Training loss', unit: metric};
  if (split === 'test') return {title: `Evaluation: ${metric}`, unit: metric};
  if (split === 'train') return {title: `Training: ${metric}`, unit: metric};
  const [title, unit] = TITLES.get(metric) ?? [metric, metric];
  return {title, unit};
}

// What gets a chart of its own, the most telling first.
export function charted(metrics: Metric[], goal: Metric | null | undefined): Metric[] {
  const weight = (of: Metric): number => {
    if (isSame(of, goal)) return 0;
    if (isSame(of, LOSS)) return 10;
    if (of.split !== '') return of.split === 'test' ? 5 : 20;
    const place = ORDER.indexOf(of.metric);
    return place >= 0 ? 11 + place : 30;
  };
  return metrics.filter((of) => !kinds.some((kind) => isSame(of, kindOf(kind))))
    .sort((a, b) => weight(a) - weight(b) || (a.metric < b.metric ? -1 : 1));
}

export type Ranks = 'merged' | 'rank';

// All series of one metric: one of all ranks, or of each.
export interface Measured {
  of: Metric;
  series: SeriesPoints[];
}

export const loadSeries = (run: string, metrics: Metric[], ranks: Ranks): Promise<Measured[]> =>
  Promise.all(metrics.map(async (of) => {
    const query = new URLSearchParams({split: of.split, metric: of.metric, points: String(POINTS)});
    if (ranks === 'merged') query.set('ranks', 'merged');
    return {of, series: (await get<{series: SeriesPoints[]}>(`/runs/${segment(run)}/series?${query}`)).series};
  }));

export async function metricsOf(run: string): Promise<Metric[]> {
  const {series} = await get<{series: SeriesHead[]}>(`/runs/${segment(run)}/series`);
  return series.filter((one, i) => series.findIndex((other) => isSame(one, other)) === i).map(({split, metric}) => ({split, metric}));
}
