// Small parts of pages.

import type {ComponentChildren} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {number} from './format';
import {goalShare} from './series';
import type {Goal, State} from './types';

export function StateBadge({state, count = 1}: {state: State; count?: number}) {
  return <span class={`badge ${state}`}>{count > 1 && `${count} `}{state}</span>;
}

// A button that opens a box below it; Escape, or a click beside it, closes the box.
export function Menu({title, children}: {title: string; children: ComponentChildren}) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const beside = (event: Event) => { if (!menu.current!.contains(event.target as Node)) menu.current!.open = false; };
    addEventListener('pointerdown', beside);
    return () => removeEventListener('pointerdown', beside);
  }, []);
  const close = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || !menu.current!.open) return;
    menu.current!.open = false;
    menu.current!.querySelector('summary')!.focus();
  };
  return (
    <details ref={menu} class="menu" onKeyDown={close} onToggle={() => setOpen(menu.current!.open)}>
      <summary class="button">{title}</summary>
      {open && <div class="menu-box">{children}</div>}
    </details>
  );
}

export function ErrorNote({text, again}: {text: string; again?: () => void}) {
  if (text === '') return null;
  return (
    <div class="note error" role="alert">
      <p>{text}</p>
      {again && <button type="button" onClick={again}>Try again</button>}
    </div>
  );
}

export function Empty({title, children}: {title: string; children?: ComponentChildren}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Loading({what}: {what: string}) {
  return <p class="soft" role="status">Loading {what} …</p>;
}

// The value that counts, its target, and a bar between.
export function GoalBar({goal, value}: {goal: Goal; value: number | null | undefined}) {
  const share = goal.reached ? 1 : goalShare(value, goal.target, goal.higher_is_better ?? true);
  const text = `${number(value, 4)} of ${number(goal.target, 4)} ${goal.metric}`;
  return (
    <div class="goal">
      <div class={goal.reached ? 'bar reached' : 'bar'} role="meter" aria-label="progress to the goal"
        aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} aria-valuetext={text}>
        <div style={{width: `${share * 100}%`}} />
      </div>
      <span class="goal-text">{number(value, 4)}<span class="soft"> / {number(goal.target, 4)} {goal.metric}</span></span>
    </div>
  );
}

export function Facts({rows}: {rows: [string, ComponentChildren][]}) {
  return <dl class="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Segmented<T extends string>({label, value, choices, onChoose}:
{label: string; value: T; choices: readonly (readonly [T, string])[]; onChoose: (value: T) => void}) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {choices.map(([choice, text]) => (
        <button key={choice} type="button" aria-pressed={choice === value} onClick={() => onChoose(choice)}>{text}</button>
      ))}
    </div>
  );
}

// A <dialog>: the browser keeps the focus inside, and Escape closes it.
export function Dialog({title, onClose, children, wide = false}:
{title: string; onClose: () => void; children: ComponentChildren; wide?: boolean}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current!;
    shown.showModal();
    return () => shown.close();
  }, []);
  return (
    <dialog ref={dialog} class={wide ? 'wide' : ''} aria-label={title} onClose={onClose}
      onClick={(event) => { if (event.target === dialog.current) dialog.current!.close(); }}>
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current!.close()}>✕</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function useNow(period_ms: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), period_ms);
    return () => clearInterval(timer);
  }, [period_ms]);
  return now;
}
