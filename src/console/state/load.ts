import { effect, signal } from '@preact/signals'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { Refusal, readAdmin, refusalFrom, routesServed } from './api.ts'
import { connection, snapshots } from './live.ts'
import { token } from './session.ts'

export type Loaded<T> =
  | { readonly kind: 'loading' }
  | { readonly kind: 'ready'; readonly data: T }
  /** This gateway does not serve the route. */
  | { readonly kind: 'absent' }
  /** The role is not enough for it. */
  | { readonly kind: 'forbidden' }
  | { readonly kind: 'failed'; readonly why: string; readonly requestId: string | null }

function failureOf(error: unknown): Loaded<never> {
  const { status, code, message: why, requestId } = refusalFrom(error)
  if (status === 404 && code === 'route_not_found') return { kind: 'absent' }
  if (status === 403) return { kind: 'forbidden' }
  return { kind: 'failed', why, requestId }
}

/** Counts what was done from this page: whatever is shown is read again. */
export const changed = signal(0)

/** How many refreshes in a row may fail before the view shows the failure. A refused one counts at once. */
const missesMax = 2
const passing = (error: unknown) => !(error instanceof Refusal) || error.status === 429 || error.status >= 500

/** What was read last, by path: while the gateway is away, a view that is opened shows what was known of it. */
const known = new Map<string, unknown>()
const knownMax = 30
effect(() => {
  // The next person who signs in may be another one.
  if (token.value === null) known.clear()
})
function keep(path: string, data: unknown): void {
  known.delete(path)
  known.set(path, data)
  const [oldest] = known.keys()
  if (known.size > knownMax && oldest !== undefined) known.delete(oldest)
}
const lastOf = <T>(path: string): Loaded<T> =>
  known.has(path) ? { kind: 'ready', data: known.get(path) as T } : { kind: 'loading' }
const atFirst = <T>(path: string | null): Loaded<T> =>
  path !== null && connection.peek().kind === 'lost' ? lastOf(path) : { kind: 'loading' }

/** Reads a route now, every `everyMs` and after a lost connection; what was read last stays while it is read again. `path` null: not yet. */
export function useLoad<T>(path: string | null, everyMs: number | null = null): readonly [Loaded<T>, () => void] {
  const [last, setLast] = useState(() => ({ path, loaded: atFirst<T>(path) }))
  const [turn, setTurn] = useState(0)
  const snapshot = snapshots.value
  const change = changed.value
  useEffect(() => {
    if (path === null) return
    const ending = new AbortController()
    const setLoaded = (loaded: Loaded<T>) => setLast({ path, loaded })
    let misses = 0
    let reading = false
    const read = async () => {
      // A read that takes longer than `everyMs` is not asked for twice.
      if (reading) return
      reading = true
      try {
        const data = await readAdmin<T>(path, ending.signal)
        misses = 0
        keep(path, data)
        setLoaded({ kind: 'ready', data })
      } catch (error) {
        if (ending.signal.aborted) return
        misses++
        if (!(error instanceof Refusal) && known.has(path)) return setLoaded(lastOf(path))
        const stays = passing(error) && misses <= missesMax
        setLast((before) => {
          const kept = stays && before.path === path && before.loaded.kind === 'ready'
          return kept ? before : { path, loaded: failureOf(error) }
        })
      } finally {
        reading = false
      }
    }
    void read()
    const timer = everyMs === null ? undefined : setInterval(read, everyMs)
    return () => {
      clearInterval(timer)
      ending.abort()
    }
  }, [path, everyMs, turn, snapshot, change])
  // An effect comes after the page was drawn: until then `last` may be of the path before, and what was read there is not shown as this.
  const loaded = last.path === path ? last.loaded : atFirst<T>(path)
  return [loaded, useCallback(() => setTurn((before) => before + 1), [])]
}

/** Which of the gateway's routes are there; null while unknown. */
export function useRoutes(): ReadonlySet<string> | null {
  const [routes, setRoutes] = useState<ReadonlySet<string> | null>(null)
  useEffect(() => {
    let gone = false
    const nothing: ReadonlySet<string> = new Set()
    routesServed().then(
      (served) => gone || setRoutes(served),
      () => gone || setRoutes(nothing),
    )
    return () => {
      gone = true
    }
  }, [])
  return routes
}
