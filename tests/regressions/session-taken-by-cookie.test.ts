// Symptom: a page of another port of the same computer, such as that of a hostile model server, got the session of the
// person who was just signing in, and could give her tab a session of its own.
// Cause: the callback left the session's token in a cookie, and a browser sends and takes cookies without regard to
// ports; `SameSite` counts all ports as one site.
// Fix: the cookie is sealed, and only the tab that began has the secret for which the gateway opens it.
import { expect, test } from 'bun:test'
import type { SessionBegun } from '../../src/protocol/wire/admin/operators.ts'
import { Jar, locationOf, throughProvider } from '../support/console/oidc-browser.ts'
import { clientId, clientSecret, startProvider } from '../support/console/oidc-provider.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const people = {
  ada: { email: 'ada@example.test', groups: ['operators'] },
  mallory: { email: 'mallory@example.test', groups: ['operators'] },
}
const port = freePort()
const callback = `http://127.0.0.1:${port}/v1/console/oidc/callback`
const provider = await fixture(startProvider({ people, redirectUri: callback }))
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

/** To the moment when the session waits in the cookie. */
async function signedIn(jar: Jar, login: string): Promise<string> {
  const begun = await jar.go(`${gateway.url}/v1/console/oidc/begin?tab=${jar.tab}`)
  const done = await jar.go(await throughProvider(jar, locationOf(begun), login, callback))
  expect(locationOf(done)).toBe(`${gateway.url}/console#sign-in/done`)
  return jar.cookie('svc_signed_in') ?? ''
}
const claim = (jar: Jar, secret: string | null) =>
  jar.go(`${gateway.url}/v1/console/oidc/session`, {
    method: 'POST',
    headers: secret === null ? {} : { 'x-svc-sign-in-secret': secret },
  })

test('who has the cookie of a sign-in has no session, and takes none from the tab that began', async () => {
  const [ada, thief] = [new Jar(), new Jar()]
  const cookie = await signedIn(ada, 'ada')
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
  ada.put('svc_signed_in', await signedIn(mallory, 'mallory'))
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
