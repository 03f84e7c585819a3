import { useEffect, useState } from 'preact/hooks'
import { Alert } from './parts/states.tsx'
import { farewell } from './state/session.ts'
import { comeBack, goToProvider, providerLabel, signInWith } from './state/sign-in.ts'

/** Whether the token is good is for the gateway to say: until it has, nothing is shown. */
export function SignIn() {
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  const [provider, setProvider] = useState<string | null>(null)
  useEffect(() => {
    void comeBack()
    // Without an answer the role token is the way in.
    providerLabel().then(setProvider, () => {})
  }, [])
  const trimmed = text.trim()
  const submit = async (event: Event) => {
    event.preventDefault()
    if (trimmed === '' || busy) return
    setBusy(true)
    await signInWith(trimmed)
    setBusy(false)
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
          A viewer token looks, an operator token acts, an admin token may do everything. The first ones are in{' '}
          <code>credentials.json</code> of the data folder; <code>./penstock admins create</code> makes one for each
          person. The page trades the token for a session, which ends when you sign out or leave it unused.
        </p>
        {farewell.value !== null && <Alert>{farewell.value}</Alert>}
        {provider !== null && (
          <button type="button" class="provider" onClick={() => goToProvider(false)}>
            Sign in with {provider}
          </button>
        )}
        <button type="submit" class="primary" disabled={trimmed === '' || busy}>
          Sign in
        </button>
      </form>
    </main>
  )
}
