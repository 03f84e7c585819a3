import { expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const node = await fixture(startScriptedNode('m'))
const transport = await fixture(createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: waitLimitMs }))

/** Other answers come whole meanwhile, one after the other: what was not held back would have come among them. */
async function others(): Promise<void> {
  node.answer((given) => given.respond(200, 'x'.repeat(100_000)))
  for (let at = 0; at < 20; at++) await (await call()).text(1_000_000)
}

const call = () =>
  transport.fetch('/v1/chat/completions', { method: 'POST', body: '{}', signal: AbortSignal.timeout(waitLimitMs) })

/**
 * Symptom: requests to a node hung until their deadline after a slow client’s answer had ended.
 * Cause: the last read of an answer can fill the client’s queue; the connection was then paused, went back to the idle
 * ones with its next byte, and stayed paused under the next request until the slow client read on.
 * Fix: an answer that has ended lets go of its connection.
 */
test.each([
  ['plain', {}, (text: string) => text],
  ['compressed', { 'content-encoding': 'gzip' }, (text: string) => gzipSync(text)],
] as const)(
  '§6: a reader that holds back the end of its answer does not hold the next one: %s',
  async (_name, headers, write) => {
    node.answer(async (given) => {
      given.open(headers)
      await given.raw(write('x'.repeat(1_000)))
      given.end()
    })
    for (let i = 0; i < 3; i++) {
      const response = await call()
      const ended = new Promise<void>((resolve) => {
        response.read({ bytes: () => response.flow.pause(), ended: resolve, failed: () => resolve() })
      })
      // The node has said all; what a held decoder still keeps comes when it is read.
      await lasts(50)
      node.answer((given) => given.respond(200, '{"next":true}'))
      expect(await (await call()).text(1_000)).toBe('{"next":true}')
      response.flow.resume()
      await ended
      node.answer(async (given) => {
        given.open(headers)
        await given.raw(write('x'.repeat(1_000)))
        given.end()
      })
    }
  },
)

/**
 * Symptom: a node that sent 1 MB of gzip made the gateway hold 256 MB for a client that did not read.
 * Cause: holding back the node’s connection did not hold back the decoder, which went on with what it had.
 * Fix: a decoder is paused with its connection.
 */
test('§6: a compressed answer unfolds no further than its reader reads', async () => {
  const unfolded = 64 * 1024 * 1024
  // As much that cannot be packed as an answer needs to unfold that far (§27).
  const piece = Buffer.concat([randomBytes(1_024), Buffer.alloc(31 * 1_024)])
  const packed = gzipSync(Buffer.concat(Array.from({ length: unfolded / piece.length }, () => piece)))
  node.answer(async (given) => {
    given.open({ 'content-encoding': 'gzip' })
    await given.raw(packed)
    given.end()
  })
  const response = await call()
  let read = 0
  const ended = new Promise<void>((resolve) => {
    response.read({
      bytes: (chunk) => {
        if (read === 0) response.flow.pause()
        read += chunk.length
      },
      ended: resolve,
      failed: () => resolve(),
    })
  })
  await waitUntil('its first bytes', () => read > 0)
  await others()
  expect(read).toBeLessThan(1024 * 1024)
  response.flow.resume()
  await ended
  expect(read).toBe(unfolded)
})

/** A few megabytes that unfold to gigabytes cost seconds after their reader had refused them. */
test('§27: a compressed answer that was given up is not unfolded further', async () => {
  node.answer(async (given) => {
    given.open({ 'content-encoding': 'gzip' })
    await given.raw(gzipSync(Buffer.alloc(64 * 1024 * 1024)))
    given.end()
  })
  const response = await call()
  let bytesAfter = 0
  let givenUp = false
  await new Promise<void>((resolve) => {
    response.read({
      bytes: (chunk) => {
        if (givenUp) bytesAfter += chunk.length
        else setImmediate(resolve)
      },
      ended: resolve,
      failed: () => resolve(),
    })
  })
  givenUp = true
  response.discard()
  await others()
  expect(bytesAfter).toBeLessThan(1024 * 1024)
})
