// A page of the master's list of runs, kept as runs change: the master filters, groups and orders.

import {useEffect, useRef, useState} from 'preact/hooks';
import {get, textOf, useEvents} from './api';
import type {RunPage, RunSummary} from './types';

const AT_ONCE = 1000;  // the most rows that the master gives
const PAUSE_MS = 1000;

export const askRuns = (query: Record<string, string>, offset: number, limit: number): Promise<RunPage> =>
  get<RunPage>(`/runs?${new URLSearchParams({...query, offset: String(offset), limit: String(limit)})}`);

// All runs of the list. A run that is made meanwhile shifts the others: none is missed, some come twice.
export async function allRuns(query: Record<string, string>): Promise<RunSummary[]> {
  const runs = new Map<string, RunSummary>();
  for (let offset = 0, total = 1; offset < total; offset += AT_ONCE) {
    const part = await askRuns(query, offset, AT_ONCE);
    for (const run of part.runs) runs.set(run.name, run);
    total = part.total;
  }
  return [...runs.values()];
}

export interface ListedRuns {
  page: RunPage | null;  // the one before while another is asked for
  error: string;
  again: () => void;
}

export function useListedRuns(query: Record<string, string>, offset: number, limit: number): ListedRuns {
  const [page, setPage] = useState<RunPage | null>(null);
  const [error, setError] = useState('');
  const key = JSON.stringify([query, offset, limit]);
  const asked = useRef({key, query, offset, limit});
  asked.current = {key, query, offset, limit};
  const busy = useRef(false), wanted = useRef(false), over = useRef(false), wake = useRef(() => {});
  const update = async () => {
    wanted.current = true;
    if (busy.current) return;
    busy.current = true;
    while (wanted.current && !over.current) {
      wanted.current = false;
      const {key: now, ...of} = asked.current;
      try {
        const next = await askRuns(of.query, of.offset, of.limit);
        if (over.current) break;
        if (asked.current.key === now) setPage(next);
        setError('');
      } catch (problem) {
        if (!over.current) setError(textOf(problem));
      }
      if (asked.current.key === now) await new Promise<void>((resolve) => { wake.current = resolve; setTimeout(resolve, PAUSE_MS); });
    }
    busy.current = false;
  };
  useEffect(() => {
    void update();
    wake.current();
  }, [key]);
  useEffect(() => () => { over.current = true; }, []);
  useEvents('/events', {runs: () => void update()});
  return {page, error, again: () => void update()};
}
