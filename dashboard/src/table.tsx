// A table of figures in its panel: it scrolls there, and is saved as CSV.

import type {ComponentChildren} from 'preact';
import {useRef} from 'preact/hooks';
import {save} from './api';
import {NONE} from './format';
import {tableCsv, type TableCell} from './series';

// A cell has its value in full in data-value, where what is shown is rounded.
function cellsOf(row: HTMLTableRowElement): TableCell[] {
  return [...row.cells].map((cell) => {
    const text = cell.dataset['value'] ?? (cell.textContent ?? '').trim();
    return {text: text === NONE ? '' : text, span: cell.colSpan};
  });
}

export function TableBox({title, file, shown = '', tall = false, children}: {
  title: string;
  file: string;      // of the download, without its ending
  shown?: string;    // the words above the table
  tall?: boolean;    // it has a height of its own
  children: ComponentChildren;  // the table
}) {
  const box = useRef<HTMLDivElement>(null);
  const download = () => {
    const table = box.current!.querySelector('table')!;
    const text = tableCsv([...(table.tHead?.rows ?? [])].map(cellsOf), [...table.tBodies].flatMap((body) => [...body.rows].map(cellsOf)));
    save(new Blob([text], {type: 'text/csv;charset=utf-8'}), `${file.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}.csv`);
  };
  return (
    <div class="panel table-box">
      <div class="table-head">
        {shown === '' ? <span /> : <h3>{shown}</h3>}
        <button type="button" class="small" aria-label={`${title} as CSV`} onClick={download}>CSV</button>
      </div>
      <div class={tall ? 'scroll tall' : 'scroll'} ref={box} tabIndex={0} role="region" aria-label={title}>{children}</div>
    </div>
  );
}
