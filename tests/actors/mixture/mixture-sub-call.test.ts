import { expect, test } from 'bun:test'
import type { ChatCommand } from '../../../src/actors/chat/chat-command.ts'
import { SubCall, type SubCallOrder, type SubCallPort } from '../../../src/actors/mixture/mixture-sub-call.ts'
import { subCallPlacement } from '../../../src/machines/mixture/check.ts'
import type { RoutingTable } from '../../../src/machines/rules/routing.ts'
import type { ChatRequest } from '../../../src/protocol/wire/inference/chat.ts'
import { mixtureRequest, own, vote } from '../../machines/mixture/requests.ts'
import { table } from '../../machines/rules/routes.ts'

const { access, body, nowMs } = mixtureRequest(vote('a'))
const parent = {
  requestId: 'req_parent',
  access,
  body,
  signal: new AbortController().signal,
} as unknown as ChatCommand<ChatRequest>
const planned = own('a')

interface Tried {
  readonly result: Awaited<ReturnType<SubCall['run']>>
  /** Machines that were called, or would have been. */
  readonly dispatched: readonly string[]
  readonly failures: readonly unknown[]
  readonly samples: readonly unknown[]
}

/** A call that was planned for `planned`, under the table that the router has by the time it is made. */
async function trySubCall(now: RoutingTable, change: Partial<SubCallOrder> = {}): Promise<Tried> {
  const dispatched: string[] = []
  const failures: unknown[] = []
  const samples: unknown[] = []
  const port = {
    router: { table: () => now },
    ticker: { delete: () => {} },
    subCall: (sample: unknown) => void samples.push(sample),
  } as unknown as SubCallPort
  const call = new SubCall(
    port,
    parent,
    {
      placement: subCallPlacement({ access, nowMs }, 'a'),
      planned: { kind: 'placed', route: planned },
      prepare: () => {
        throw new TypeError('a defect')
      },
      dispatched: ({ nodeId }) => void dispatched.push(nodeId),
      kept: () => {},
      ...change,
    },
    null,
  )
  const result = await call.run((error) => failures.push(error))
  return { result, dispatched, failures, samples }
}

const noNode = { status: 'no_node', call: null } as const

test('mixture rule 1: a machine that changed its owner between planning and dispatch is not asked', async () => {
  const sold = table(own('a', { customerId: 'somebody' }))
  expect(await trySubCall(sold)).toEqual({ result: noNode, dispatched: [], failures: [], samples: [] })
})

test('mixture rule 1: neither is one that is gone, nor one whose route never was the caller’s', async () => {
  expect((await trySubCall(table())).result).toEqual(noNode)
  const foreign = own('a', { customerId: 'somebody' })
  expect((await trySubCall(table(own('a')), { planned: { kind: 'placed', route: foreign } })).result).toEqual(noNode)
  expect((await trySubCall(table(own('a')), { planned: { kind: 'no_node' } })).result).toEqual(noNode)
})

test('§7: an exception is the status `error`: told once, metered once, without a machine', async () => {
  const { result, dispatched, failures, samples } = await trySubCall(table(own('a')))
  expect(result).toEqual({ status: 'error', call: null })
  expect(dispatched).toEqual([])
  expect(failures).toEqual([expect.any(TypeError)])
  expect(samples).toEqual([expect.objectContaining({ model: 'a', promptTokens: 0, completionTokens: 0 })])
})
