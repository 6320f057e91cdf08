// Units of axes as people read them: a factor for all values of an axis, and its name. Pure.

export type Quantity = 'seconds' | 'bytes' | 'bytes/s';

export interface Unit {
  factor: number;  // how much of the quantity's own unit is one of these
  name: string;
}

const SECONDS: Unit[] = [{factor: 3600, name: 'h'}, {factor: 60, name: 'min'}, {factor: 1, name: 's'}, {factor: 1e-3, name: 'ms'}, {factor: 1e-6, name: 'µs'}];
const BYTES: Unit[] = ['TiB', 'GiB', 'MiB', 'KiB', 'B'].map((name, i) => ({factor: 1024 ** (4 - i), name}));

// The largest unit of which the largest value has at least one; of times at least two, since 90 s reads better than 1.5 min.
export function unitOf(quantity: Quantity | undefined, largest: number): Unit {
  if (quantity === undefined) return {factor: 1, name: ''};
  const units = quantity === 'seconds' ? SECONDS : BYTES;
  const least = quantity === 'seconds' ? 2 : 1;
  const found = largest > 0 ? units.find(({factor}) => largest >= (factor > 1 ? least : 1) * factor) ?? units.at(-1)! : units.find(({factor}) => factor === 1)!;
  return quantity === 'bytes/s' ? {...found, name: `${found.name}/s`} : found;
}

export const axisTitle = (words: string, unit: Unit): string => unit.name === '' ? words : `${words} (${unit.name})`;
