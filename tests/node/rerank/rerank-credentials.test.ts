import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { newToken } from '../../../src/secrets.ts'
import { minuteMs } from '../../../src/time.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { postRerank, refusalOf, routerSignature, startRerankAgent } from './rerank-agent.ts'

const body = JSON.stringify({ model: 'lexical/bm25', query: 'a', documents: ['a', 'b'] })
const goodKey = newToken('gateway')
const otherKey = newToken('gateway')

/** What the gateway was asked. */
const asked: string[][] = []
let gatewayAway = false
let clockMs = Date.now()

const agent = await fixture(
  startRerankAgent({
    gateway: async (key, model) => {
      asked.push([key, model])
      if (gatewayAway) throw new Error('away')
      return key === goodKey && model === 'lexical/bm25'
    },
    now: () => clockMs,
  }),
)
const apiKey = agent.keys.create('test')?.api_key ?? ''

type Headers = Readonly<Record<string, string>>
const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })
const good = {
  signature: () => routerSignature(body),
  local: () => bearer(agent.localToken),
  apiKey: (): Headers => ({ 'x-svc-api-key': apiKey }),
  gateway: () => bearer(goodKey),
}
const bad = {
  signature: () => routerSignature(`${body} `),
  local: () => bearer(newToken('local')),
  apiKey: (): Headers => ({ 'x-svc-api-key': newToken('api') }),
  gateway: () => bearer(otherKey),
}
type Kind = keyof typeof good
const kinds = Object.keys(good) as Kind[]

/** Headers of several credentials; the two bearers go into one, with a comma. */
function together(parts: readonly Headers[]): Headers {
  const bearers = parts.flatMap((part) => part.authorization ?? [])
  const rest = Object.assign({}, ...parts) as Record<string, string>
  return bearers.length === 0 ? rest : { ...rest, authorization: bearers.join(', ') }
}

const statusOf = async (headers: Headers) => {
  const response = await postRerank(agent.url, body, headers)
  if (response.status === 200) return '200'
  expect(response.headers.get('www-authenticate')).toBe('Bearer realm="svc"')
  const { status, code } = await refusalOf(response)
  return `${status} ${code}`
}

describe('§12: any one valid credential is enough, every one that is sent must be valid', () => {
  for (const kind of kinds) {
    test(`${kind} alone`, async () => {
      expect(await statusOf(good[kind]())).toBe('200')
    })
    test(`${kind} alone and wrong`, async () => {
      expect(await statusOf(bad[kind]())).toBe('401 invalid_credentials')
    })
  }

  test('none, from loopback too', async () => {
    expect(await statusOf({})).toBe('401 missing_credentials')
  })

  for (let at = 1; at < 1 << kinds.length; at++) {
    const members = kinds.filter((_, bit) => (at >> bit) % 2 === 1)
    if (members.length < 2) continue
    test(`${members.join(' + ')}: all valid, then each one wrong`, async () => {
      expect(await statusOf(together(members.map((kind) => good[kind]())))).toBe('200')
      for (const wrong of members) {
        const parts = members.map((kind) => (kind === wrong ? bad : good)[kind]())
        expect([wrong, await statusOf(together(parts))]).toEqual([wrong, '401 invalid_credentials'])
      }
    })
  }
})

describe('§12: forms of the headers', () => {
  const wrong: readonly (readonly [string, Headers])[] = [
    ['another scheme', { authorization: 'Basic dXNlcjpwYXNz' }],
    ['a bearer without a token', { authorization: 'Bearer' }],
    ['an empty header', { authorization: '' }],
    ['a token of another kind', bearer(newToken('admin'))],
    ['a token without its checksum', bearer(newToken('local').slice(0, -6))],
    ['an api key as a bearer', bearer(newToken('api'))],
    ['an empty api key', { 'x-svc-api-key': '' }],
    ['an empty signature', { 'x-svc-router-signature': '' }],
    ['a signature in no form', { 'x-svc-router-signature': 'kid=a' }],
  ]
  for (const [name, headers] of wrong) {
    test(`${name} is refused`, async () => {
      expect(await statusOf(headers)).toBe('401 invalid_credentials')
    })
  }

  test('two bearers of one kind, both valid, are one too many', async () => {
    const twice = `Bearer ${agent.localToken}, Bearer ${agent.localToken}`
    expect(await statusOf({ authorization: twice })).toBe('401 invalid_credentials')
  })

  test('two Authorization headers are the same as one with a comma, in either order', async () => {
    for (const [first, second, status] of [
      [agent.localToken, goodKey, '200'],
      [goodKey, agent.localToken, '200'],
      [agent.localToken, otherKey, '401'],
      [otherKey, agent.localToken, '401'],
    ] as const) {
      const lines = [`authorization: Bearer ${first}`, `Authorization: Bearer ${second}`]
      expect(await rawStatus(agent.url, lines)).toBe(status)
    }
  })

  test('the scheme in any case', async () => {
    expect(await statusOf({ authorization: `bearer ${agent.localToken}` })).toBe('200')
  })
})

describe("§22: the router's signature", () => {
  test('too old, from the future, for another node, or used before', async () => {
    expect(await statusOf(routerSignature(body, { atMs: Date.now() - 302_000 }))).toBe('401 invalid_credentials')
    expect(await statusOf(routerSignature(body, { atMs: Date.now() + 400_000 }))).toBe('401 invalid_credentials')
    expect(await statusOf(routerSignature(body, { nodeId: 'node_other' }))).toBe('401 invalid_credentials')
    const once = routerSignature(body)
    expect(await statusOf(once)).toBe('200')
    expect(await statusOf(once)).toBe('401 invalid_credentials')
  })

  test('a refusal names the time of the server', async () => {
    const beforeMs = Date.now()
    const { detail } = await refusalOf(await postRerank(agent.url, body, bad.signature()))
    const named = /[0-9-]{10}T[0-9:.]{12}Z/.exec(detail)?.[0] ?? ''
    expect(Date.parse(named)).toBeGreaterThanOrEqual(beforeMs)
    expect(Date.parse(named)).toBeLessThanOrEqual(Date.now())
  })

  test('a body that is signed well and wrong in itself is a bad request', async () => {
    const problem = await refusalOf(await postRerank(agent.url, '{', routerSignature('{')))
    expect(problem.code).toBe('invalid_json')
  })
})

test('§4: a wrong kind of credential is told by kind, valid or not, and never repeated', async () => {
  const needs =
    "This route needs this agent's token (svc_local_…) or a gateway key (svc_gateway_…) as a bearer token in Authorization, or a key of this agent in X-SVC-API-Key."
  const told = async (headers: Headers) => (await refusalOf(await postRerank(agent.url, body, headers))).detail
  expect(await told({})).toBe(`No credential was sent. ${needs}`)
  for (const token of [newToken('admin'), newToken('customer')]) {
    const said = await told(bearer(token))
    expect(said).toMatch(/^You sent (?:an admin|a customer) token in Authorization\. /)
    expect(said).toEndWith(needs)
    expect(said).not.toContain(token)
  }
  expect(await told({ 'x-svc-admin-token': newToken('admin') })).toBe(
    `You sent an admin token in X-SVC-Admin-Token. ${needs}`,
  )
  // Of the right kind nobody learns more than that it is wrong.
  for (const kind of kinds.filter((each) => each !== 'signature')) {
    expect(await told(bad[kind]())).toBe('The credential is not valid')
  }
})

test('§12: a local key that another process makes is known at once, one that it revokes is not any more', async () => {
  const made = agent.keys.create('short-lived')
  const headers = { 'x-svc-api-key': made?.api_key ?? '' }
  expect(await statusOf(headers)).toBe('200')
  agent.keys.revoke(made?.key_id ?? '')
  expect(await statusOf(headers)).toBe('401 invalid_credentials')
})

describe('§12: gateway keys', () => {
  test('the gateway is asked about key and model, and believed for 60 s', async () => {
    clockMs += 10 * minuteMs
    asked.length = 0
    expect(await statusOf(good.gateway())).toBe('200')
    expect(await statusOf(good.gateway())).toBe('200')
    expect(asked).toEqual([[goodKey, 'lexical/bm25']])
    clockMs += minuteMs - 1
    expect(await statusOf(good.gateway())).toBe('200')
    expect(asked).toHaveLength(1)
    clockMs += 1
    expect(await statusOf(good.gateway())).toBe('200')
    expect(asked).toHaveLength(2)
  })

  test('a no is believed as long', async () => {
    clockMs += 10 * minuteMs
    asked.length = 0
    expect(await statusOf(bad.gateway())).toBe('401 invalid_credentials')
    expect(await statusOf(bad.gateway())).toBe('401 invalid_credentials')
    expect(asked).toHaveLength(1)
  })

  test('another model is another question', async () => {
    asked.length = 0
    const other = body.replace('lexical/bm25', 'other')
    const problem = await refusalOf(await postRerank(agent.url, other, good.gateway()))
    expect([problem.code, asked]).toEqual(['invalid_credentials', [[goodKey, 'other']]])
  })

  test('nothing is asked about a key that is not in its form, nor about a model that cannot be', async () => {
    asked.length = 0
    expect(await statusOf(bearer('svc_gateway_nonsense'))).toBe('401 invalid_credentials')
    const impossible = body.replace('lexical/bm25', '../etc')
    expect((await refusalOf(await postRerank(agent.url, impossible, good.gateway()))).status).toBe(401)
    expect(asked).toEqual([])
  })

  test('where the gateway does not answer nobody gets in, and nothing is believed for later', async () => {
    clockMs += 10 * minuteMs
    gatewayAway = true
    const problem = await refusalOf(await postRerank(agent.url, body, good.gateway()))
    expect([problem.status, problem.code, problem.retryable]).toEqual([503, 'service_unavailable', true])
    gatewayAway = false
    expect(await statusOf(good.gateway())).toBe('200')
  })
})

test('§12: an agent that is not enrolled knows no router and no gateway', async () => {
  await using alone = await scoped(startRerankAgent())
  for (const headers of [good.signature(), good.gateway()]) {
    const problem = await refusalOf(await postRerank(alone.url, body, headers))
    expect([problem.status, problem.code]).toEqual([401, 'invalid_credentials'])
  }
  const both = { authorization: `Bearer ${alone.localToken}, Bearer ${goodKey}` }
  expect((await postRerank(alone.url, body, both)).status).toBe(401)
  expect((await alone.post(body)).status).toBe(200)
})

/** The status of a request whose header lines are sent as they stand. */
function rawStatus(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url)
  const head = [
    'POST /v1/rerank HTTP/1.1',
    'host: localhost',
    'connection: close',
    'content-type: application/json',
    `content-length: ${body.length}`,
    ...lines,
  ]
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(Number(port), hostname, () => socket.write(`${head.join('\r\n')}\r\n\r\n${body}`))
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
    })
    socket.on('end', () => resolve(answer.split(' ')[1] ?? ''))
    socket.on('error', reject)
  })
}
