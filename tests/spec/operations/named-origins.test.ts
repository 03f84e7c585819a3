import { describe, expect, test } from 'bun:test'
import { basePaths, operations } from '../../../src/actors/operations/registry.ts'
import { tokenPaths } from '../../../src/actors/operations/token-paths.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const named = 'https://chat.example'
/** As Obsidian's pages say, which are inside of a program. */
const obsidian = 'app://obsidian.md'
const gateway = await fixture(
  startTestGateway({ env: { SVC_CORS_ORIGINS: `${named},http://localhost:3000,${obsidian}` } }),
)
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

const allowed = ({ headers }: Response) => headers.get('access-control-allow-origin')
const preflight = (path: string, origin: string, wanted = 'authorization,content-type') =>
  fetch(gateway.url + path, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': wanted },
  })
const chat = (origin: string, key = customer.key, more: object = {}) =>
  postJson(
    `${gateway.url}/v1/chat/completions`,
    key,
    { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more },
    { headers: { origin } },
  )

describe('§28: pages of named origins', () => {
  test('every operation answers their preflight, and nobody else’s', async () => {
    for (const path of operations.flatMap((operation) => basePaths.map((base) => base + operation.path))) {
      const response = await preflight(path, named)
      expect([path, response.status, allowed(response)]).toEqual([path, 204, named])
      expect(response.headers.get('access-control-allow-methods')).toContain('POST')
      expect(response.headers.get('access-control-allow-headers')).toBe('authorization,content-type')
      expect(response.headers.get('access-control-allow-credentials')).toBeNull()
      for (const origin of ['https://evil.example', 'null', `${named}.evil.example`, named.toUpperCase()]) {
        expect([path, origin, allowed(await preflight(path, origin))]).toEqual([path, origin, null])
      }
    }
  })

  test('a program that is a page inside is named by its own scheme', async () => {
    expect(allowed(await preflight('/v1/chat/completions', obsidian))).toBe(obsidian)
    expect(allowed(await preflight('/v1/chat/completions', 'app://evil.example'))).toBeNull()
  })

  test('no other route is open to them', async () => {
    for (const path of ['/v1/admin/nodes', '/v1/billing/account', '/v1/api/private-inference/jobs']) {
      expect([path, allowed(await preflight(path, named))]).toEqual([path, null])
    }
  })

  test('what is no list of header names is not repeated', async () => {
    const response = await preflight('/v1/embeddings', named, 'a b<script>')
    expect(response.headers.get('access-control-allow-headers')).toBeNull()
  })

  test('answers, streams and refusals can be read by them alone', async () => {
    node.answer(async (call) => {
      if (call.body.stream !== true) {
        return call.respond(200, {
          choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
        })
      }
      call.open()
      await call.event(nodeChunk({ content: 'x' }))
      await call.event(nodeChunk({}, 'stop'))
      await call.event('[DONE]')
      call.end()
    })
    const list = (origin: string) =>
      fetch(`${gateway.url}/v1/models`, { headers: { origin, authorization: `Bearer ${customer.key}` } })
    for (const [origin, expected] of [
      [named, named],
      ['https://evil.example', null],
    ] as const) {
      const answers = [
        await chat(origin),
        await chat(origin, customer.key, { stream: true }),
        await chat(origin, 'nonsense'),
        await list(origin),
      ]
      for (const answer of answers) await answer.text()
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 401, 200])
      expect(answers.map(allowed)).toEqual([expected, expected, expected, expected])
    }
  })

  test('counts, tokens and their refusals can be read by them, too', async () => {
    for (const path of Object.values(tokenPaths).flatMap((end) => basePaths.map((base) => base + end))) {
      const asked = await preflight(path, named)
      expect([path, asked.status, allowed(asked)]).toEqual([path, 204, named])
      for (const [origin, key, expected] of [
        [named, customer.key, named],
        [named, 'nonsense', named],
        ['https://evil.example', customer.key, null],
      ] as const) {
        const response = await postJson(
          gateway.url + path,
          key,
          { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
          { headers: { origin } },
        )
        expect([path, key, allowed(response)]).toEqual([path, key, expected])
        await response.text()
      }
    }
  })

  test.each(['*', 'chat.example', 'https://chat.example/', 'ftp://chat.example', 'null'])('%s is no origin', (text) => {
    expect(readConfig({ SVC_CORS_ORIGINS: text })).toMatchObject({
      faults: [expect.stringContaining('SVC_CORS_ORIGINS')],
    })
  })
})
