import { afterAll, describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const model = 'text-embed'
const nodes: ScriptedNode[] = []
afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
for (let at = 0; at < 3; at++) {
  const node = startScriptedNode(model)
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId })
}

/** `input-7` has the vector `[7]`. */
const inputs = (count: number) => Array.from({ length: count }, (_, at) => `input-${at}`)
const inputsOf = ({ body }: ScriptedCall) => body.input as readonly string[]
const embed = (call: ScriptedCall) => {
  const data = inputsOf(call).map((text, index) => ({ index, embedding: [Number(text.slice(6))] }))
  call.respond(200, { data, usage: { prompt_tokens: data.length, total_tokens: data.length } })
}
const ask = (count: number, signal?: AbortSignal, key = customer.key) =>
  postJson(
    `${gateway.url}/v1/embeddings`,
    key,
    { model, input: inputs(count) },
    { ...(signal === undefined ? {} : { signal }) },
  )
interface Embeddings {
  readonly data: readonly { readonly index: number; readonly embedding: readonly number[] }[]
  readonly usage: object
  readonly svc: { readonly receipt_hashes: readonly string[]; readonly external?: boolean }
}
const inOrder = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ object: 'embedding', index, embedding: [index] }))

describe('§28: many embeddings', () => {
  test('are done side by side on all nodes, and come back in order, with one receipt a part', async () => {
    const held: (() => void)[] = []
    const everywhere = Promise.withResolvers<void>()
    const sizes: number[] = []
    for (const node of nodes) {
      node.answer((call) => {
        sizes.push(inputsOf(call).length)
        if (held.length >= nodes.length) return embed(call)
        // Nobody is answered before all nodes have something to do.
        held.push(() => embed(call))
        if (held.length === nodes.length) everywhere.resolve()
      })
    }
    const asked = ask(500)
    await everywhere.promise
    for (const answer of held.toReversed()) answer()
    const response = await asked
    expect(response.status).toBe(200)
    const { data, usage, svc } = (await response.json()) as Embeddings
    expect<unknown>(data).toEqual(inOrder(500))
    expect(usage).toEqual({ prompt_tokens: 500, total_tokens: 500 })
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(500)
    expect(svc.receipt_hashes).toHaveLength(sizes.length)
    await waitFor('the receipts', async () => {
      const rows = await gateway.database.sql`
        select prompt_tokens from receipts where receipt_hash in ${gateway.database.sql([...svc.receipt_hashes])}`
      return rows.reduce((sum, { prompt_tokens: tokens }) => sum + tokens, 0) === 500
    })
  })

  test('a part that fails is done elsewhere', async () => {
    let failures = 0
    for (const [at, node] of nodes.entries()) {
      node.answer((call) => {
        if (at !== 0) return embed(call)
        failures++
        call.respond(500, {})
      })
    }
    const response = await ask(100)
    expect(((await response.json()) as Embeddings).data as unknown).toEqual(inOrder(100))
    expect(failures).toBeGreaterThan(0)
  })

  test('a part that no node can do fails all, and stops the others', async () => {
    const gone: Promise<void>[] = []
    for (const node of nodes) {
      node.answer((call) => {
        if (inputsOf(call).includes('input-0'))
          return call.respond(400, { error: { message: 'input 0 is too long', type: 'BadRequestError' } })
        gone.push(call.gone)
      })
    }
    const response = await ask(100)
    expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([
      400,
      'invalid_request',
    ])
    await Promise.all(gone)
  })

  test('a client that leaves stops all nodes', async () => {
    const leaving = new AbortController()
    const everywhere = Promise.withResolvers<void>()
    const gone: Promise<void>[] = []
    for (const node of nodes) {
      node.answer((call) => {
        gone.push(call.gone)
        if (gone.length === nodes.length) everywhere.resolve()
      })
    }
    const asked = ask(500, leaving.signal).catch(() => null)
    await everywhere.promise
    leaving.abort()
    await Promise.all(gone)
    await asked
    expect(gone).toHaveLength(nodes.length)
  })

  test('§29: a higher rank takes no part while a lower one serves', async () => {
    const [one, two, far] = [startScriptedNode(model), startScriptedNode(model), startScriptedNode(model)]
    const open = await gateway.customer({ policy: { allow_external: true }, keyPolicy: { allow_external: true } })
    const all = [one, two, far]
    try {
      const ids: string[] = []
      for (const node of all) {
        node.answer(embed)
        ids.push(await gateway.node(node.url, { customerId: open.customerId }))
      }
      const change = (at: number, changes: object) => gateway.admin('PATCH', `/v1/admin/nodes/${ids[at]}`, changes)
      await change(2, { rank: 5, external: true })
      const near = (await (await ask(500, undefined, open.key)).json()) as Embeddings
      expect([near.data.length, near.svc.external, far.calls]).toEqual([500, undefined, 0])
      expect(Math.min(one.calls, two.calls)).toBeGreaterThan(0)
      await change(2, { rank: 0 })
      const mixed = (await (await ask(500, undefined, open.key)).json()) as Embeddings
      expect([mixed.data.length, mixed.svc.external]).toEqual([500, true])
      expect(far.calls).toBeGreaterThan(0)
    } finally {
      for (const node of all) node.stop()
    }
  })

  test('a few are one call', async () => {
    let calls = 0
    for (const node of nodes) {
      node.answer((call) => {
        calls++
        embed(call)
      })
    }
    expect((await ask(20)).status).toBe(200)
    expect(calls).toBe(1)
  })
})
