import { initialTransition, setup, transition } from 'xstate'
import { stateName } from './state-name.ts'

export type RequestEvent =
  /** A node has a slot for it, and is asked. */
  | { readonly type: 'slot.granted' }
  /** `more`: another try follows. */
  | { readonly type: 'node.failed'; readonly more: boolean }
  | { readonly type: 'first.content' }
  /** All of the answer is there. */
  | { readonly type: 'answer.whole' }
  | { readonly type: 'stream.broken' }
  /** Policy, limits, or no node that may and can. */
  | { readonly type: 'refused' }
  | { readonly type: 'client.left' }

/**
 * One inference request, as `actors/chat` handles it. No actor runs this chart: on the path of a chat each state is a
 * place in the code (`dispatch.ts` waits and tries, `relay.ts` streams, `exchange.ts` settles), and the record of the
 * request says afterwards which of them it went through.
 */
export const chatRequestMachine = setup({
  types: { events: {} as RequestEvent },
  guards: { triesLeft: ({ event }) => event.type === 'node.failed' && event.more },
}).createMachine({
  id: 'request',
  initial: 'queued',
  on: { 'client.left': '.settled.left' },
  states: {
    /** Waits for a slot, or for its model to be loaded; passed at once where there is one. */
    queued: {
      // An answer that is known already is that of the same idempotency key.
      on: { 'slot.granted': 'trying', refused: 'settled.failed', 'answer.whole': 'settled.served' },
    },
    /** A node was asked. Until its first content another one can take over. */
    trying: {
      on: {
        'node.failed': [{ guard: 'triesLeft', target: 'queued' }, { target: 'settled.failed' }],
        'first.content': 'streaming',
        'answer.whole': 'settled.served',
      },
    },
    streaming: { on: { 'answer.whole': 'settled.served', 'stream.broken': 'settled.failed' } },
    /** Its usage, receipt, charge and record are written. */
    settled: {
      initial: 'served',
      states: { served: { type: 'final' }, failed: { type: 'final' }, left: { type: 'final' } },
    },
  },
})

/** The facts of one request's record; times from its start, ms. */
export interface RequestFacts {
  readonly tries: readonly { readonly startedMs: number; readonly durationMs: number; readonly failed: boolean }[]
  readonly ttftMs: number | null
  readonly durationMs: number
  readonly outcome: 'served' | 'failed' | 'left'
}

export interface RequestStep {
  readonly state: string
  readonly event: string
  /** From the start of the request. */
  readonly atMs: number
}

function* eventsOf({ tries, ttftMs, durationMs, outcome }: RequestFacts): Generator<readonly [RequestEvent, number]> {
  for (const [at, { startedMs, durationMs: tookMs, failed }] of tries.entries()) {
    const more = at < tries.length - 1
    const last = !more && !(failed && outcome !== 'left')
    yield [{ type: 'slot.granted' }, startedMs]
    if (!more && ttftMs !== null) {
      yield [{ type: 'first.content' }, ttftMs]
      if (outcome === 'failed') yield [{ type: 'stream.broken' }, durationMs]
    } else if (!last) yield [{ type: 'node.failed', more }, startedMs + tookMs]
  }
  if (outcome === 'left') yield [{ type: 'client.left' }, durationMs]
  else if (outcome === 'served') yield [{ type: 'answer.whole' }, durationMs]
  // Only what still waits is refused.
  else yield [{ type: 'refused' }, durationMs]
}

/** The way of a request through the chart, as the chart itself takes it. */
export function requestSteps(facts: RequestFacts): readonly RequestStep[] {
  let [snapshot] = initialTransition(chatRequestMachine)
  const steps: RequestStep[] = [{ state: stateName(snapshot.value), event: 'came in', atMs: 0 }]
  for (const [event, atMs] of eventsOf(facts)) {
    if (!snapshot.can(event)) continue
    ;[snapshot] = transition(chatRequestMachine, snapshot, event)
    steps.push({ state: stateName(snapshot.value), event: event.type, atMs })
  }
  return steps
}
