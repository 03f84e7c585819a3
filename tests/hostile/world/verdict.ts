import type { Answer } from './answers.ts'
import type { Heard } from './asker.ts'
import { markersOf } from './markers.ts'
import { secretsIn } from './secrets.ts'

/** What must never be, whatever a node or a client does. */
export type FaultKind =
  | 'crossed'
  | 'status 500'
  | 'no answer'
  | 'broken answer'
  | 'silent end'
  | 'unusable afterwards'
  | 'stall'
  | 'leak'
  | 'not at rest'
  | 'books'
  | 'charged for nothing'
  | 'dead'
  | 'wrong route'
  | 'secret'
  | 'amplified'
  | 'ambiguous path'
  | 'memory'
  /** More was computed than the node's bytes are worth. */
  | 'cost'
  /** A sealed request that was changed on its way was answered all the same. */
  | 'opened'
  /** A sealed request that came again was answered again. */
  | 'run twice'

export interface Fault {
  readonly kind: FaultKind
  readonly detail: string
}

const short = (text: string) => JSON.stringify(text.length > 300 ? `${text.slice(0, 200)}…${text.slice(-80)}` : text)
const fault = (kind: FaultKind, detail: string): Fault => ({ kind, detail })

/** No byte of anybody else's. */
export function crossed(text: string, own: readonly string[]): readonly Fault[] {
  const foreign = markersOf(text).filter((marker) => !own.includes(marker))
  return foreign.length === 0 ? [] : [fault('crossed', `${foreign.join()} in ${short(text)}`)]
}

/** Nothing that a node was told in confidence, in any spelling that §5 promises to strike. */
export function secretFaults(text: string, more: readonly string[] = []): readonly Fault[] {
  const found = secretsIn(text, more)
  return found.length === 0 ? [] : [fault('secret', `${found.join()} in ${short(text)}`)]
}

/** Of a node's bytes a client gets no more than so many times as many, and these besides. */
const writtenTimesMax = 8
const writtenBytesMore = 4 * 1024 * 1024

/** What a client is sent is bounded by what the node has said. */
export function amplified(heardBytes: number, nodeBytes: number): readonly Fault[] {
  if (heardBytes <= writtenTimesMax * nodeBytes + writtenBytesMore) return []
  return [fault('amplified', `${heardBytes} bytes written of ${nodeBytes} that the node wrote`)]
}

const isStream = ({ head }: Answer) => /\r\ncontent-type: text\/event-stream/i.test(head)

function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return null
  }
}

/** An answer to a chat is a whole answer, a stream that says how it ended, or an error in its envelope. */
export function answerFaults(answer: Answer): readonly Fault[] {
  const { status, body, whole } = answer
  if (status === 500) return [fault('status 500', short(body))]
  if (!whole) return [fault('broken answer', `${status} ${short(body)}`)]
  if (isStream(answer)) {
    return body.endsWith('data: [DONE]\n\n') || body.includes('"error":{') ? [] : [fault('silent end', short(body))]
  }
  const value = parsed(body) as { svc?: { receipt_hash?: unknown }; error?: { code?: unknown } } | null
  const said = status === 200 ? value?.svc?.receipt_hash : value?.error?.code
  return typeof said === 'string' ? [] : [fault('broken answer', `${status} ${short(body)}`)]
}

/** Of one chat on a connection of its own. */
export function chatFaults(heard: Heard, own: readonly string[]): readonly Fault[] {
  const faults = [...crossed(heard.text, own)]
  if (heard.end === 'left') return faults
  const [answer, ...more] = heard.answers
  if (answer === undefined || heard.end === 'late')
    return [...faults, fault('no answer', `${heard.end} ${short(heard.text)}`)]
  if (more.length > 0) faults.push(fault('broken answer', `more than one: ${short(heard.text)}`))
  return [...faults, ...answerFaults(answer)]
}

/** What a good node said of this request, whole. */
export function isRight(heard: Heard, marker: string): boolean {
  const [answer] = heard.answers
  if (answer === undefined || answer.status !== 200 || answerFaults(answer).length > 0) return false
  return markersOf(answer.body).join() === marker && !answer.body.includes('"error":{')
}
