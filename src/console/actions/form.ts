import { useEffect, useState } from 'preact/hooks'
import { approverHeader, callAdmin, Refusal, reasonHeader, whyOf } from '../state/api.ts'
import { changed } from '../state/load.ts'
import { token } from '../state/session.ts'
import {
  type Act,
  type ActField,
  lastDone,
  type Says,
  type SeenRow,
  type Send,
  type Shown,
  type Values,
  type Verdict,
} from './act.ts'
import { askedFor, needsApprover } from './policy.ts'

/** A look waits until no key was pressed for this long. */
const checkAfterMs = 400

const first = (fields: readonly ActField[]): Values =>
  Object.fromEntries(fields.map(({ name, value, of }) => [name, value ?? of?.[0]?.value ?? '']))

const failureText = (error: unknown): string =>
  error instanceof TypeError && /header/i.test(error.message)
    ? 'This reason travels in a header, which takes plain letters only.'
    : whyOf(error)

/** Of a change: the row must be the one that was seen. */
const seenHeaders = (seen: SeenRow | null): Readonly<Record<string, string>> =>
  seen === null ? {} : seen.etag === null ? { 'if-none-match': '*' } : { 'if-match': seen.etag }

export interface Difference {
  readonly name: string
  readonly seen: string
  readonly now: string
}

/** What somebody else has made of the row meanwhile. */
export interface Conflict {
  readonly now: SeenRow
  readonly differences: readonly Difference[]
}

function differencesOf(seen: Says, now: Says): readonly Difference[] {
  const names = [...new Set([...Object.keys(seen), ...Object.keys(now)])]
  return names
    .map((name) => ({ name, seen: seen[name] ?? '', now: now[name] ?? '' }))
    .filter((each) => each.seen !== each.now)
}

/** null: the change was not refused for that. */
async function conflictOf(error: unknown, { editing }: Act, seen: SeenRow | null): Promise<Conflict | null> {
  if (!(error instanceof Refusal) || error.code !== 'precondition_failed' || editing === undefined) return null
  const now = await editing.read()
  return { now, differences: differencesOf(seen?.says ?? {}, now.says) }
}

function sender(reason: string, approver: string, seen: SeenRow | null): Send {
  return async ({ action, method, path, body }) => {
    const headers = {
      ...(needsApprover(action) ? { [approverHeader]: approver } : {}),
      ...(body === undefined && reason !== '' ? { [reasonHeader]: reason } : {}),
      ...seenHeaders(seen),
    }
    const whole = body === undefined || reason === '' ? body : { ...body, reason }
    const answer = await callAdmin(path, { method, headers, ...(whole === undefined ? {} : { body: whole }) })
    return answer.status === 204 ? null : answer.json()
  }
}

/** What the look said of the values as they stand; null: nothing yet. */
function useCheck({ check }: Act, values: Values): Verdict | 'looking' | null {
  const [verdict, setVerdict] = useState<Verdict | 'looking' | null>(null)
  useEffect(() => {
    setVerdict(null)
    if (check === undefined) return
    const ending = new AbortController()
    const timer = setTimeout(async () => {
      const looking = check(values, ending.signal)
      if (looking === null) return
      setVerdict('looking')
      const found = await looking.catch((error: unknown) => ({ good: false, says: failureText(error) }))
      if (!ending.signal.aborted) setVerdict(found)
    }, checkAfterMs)
    return () => {
      clearTimeout(timer)
      ending.abort()
    }
  }, [check, values])
  return verdict
}

/** The state of one act's form: what is typed, whether it is enough, and the sending of it. */
export function useForm(act: Act, close: () => void) {
  const { fields = [] } = act
  const [values, setValues] = useState(() => first(fields))
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const [approver, setApprover] = useState('')
  const [failure, setFailure] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const [shown, setShown] = useState<readonly Shown[]>([])
  const [lacking, setLacking] = useState<string | null>(null)
  const [seen, setSeen] = useState(act.editing?.seen ?? null)
  const [conflict, setConflict] = useState<Conflict | null>(null)
  const verdict = useCheck(act, values)
  const asked = askedFor(act)
  const filled = fields.every(({ name, required }) => required !== true || values[name]?.trim() !== '')
  const brought = (!asked.reason || reason.trim() !== '') && (!asked.approver || approver !== '')
  const ready = !busy && filled && brought && (asked.typed === null || typed === asked.typed)
  const send = async (event: Event) => {
    event.preventDefault()
    if (!ready) return
    setBusy(true)
    const asker = token.value
    // A person who was shown what the row is now, and sends all the same, has seen that.
    const shownRow = conflict?.now ?? seen
    setSeen(shownRow)
    setFailure(null)
    try {
      const answer = (await act.run(values, sender(reason.trim(), approver, shownRow))) as never
      // The person who asked has left, and no other may see what was done.
      if (token.value !== asker) return
      const lacks = act.lacks?.(answer) ?? null
      setLacking(lacks)
      lastDone.value = {
        says: [act.done, lacks ?? []].flat().join(' '),
        undo: act.undo?.(answer, values, shownRow) ?? null,
      }
      changed.value++
      const once = act.shows?.(answer) ?? []
      setBusy(false)
      if (once.length === 0) close()
      else setShown(once)
    } catch (error) {
      const found = await conflictOf(error, act, shownRow).catch(() => null)
      setBusy(false)
      setConflict(found)
      if (found === null) setFailure(failureText(error))
    }
  }
  const set = (name: string, value: string) => setValues((before) => ({ ...before, [name]: value }))
  return {
    asked,
    values,
    set,
    reason,
    setReason,
    typed,
    setTyped,
    approver,
    setApprover,
    verdict,
    failure,
    busy,
    ready,
    shown,
    lacking,
    conflict,
    send,
  }
}
export type Form = ReturnType<typeof useForm>
