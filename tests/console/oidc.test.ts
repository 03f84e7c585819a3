import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { SessionList } from '../../src/protocol/wire/admin/operators.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { clientId, clientSecret, startProvider } from '../support/console/oidc-provider.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const people = {
  ada: { email: 'ada@example.test', groups: ['operators'] },
  eve: { email: 'eve@example.test', groups: ['sales'] },
}

/** A name of this computer that is not the gateway's own. */
const otherName = 'penstock.test'

const port = freePort()
const provider = await fixture(
  startProvider({ people, redirectUri: `http://127.0.0.1:${port}/v1/console/oidc/callback` }),
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
      SVC_OIDC_LABEL: 'Example Login',
    },
  }),
)
const browser = await fixture(launchBrowser([otherName]))

describe.skipIf(!hasBrowser)('signing in by OpenID Connect', () => {
  const signIn = async (page: Page, login: string) => {
    await page.getByRole('button', { name: 'Sign in with Example Login' }).click()
    await page.locator('input[name=login]').fill(login)
    await page.locator('input[name=password]').fill('any')
    await page.locator('button[type=submit]').click()
  }
  const sessions = async () => (await gateway.admin<SessionList>('GET', '/v1/admin/sessions')).sessions

  test('a person signs in at the provider and works under her own name; when her session is revoked, the page says so', async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await page.getByRole('button', { name: 'Sign in with Example Login' }).waitFor()
    expect(await console.violations()).toEqual([])
    await signIn(page, 'ada')
    await page.getByText('ada@example.test · operator').waitFor()
    // Nothing of the way through the provider is left in the address, in its history, or for scripts.
    const left = await page.evaluate<string>('JSON.stringify([location.href, document.cookie, localStorage])')
    expect(left).not.toMatch(/code=|state=|sign-in|svc_/)
    // Cookies know no port, so the provider's own come, too.
    const cookies = await page.context().cookies(gateway.url)
    expect(cookies.filter(({ name }) => name.startsWith('svc_'))).toEqual([])
    const [own] = await sessions()
    expect(own).toMatchObject({ name: 'ada@example.test', role: 'operator', method: 'oidc', state: 'open' })
    await gateway.admin('DELETE', `/v1/admin/sessions/${own?.session_id}`)
    await page.getByText('Your session has ended. Sign in again.').waitFor()
    expect(await page.getByRole('navigation').count()).toBe(0)
    await console.close()
  })

  test('a person who opened the page by another name of the computer is led to the gateway’s own address, and signs in there', async () => {
    const { port } = new URL(gateway.url)
    const console = await openConsole(browser, `http://${otherName}:${port}`)
    const { page } = console
    const led = page.waitForRequest((request) => request.url().startsWith(`${gateway.url}/v1/console/oidc/begin`))
    await signIn(page, 'ada')
    // The page of the own address begins anew by itself, with a secret of its own.
    expect(new URL((await led).url()).searchParams.has('here')).toBe(true)
    await page.getByText('ada@example.test · operator').waitFor()
    expect(new URL(page.url()).origin).toBe(gateway.url)
    const left = await page.evaluate<string>('JSON.stringify([location.href, document.cookie, localStorage])')
    expect(left).not.toMatch(/code=|state=|sign-in|svc_/)
    expect(await console.violations()).toEqual([])
    await console.close()
  })

  test('a person without a group that may is told so on the page, and has no session', async () => {
    const before = (await sessions()).length
    const console = await openConsole(browser, gateway.url)
    await signIn(console.page, 'eve')
    await console.page.getByText('None of your groups may use this console.').waitFor()
    expect(await console.violations()).toEqual([])
    expect((await sessions()).length).toBe(before)
    // The role token works all the same.
    await console.signIn(gateway.tokens.viewer)
    await console.close()
  })
})
