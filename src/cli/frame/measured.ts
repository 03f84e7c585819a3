import type { FirstToken, Node } from '../../protocol/wire/admin/admin.ts'
import { dayMs, hourMs, minuteMs, secondMs } from '../../time.ts'
import { rounded } from './table.ts'

/** Each is used until one and a half of the next. */
const units = [
  ['s', secondMs, 1.5 * minuteMs],
  ['min', minuteMs, 1.5 * hourMs],
  ['h', hourMs, 1.5 * dayMs],
  ['d', dayMs, Number.POSITIVE_INFINITY],
] as const

function age(at: string, nowMs: number): string {
  const ms = Math.max(0, nowMs - Date.parse(at))
  const [name, unitMs] = units.find(([, , untilMs]) => ms < untilMs) ?? units[0]
  return `${Math.round(ms / unitMs)} ${name} ago`
}

/** `1900 ms, 12 min ago, of 7`: a measurement with its age, and of how many it is the last. */
export function firstTokenText(first: FirstToken | null | undefined, nowMs: number): string | null {
  return first == null ? null : `${rounded(first.ms)} ms, ${age(first.at, nowMs)}, of ${first.of}`
}

/** The last of several; null: none was measured. */
export function lastFirstToken(all: readonly Node['runtimes'][number]['models'][number][]): FirstToken | null {
  // A gateway of a version before this one does not say.
  const measured = all.flatMap(({ first_token: first }) => first ?? [])
  const [last] = measured.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at))
  return last === undefined ? null : { ...last, of: measured.reduce((sum, { of }) => sum + of, 0) }
}
