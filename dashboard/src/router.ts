// Where the page is: what follows the # of the address. "#/runs/mine-2", "#/compare?runs=a,b".

import {useEffect, useState} from 'preact/hooks';

export interface Place {
  parts: string[];
  query: URLSearchParams;
}

export function parsePlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').filter((part) => part !== '').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return {parts, query: new URLSearchParams(query)};
}

export const runHref = (name: string): string => `#/runs/${encodeURIComponent(name)}`;
// The address that MLflow's client prints as "View run".
export const mlflowHref = (experiment: string, id: string): string => `#/experiments/${encodeURIComponent(experiment)}/runs/${encodeURIComponent(id)}`;
export const timelineHref = (name: string): string => `${runHref(name)}/timeline`;
export const compareHref = (names: string[]): string => `#/compare?runs=${names.map(encodeURIComponent).join(',')}`;
export const scalingHref = (names: string[]): string => `#/scaling?runs=${names.map(encodeURIComponent).join(',')}`;

// The runs page with its filters; what is usual is left out.
export function runsHref(filters: Record<string, string>): string {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ''));
  return query.size === 0 ? '#/runs' : `#/runs?${query}`;
}

export function go(href: string, replace = false): void {
  if (replace) {
    history.replaceState(null, '', href);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = href;
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const moved = () => setPlace(parsePlace(location.hash));
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  return place;
}
