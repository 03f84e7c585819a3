import { useEffect, useRef } from 'preact/hooks'
import { ActDialog, DoneNotice } from './actions/dialog.tsx'
import { readPolicy } from './actions/policy.ts'
import { duration } from './parts/format.ts'
import { useNow } from './parts/small.tsx'
import { Loading } from './parts/states.tsx'
import { SignIn } from './sign-in.tsx'
import { connection, followGateway, hasSnapshot, retryNow, snapshots } from './state/live.ts'
import { useRoutes } from './state/load.ts'
import { usePlace } from './state/place.ts'
import { role, token, who } from './state/session.ts'
import { leave } from './state/sign-in.ts'
import { type View, views } from './views/registry.ts'

/** Says that the page shows old data, and since when. */
function LostConnection() {
  const now = useNow()
  const { value } = connection
  if (value.kind !== 'lost') return null
  const waitMs = Math.max(0, value.retryAtMs - now)
  return (
    <div class="lost" role="alert">
      <p>
        <strong>Connection lost.</strong> {value.why}. What you see is {duration(Math.max(1_000, now - value.sinceMs))}{' '}
        old.
      </p>
      <button type="button" onClick={retryNow}>
        {waitMs > 999 ? `Try now (${Math.ceil(waitMs / 1_000)} s)` : 'Trying…'}
      </button>
    </div>
  )
}

const connectionTexts = { connecting: 'Connecting', open: 'Live', lost: 'Lost' } as const

function Header({ shown, current }: { shown: readonly View[]; current: string }) {
  const { kind } = connection.value
  return (
    <header class="top">
      <a class="brand" href="#/now">
        <img src="console/assets/icon.svg" alt="" width="22" height="22" /> Penstock
      </a>
      <nav aria-label="Views">
        <ul>
          {shown.map(({ id, title }) => (
            <li key={id}>
              <a href={`#/${id}`} aria-current={id === current ? 'page' : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="who">
        <span class={`link link-${kind}`} role="status">
          {connectionTexts[kind]}
        </span>
        <span class="role">{[who.value, role.value].filter((word) => word !== null).join(' · ')}</span>
        <button type="button" class="quiet" onClick={() => void leave()}>
          Sign out
        </button>
      </div>
    </header>
  )
}

function Console() {
  useEffect(followGateway, [])
  const snapshot = snapshots.value
  useEffect(() => {
    const ending = new AbortController()
    // Without it nothing can be done, which the next connection mends.
    readPolicy(ending.signal).catch(() => {})
    return () => ending.abort()
  }, [snapshot])
  const routes = useRoutes()
  const { view: hash } = usePlace()
  const main = useRef<HTMLElement>(null)
  const shown = views.filter(
    ({ needs }) => hasSnapshot.value && routes !== null && needs.some((route) => routes.has(route)),
  )
  const view = shown.find(({ id }) => id === hash) ?? shown[0]
  useEffect(() => {
    document.title = view === undefined ? 'Penstock console' : `${view.title} · Penstock console`
  }, [view])
  const stale = connection.value.kind === 'lost'
  return (
    <>
      {/* The address holds the view, so the way past the navigation is a button, not a link to an anchor. */}
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <Header shown={shown} current={view?.id ?? ''} />
      <LostConnection />
      <DoneNotice />
      <main ref={main} tabIndex={-1} class={stale ? 'stale' : ''}>
        {view !== undefined ? <view.View /> : !stale && <Loading what="the console" rows={6} />}
      </main>
      <ActDialog />
    </>
  )
}

export const App = () => (token.value === null ? <SignIn /> : <Console />)
