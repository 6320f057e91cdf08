// Numbers, times and sizes as people read them. Pure.

import type {Energy} from './types';

export const NONE = '–';

// Text of others as it may be shown: what changes the direction of writing, and control characters that are no white
// space, as \u202e.
export const visible = (text: string): string =>
  text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (symbol) => `\\u${symbol.charCodeAt(0).toString(16).padStart(4, '0')}`);

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return String(Number(value.toPrecision(digits)));
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1e-9)) + 1))));
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return '0 s';
  if (value < 1e-3) return `${number(value * 1e6)} µs`;
  if (value < 1) return `${number(value * 1e3)} ms`;
  if (value < 99.95) return `${value.toFixed(value < 9.995 ? 2 : 1)} s`;  // three digits, as those of the command line
  const whole = Math.round(value), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, s = whole % 60;
  return h > 0 ? `${h} h ${String(m).padStart(2, '0')} min` : `${m} min ${String(s).padStart(2, '0')} s`;
}

export function kilojoules(joules: number | null | undefined): string {
  if (joules === null || joules === undefined || !Number.isFinite(joules)) return NONE;
  const value = joules / 1000;  // three digits, as those of the command line
  return `${value < 99.95 ? value.toFixed(value < 9.995 ? 2 : 1) : Math.round(value).toLocaleString('en')} kJ`;
}

// What the hosts of a run used. There is no sum of some of them: those that are not known are named.
export function energyText(energy: Energy | null | undefined): string {
  const named = (known: boolean) => (energy?.hosts ?? []).filter((one) => (one.joules !== null) === known).map((one) => visible(one.host)).join(', ');
  if (!energy || named(true) === '') return NONE;
  if (named(false) !== '') return `not known: no meter can be read on ${named(false)}`;
  const toGoal = energy.to_goal_joules === null ? '' : `, ${kilojoules(energy.to_goal_joules)} to the goal`;
  return `${kilojoules(energy.joules)}${toGoal}, by all programs of ${named(true)}`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined || !Number.isFinite(share) ? NONE : `${(share * 100).toFixed(1)} %`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0, left = value;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    ++at;
  }
  return `${number(left)} ${units[at]}`;
}

export function ago(stamp: string | null | undefined, now: number): string {
  if (!stamp) return NONE;
  const s = Math.max(0, (now - Date.parse(stamp)) / 1000);
  if (!Number.isFinite(s)) return NONE;
  if (s < 10) return 'just now';
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

export function stamp(text: string | null | undefined): string {
  if (!text) return NONE;
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return text;
  const two = (value: number) => String(value).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` +
    `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

// "fashion-mnist", "2a · 2021 · small": a task with what chooses among its forms.
export function taskLabel(run: {task?: string | null; rules?: string | null; variant?: string | null}): string {
  return [run.task, run.rules, run.variant].filter(Boolean).join(' · ') || NONE;
}

export const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
