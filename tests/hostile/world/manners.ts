import type { Wanted } from './answer-draft.ts'
import { chatBytes, type Heard, type Place } from './asker.ts'
import { formBytes } from './form-twists.ts'
import { markersOf } from './markers.ts'
import { chatFaults, crossed, type Fault, isRight } from './verdict.ts'

export interface Question {
  readonly place: Place
  readonly key: string
  readonly model: string
  readonly marker: string
  readonly stream: boolean
  readonly paddingChars: number
}

/** What customers ask of a node, and how its answer is judged. */
export interface Manner {
  bytes(question: Question): Buffer | string
  wanted(stream: boolean): Wanted
  /** `own`: markers that the answer may have. */
  faults(heard: Heard, own: readonly string[]): readonly Fault[]
  /** What a good node says. */
  isRight(heard: Heard, marker: string): boolean
}

export const chatting: Manner = {
  bytes: ({ place, key, model, marker, stream, paddingChars }) => {
    const messages = [{ role: 'user', content: `${marker} ${'p'.repeat(paddingChars)}` }]
    return chatBytes(place, key, JSON.stringify({ model, stream, max_tokens: 50, messages }))
  },
  wanted: (stream) => (stream ? 'stream' : 'whole'),
  faults: chatFaults,
  isRight,
}

/** Sound as text: an answer is passed on as it comes, so a node that stops in the middle cuts its client off. */
export const transcribing: Manner = {
  bytes: ({ place, key, model, marker }) => {
    const host = `${place.hostname}:${place.port}`
    return formBytes([{ kind: 'form: header', line: 'Connection: close' }], { host, key, model, marker })
  },
  wanted: (stream) => (stream ? 'transcript events' : 'transcript'),
  faults: (heard, own) => {
    const faults = crossed(heard.text, own)
    if (heard.end === 'left') return faults
    const [answer, ...more] = heard.answers
    const detail = `${heard.end} ${JSON.stringify(heard.text.slice(0, 300))}`
    if (answer === undefined || heard.end === 'late') return [...faults, { kind: 'no answer', detail }]
    if (more.length > 0) return [...faults, { kind: 'broken answer', detail: `more than one: ${detail}` }]
    return answer.status === 500 ? [...faults, { kind: 'status 500', detail }] : faults
  },
  isRight: ({ answers: [answer] }, marker) =>
    answer?.status === 200 && answer.whole && markersOf(answer.body).join() === marker,
}
