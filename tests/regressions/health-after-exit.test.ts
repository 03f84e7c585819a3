import { expect, test } from 'bun:test'
import { createLog } from '../../src/log.ts'
import { ModelServer } from '../../src/node/servers/model-server.ts'
import { serverTimes } from '../../src/node/servers/server-times.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * Where a model server was ended while its health was being asked, and was gone before the answer came, the agent asked
 * that port every 100 ms until the next start, whoever listened there by then.
 */

test('§30: nobody asks the health of a server that has ended', async () => {
  const healthMs = 5
  const server = new ModelServer({
    model: { id: 'm', command: ['/bin/sleep', '600'], memory_mb: 1 },
    times: { ...serverTimes, healthMs },
    cwd: '/',
    mark: () => `health${process.pid}.`,
    log: createLog('silent', () => {}),
    moved: () => {},
  })
  server.send('load.asked')
  server.send('memory.given')
  let asked = 0
  const answer = Promise.withResolvers<Response>()
  const stranger = Bun.serve({
    hostname: '127.0.0.1',
    port: server.port,
    fetch: () => {
      asked++
      return answer.promise.then((response) => response.clone())
    },
  })
  try {
    await waitUntil('its health is asked', () => asked === 1)
    server.send('unload.asked')
    await waitUntil('it has ended', () => server.state === 'stopped')
    answer.resolve(new Response(null, { status: 503 }))
    // Nothing comes after it: a time in which it would have asked twenty times is all that can be waited for.
    await lasts(20 * healthMs)
    expect([asked, server.state]).toEqual([1, 'stopped'])
  } finally {
    await server.end()
    await stranger.stop(true)
  }
})
