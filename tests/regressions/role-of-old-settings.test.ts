// Symptom: a person who had signed in at a provider kept her role for up to twelve hours after the operator had taken
// the group out of SVC_OIDC_ROLES, or had named another provider, and started the gateway anew.
// Cause: the session remembered the role alone, and it stood as long as any provider was named.
// Fix: it remembers the entry of the settings that gave the role, and ends where the gateway does not have it any more.
import { expect, test } from 'bun:test'
import { oidcSources } from '../../src/actors/gateway-operators.ts'
import { json, startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const settings = {
  SVC_OIDC_ISSUER: 'https://login.example',
  SVC_OIDC_CLIENT_ID: 'penstock',
  SVC_OIDC_ROLES: 'admin=chiefs,viewer=watchers',
}
const gateway = await fixture(startTestGateway(settings))

const statusAt = async ({ url }: TestGateway, token: string) =>
  (await fetch(`${url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': token } })).status

test('a session ends where the settings that gave its role are gone, and nowhere else', async () => {
  const [chiefs] = oidcSources(gateway.gateway.config)
  if (chiefs === undefined) throw new Error('the gateway has no provider')
  const { token } = await gateway.gateway.sessions.begin({
    name: 'ada@example.test',
    role: 'admin',
    method: 'oidc',
    adminId: null,
    sourceHash: chiefs,
    actorHash: '0123456789ab',
    signInHash: null,
  })
  expect(await statusAt(gateway, token)).toBe(200)
  const changes: readonly (readonly [Readonly<Record<string, string>>, number])[] = [
    [{ SVC_OIDC_ROLES: 'viewer=watchers,operator=guests,admin=chiefs' }, 200],
    [{ SVC_OIDC_LABEL: 'Another label', SVC_OIDC_SCOPES: 'openid' }, 200],
    [{ SVC_OIDC_ROLES: 'viewer=watchers' }, 401],
    [{ SVC_OIDC_ROLES: 'viewer=chiefs' }, 401],
    [{ SVC_OIDC_ISSUER: 'https://other.example' }, 401],
    [{ SVC_OIDC_CLIENT_ID: 'other' }, 401],
    [{ SVC_OIDC_GROUPS_CLAIM: 'roles' }, 401],
  ]
  for (const [change, expected] of changes) {
    const other = await startTestGateway({ ...settings, ...change }, undefined, { beside: gateway })
    expect([change, await statusAt(other, token)]).toEqual([change, expected])
    await other.stop()
  }
  const listed = await gateway.ask('GET', '/v1/admin/sessions', { as: 'admin' })
  expect(JSON.stringify(await json(listed))).not.toContain('chiefs')
})
