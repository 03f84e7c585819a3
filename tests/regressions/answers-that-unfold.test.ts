import { afterAll, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { CallSignal } from '../../src/transport/call-signal.ts'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'

import { fixture } from '../support/run/fixture.ts'

/*
 * A node that packs its answer although it is asked not to sent 16 KB, and the client of a transcription was sent 16 MiB: what unfolded
 * was bounded by the size of an answer alone.
 */

const mib = 1024 * 1024
afterAll(() => server.stop(true))
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: ({ url }) => {
    const plain = Buffer.alloc(Number(new URL(url).searchParams.get('bytes')), 32)
    return new Response(gzipSync(plain), { headers: { 'content-encoding': 'gzip' } })
  },
})
const transport = await fixture(
  createDirectTransport({ url: server.url.origin, apiKey: null, connectTimeoutMs: 5_000 }),
)

const read = async (bytes: number) => {
  const response = await transport.fetch(`/?bytes=${bytes}`, { method: 'GET', signal: new CallSignal() })
  return (await response.text(64 * mib)).length
}

test('§27: an answer unfolds to 64 times its bytes and 4 MiB, and is malformed beyond', async () => {
  expect(await read(4 * mib)).toBe(4 * mib)
  expect(await read(5 * mib).catch(({ failure }) => failure)).toBe('malformed')
  expect(await read(16 * mib).catch(({ failure }) => failure)).toBe('malformed')
  expect(await read(100)).toBe(100)
})
