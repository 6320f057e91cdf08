// What people say about a run: shown, and edited in a dialog.

import type {ComponentChildren} from 'preact';
import {useState} from 'preact/hooks';
import {get, put, segment, useActions, usePolled} from './api';
import type {NoteName, RunNotes} from './types';
import {Dialog, ErrorNote, Facts} from './ui';

const MOST_BYTES = 8192, MOST_TAGS = 32;

// Name, title, lines to write in.
const TEXTS: [NoteName, string, number][] = [
  ['description', 'Description', 4], ['cluster', 'Name of the cluster', 1], ['firewall', 'Firewall', 1],
  ['expected', 'Expected result', 2], ['summary', 'Summary', 2], ['next_steps', 'Next steps', 2],
];

// "a, b,, a" -> a, b
export const tagsOf = (text: string): string[] => [...new Set(text.split(',').map((tag) => tag.trim()).filter((tag) => tag !== ''))];

function Edit({path, notes, onClose, onSaved}: {path: string; notes: RunNotes; onClose: () => void; onSaved: () => void}) {
  const [texts, setTexts] = useState(notes);
  const [tags, setTags] = useState(notes.tags.join(', '));
  const {busy, error, act} = useActions();
  const save = () => act('save', () => put(path, {...texts, tags: tagsOf(tags)}).then(onSaved));
  return (
    <Dialog title="Notes" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void save(); }}>
        {TEXTS.map(([name, title, rows]) => (
          <label key={name}>{title}
            <textarea rows={rows} maxLength={MOST_BYTES} value={texts[name]} onInput={(event) => setTexts({...texts, [name]: event.currentTarget.value})} /></label>
        ))}
        <label>Tags
          <input type="text" placeholder="with commas between them" value={tags} onInput={(event) => setTags(event.currentTarget.value)} />
          <span class="hint">At most {MOST_TAGS}; the list of runs searches in all of this.</span></label>
        <ErrorNote text={error} />
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary" disabled={busy !== ''}>{busy ? 'Saving …' : 'Save'}</button>
        </div>
      </form>
    </Dialog>
  );
}

export function Notes({run}: {run: string}) {
  const path = `/runs/${segment(run)}/notes`;
  const polled = usePolled(`notes ${run}`, () => get<RunNotes>(path), 0);
  const [editing, setEditing] = useState(false);
  const notes = polled.data;
  const rows: [string, string][] = notes === null ? [] :
    [...TEXTS.map(([name, title]): [string, string] => [title, notes[name]]), ['Tags', notes.tags.join(', ')]];
  const said = rows.filter(([, text]) => text !== '');
  return (
    <section class="panel notes">
      <div class="section-head">
        <h3>Notes</h3>
        <button type="button" disabled={notes === null} onClick={() => setEditing(true)}>{said.length > 0 ? 'Edit notes' : 'Add notes'}</button>
      </div>
      <ErrorNote text={polled.error} again={polled.again} />
      {said.length > 0 && <Facts rows={said.map(([name, text]): [string, ComponentChildren] => [name, <span class="lines">{text}</span>])} />}
      {editing && notes !== null && <Edit path={path} notes={notes} onClose={() => setEditing(false)} onSaved={() => { setEditing(false); polled.again(); }} />}
    </section>
  );
}
