// Series of runs, asked for as they are needed.

import {get, segment} from './api';
import type {Metric, SeriesHead, SeriesPoints} from './types';
import type {Quantity} from './units';

export const POINTS = 600;

const KINDS = ['batch_load', 'init', 'fwd_pass', 'comp_loss', 'backprop', 'agg', 'opt_step', 'comp_metrics', 'checkpoint'];
export const KIND_TITLES: Record<string, string> = {
  batch_load: 'loading', init: 'initialising', fwd_pass: 'forward', comp_loss: 'loss', backprop: 'backward', agg: 'communication',
  opt_step: 'optimizer', comp_metrics: 'metrics', checkpoint: 'checkpoint',
};
export const kinds: readonly string[] = KINDS;
// A script of a custom run reports them under their bare names, whenever it likes.
export const kindOf = (kind: string, custom = false): Metric => ({split: '', metric: custom ? kind : `${kind}_s`});

export const LOSS: Metric = {split: 'train', metric: 'loss'};
export const RATE: Metric = {split: '', metric: 'samples_per_s'};

export const isSame = (a: Metric, b: Metric | null | undefined): boolean => a.split === b?.split && a.metric === b.metric;
// In the names of files.
export const idOf = ({split, metric}: Metric): string => split === '' ? metric : `${split}-${metric}`;

export interface Title {
  title: string;
  unit: string;  // in words, of the axis
  quantity?: Quantity;
}

// The titles of what belongs to no split, the most telling first.
const TITLES = new Map<string, Title>([
  ['samples_per_s', {title: 'Throughput', unit: 'samples per second'}],
  ['step_s', {title: 'Step time', unit: 'time per step', quantity: 'seconds'}],
  ['lr', {title: 'Learning rate', unit: 'learning rate'}],
  ['bytes', {title: 'Data sent', unit: 'data per step', quantity: 'bytes'}],
  ['cpu_cores', {title: 'Processors', unit: 'cores in use'}],
  ['memory_bytes', {title: 'Memory', unit: 'memory in use', quantity: 'bytes'}],
  ['network_in_bytes_per_s', {title: 'Network in', unit: 'received', quantity: 'bytes/s'}],
  ['network_out_bytes_per_s', {title: 'Network out', unit: 'sent', quantity: 'bytes/s'}],
  ['host_cpu_cores', {title: 'Processors of the host', unit: 'cores in use'}],
  ['host_memory_bytes', {title: 'Memory of the host', unit: 'memory in use', quantity: 'bytes'}],
  ['host_network_in_bytes_per_s', {title: 'Network in, of the host', unit: 'received', quantity: 'bytes/s'}],
  ['host_network_out_bytes_per_s', {title: 'Network out, of the host', unit: 'sent', quantity: 'bytes/s'}],
]);
const ORDER = [...TITLES.keys()];

// What the supervisor sees from time to time belongs to no step.
export const isOverTime = ({split, metric}: Metric): boolean => split === '' &&
  ['cpu_cores', 'memory_bytes', 'network_in_bytes_per_s', 'network_out_bytes_per_s'].includes(metric.replace(/^host_/, ''));

export function titleOf(of: Metric): Title {
  const {split, metric} = of;
  if (isSame(of, LOSS)) return {title: 'Training loss', unit: metric};
  if (split === 'test') return {title: `Evaluation: ${metric}`, unit: metric};
  if (split === 'train') return {title: `Training: ${metric}`, unit: metric};
  return TITLES.get(metric) ?? {title: metric, unit: metric};
}

// What gets a chart of its own, the most telling first.
export function charted(metrics: Metric[], goal: Metric | null | undefined, custom = false): Metric[] {
  const weight = (of: Metric): number => {
    if (isSame(of, goal)) return 0;
    if (isSame(of, LOSS)) return 10;
    if (of.split !== '') return of.split === 'test' ? 5 : 20;
    const place = ORDER.indexOf(of.metric);
    return place >= 0 ? 11 + place : 30;
  };
  return metrics.filter((of) => !kinds.some((kind) => isSame(of, kindOf(kind, custom))))
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
