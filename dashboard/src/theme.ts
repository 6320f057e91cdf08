// Light, dark, or as the system has it; remembered in this browser.

import {useEffect, useState} from 'preact/hooks';

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

const KEY = 'mlbench-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const watchers = new Set<() => void>();

export function chosenTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === kept) ?? 'system';
  } catch {
    return 'system';  // a browser that keeps nothing
  }
}

function apply(): void {
  const theme = chosenTheme();
  const dark = theme === 'dark' || (theme === 'system' && system.matches);
  document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
  for (const watcher of watchers) watcher();
}

export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // then for nothing but this moment
  }
  apply();
}

system.addEventListener('change', apply);
apply();

// A colour of the style sheet, as a canvas takes it.
export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Changes with the theme.
export function useThemeRound(): number {
  const [round, setRound] = useState(0);
  useEffect(() => {
    const watcher = () => setRound((old) => old + 1);
    watchers.add(watcher);
    return () => { watchers.delete(watcher); };
  }, []);
  return round;
}
