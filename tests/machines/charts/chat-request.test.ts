import { expect, test } from 'bun:test'
import { type RequestFacts, requestSteps } from '../../../src/machines/charts/chat-request.ts'

const way = (facts: Partial<RequestFacts>) =>
  requestSteps({ tries: [], ttftMs: null, durationMs: 900, outcome: 'served', ...facts }).map(
    ({ state, atMs }) => `${state} ${atMs}`,
  )
const good = { startedMs: 5, durationMs: 895, failed: false }
const bad = { startedMs: 5, durationMs: 100, failed: true }

test.each([
  ['a stream', { tries: [good], ttftMs: 60 }, ['queued 0', 'trying 5', 'streaming 60', 'settled.served 900']],
  ['a whole answer without a measured first token', { tries: [good] }, ['queued 0', 'trying 5', 'settled.served 900']],
  [
    'a second try',
    { tries: [bad, { ...good, startedMs: 120 }], ttftMs: 200 },
    ['queued 0', 'trying 5', 'queued 105', 'trying 120', 'streaming 200', 'settled.served 900'],
  ],
  ['no try that worked', { tries: [bad], outcome: 'failed' }, ['queued 0', 'trying 5', 'settled.failed 105']],
  [
    'a stream that broke',
    { tries: [{ ...good, failed: true }], ttftMs: 60, outcome: 'failed' },
    ['queued 0', 'trying 5', 'streaming 60', 'settled.failed 900'],
  ],
  ['a refusal', { outcome: 'failed' }, ['queued 0', 'settled.failed 900']],
  ['a client that left the queue', { outcome: 'left' }, ['queued 0', 'settled.left 900']],
  [
    'a client that left the stream',
    { tries: [{ ...good, failed: true }], ttftMs: 60, outcome: 'left' },
    ['queued 0', 'trying 5', 'streaming 60', 'settled.left 900'],
  ],
  [
    'a client that left a try',
    { tries: [{ ...good, failed: true }], outcome: 'left' },
    ['queued 0', 'trying 5', 'settled.left 900'],
  ],
  ['a known answer', {}, ['queued 0', 'settled.served 900']],
] satisfies readonly (readonly [string, Partial<RequestFacts>, readonly string[]])[])(
  '§32: the way of %s through the chart of requests',
  (_, facts, expected) => expect(way(facts)).toEqual([...expected]),
)
