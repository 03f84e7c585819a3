import { useState } from 'preact/hooks'
import { Alert } from './parts/states.tsx'
import { farewell, signIn } from './state/session.ts'

/** Whether the token is good is for the gateway to say: until it has, nothing is shown. */
export function SignIn() {
  const [text, setText] = useState('')
  const trimmed = text.trim()
  const submit = (event: Event) => {
    event.preventDefault()
    if (trimmed !== '') signIn(trimmed)
  }
  return (
    <main class="sign-in">
      <form onSubmit={submit} aria-labelledby="sign-in-title">
        <h1 id="sign-in-title">
          <img src="console/assets/icon.svg" alt="" width="28" height="28" /> Penstock console
        </h1>
        <label for="token">Role token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={text}
          aria-describedby="token-hint"
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <p id="token-hint" class="hint">
          A viewer token looks, an operator token acts, an admin token may do all. They stand in{' '}
          <code>credentials.json</code> of the data folder. The page forgets the token when you close this tab.
        </p>
        {farewell.value !== null && <Alert>{farewell.value}</Alert>}
        <button type="submit" class="primary" disabled={trimmed === ''}>
          Sign in
        </button>
      </form>
    </main>
  )
}
