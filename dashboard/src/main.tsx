import './style.css';
import {options, render, type VNode} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {logIn, logOut, resume, textOf, whenLoggedOut} from './api';
import {visible} from './format';
import {NewRun} from './new_run';
import {ClusterPage} from './pages/cluster';
import {ComparePage} from './pages/compare';
import {ScalingPage} from './pages/scaling';
import {LoginPage} from './pages/login';
import {MlflowPage} from './pages/mlflow';
import {RunPage} from './pages/run';
import {RunsPage} from './pages/runs';
import {TimelinePage} from './pages/timeline';
import {go, usePlace} from './router';
import {chooseTheme, chosenTheme, THEMES, type Theme} from './theme';
import {Empty} from './ui';

// Every text that the page shows; what is typed or sent is no text of the page.
const before = options.vnode;
options.vnode = (vnode: VNode) => {
  const text = vnode as {type: unknown; props: unknown};
  if (text.type === null && typeof text.props === 'string') text.props = visible(text.props);
  before?.(vnode);
};

type Login = {state: 'asking' | 'in'} | {state: 'out'; message: string};

function ThemeChoice() {
  const [theme, setTheme] = useState<Theme>(chosenTheme());
  return (
    <select class="theme" aria-label="Colours" value={theme} onChange={(event) => {
      const chosen = event.currentTarget.value as Theme;
      chooseTheme(chosen);
      setTheme(chosen);
    }}>
      {THEMES.map((one) => <option key={one} value={one}>{one === 'system' ? 'System colours' : one === 'light' ? 'Light' : 'Dark'}</option>)}
    </select>
  );
}

function App() {
  const place = usePlace();
  const [login, setLogin] = useState<Login>({state: 'asking'});
  const [making, setMaking] = useState(false);
  const [page = 'runs', name, part, tracked] = place.parts;

  useEffect(() => {
    whenLoggedOut(() => setLogin({state: 'out', message: ''}));
    const enter = async () => {
      const code = /^#login=([0-9a-f]+)$/.exec(location.hash)?.[1];
      try {
        if (code !== undefined) {
          go('#/runs', true);  // the code is of no use a second time
          await logIn({code});
          return setLogin({state: 'in'});
        }
        setLogin(await resume() ? {state: 'in'} : {state: 'out', message: ''});
      } catch (error) {
        // A link that was used before does no harm where a login still counts.
        const still = code !== undefined && await resume().catch(() => false);
        setLogin(still ? {state: 'in'} : {state: 'out', message: textOf(error)});
      }
    };
    void enter();
    const relogin = () => { if (location.hash.startsWith('#login=')) void enter(); };
    addEventListener('hashchange', relogin);
    return () => removeEventListener('hashchange', relogin);
  }, []);

  // One key each, as on other pages of this kind; not while something is typed.
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || login.state !== 'in') return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || document.querySelector('dialog[open]')) return;
      if (event.key === 'n') {
        event.preventDefault();
        setMaking(true);
      } else if (event.key === '/') {
        const search = document.querySelector<HTMLInputElement>('input[type=search]');
        if (search === null) return;
        event.preventDefault();
        search.focus();
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [login.state]);

  const title = page === 'runs' && name !== undefined ? name : page;
  useEffect(() => { document.title = `${title} · mlbench`; }, [title]);
  useEffect(() => {
    window.scrollTo(0, 0);
    setMaking(false);
  }, [page, name, part]);

  if (login.state === 'asking') return null;
  if (login.state === 'out') return <LoginPage key={login.message} message={login.message} onLogin={() => setLogin({state: 'in'})} />;
  const link = (to: string, text: string) => <a href={`#/${to}`} aria-current={page === to ? 'page' : undefined}>{text}</a>;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
      }}>Skip to the content</a>
      <header class="top">
        <div class="top-in">
          <a class="brand" href="#/runs"><img src="/assets/icon.svg" alt="" width="22" height="22" />mlbench</a>
          <nav aria-label="Pages">{link('runs', 'Runs')}{link('cluster', 'Cluster')}{link('compare', 'Compare')}{link('scaling', 'Scaling')}</nav>
          <ThemeChoice />
          <button type="button" class="quiet" onClick={() => void logOut().catch(() => {})}>Log out</button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {page === 'runs' && name === undefined && <RunsPage query={place.query} onNew={() => setMaking(true)} />}
        {page === 'runs' && name !== undefined && part !== 'timeline' && <RunPage key={name} name={name} query={place.query} />}
        {page === 'runs' && name !== undefined && part === 'timeline' && <TimelinePage key={name} name={name} />}
        {page === 'cluster' && <ClusterPage />}
        {page === 'compare' && <ComparePage query={place.query} />}
        {page === 'scaling' && <ScalingPage query={place.query} />}
        {/* What MLflow's client calls "View run" and "View experiment". */}
        {page === 'experiments' && tracked !== undefined && <MlflowPage key={tracked} id={tracked} />}
        {page === 'experiments' && tracked === undefined && <RunsPage query={new URLSearchParams({label: 'mlflow'})} onNew={() => setMaking(true)} />}
        {!['runs', 'cluster', 'compare', 'scaling', 'experiments'].includes(page) && <Empty title="There is no such page."><p><a href="#/runs">All runs</a></p></Empty>}
      </main>
      {making && <NewRun onClose={() => setMaking(false)} />}
    </>
  );
}

render(<App />, document.getElementById('app')!);
