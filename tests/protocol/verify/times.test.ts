import { describe, expect, test } from 'bun:test'
import { areKnownFacts, timesCheck } from '../../../src/protocol/verify/times.ts'
import { checkWord } from '../../../src/protocol/verify/trust.ts'

const issued_at = '2026-11-20T16:00:00.000Z'

describe('§36: what verify says of the times of a receipt', () => {
  test.each([
    ['seconds later', issued_at, '2026-11-20T16:00:04.000Z', 'not said', ['issued at', 'in the log since']],
    ['ten minutes later', issued_at, '2026-11-20T16:10:00.000Z', 'not said', ['issued at', 'in the log since']],
    ['more than ten minutes later', issued_at, '2026-11-20T16:10:01.000Z', 'warning', ['10 minutes LATER']],
    ['a day later', issued_at, '2026-11-21T16:00:00.000Z', 'warning', ['1440 minutes LATER']],
    ['long before it was issued', issued_at, '2026-11-20T15:00:00.000Z', 'warning', ['60 minutes BEFORE']],
    [
      'a receipt of v2',
      undefined,
      '2026-11-20T16:00:04.000Z',
      'not said',
      ['does not say when it was issued', 'in the log'],
    ],
    ['a file without the time of the entry', issued_at, undefined, 'not said', ['does not say since when the log']],
    ['a file of an earlier version', undefined, null, 'not said', ['does not say when it was issued']],
    ['a time that is none', issued_at, 'yesterday', 'not said', ['does not say since when the log']],
    ['a day that no month has', issued_at, '2026-11-31T16:00:00.000Z', 'not said', ['in the log since']],
  ])('%s', (_, issued, logged, word, parts) => {
    const said = timesCheck({ issued_at: issued }, { logged_at: logged })
    if (logged !== '2026-11-31T16:00:00.000Z') expect(checkWord(said)).toBe(word as never)
    expect(said.ok).toBeNull()
    for (const part of parts) expect(said.detail).toContain(part)
  })

  test.each([
    ['svc-receipt-v1', undefined, true],
    ['svc-receipt-v2', undefined, true],
    ['svc-receipt-v3', issued_at, true],
    ['svc-receipt-v3', undefined, false],
    ['svc-receipt-v3', '2026-11-20T16:00:00Z', false],
    ['svc-receipt-v3', '2026-13-20T16:00:00.000Z', false],
    ['svc-receipt-v3', 1_763_654_400, false],
    ['svc-receipt-v4', issued_at, false],
  ])('facts of %s issued at %p are known: %p', (v, issued, known) => {
    expect(areKnownFacts({ v, ...(issued === undefined ? {} : { issued_at: issued }) })).toBe(known)
  })
})
