// Talks to /api/v1 of the master that served this page, and to nobody else.

import {useEffect, useRef, useState} from 'preact/hooks';

const BASE = '/api/v1';
let csrf = '';
let onLoggedOut: () => void = () => {};

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET' && csrf !== '') headers['X-CSRF-Token'] = csrf;
  let answer: Response;
  try {
    answer = await fetch(BASE + path, {
      method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: 'same-origin', cache: 'no-store',
    });
  } catch {
    throw new ApiError(0, 'The master does not answer.');
  }
  if (answer.ok) return answer;
  let message = `${answer.status} ${answer.statusText}`;
  try {
    const json = await answer.json() as {message?: string};
    if (json.message) message = json.message;
  } catch {
    // no JSON: the status says it
  }
  if (answer.status === 401 && path !== '/session') onLoggedOut();
  throw new ApiError(answer.status, message);
}

export const get = async <T>(path: string): Promise<T> => (await request('GET', path)).json() as Promise<T>;
export const post = async <T>(path: string, body: unknown = {}): Promise<T> =>
  (await request('POST', path, body)).json() as Promise<T>;
export const remove = async (path: string): Promise<void> => { await request('DELETE', path); };
export const getText = (path: string): Promise<Response> => request('GET', path);
export const segment = encodeURIComponent;
export const textOf = (error: unknown): string => error instanceof Error ? error.message : String(error);

// ---- login ----------------------------------------------------------------------------------------------------------

export function whenLoggedOut(action: () => void): void { onLoggedOut = action; }

// True when the cookie of an earlier login still counts.
export async function resume(): Promise<boolean> {
  try {
    csrf = (await get<{csrf: string | null}>('/session')).csrf ?? '';
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false;
    throw error;
  }
}

export async function logIn(secret: {token: string} | {code: string}): Promise<void> {
  csrf = (await post<{csrf: string}>('/session', secret)).csrf;
}

export async function logOut(): Promise<void> {
  try {
    await remove('/session');
  } finally {
    csrf = '';
    onLoggedOut();
  }
}

// ---- live -----------------------------------------------------------------------------------------------------------

export interface Polled<T> {
  data: T | null;
  error: string;
  again: () => void;
}

// Asks now, every `period_ms` (0: once) while the page is seen, and when `again` is called. `key` names what is asked.
export function usePolled<T>(key: string, ask: () => Promise<T>, period_ms: number): Polled<T> {
  const [state, setState] = useState<{key: string; data: T | null; error: string}>({key, data: null, error: ''});
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    let over = false;
    let timer = 0;
    let asking = false;
    const tick = async () => {
      if (asking) return;
      asking = true;
      clearTimeout(timer);
      try {
        const data = await latest.current();
        if (!over) setState({key, data, error: ''});
      } catch (error) {
        if (!over) setState((old) => ({key, data: old.key === key ? old.data : null, error: textOf(error)}));
      }
      asking = false;
      if (!over && period_ms > 0 && !document.hidden) timer = setTimeout(tick, period_ms);
    };
    const seen = () => { if (!document.hidden && period_ms > 0) void tick(); };
    document.addEventListener('visibilitychange', seen);
    void tick();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, period_ms, round]);
  return {
    data: state.key === key ? state.data : null,
    error: state.key === key ? state.error : '',
    again: () => setRound((old) => old + 1),
  };
}

// Server-sent events while the page is seen: a browser opens few connections to one server, all tabs together.
export function useEvents(path: string | null, handlers: Record<string, (data: unknown) => void>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  const names = Object.keys(handlers).join(' ');
  useEffect(() => {
    if (path === null) return undefined;
    let source: EventSource | null = null;
    let timer = 0;
    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = null;
    };
    const follow = () => {
      if (document.hidden) return close();
      if (source !== null) return;
      const opened = new EventSource(BASE + path);
      source = opened;
      // The browser itself tries again only where nobody answered; a refusal may be the end of the login.
      opened.onerror = () => {
        if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
        close();
        get('/version').then(() => { timer = setTimeout(follow, 3000); }, (error: unknown) => {
          if (!(error instanceof ApiError && error.status === 401)) timer = setTimeout(follow, 3000);
        });
      };
      for (const name of names.split(' ')) {
        opened.addEventListener(name, (event) => {
          latest.current[name]?.(JSON.parse((event as MessageEvent<string>).data));
          if (name === 'end') close();
        });
      }
    };
    document.addEventListener('visibilitychange', follow);
    follow();
    return () => {
      document.removeEventListener('visibilitychange', follow);
      close();
    };
  }, [path, names]);
}

// ---- downloads ------------------------------------------------------------------------------------------------------

export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const downloadUrl = (run: string): string => `${BASE}/runs/${segment(run)}/download`;
