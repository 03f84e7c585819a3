import { expect, test } from 'bun:test'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'

const node = await fixture(startScriptedNode('m'))

/**
 * Symptom: a node that crashed on a request after a while got it a second time, and the client waited twice as long.
 * Cause: a kept connection that ended without a byte counted as one that had been closed before the request came.
 * Fix: only when it ends at once; later the node had the request.
 */
test('§5: a request over a kept connection that is cut after a while is not sent twice', async () => {
  await using transport = await scoped(
    createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: waitLimitMs }),
  )
  const call = () =>
    transport.fetch('/v1/chat/completions', { method: 'POST', body: '{}', signal: new AbortController().signal })
  node.answer((given) => given.respond(200, {}))
  await (await call()).text(1_000)
  node.answer(async (given) => {
    await lasts(700)
    given.cut('reset')
  })
  const outcome = await call().then(
    () => 'answered',
    (error: unknown) => String(error),
  )
  expect(outcome).toContain('closed')
  expect(node.calls).toBe(2)
  node.answer((given) => given.respond(200, {}))
  expect((await call()).status).toBe(200)
})
