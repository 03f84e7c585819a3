import { expect, test } from 'bun:test'
import { type CredentialKind, headerName } from '../../../src/credential-kinds.ts'
import { newToken } from '../../../src/secrets.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { describedPaths } from '../../support/walks/described-paths.ts'

/** Written out, so that the product cannot move both sides. */
const names: Readonly<Record<CredentialKind, string>> = {
  gateway: 'a gateway key',
  customer: 'a customer token',
  admin: 'an admin token',
  operator: 'an operator token',
  viewer: 'a viewer token',
  session: 'the token of a console session',
  local: 'a token of a node agent',
  api: 'a key of a node agent',
  enroll: 'an enrolment token',
}
const carriers = [
  'authorization',
  'x-api-key',
  'x-svc-admin-token',
  'x-svc-customer-token',
  'x-svc-approver-token',
  'x-svc-api-key',
] as const

const without = '1000000'
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_AUTH_FAILURES_PER_MINUTE: '10000',
      SVC_PUBLIC_RPM_PER_IP: without,
      SVC_OLLAMA_LISTEN: '127.0.0.1:0',
      SVC_PROCESSES: '1',
    },
  }),
)
const customer = await gateway.customer()
const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
  paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}
const paths = describedPaths(document.paths)

interface Told {
  readonly status: number
  readonly code: string
  readonly message: string
}
async function ask(url: string, method: string, headers: Readonly<Record<string, string>>): Promise<Told> {
  const response = await fetch(url, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'GET' ? {} : { body: '{}' }),
  })
  const text = await response.text()
  if (response.status !== 401) return { status: response.status, code: '', message: '' }
  for (const [, value] of Object.entries(headers)) expect(text).not.toContain(value.replace('Bearer ', ''))
  const { error, code, detail, svc } = JSON.parse(text)
  if (typeof error === 'string') return { status: 401, code: svc.code, message: error }
  return { status: 401, code: code ?? error.code ?? error.svc.code, message: detail ?? error.message }
}
const carried = (carrier: string, token: string) => ({
  [carrier]: carrier === 'authorization' ? `Bearer ${token}` : token,
})

/** What each family of routes takes, and where. */
const takes: readonly (readonly [RegExp, readonly CredentialKind[], readonly string[]])[] = [
  [/\/v1\/admin\//, ['admin', 'operator', 'viewer', 'session'], ['x-svc-admin-token']],
  [/\/metrics$/, ['admin', 'operator', 'viewer'], ['x-svc-admin-token', 'authorization']],
  [/\/v1\/(?:billing|api\/private-inference)\//, ['customer'], ['x-svc-customer-token']],
  [/\/v1\/node-agent\/bun$/, ['enroll'], ['authorization']],
  [/\/v1\/(?:node-agent|nodes)\//, [], []],
  [/./, ['gateway'], ['authorization', 'x-api-key']],
]
function isRight(url: string, kind: CredentialKind, carrier: string): boolean {
  const [, kinds, places] = takes.find(([path]) => path.test(url)) ?? []
  return kinds?.includes(kind) === true && places?.includes(carrier) === true
}
/** The right kind in its own header: it is wrong, and a customer's token comes with the customer's id. */
const wrongValue =
  /^(?:The gateway key is not valid|The credential is not valid|This session has ended, or never existed\. Sign in again\.|The enrolment token is unknown, used or expired|This route needs X-SVC-Customer-ID and X-SVC-Customer-Token\.)$/

/** Every route that asks who is there, as a whole URL. */
async function closedRoutes(): Promise<readonly (readonly [method: string, url: string])[]> {
  const place = (path: string) => path.replace('{machine}', 'node').replace('{receipt_hash}', `0x${'0'.repeat(64)}`)
  const all = [
    ...Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(
        (method) => [method.toUpperCase(), gateway.url + place(path).replaceAll(/\{\w+\}/g, '0')] as const,
      ),
    ),
    ['POST', `${gateway.ollamaUrl}/api/chat`],
    ['GET', `${gateway.ollamaUrl}/api/tags`],
  ] as const
  const closed: (readonly [string, string])[] = []
  for (const [method, url] of all) if ((await ask(url, method, {})).status === 401) closed.push([method, url])
  return closed
}

test('§4: a wrong kind of credential is told by kind and header on every route, valid or not', async () => {
  const routes = await closedRoutes()
  expect(routes.length).toBeGreaterThan(70)
  const valid: Partial<Record<CredentialKind, string>> = {
    ...gateway.tokens,
    gateway: customer.key,
    customer: customer.customerToken,
  }
  let told = 0
  for (const [method, url] of routes) {
    for (const [kind, name] of Object.entries(names) as [CredentialKind, string][]) {
      for (const carrier of carriers) {
        const fresh = await ask(url, method, carried(carrier, newToken(kind)))
        const story = [method, url, kind, carrier, fresh.message] as const
        if (isRight(url, kind, carrier)) {
          expect(story).toEqual([method, url, kind, carrier, expect.stringMatching(wrongValue)])
          continue
        }
        told++
        const [came, next = ''] = fresh.message.split('. ')
        expect([method, url, came]).toEqual([method, url, `You sent ${name} in ${headerName(carrier)}`])
        expect(next).toMatch(/^(?:This route needs|Send it as) .+\.$/)
        const known = valid[kind]
        if (known === undefined) continue
        const answer = await ask(url, method, carried(carrier, known))
        if (answer.status === 401)
          expect([url, kind, carrier, answer.message.split('. ')[0]]).toEqual([url, kind, carrier, came ?? ''])
      }
    }
  }
  expect(told).toBeGreaterThan(2_000)
})

/** The list of models says why it asks (§9), and a signed query which part it lacks (§15). */
const needsOne =
  /^(?:No credential was sent\. This route needs .+|\w+ is missing\. .+|No model of this gateway is public\. Send a gateway key .+)\.$/

test('§4: without any credential a route says which one it needs', async () => {
  for (const [method, url] of await closedRoutes()) {
    const { code, message } = await ask(url, method, {})
    expect([url, message]).toEqual([url, expect.stringMatching(needsOne)])
    expect([url, code]).toEqual([url, url.endsWith('/bun') ? 'enrollment_token_invalid' : 'missing_credentials'])
  }
})

test('§4: the sentences that people read first', async () => {
  const chat = `${gateway.url}/v1/chat/completions`
  const nodes = `${gateway.url}/v1/admin/nodes`
  const account = `${gateway.url}/v1/billing/account`
  const said = async (url: string, headers: Record<string, string>, method = 'GET') =>
    (await ask(url, method, headers)).message
  expect(await said(nodes, carried('authorization', customer.key))).toBe(
    'You sent a gateway key in Authorization. This route needs an admin token in X-SVC-Admin-Token.',
  )
  expect(await said(nodes, carried('authorization', gateway.tokens.admin))).toBe(
    'You sent an admin token in Authorization. Send it as X-SVC-Admin-Token.',
  )
  expect(await said(chat, carried('x-svc-admin-token', gateway.tokens.admin), 'POST')).toBe(
    'You sent an admin token in X-SVC-Admin-Token. This route needs a gateway key (svc_gateway_…) as a bearer token in Authorization, or in x-api-key.',
  )
  expect(await said(account, carried('authorization', customer.key))).toBe(
    'You sent a gateway key in Authorization. This route needs X-SVC-Customer-ID and X-SVC-Customer-Token.',
  )
  expect(await said(nodes, carried('x-svc-admin-token', newToken('admin')))).toBe('The credential is not valid')
})
