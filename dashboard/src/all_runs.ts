// All runs of the master, kept as they change: the list is ordered, filtered and grouped in the page.

import {useEffect, useRef, useState} from 'preact/hooks';
import {get, textOf, useEvents} from './api';
import {refreshed} from './run_list';
import type {RunPage, RunSummary} from './types';

const AT_ONCE = 1000;  // the most that the master gives
const NEWEST = 100;
const PAUSE_MS = 1000;

async function page(query: Record<string, string | number>): Promise<RunPage> {
  return get<RunPage>(`/runs?${new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))}`);
}

// All of them, newest first. A run that is made meanwhile shifts the others: none is missed, some come twice.
async function loadAll(onPart: (loaded: number, total: number) => void): Promise<RunSummary[]> {
  const runs = new Map<string, RunSummary>();
  for (let offset = 0, total = 1; offset < total; offset += AT_ONCE) {
    const part = await page({limit: AT_ONCE, offset});
    for (const run of part.runs) runs.set(run.name, run);
    total = part.total;
    onPart(runs.size, total);
  }
  return [...runs.values()];
}

async function refresh(old: RunSummary[]): Promise<RunSummary[] | null> {
  const [newest, running, queued] = await Promise.all([page({limit: NEWEST}), page({state: 'running', limit: AT_ONCE}), page({state: 'queued', limit: AT_ONCE})]);
  return refreshed(old, [newest.runs, running.runs, queued.runs], newest.total);
}

export interface AllRuns {
  runs: RunSummary[] | null;
  loading: string;  // how far it is, while it takes more than one question
  error: string;
  again: () => void;
}

export function useAllRuns(): AllRuns {
  const [runs, setRuns] = useState<RunSummary[] | null>(null);
  const [loading, setLoading] = useState('');
  const [error, setError] = useState('');
  const kept = useRef<RunSummary[] | null>(null);
  const busy = useRef(false), wanted = useRef(false), over = useRef(false);
  const update = async () => {
    wanted.current = true;
    if (busy.current) return;
    busy.current = true;
    while (wanted.current && !over.current) {
      wanted.current = false;
      try {
        const next = (kept.current && await refresh(kept.current)) ??
          await loadAll((loaded, total) => setLoading(loaded < total ? `${loaded.toLocaleString('en')} of ${total.toLocaleString('en')} runs` : ''));
        if (over.current) break;
        kept.current = next;
        setRuns(next);
        setError('');
      } catch (problem) {
        if (!over.current) setError(textOf(problem));
      }
      setLoading('');
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    busy.current = false;
  };
  useEffect(() => {
    void update();
    return () => { over.current = true; };
  }, []);
  useEvents('/events', {runs: () => void update()});
  return {runs, loading, error, again: () => void update()};
}
