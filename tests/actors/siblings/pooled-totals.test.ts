import { expect, test } from 'bun:test'
import { pooledTotals, totalsOnWire } from '../../../src/actors/siblings/pooled-totals.ts'
import { alone, type Siblings } from '../../../src/actors/siblings/siblings.ts'
import type { ChatTotals } from '../../../src/actors/telemetry/metrics.ts'
import type { Totals } from '../../../src/protocol/wire/admin/processes.ts'

const hourMs = 3_600_000

/** What a process has counted: each request with one error, one mixture and ten tokens of one model. */
function counted(requests: number): ChatTotals {
  const model = { requests, ttft: Float64Array.of(requests, 0), perToken: Float64Array.of(0), tokensIn: 10 * requests }
  return {
    requests,
    errors: { timeout: requests },
    upstreamFailures: {},
    mixtures: [{ strategy: 'vote', outcome: 'ok', count: requests }],
    models: new Map([['m', { ...model, tokensOut: 0 }]]),
    inFlight: 1,
    queued: 0,
  }
}
const said = (process: string, requests: number, up_ms: number | undefined): Totals => {
  const totals: Totals = totalsOnWire(process, counted(requests))
  return up_ms === undefined ? totals : { ...totals, up_ms }
}

/** Reads once after the other; each time those answer that are given. */
function readings() {
  let own = 0
  let answers: readonly Totals[] = []
  const siblings: Siblings = { ...alone, index: 0, name: '0-1.sock', ask: async () => [...answers] as never[] }
  const read = pooledTotals(async () => counted(own), siblings)
  return async (mine: number, ...given: readonly Totals[]) => {
    own = mine
    answers = given
    const { requests, errors, mixtures, models, inFlight } = await read()
    const { tokensIn, ttft } = models.get('m') ?? { tokensIn: 0, ttft: [0] }
    const all = [errors.timeout ?? 0, mixtures[0]?.count ?? 0, tokensIn / 10, ttft[0] ?? 0]
    expect(all).toEqual(all.map(() => requests))
    return { requests, inFlight }
  }
}

test('§33: a busy sibling that answers late brings what it counts from then on, not its whole life', async () => {
  const read = readings()
  const { requests: before } = await read(100)
  expect((await read(103, said('1-2.sock', 50_000, hourMs))).requests - before).toBe(3)
  // It misses one again: what it counted meanwhile comes with its next answer.
  await read(103)
  expect(await read(103, said('1-2.sock', 50_020, hourMs))).toEqual({ requests: before + 23, inFlight: 2 })
  // Of an older version, which does not say since when it runs.
  expect((await read(103, said('1-3.sock', 70_000, undefined))).requests - before).toBe(23)
})

test('§33: all that a process has counted is new where it has just started, and stays when it ends', async () => {
  const read = readings()
  const { requests: before } = await read(0)
  expect((await read(0, said('1-2.sock', 7, 0))).requests - before).toBe(7)
  expect((await read(0)).requests - before).toBe(7)
})

test('§33: the counts do not fall, however many processes have come and gone', async () => {
  const read = readings()
  let last = (await read(0)).requests
  for (let pid = 0; pid < 300; pid++) {
    const { requests } = await read(0, said(`1-${pid}.sock`, 5, 0))
    expect(requests - last).toBe(5)
    last = requests
  }
})
