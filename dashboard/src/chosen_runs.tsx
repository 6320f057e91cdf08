// The runs that a page is about, each with a button that takes it away, and a list of others to add.

import type {RunSummary} from './types';

const MOST = 12;

export function ChosenRuns({names, known, taken, colourOf, onChange}: {
  names: string[];
  known: RunSummary[];
  taken: Set<string>;  // names that are not offered
  colourOf?: (name: string) => number;  // of the run's line; below 0 without one
  onChange: (names: string[]) => void;
}) {
  const others = known.filter((run) => run.state !== 'damaged' && !taken.has(run.name));
  return (
    <div class="toolbar">
      {names.map((name) => (
        <span key={name} class="chip">{colourOf && <span class="swatch" style={{background: `var(--series-${Math.max(0, colourOf(name)) % 9})`}} />}{name}
          <button type="button" class="quiet" aria-label={`Take ${name} away`} onClick={() => onChange(names.filter((one) => one !== name))}>✕</button></span>
      ))}
      {others.length > 0 && names.length < MOST && (
        <select aria-label="Add a run" value="" onChange={(event) => onChange([...names, event.currentTarget.value])}>
          <option value="">Add a run …</option>
          {others.map((run) => <option key={run.name} value={run.name}>{run.name}</option>)}
        </select>
      )}
    </div>
  );
}
