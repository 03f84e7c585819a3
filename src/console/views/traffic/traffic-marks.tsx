import { useMemo } from 'preact/hooks'
import type { AdminFailures } from '../../../protocol/wire/admin/failures.ts'
import type { AdminMarks, AdminTraffic } from '../../../protocol/wire/admin/traffic.ts'
import { fullTime, shortTime } from '../../parts/format.ts'
import type { Mark } from '../../plots/marks.ts'
import { useLoad } from '../../state/load.ts'
import { useNodeNames } from '../../state/node-names.ts'
import { errorAlerts } from './error-alerts.ts'

const everyMs = 30_000
const minuteMs = 60_000

type Given = AdminMarks['marks'][number]

const textOf: Readonly<Record<Given['kind'], (node: string, model: string) => string>> = {
  start: () => 'Gateway started',
  drain: (node) => `${node} drained`,
  resume: (node) => `${node} resumed`,
  sleep: (node) => `${node} put to sleep`,
  wake: (node) => `${node} woken`,
  added: (node) => `${node} added`,
  removed: (node) => `${node} removed`,
  revoked: (node) => `${node} revoked`,
  load: (node, model) => `${model} loaded on ${node}`,
  unload: (node, model) => `${model} unloaded on ${node}`,
  price: (_, model) => `${model} has another price`,
}

const none: readonly Given[] = []

/** What was done in a range. `of`: what it is of, which stays while the range moves on. */
export function useMarks(asked: string, of: string): readonly Mark[] {
  const [loaded] = useLoad<AdminMarks>(`/v1/admin/traffic/marks${asked}`, everyMs, `marks ${of}`)
  const names = useNodeNames()
  const marks = loaded.kind === 'ready' ? loaded.data.marks : none
  return useMemo(
    () =>
      marks.map(({ at, kind, node_id: id, model }) => ({
        atMs: Date.parse(at),
        text: textOf[kind](names.get(id ?? '') ?? id ?? '', model ?? ''),
      })),
    [marks, names.size],
  )
}

/** When the alert about errors fired, where the range is read by minutes. */
export function alertMarks(traffic: AdminTraffic, failures: AdminFailures | null): readonly Mark[] {
  if (failures === null || traffic.step_seconds * 1_000 !== minuteMs) return []
  const failed = new Map<number, number>()
  for (const { at, status, requests } of failures.points) {
    if (status >= 500) failed.set(Date.parse(at), (failed.get(Date.parse(at)) ?? 0) + requests)
  }
  const fromMs = Date.parse(traffic.from)
  const minutes = traffic.points
    .map(({ at, requests }) => ({ atMs: Date.parse(at), requests, failed: failed.get(Date.parse(at)) ?? 0 }))
    .filter(({ atMs }) => atMs >= fromMs)
  return errorAlerts(minutes).map((atMs) => ({ atMs, text: 'Alert: errors above 5 %', bad: true }))
}

/** The marks as a list, newest first: for those who do not point at a plot. */
export function MarkList({ marks }: { marks: readonly Mark[] }) {
  if (marks.length === 0) return null
  return (
    <section aria-labelledby="marks-title">
      <h2 id="marks-title">What was changed</h2>
      <ol class="marks">
        {marks.toReversed().map(({ atMs, text, bad = false }) => {
          const at = new Date(atMs).toISOString()
          return (
            <li key={`${atMs} ${text}`} class={bad ? 'bad' : undefined}>
              <time dateTime={at} title={fullTime(at)}>
                {shortTime(at)}
              </time>{' '}
              {text}
            </li>
          )
        })}
      </ol>
    </section>
  )
}
