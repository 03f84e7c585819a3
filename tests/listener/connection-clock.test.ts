import { afterAll, expect, test } from 'bun:test'
import { Problem } from '../../src/errors.ts'
import { ConnectionClock } from '../../src/listener/connection-clock.ts'
import { rawExchange } from '../support/clients/raw-client.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'

/*
 * What Bun's own clock does is part of the rule (§27, timeouts of the listener), so it is tested here on Bun's
 * server: it moves in steps of 4 s, and each bound below has room for one step and a busy machine.
 */

const idleSeconds = 4
const server: Bun.Server<unknown> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: idleSeconds,
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  fetch: serve,
})
afterAll(() => server.stop(true))
const clock = new ConnectionClock(() => server)
const refusals: string[] = []

async function serve(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url)
  if (pathname === '/refused') return new Response('no', { status: 401 })
  try {
    const text = await clock.body(request, request.text())
    if (pathname === '/lifted') await clock.lifted(request, () => lasts(10_000))
    clock.rest(request, idleSeconds)
    return new Response(`${text.length} characters`)
  } catch (error) {
    refusals.push(error instanceof Problem ? error.code : String((error as Error).name))
    return new Response(null, { status: 400, headers: { connection: 'close' } })
  }
}

const url = `http://127.0.0.1:${server.port}`
const ask = (path: string, head: string, body: string, drip?: { readonly text: string; readonly everyMs: number }) =>
  rawExchange(url, `POST ${path} HTTP/1.1\r\nHost: h\r\n${head}\r\n${body}`, {
    withinMs: waitLimitMs,
    ...(drip === undefined ? {} : { drip }),
  })

test('a connection is closed while its client is silent, wherever that is', async () => {
  const [nothing, halfHead, drippedHead, halfBody, drippedBody, chunked, afterwards, afterLifted, afterRefusal] =
    await Promise.all([
      rawExchange(url, '', { withinMs: waitLimitMs }),
      rawExchange(url, 'POST / HTTP/1.1\r\nHo', { withinMs: waitLimitMs }),
      rawExchange(url, 'POST / HTTP/1.1\r\nHost: h\r\n', {
        withinMs: waitLimitMs,
        drip: { text: 'x: y\r\n', everyMs: 500 },
      }),
      ask('/', 'Content-Length: 10\r\n', 'half'),
      ask('/', 'Content-Length: 1000000\r\n', 'half', { text: 'x'.repeat(100), everyMs: 100 }),
      ask('/', 'Transfer-Encoding: chunked\r\n', '', { text: '1\r\nx\r\n', everyMs: 100 }),
      ask('/', 'Content-Length: 5\r\n', 'whole'),
      ask('/lifted', 'Content-Length: 5\r\n', 'whole'),
      ask('/refused', 'Content-Length: 1000\r\n', 'half'),
    ])
  const seconds = (least: number, { ended, ms }: { readonly ended: string; readonly ms: number }) =>
    expect([ended, ms / 1_000 >= least, ms]).toEqual(['closed', true, ms])
  // Bun's own: 10 s for the head of a first request, in steps of 4 s.
  for (const head of [nothing, halfHead, drippedHead]) seconds(8, head)
  for (const body of [halfBody, drippedBody, chunked]) {
    seconds(7.5, body)
    expect(body.text).toBe('')
  }
  expect(refusals).toEqual(['AbortError', 'AbortError', 'AbortError'])
  for (const answer of [afterwards, afterLifted]) expect(answer.text).toEndWith('5 characters')
  seconds(0, afterwards)
  // Lifted for 10 s, which is more than its idle time; then it is closed like any other.
  seconds(10, afterLifted)
  expect(afterRefusal.status).toBe(401)
  seconds(0, afterRefusal)
})

test('a body that comes slowly and steadily, for longer than silence may last, is waited for', async () => {
  const piece = 'x'.repeat(10_000)
  const { text } = await rawExchange(url, `POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 560000\r\n\r\n`, {
    withinMs: waitLimitMs,
    drip: { text: piece, everyMs: 180 },
  })
  expect(text).toContain('560000 characters')
})
