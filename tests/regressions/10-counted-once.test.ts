import { expect, test } from 'bun:test'
import type { AnyStateNode } from 'xstate'
import { charts } from '../../src/machines/charts/registry.ts'
import type { InspectEvents, MachineCounts } from '../../src/protocol/wire/admin/inspect.ts'
import { startConsoleChain } from '../support/console/console-batches.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { startConsoleWork } from '../support/console/console-work.ts'
import { InspectReader } from '../support/console/inspect-reader.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a job that ran stood twice in the numbers of its statechart: as `running` and as `attending`.
 * Cause: what rests was counted by rows, what works by charts, and the row of what works has a status, too.
 * Fix: rows are counted without those that this gateway has at work; those stay where they were last seen until the next
 * reading.
 */

const chain = await fixture(startConsoleChain())
// Batches that are looked at all the time: they work, rest and work again between any two numbers.
const pool = await fixture(startConsolePool({ ...chain.env, SVC_SETTLEMENT_POLL_MS: '20' }))
await fixture(startConsoleWork(pool, chain))

const open = async () => {
  const headers = { 'x-svc-admin-token': pool.gateway.tokens.viewer }
  return new InspectReader(await fetch(`${pool.gateway.url}/v1/admin/inspect`, { headers }))
}
function* leavesOf(node: AnyStateNode): Generator<string> {
  const children = Object.values(node.states)
  if (children.length === 0) yield node.path.join('.')
  for (const child of children) yield* leavesOf(child)
}
const instances = ({ states }: MachineCounts) => states.reduce((sum, { live }) => sum + live, 0)
const stateOf = ({ states }: MachineCounts) => states.filter(({ live }) => live > 0).map(({ state }) => state)

/** The numbers as a console has them, after each event. */
class Counted {
  readonly machines = new Map<string, MachineCounts>()
  private constructor(readonly reader: InspectReader) {}

  static async open(): Promise<Counted> {
    const counted = new Counted(await open())
    counted.note((await counted.reader.next('snapshot')).machines)
    return counted
  }
  note(machines: InspectEvents['transitions']['machines']): void {
    for (const counts of machines) this.machines.set(counts.machine, counts)
  }
  of(machine: string): MachineCounts {
    return this.machines.get(machine) ?? { machine, states: [] }
  }
  until(what: string, holds: () => boolean): Promise<unknown> {
    return this.reader.until(what, 'transitions', ({ machines }) => {
      this.note(machines)
      return holds()
    })
  }
}

test('§23: a job that runs is counted where it works, and nowhere else', async () => {
  const counted = await Counted.open()
  await counted.until('the job and the webhook', () => instances(counted.of('webhook-delivery')) > 0)
  expect(stateOf(counted.of('private-job'))).toEqual(['attending'])
  expect(instances(counted.of('private-job'))).toBe(1)
  await counted.reader.close()
})

test('§23: every instance of every chart is counted in one leaf, whatever it does just then', async () => {
  const counted = await Counted.open()
  await counted.until('the rows', () => instances(counted.of('payout-batch')) > 0)
  const release = pool.hold()
  const { done } = pool.mixture()
  await counted.until('the mixture', () => stateOf(counted.of('mixture')).includes('expertsRunning'))
  // Held, in a block, without money; the one that is final is no more.
  const running = { node: 5, router: 1, mixture: 1, 'private-job': 1, 'webhook-delivery': 1, 'payout-batch': 3 }
  // An agent starts model servers, and a request's chart is read from its record.
  const expected = { ...running, 'model-server': 0, request: 0 }
  const seen = () => Object.fromEntries(charts.map(({ machine }) => [machine.id, instances(counted.of(machine.id))]))
  for (let told = 0; told < 15; told++) {
    expect(seen()).toEqual(expected)
    for (const { machine } of charts)
      expect([...leavesOf(machine.root)]).toEqual(expect.arrayContaining(stateOf(counted.of(machine.id))))
    await counted.until('the next', () => true)
  }
  release()
  await (await done).body?.cancel()
  await counted.until('the end of the mixture', () => instances(counted.of('mixture')) === 0)
  await counted.reader.close()
})
