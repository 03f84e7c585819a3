import { afterAll, beforeEach, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { openSessionsMax } from '../../../src/actors/operators/sessions.ts'
import type { ApprovalEventList } from '../../../src/protocol/wire/admin/audit.ts'
import type { SessionBegun, SessionList } from '../../../src/protocol/wire/admin/operators.ts'
import { Jar, locationOf, throughProvider } from '../../support/console/oidc-browser.ts'
import {
  clientId,
  clientSecret,
  idTokenSeconds,
  type ProviderOptions,
  startProvider,
  type TestProvider,
} from '../../support/console/oidc-provider.ts'
import { freePort } from '../../support/gateways/free-port.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const minuteMs = 60_000
const people = {
  ada: { email: 'ada@example.test', groups: ['staff', 'penstock-admins'] },
  grace: { email: 'grace@example.test', groups: ['watchers'] },
  eve: { email: 'eve@example.test', groups: ['sales'] },
  nobody: {},
  trick: { email: 'ada\u202e@example.test\u0000 ', groups: ['watchers'] },
}

let offsetMs = 0
/** What the provider does instead of answering. */
let instead: NonNullable<ProviderOptions['instead']> = () => false
let provider: TestProvider

const start = (port = 0) =>
  startProvider({ people, redirectUri: callback, port, instead: (request, response) => instead(request, response) })
const oidcOf = (issuer: string) => ({
  SVC_OIDC_ISSUER: issuer,
  SVC_OIDC_CLIENT_ID: clientId,
  SVC_OIDC_CLIENT_SECRET: clientSecret,
  SVC_OIDC_SCOPES: 'openid email groups',
  SVC_OIDC_ROLES: 'viewer=watchers,admin=penstock-admins,operator=staff',
  SVC_OIDC_LABEL: 'Example Login',
})

afterAll(async () => {
  await doorman.stop(true)
  await provider.stop()
})
const port = freePort()
/** The gateway is reached by this address alone: it is what the provider knows. */
const base = `http://127.0.0.1:${port}`
const callback = `${base}/v1/console/oidc/callback`
provider = await start()
const gateway = await fixture(
  startTestGateway({ ...oidcOf(provider.issuer), SVC_PUBLIC_URL: base }, undefined, {
    world: { now: () => Date.now() + offsetMs },
  }),
)
// The test gateway takes a port of its own; this stands before it, as a proxy does.
const doorman = Bun.serve({
  port,
  hostname: '127.0.0.1',
  fetch: async (request) => {
    const { pathname, search } = new URL(request.url)
    const init = { method: request.method, headers: request.headers, body: request.body, redirect: 'manual' } as const
    return fetch(`${gateway.url}${pathname}${search}`, init)
  },
})

beforeEach(() => {
  offsetMs = 0
  instead = () => false
})

const answering =
  (answer: (response: ServerResponse) => void): NonNullable<ProviderOptions['instead']> =>
  (_, response) => {
    answer(response)
    return true
  }

const begin = (jar: Jar) => jar.go(`${base}/v1/console/oidc/begin?tab=${jar.tab}`)
/** To the moment before the browser goes back to the gateway. */
async function toTheDoor(jar: Jar, login: string, change: (url: URL) => void = () => {}): Promise<string> {
  const url = new URL(locationOf(await begin(jar)))
  change(url)
  return throughProvider(jar, url.href, login, callback)
}
const outcome = (answer: Response) => [answer.status, locationOf(answer)]
const back = (what: string) => [303, `${base}/console#sign-in/${what}`]
const claim = (jar: Jar, secret = jar.secret) =>
  jar.go(`${base}/v1/console/oidc/session`, { method: 'POST', headers: { 'x-svc-sign-in-secret': secret } })
async function signedIn(login: string): Promise<SessionBegun> {
  const jar = new Jar()
  expect(outcome(await jar.go(await toTheDoor(jar, login)))).toEqual(back('done'))
  return (await json(await claim(jar))) as unknown as SessionBegun
}
const statusOf = async (token: string, path = '/v1/admin/nodes') =>
  (await fetch(gateway.url + path, { headers: { 'x-svc-admin-token': token } })).status
const sessions = async () =>
  ((await json(await gateway.ask('GET', '/v1/admin/sessions?limit=1000', { as: 'admin' }))) as unknown as SessionList)
    .sessions

test('a person signs in with the highest role of her groups, by the code flow with PKCE, state and nonce', async () => {
  const jar = new Jar()
  const begun = await begin(jar)
  const asked = new URL(locationOf(begun))
  expect(asked.origin).toBe(provider.issuer)
  expect(Object.fromEntries(asked.searchParams)).toEqual({
    client_id: clientId,
    response_type: 'code',
    redirect_uri: callback,
    scope: 'openid email groups',
    state: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge_method: 'S256',
  })
  const door = await throughProvider(jar, asked.href, 'ada', callback)
  expect(outcome(await jar.go(door))).toEqual(back('done'))
  const session = (await json(await claim(jar))) as unknown as SessionBegun
  expect(session).toMatchObject({ name: 'ada@example.test', role: 'admin', method: 'oidc', state: 'open' })
  expect([await statusOf(session.session_token), await statusOf(session.session_token, '/v1/admin/admins')]).toEqual([
    200, 200,
  ])
  expect(await signedIn('grace')).toMatchObject({ role: 'viewer', name: 'grace@example.test' })
  const own = jar.seen.filter((text) => text.startsWith('svc_'))
  expect(own.map((text) => text.replace(/^(\w+)=[^;]*/, '$1'))).toEqual([
    'svc_sign_in; Path=/v1/console; Max-Age=600; HttpOnly; SameSite=Lax',
    'svc_sign_in; Path=/v1/console; Max-Age=0; HttpOnly; SameSite=Lax',
    'svc_signed_in; Path=/v1/console/oidc/session; Max-Age=60; HttpOnly; SameSite=Strict',
    'svc_signed_in; Path=/v1/console/oidc/session; Max-Age=0; HttpOnly; SameSite=Strict',
  ])
  // The session is handed over once.
  expect((await claim(jar)).status).toBe(401)
  const logged = JSON.stringify(gateway.logged())
  for (const secret of [
    session.session_token,
    clientSecret,
    'ada@example.test',
    new URL(door).searchParams.get('code'),
  ]) {
    expect(logged).not.toContain(String(secret))
  }
})

test('the audit calls her by her name, the same person always by the same prefix, and the sign-in is recorded', async () => {
  const [first, second] = [await signedIn('ada'), await signedIn('ada')]
  expect(first.actor_hash_prefix).toBe(second.actor_hash_prefix)
  const made = await fetch(`${gateway.url}/v1/admin/customers`, {
    method: 'POST',
    headers: { 'x-svc-admin-token': second.session_token, 'content-type': 'application/json' },
    body: JSON.stringify({ display_name: 'of a guest' }),
  })
  const { customer_id: id } = await json(made)
  const list = (await json(
    await gateway.ask('GET', `/v1/admin/approval-events?target_id=${id}`, { as: 'viewer' }),
  )) as unknown as ApprovalEventList
  expect(list.actors).toMatchObject([{ actor_name: 'ada@example.test', actor_hash_prefix: first.actor_hash_prefix }])
  await waitUntil('the sign-ins among the access events', async () => {
    const rows = await gateway.database.sql`select 1 from admin_access_events where status_code = 303
      and path_template = '/v1/console/oidc/callback' and actor_hash_prefix = ${first.actor_hash_prefix}`
    return rows.length >= 2
  })
})

test('a name bears nothing that is not seen', async () => {
  expect(await signedIn('trick')).toMatchObject({ name: 'ada@example.test', role: 'viewer' })
})

test('a person in no group that has a role, or of whom nothing is said, gets no session', async () => {
  const before = (await sessions()).length
  for (const login of ['eve', 'nobody', 'stranger']) {
    const jar = new Jar()
    expect(outcome(await jar.go(await toTheDoor(jar, login)))).toEqual(back('no_role'))
    expect([jar.cookie('svc_signed_in'), (await claim(jar)).status]).toEqual([null, 401])
  }
  expect((await sessions()).length).toBe(before)
  await waitUntil('the refusals among the access events', async () => {
    const rows = await gateway.database.sql`select 1 from admin_access_events where status_code = 401
      and path_template = '/v1/console/oidc/callback' and error_code = 'invalid_credentials'`
    return rows.length >= 3
  })
})

test('another state, none, or the state of another browser is refused before the provider is asked', async () => {
  const [jar, other] = [new Jar(), new Jar()]
  const door = await toTheDoor(jar, 'ada')
  const stranger = await toTheDoor(other, 'ada')
  const asked = provider.asked.length
  const changed = (change: (query: URLSearchParams) => void) => {
    const url = new URL(door)
    change(url.searchParams)
    return url.href
  }
  const flow = jar.cookie('svc_sign_in') ?? ''
  const tries = [
    changed((query) => query.set('state', 'x'.repeat(43))),
    changed((query) => query.delete('state')),
    stranger,
  ]
  for (const url of tries) {
    jar.put('svc_sign_in', flow)
    expect(outcome(await jar.go(url))).toEqual(back('refused'))
  }
  // Somebody who was led here with a code of another person has no cookie of the sign-in.
  expect(outcome(await new Jar().go(door))).toEqual(back('expired'))
  const forged = new Jar()
  forged.put('svc_sign_in', Buffer.from('{"state":"x"}').toString('base64url'))
  expect(outcome(await forged.go(door))).toEqual(back('expired'))
  expect(provider.asked.length).toBe(asked)
})

test('an ID token with another nonce is refused', async () => {
  const jar = new Jar()
  const door = await toTheDoor(jar, 'ada', (url) => url.searchParams.set('nonce', 'n'.repeat(43)))
  expect(outcome(await jar.go(door))).toEqual(back('refused'))
})

test('a code of another sign-in is refused, since its verifier is another', async () => {
  const [victim, attacker] = [new Jar(), new Jar()]
  const own = new URL(await toTheDoor(attacker, 'eve'))
  const door = new URL(await toTheDoor(victim, 'ada'))
  door.searchParams.set('code', own.searchParams.get('code') ?? '')
  expect(outcome(await victim.go(door.href))).toEqual(back('refused'))
})

test('a code and a sign-in are good once: neither the same address nor a copied cookie makes a second session', async () => {
  const jar = new Jar()
  const door = await toTheDoor(jar, 'grace')
  const flow = jar.cookie('svc_sign_in') ?? ''
  expect(outcome(await jar.go(door))).toEqual(back('done'))
  const before = (await sessions()).length
  expect(outcome(await jar.go(door))).toEqual(back('expired'))
  const thief = new Jar()
  thief.put('svc_sign_in', flow)
  expect(outcome(await thief.go(door))).toEqual(back('refused'))
  expect([(await sessions()).length, thief.cookie('svc_signed_in')]).toEqual([before, null])
})

test('a sign-in that takes longer than ten minutes has expired', async () => {
  const jar = new Jar()
  const door = await toTheDoor(jar, 'ada')
  offsetMs = 11 * minuteMs
  expect(outcome(await jar.go(door))).toEqual(back('expired'))
})

test('what the person refuses at the provider is said so', async () => {
  const jar = new Jar()
  const state = new URL(locationOf(await begin(jar))).searchParams.get('state')
  const url = `${callback}?error=access_denied&state=${state}&iss=${encodeURIComponent(provider.issuer)}`
  expect(outcome(await jar.go(url))).toEqual(back('denied'))
})

test('a session of a person ends at its longest time, and when it is revoked', async () => {
  const [first, second] = [await signedIn('ada'), await signedIn('grace')]
  const revoked = await gateway.ask('DELETE', `/v1/admin/sessions/${second.session_id}`, { as: 'admin' })
  expect([revoked.status, await statusOf(second.session_token)]).toEqual([200, 401])
  offsetMs = 13 * 60 * minuteMs
  expect(await statusOf(first.session_token)).toBe(401)
})

test('a sign-in beyond the most sessions that may be open is refused, and the page says why', async () => {
  const { sql } = gateway.database
  await sql`insert into console_sessions
      (session_id, token_hash, method, role, actor_hash_prefix, created_at, last_seen_at, expires_at)
    select 'ses_many_' || n, sha256(n::text::bytea), 'token', 'viewer', 'many' || n, now(), now(), now() + interval '1 hour'
    from generate_series(1, ${openSessionsMax}) n`
  const jar = new Jar()
  const answer = await jar.go(await toTheDoor(jar, 'grace'))
  await sql`delete from console_sessions where session_id like 'ses_many_%'`
  expect([...outcome(answer), jar.cookie('svc_signed_in')]).toEqual([...back('full'), null])
  expect(await signedIn('grace')).toMatchObject({ role: 'viewer' })
})

test('behind https the cookies are for https alone and for our own paths; a browser that came by another name is led to ours', async () => {
  const own = 'https://gateway.example/llm'
  const behind = await startTestGateway({ ...oidcOf(provider.issuer), SVC_PUBLIC_URL: own }, undefined, {
    beside: gateway,
  })
  const go = (path: string, host: string) =>
    fetch(`${behind.url}${path}`, { redirect: 'manual', headers: { host, 'x-forwarded-host': 'evil.example' } })
  const { tab } = new Jar()
  expect(outcome(await go(`/v1/console/oidc/begin?tab=${tab}`, 'other.example'))).toEqual([
    303,
    `${own}/console#sign-in/begin`,
  ])
  for (const [path, host] of [
    [`/v1/console/oidc/begin?tab=${tab}`, 'gateway.example'],
    // A proxy may call the gateway by a name of its own.
    [`/v1/console/oidc/begin?tab=${tab}&here=`, 'inside:7070'],
  ] as const) {
    const begun = await go(path, host)
    expect(new URL(locationOf(begun)).searchParams.get('redirect_uri')).toBe(`${own}/v1/console/oidc/callback`)
    expect(begun.headers.getSetCookie().map((text) => text.replace(/=[^;]*/, ''))).toEqual([
      'svc_sign_in; Path=/llm/v1/console; Max-Age=600; HttpOnly; SameSite=Lax; Secure',
    ])
  }
  // Whatever a caller adds, the way leads to our own page.
  const away = await go('/v1/console/oidc/callback?code=x&state=y&return_to=https://evil.example', 'evil.example')
  expect(outcome(away)).toEqual([303, `${own}/console#sign-in/expired`])
  await behind.stop()
})

test('a gateway without a provider has no such sign-in, and ends the sessions that one made', async () => {
  const session = await signedIn('ada')
  const plain = await startTestGateway({}, undefined, { beside: gateway })
  const status = async (path: string, method = 'GET') =>
    (await fetch(plain.url + path, { method, redirect: 'manual' })).status
  expect(await (await fetch(`${plain.url}/v1/console/sign-in`)).json()).toEqual({ oidc: null })
  expect(await (await fetch(`${gateway.url}/v1/console/sign-in`)).json()).toEqual({ oidc: 'Example Login' })
  expect([
    await status('/v1/console/oidc/begin'),
    await status('/v1/console/oidc/callback?code=x&state=y'),
    await status('/v1/console/oidc/session', 'POST'),
  ]).toEqual([404, 404, 404])
  const here = await fetch(`${plain.url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': session.session_token } })
  expect(here.status).toBe(401)
  await plain.stop()
})

test('where the provider is away, fails, leads elsewhere or says too much, nobody signs in and the page is told', async () => {
  const json = { 'content-type': 'application/json' }
  const refusals: readonly (readonly [string, (response: ServerResponse) => void, string])[] = [
    ['cut', (response) => response.destroy(), 'provider_away'],
    ['500', (response) => response.writeHead(500).end('{}'), 'provider_away'],
    ['endless', (response) => response.end(' '.repeat(300 * 1024)), 'provider_away'],
    ['elsewhere', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), 'refused'],
    ['another issuer', (response) => response.writeHead(200, json).end('{"issuer":"http://127.0.0.1:1"}'), 'refused'],
  ]
  const fresh = await startTestGateway({ ...oidcOf(provider.issuer), SVC_PUBLIC_URL: base }, undefined, {
    beside: gateway,
  })
  for (const [name, answer, failure] of refusals) {
    instead = answering(answer)
    const begun = await fetch(`${fresh.url}/v1/console/oidc/begin?here=&tab=${new Jar().tab}`, { redirect: 'manual' })
    expect([name, ...outcome(begun)]).toEqual([name, ...back(failure)])
  }
  await fresh.stop()
  instead = () => false
  const jar = new Jar()
  const door = await toTheDoor(jar, 'ada')
  instead = answering((response) => response.destroy())
  expect(outcome(await jar.go(door))).toEqual(back('provider_away'))
})

test('a provider that says nothing is given up after five seconds', async () => {
  const jar = new Jar()
  const door = await toTheDoor(jar, 'ada')
  instead = () => true
  expect(outcome(await jar.go(door))).toEqual(back('provider_away'))
})

test('new keys of the provider are known at the next sign-in', async () => {
  await signedIn('ada')
  await provider.stop()
  provider = await start(provider.port)
  expect(await signedIn('ada')).toMatchObject({ role: 'admin' })
})

test('an ID token with the signature of another key is refused', async () => {
  const { keys } = (await (await fetch(`${provider.issuer}/jwks`)).json()) as { keys: readonly object[] }
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const { n } = publicKey.export({ format: 'jwk' })
  // Of the same name, and it is not the one that has signed.
  const others = JSON.stringify({ keys: keys.map((key) => ({ ...key, n })) })
  const jar = new Jar()
  const door = await toTheDoor(jar, 'ada')
  instead = (request, response) => {
    if (request.url !== '/jwks') return false
    response.writeHead(200, { 'content-type': 'application/json' }).end(others)
    return true
  }
  expect(outcome(await jar.go(door))).toEqual(back('refused'))
})

test('an ID token that has run out is refused, unless the clocks may differ by as much', async () => {
  offsetMs = idTokenSeconds * 1_000 + minuteMs / 2
  expect(await signedIn('ada')).toMatchObject({ role: 'admin' })
  offsetMs = idTokenSeconds * 1_000 + 2 * minuteMs
  const jar = new Jar()
  expect(outcome(await jar.go(await toTheDoor(jar, 'ada')))).toEqual(back('refused'))
})
