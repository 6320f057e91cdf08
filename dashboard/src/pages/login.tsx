import {useState} from 'preact/hooks';
import {logIn, textOf} from '../api';
import {ErrorNote} from '../ui';

export function LoginPage({message, onLogin}: {message: string; onLogin: () => void}) {
  const [token, setToken] = useState('');
  const [error, setError] = useState(message);
  const [busy, setBusy] = useState(false);
  const enter = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await logIn({token: token.trim()});
      onLogin();
    } catch (problem) {
      setError(textOf(problem));
      setBusy(false);
    }
  };
  return (
    <main class="login" id="main">
      <form onSubmit={(event) => void enter(event)}>
        <h1><img src="/assets/icon.svg" alt="" width="28" height="28" /> mlbench</h1>
        <ErrorNote text={error} />
        <label for="token">Token of this master</label>
        <input id="token" type="password" autocomplete="current-password" spellcheck={false} required autofocus
          value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={busy || token.trim() === ''}>Log in</button>
        <p class="soft">On the machine of the master, <code>mlbench dashboard</code> prints a link that logs you in.
          The token lies in the file that <code>mlbench serve</code> names.</p>
      </form>
    </main>
  );
}
