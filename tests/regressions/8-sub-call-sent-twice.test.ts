import { expect, test } from 'bun:test'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitLimitMs } from '../support/run/limits.ts'

const node = await fixture(startScriptedNode('m'))

/**
 * Symptom: an expert whose machine reset the connection at once was asked a second time.
 * Cause: a kept connection that ends at once counts as closed before the request came; a fresh one then carries it.
 * Fix: what may be sent once only has a connection of its own, and that is not kept.
 */
test('mixture rule 1: a request that may be sent once is, over a connection of its own', async () => {
  await using transport = await scoped(
    createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: waitLimitMs }),
  )
  const call = (once: boolean) =>
    transport.fetch('/v1/chat/completions', { method: 'POST', body: '{}', signal: new AbortController().signal, once })
  const outcome = (once: boolean) =>
    call(once).then(
      () => 'answered',
      (error: unknown) => String(error),
    )
  node.answer((given) => given.respond(200, {}))
  await (await call(false)).text(1_000)
  node.answer((given) => given.cut('reset'))
  expect(await outcome(true)).toContain('closed')
  expect(node.calls).toBe(2)
  // The kept one is still there for others, who may try again.
  expect(await outcome(false)).toContain('closed')
  expect(node.calls).toBe(4)
  node.answer((given) => given.respond(200, {}))
  await (await call(true)).text(1_000)
  node.answer((given) => given.cut('reset'))
  // Nothing was kept: this one had a fresh connection, and so no second try.
  expect(await outcome(false)).toContain('closed')
  expect(node.calls).toBe(6)
})
