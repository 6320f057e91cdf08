import {useState} from 'preact/hooks';
import {logIn, useActions} from '../api';
import {ErrorNote} from '../ui';

export function LoginPage({message, onLogin}: {message: string; onLogin: () => void}) {
  const [token, setToken] = useState('');
  const {busy, error, act} = useActions(message);
  const enter = (event: Event) => {
    event.preventDefault();
    return act('enter', () => logIn({token: token.trim()}).then(onLogin));
  };
  return (
    <main class="login" id="main">
      <form onSubmit={(event) => void enter(event)}>
        <h1><img src="/assets/icon.svg" alt="" width="28" height="28" /> mlbench</h1>
        <ErrorNote text={error} />
        <label for="token">Token of this master</label>
        <input id="token" type="password" autocomplete="current-password" spellcheck={false} required autofocus
          value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={busy !== '' || token.trim() === ''}>Log in</button>
        <p class="soft">On the machine of the master, <code>mlbench dashboard</code> prints a link that logs you in.
          The token lies in the file that <code>mlbench serve</code> names.</p>
      </form>
    </main>
  );
}
