import { beforeEach, expect, test } from 'bun:test'
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { SessionBegun } from '../../../src/protocol/wire/admin/operators.ts'
import { Jar, locationOf, throughProvider } from '../../support/console/oidc-browser.ts'
import { clientId, clientSecret, type ProviderOptions, startProvider } from '../../support/console/oidc-provider.ts'
import { freePort } from '../../support/gateways/free-port.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

/** What a provider may answer that is broken or hostile, or was made for somebody else. */
const people = {
  ada: { email: 'ada@example.test', groups: ['operators'] },
  mallory: { email: 'mallory@example.test', groups: ['operators'] },
}
let instead: NonNullable<ProviderOptions['instead']> = () => false
const port = freePort()
const callback = `http://127.0.0.1:${port}/v1/console/oidc/callback`
const provider = await fixture(
  startProvider({
    people,
    redirectUri: callback,
    instead: (request, response) => instead(request, response),
  }),
)
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_PORT: String(port),
      SVC_OIDC_ISSUER: provider.issuer,
      SVC_OIDC_CLIENT_ID: clientId,
      SVC_OIDC_CLIENT_SECRET: clientSecret,
      SVC_OIDC_SCOPES: 'openid email groups',
      SVC_OIDC_ROLES: 'operator=operators',
    },
  }),
)

beforeEach(() => {
  instead = () => false
})

type Members = Readonly<Record<string, unknown>>
const key = generateKeyPairSync('rsa', { modulusLength: 2_048 })
const keySet = { keys: [{ ...key.publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'RS256' }] }
const part = (members: Members) => Buffer.from(JSON.stringify(members)).toString('base64url')
const signatures: Readonly<Record<string, (text: string) => Buffer>> = {
  RS256: (text) => sign('sha256', Buffer.from(text), key.privateKey),
  HS256: (text) => createHmac('sha256', clientSecret).update(text).digest(),
  none: () => Buffer.alloc(0),
}
function idToken(claims: Members, alg = 'RS256'): string {
  const text = `${part({ alg, kid: 'k', typ: 'JWT' })}.${part(claims)}`
  return `${text}.${signatures[alg]?.(text).toString('base64url')}`
}
const answerJson = (response: ServerResponse, body: unknown) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  return true
}

const outcomeOf = (answer: Response) => locationOf(answer).split('#sign-in/')[1]
/** To the callback with a code of the provider, which from then on answers as it is told. */
async function comesBack(jar: Jar, change: (claims: Members) => Members, alg?: string, userinfo?: Members) {
  const first = new URL(locationOf(await jar.go(`${gateway.url}/v1/console/oidc/begin?tab=${jar.tab}`)))
  const door = await throughProvider(jar, first.href, 'ada', callback)
  const nowS = Math.floor(Date.now() / 1_000)
  const nonce = first.searchParams.get('nonce')
  const own = { iss: provider.issuer, aud: clientId, sub: 'ada', nonce, iat: nowS, exp: nowS + 60 }
  const claims = change({ ...own, email: 'ada@example.test', groups: ['operators'] })
  instead = ({ url }, response) => {
    if (url === '/jwks') return answerJson(response, keySet)
    if (url === '/me' && userinfo !== undefined) return answerJson(response, userinfo)
    if (url !== '/token') return false
    return answerJson(response, { access_token: 'a', token_type: 'Bearer', id_token: idToken(claims, alg) })
  }
  const outcome = outcomeOf(await jar.go(door))
  instead = () => false
  return outcome
}
const claim = (jar: Jar, secret: string | null) =>
  jar.go(`${gateway.url}/v1/console/oidc/session`, {
    method: 'POST',
    headers: secret === null ? {} : { 'x-svc-sign-in-secret': secret },
  })
async function signedIn(change: (claims: Members) => Members, userinfo?: Members): Promise<SessionBegun | string> {
  const jar = new Jar()
  const outcome = await comesBack(jar, change, undefined, userinfo)
  if (outcome !== 'done') return String(outcome)
  return (await (await claim(jar, jar.secret)).json()) as SessionBegun
}

test('an ID token that was made for another client, by another issuer, too early, or without what binds it, is refused', async () => {
  expect(await comesBack(new Jar(), (claims) => claims)).toBe('done')
  const nowS = Math.floor(Date.now() / 1_000)
  const bad: Readonly<Record<string, Members>> = {
    'another audience': { aud: 'another-client' },
    'an audience among others, made for one of them': { aud: [clientId, 'another-client'], azp: 'another-client' },
    'no audience': { aud: undefined },
    'another issuer': { iss: 'https://other.example' },
    'an issuer with a slash more': { iss: `${provider.issuer}/` },
    'no subject': { sub: undefined },
    'no nonce': { nonce: undefined },
    'no end': { exp: undefined },
    'valid later': { nbf: nowS + 600 },
  }
  for (const [name, change] of Object.entries(bad)) {
    expect([name, await comesBack(new Jar(), (claims) => ({ ...claims, ...change }))]).toEqual([name, 'refused'])
  }
})

test('an ID token without a signature, or signed with the secret of the client, is refused', async () => {
  for (const alg of ['none', 'HS256']) {
    expect([alg, await comesBack(new Jar(), (claims) => claims, alg)]).toEqual([alg, 'refused'])
  }
})

test('an answer that names another issuer, none where the provider names itself, or anything twice, is refused', async () => {
  const changes: readonly ((query: URLSearchParams) => void)[] = [
    (query) => query.set('iss', 'https://other.example'),
    (query) => query.delete('iss'),
    (query) => query.append('iss', 'https://other.example'),
    (query) => query.append('code', 'another'),
    (query) => query.append('state', query.get('state') ?? ''),
  ]
  for (const [at, change] of changes.entries()) {
    const jar = new Jar()
    const first = locationOf(await jar.go(`${gateway.url}/v1/console/oidc/begin?tab=${jar.tab}`))
    const door = new URL(await throughProvider(jar, first, 'ada', callback))
    change(door.searchParams)
    expect([at, outcomeOf(await jar.go(door.href))]).toEqual([at, 'refused'])
  }
})

test('groups count only as a text or as texts of a list, letter for letter, and of a long list the first thousand', async () => {
  const many = Array.from({ length: 2_000 }, (_, at) => `group-${at}`)
  const cases: readonly (readonly [unknown, 'operator' | 'no_role'])[] = [
    ['operators', 'operator'],
    [[null, 1, ['x'], 'operators'], 'operator'],
    [['operators', ...many], 'operator'],
    [[...many, 'operators'], 'no_role'],
    [[['operators']], 'no_role'],
    [{ operators: true }, 'no_role'],
    [{ 0: 'operators', length: 1 }, 'no_role'],
    ['OPERATORS', 'no_role'],
    ['operators ', 'no_role'],
    ['staff,operators', 'no_role'],
    [true, 'no_role'],
    [null, 'no_role'],
    [[], 'no_role'],
  ]
  for (const [groups, expected] of cases) {
    const found = await signedIn((claims) => ({ ...claims, groups }))
    const role = typeof found === 'string' ? found : found.role
    expect([JSON.stringify(groups).slice(0, 60), role]).toEqual([JSON.stringify(groups).slice(0, 60), expected])
  }
})

test('what the userinfo endpoint says counts only for the same subject, and never above the ID token', async () => {
  const without = (claims: Members) => ({ ...claims, groups: undefined })
  expect(await signedIn(without, { sub: 'ada', groups: ['operators'] })).toMatchObject({ role: 'operator' })
  expect(await signedIn(without, { sub: 'grace', groups: ['operators'] })).toBe('refused')
  const nobody = (claims: Members) => ({ ...claims, groups: [], email: undefined })
  expect(await signedIn(nobody, { sub: 'ada', groups: ['operators'] })).toBe('no_role')
})

test('a name that is not checked, no text, or empty gives way to the name by which the provider knows her', async () => {
  const named = async (change: Members) => {
    const found = await signedIn((claims) => ({ ...claims, ...change }))
    return typeof found === 'string' ? found : found.name
  }
  expect(await named({ email: 'ada@example.test', email_verified: true })).toBe('ada@example.test')
  expect(await named({ email: 'root@example.test', email_verified: false })).toBe('ada')
  for (const email of [['root@example.test'], { a: 1 }, 7, '', ' \u3164\u2800\ufeff ']) {
    expect([email, await named({ email })]).toEqual([email, 'ada'])
  }
  expect((await named({ email: 'x'.repeat(5_000) }))?.length).toBe(64)
})

/*
 * A page of another port of the same computer, such as that of a hostile model server, got the session of the person who was just
 * signing in, and could give her tab a session of its own: the callback left the session's token in a cookie, and a browser sends and takes
 * cookies without regard to ports. The cookie is sealed, and only the tab that began has the secret for which the gateway opens it.
 */
/** To the moment when the session waits in the cookie. */
async function waitsInCookie(jar: Jar, login: string): Promise<string> {
  const begun = await jar.go(`${gateway.url}/v1/console/oidc/begin?tab=${jar.tab}`)
  const done = await jar.go(await throughProvider(jar, locationOf(begun), login, callback))
  expect(locationOf(done)).toBe(`${gateway.url}/console#sign-in/done`)
  return jar.cookie('svc_signed_in') ?? ''
}

test('who has the cookie of a sign-in has no session, and takes none from the tab that began', async () => {
  const [ada, thief] = [new Jar(), new Jar()]
  const cookie = await waitsInCookie(ada, 'ada')
  expect(cookie).not.toContain('svc_session_')
  thief.put('svc_signed_in', cookie)
  for (const secret of [null, '', thief.secret, ada.tab]) expect((await claim(thief, secret)).status).toBe(401)
  const direct = await fetch(`${gateway.url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': cookie } })
  expect(direct.status).toBe(401)
  const session = (await (await claim(ada, ada.secret)).json()) as SessionBegun
  expect(session).toMatchObject({ name: 'ada@example.test', state: 'open' })
})

test('a tab takes no session that another browser began, though its cookies are put there', async () => {
  const [ada, mallory] = [new Jar(), new Jar()]
  await ada.go(`${gateway.url}/v1/console/oidc/begin?tab=${ada.tab}`)
  ada.put('svc_signed_in', await waitsInCookie(mallory, 'mallory'))
  expect((await claim(ada, ada.secret)).status).toBe(401)
})

test('a sign-in without the tab that began, or with something else in its place, does not begin', async () => {
  for (const query of ['', '?tab=', '?tab=x', `?tab=${'a'.repeat(44)}`]) {
    const jar = new Jar()
    const begun = await jar.go(`${gateway.url}/v1/console/oidc/begin${query}`)
    expect([query, begun.status, locationOf(begun), jar.seen]).toEqual([
      query,
      303,
      `${gateway.url}/console#sign-in/expired`,
      [],
    ])
  }
})
