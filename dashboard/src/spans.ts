// The events of a trace as rows of spans, those within others below them. Pure.

import type {Trace, TraceEvent} from './types';

export interface Placed extends TraceEvent {
  level: number;  // how many spans it lies in
}

export interface SpanRow {
  rank: number;
  name: string;
  depth: number;  // levels that it has
  spans: Placed[];
}

export function rowsOf(trace: Trace): SpanRow[] {
  const names = new Map<string, string>();
  const rows = new Map<string, TraceEvent[]>();
  for (const event of trace.traceEvents) {
    const key = `${event.pid} ${event.tid}`;
    if (event.ph === 'M' && event.name === 'thread_name') names.set(key, String(event.args?.name ?? ''));
    if (event.ph !== 'X' || event.cat === 'step') continue;
    const row = rows.get(key);
    if (row) row.push(event);
    else rows.set(key, [event]);
  }
  const placed = [...rows].map(([key, events]): SpanRow & {tid: number} => {
    events.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
    const ends: number[] = [];
    let depth = 1;
    const spans = events.map((event) => {
      while (ends.length > 0 && ends.at(-1)! <= event.ts + 5e-4) ends.pop();
      const level = ends.length;
      ends.push(event.ts + event.dur);
      depth = Math.max(depth, ends.length);
      return {...event, level};
    });
    return {rank: events[0]!.pid, tid: events[0]!.tid, name: names.get(key) ?? '', depth, spans};
  });
  return placed.sort((a, b) => a.rank - b.rank || a.tid - b.tid);
}
