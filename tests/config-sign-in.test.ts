import { expect, test } from 'bun:test'
import { readConfig } from '../src/settings/config.ts'

const whole = {
  SVC_OIDC_ISSUER: 'https://login.example/realms/staff',
  SVC_OIDC_CLIENT_ID: 'penstock',
  SVC_OIDC_CLIENT_SECRET: 'a-secret-that-no-fault-shows',
  SVC_OIDC_ROLES: 'admin=penstock admins,viewer=/staff/all=every',
}
const faultsOf = (env: Readonly<Record<string, string>>) => {
  const read = readConfig({ ...whole, ...env })
  return 'faults' in read ? read.faults : []
}

test('a provider needs a client, roles and https; a fault shows no value', () => {
  expect(faultsOf({})).toEqual([])
  const loopback = ['http://127.0.0.1:8080', 'http://localhost:8080/x', 'http://[::1]:8080']
  for (const issuer of loopback) expect([issuer, faultsOf({ SVC_OIDC_ISSUER: issuer })]).toEqual([issuer, []])
  const bad = [
    'http://login.example',
    'login.example',
    'https://login.example/?tenant=1',
    'https://a:b@login.example',
    'ftp://login.example',
  ]
  for (const issuer of bad) {
    expect([issuer, faultsOf({ SVC_OIDC_ISSUER: issuer })]).toEqual([
      issuer,
      ['SVC_OIDC_ISSUER must be an https URL, or an http URL of this computer'],
    ])
  }
  expect(faultsOf({ SVC_OIDC_CLIENT_ID: '' })).toEqual(['SVC_OIDC_ISSUER needs SVC_OIDC_CLIENT_ID'])
  expect(faultsOf({ SVC_OIDC_ROLES: '' })).toEqual(['SVC_OIDC_ISSUER needs SVC_OIDC_ROLES, or nobody could sign in'])
  expect(faultsOf({ SVC_OIDC_SCOPES: 'email' })).toEqual(['SVC_OIDC_SCOPES must contain openid'])
  for (const roles of ['admins', 'root=admins', 'admin=', 'admin=a,b']) {
    expect([roles, faultsOf({ SVC_OIDC_ROLES: roles })]).toEqual([
      roles,
      ['SVC_OIDC_ROLES must be a list like admin=GROUP,operator=GROUP,viewer=GROUP'],
    ])
  }
  expect(faultsOf({ SVC_OIDC_ISSUER: '' })).toEqual(['SVC_OIDC_CLIENT_ID and SVC_OIDC_ROLES need SVC_OIDC_ISSUER'])
})
