import { effect, signal } from '@preact/signals'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
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
  /** `code`: of the gateway's answer, or of ours where none came. */
  | { readonly kind: 'failed'; readonly code: string; readonly why: string; readonly requestId: string | null }

function failureOf(error: unknown): Loaded<never> {
  const { status, code, message: why, requestId } = refusalFrom(error)
  if (status === 404 && code === 'route_not_found') return { kind: 'absent' }
  if (status === 403) return { kind: 'forbidden' }
  return { kind: 'failed', code, why, requestId }
}

/** Counts what was done from this page: whatever is shown is read again. */
export const changed = signal(0)

/** How many refreshes in a row may fail before the view shows the failure. A refused one counts at once. */
const missesMax = 2
const passing = (error: unknown) => !(error instanceof Refusal) || error.status === 429 || error.status >= 500

/** What was read last, by what it is of: while the gateway is away, a view that is opened shows what was known of it. */
const known = new Map<string, unknown>()
const knownMax = 30
effect(() => {
  // The next person who signs in may be another one.
  if (token.value === null) known.clear()
})
function keep(of: string, data: unknown): void {
  known.delete(of)
  known.set(of, data)
  const [oldest] = known.keys()
  if (known.size > knownMax && oldest !== undefined) known.delete(oldest)
}
const lastOf = <T>(of: string): Loaded<T> =>
  known.has(of) ? { kind: 'ready', data: known.get(of) as T } : { kind: 'loading' }
const atFirst = <T>(of: string | null): Loaded<T> =>
  of !== null && connection.peek().kind === 'lost' ? lastOf(of) : { kind: 'loading' }

/**
 * Reads a route now, every `everyMs` and after a lost connection; what was read last stays while it is read again. `path` null: not yet.
 * `of`: what a path is of that moves on with the time, such as the last hour: what was read of the same stays while the next is read.
 */
export function useLoad<T>(
  path: string | null,
  everyMs: number | null = null,
  of = path,
): readonly [Loaded<T>, () => void] {
  const [last, setLast] = useState(() => ({ of, loaded: atFirst<T>(of) }))
  const [turn, setTurn] = useState(0)
  const missed = useRef({ of, times: 0 })
  const snapshot = snapshots.value
  const change = changed.value
  useEffect(() => {
    if (path === null || of === null) return
    const ending = new AbortController()
    const setLoaded = (loaded: Loaded<T>) => setLast({ of, loaded })
    if (missed.current.of !== of) missed.current = { of, times: 0 }
    let reading = false
    const read = async () => {
      // A read that takes longer than `everyMs` is not asked for twice.
      if (reading) return
      reading = true
      try {
        const data = await readAdmin<T>(path, ending.signal)
        missed.current.times = 0
        keep(of, data)
        setLoaded({ kind: 'ready', data })
      } catch (error) {
        if (ending.signal.aborted) return
        missed.current.times++
        if (!(error instanceof Refusal) && known.has(of)) return setLoaded(lastOf(of))
        const stays = passing(error) && missed.current.times <= missesMax
        setLast((before) => {
          const kept = stays && before.of === of && before.loaded.kind === 'ready'
          return kept ? before : { of, loaded: failureOf(error) }
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
  }, [path, everyMs, of, turn, snapshot, change])
  // An effect comes after the page was drawn: until then `last` may be of the path before, and what was read there is not shown as this.
  const loaded = last.of === of ? last.loaded : atFirst<T>(of)
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
