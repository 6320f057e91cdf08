// Series of runs, asked for as they are needed.

import {get, segment} from './api';
import type {SeriesHead, SeriesPoints} from './types';

export const POINTS = 600;

const KINDS = ['batch_load', 'init', 'fwd_pass', 'comp_loss', 'backprop', 'agg', 'opt_step', 'comp_metrics', 'checkpoint'];
export const KIND_TITLES: Record<string, string> = {
  batch_load: 'loading', init: 'initialising', fwd_pass: 'forward', comp_loss: 'loss', backprop: 'backward', agg: 'communication',
  opt_step: 'optimizer', comp_metrics: 'metrics', checkpoint: 'checkpoint',
};
export const kinds: readonly string[] = KINDS;
export const kindSeries = (kind: string): string => `${kind}_s`;

const TITLES: Record<string, [string, string]> = {
  train_loss: ['Training loss', 'loss'],
  samples_per_s: ['Throughput', 'samples per second'],
  step_s: ['Step time', 'seconds per step'],
  lr: ['Learning rate', 'learning rate'],
  bytes: ['Bytes sent', 'bytes per step'],
};
const ORDER = ['train_loss', 'samples_per_s', 'step_s', 'lr', 'bytes'];

export function titleOf(name: string): {title: string; unit: string} {
  const known = TITLES[name];
  if (known) return {title: known[0], unit: known[1]};
  if (name.startsWith('val_global_')) return {title: `Evaluation: ${name.slice(11)}`, unit: name.slice(11)};
  if (name.startsWith('train_')) return {title: `Training: ${name.slice(6)}`, unit: name.slice(6)};
  return {title: name, unit: name};
}

// Names of the series that get a chart each, the most telling first.
export function chartNames(heads: SeriesHead[], goalMetric: string | undefined): string[] {
  const stepKinds = new Set(KINDS.map(kindSeries));
  const weight = (name: string): number => {
    if (goalMetric !== undefined && name === `val_global_${goalMetric}`) return 0;
    const place = ORDER.indexOf(name);
    if (place >= 0) return 10 + place;
    return name.startsWith('val_global_') ? 5 : name.startsWith('train_') ? 20 : 30;
  };
  return [...new Set(heads.map((head) => head.name))].filter((name) => !stepKinds.has(name))
    .sort((a, b) => weight(a) - weight(b) || (a < b ? -1 : 1));
}

export async function loadSeries(run: string, names: string[]): Promise<Map<string, SeriesPoints[]>> {
  const answers = await Promise.all(names.map(async (name) => {
    const {series} = await get<{series: SeriesPoints[]}>(`/runs/${segment(run)}/series?name=${segment(name)}&points=${POINTS}`);
    return [name, series] as const;
  }));
  return new Map(answers);
}

export async function loadAll(run: string): Promise<Map<string, SeriesPoints[]>> {
  const {series} = await get<{series: SeriesHead[]}>(`/runs/${segment(run)}/series`);
  return loadSeries(run, [...new Set(series.map((head) => head.name))]);
}
