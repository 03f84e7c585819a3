import { afterAll, expect, test } from 'bun:test'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { troubleOf } from '../../src/protocol/wire/nodes/trouble.ts'
import { commandLine } from '../cli/command-line.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/*
 * `nodes add https://…` of a server that speaks http blamed the firewall, because http servers wait for more of a TLS greeting;
 * and an address with a path of something else blamed the port.
 */

const models = JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] })
const asked: { url: string | undefined; key: string | undefined }[] = []
afterAll(() => server.closeAllConnections())
const gateway = await fixture(startTestGateway({ SVC_PROBE_TIMEOUT_MS: '3000', SVC_CONNECT_TIMEOUT_MS: '3000' }))
const server = await fixture(
  createServer((request, response) => {
    asked.push({ url: request.url, key: request.headers.authorization })
    response.writeHead(request.url === '/v1/models' ? 200 : 404, { 'content-type': 'application/json' })
    response.end(request.url === '/v1/models' ? models : '{}')
  }),
)
await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
const host = `127.0.0.1:${(server.address() as AddressInfo).port}`

const look = async (url: string) =>
  json(await gateway.ask('POST', '/v1/admin/nodes/probe', { as: 'operator', json: { url, api_key: 'upstream-key' } }))

test('§23: https to a server that speaks http is called so, and the key does not go there in the clear', async () => {
  asked.length = 0
  expect(await look(`https://${host}`)).toMatchObject({ code: 'speaks_http', says: expect.stringContaining('http://') })
  expect(asked.length).toBeGreaterThan(0)
  expect(asked.filter(({ key }) => key !== undefined)).toEqual([])
})

test('§23: the same of a server that waits for more of the greeting', async () => {
  const silent = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data: (socket, bytes) => {
        if (!bytes.toString('latin1').startsWith('GET ')) return
        socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${models.length}\r\nconnection: close\r\n\r\n${models}`)
      },
    },
  })
  expect(await look(`https://127.0.0.1:${silent.port}`)).toMatchObject({ code: 'speaks_http' })
  silent.stop(true)
})

test('§23: a path too much is called so; of another server the port and the path may be wrong', async () => {
  const path = await look(`http://${host}/api/`)
  expect(path).toMatchObject({ code: 'path', says: expect.stringContaining('Leave the path out') })
  const other = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('hello') })
  const wrong = await look(`${other.url.origin}/api`)
  expect(wrong).toMatchObject({ code: 'unknown_runtime', says: expect.stringContaining('the port and the path') })
  await other.stop(true)
})

test('§24: nodes add says it, and names the firewall of https no longer alone', async () => {
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  const { code, err } = await cli.run(['nodes', 'add', `https://${host}`, '--customer', 'any'])
  cli.close()
  expect(code).toBe(3)
  expect(err).toContain('speaks http, not https')
  expect(err).not.toContain('firewall')
  const node = { state: 'enrolled', last_error: { code: 'timeout' } }
  expect(troubleOf({ ...node, url: 'https://box:1' })).toContain('speak https and not http')
  expect(troubleOf({ ...node, url: 'http://box:1' })).not.toContain('https')
  expect(troubleOf({ ...node, url: null })).toContain('firewall')
})
