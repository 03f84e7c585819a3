import { expect, test } from 'bun:test'
import { CallSignal } from '../../src/transport/call-signal.ts'
import { errorText } from '../../src/transport/error-text.ts'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { waitLimitMs } from '../support/run/limits.ts'

/** A server that answers every request with these bytes, and no more. */
async function answering(bytes: string, work: (url: string) => Promise<void>): Promise<void> {
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: { data: (socket) => void socket.write(bytes) },
  })
  try {
    await work(`http://127.0.0.1:${server.port}`)
  } finally {
    server.stop(true)
  }
}

const head = (length: number) => `HTTP/1.1 400 Bad Request\r\ncontent-length: ${length}\r\n\r\n`

test.each([
  ['what it says', `${head(4)}no: `, 'no: '],
  ['nothing', head(0), ''],
  ['more than 64 KiB', head(65_537) + 'x'.repeat(65_537), ''],
  ['a body that never ends', `${head(99)}no`, ''],
])('§27: the body of a refusal is bounded in bytes and time: %s', async (_name, bytes, expected) => {
  await answering(bytes, async (url) => {
    const transport = createDirectTransport({ url, apiKey: null, connectTimeoutMs: waitLimitMs })
    const signal = new CallSignal()
    const response = await transport.fetch('/x', { method: 'GET', signal })
    expect(await errorText(response, signal)).toBe(expected)
    transport.close()
  })
})
