import { isLoopback } from '../host/loopback.ts'
import type { Setting } from './setting.ts'

/** Signing in to the console by OpenID Connect. Off unless a provider is named. */
export const signInSettings = {
  SVC_OIDC_ISSUER: {
    kind: 'text',
    default: null,
    meaning:
      'Issuer of the OpenID Connect provider by which people sign in to the console (`https://login.example`). Off by default. Register `<SVC_PUBLIC_URL>/v1/console/oidc/callback` there.',
  },
  SVC_OIDC_CLIENT_ID: { kind: 'text', default: null, meaning: 'Client id of the gateway at the provider' },
  SVC_OIDC_CLIENT_SECRET: {
    kind: 'secret',
    meaning: 'Client secret of the gateway at the provider. A public client has none.',
  },
  SVC_OIDC_SCOPES: {
    kind: 'text',
    default: 'openid profile email',
    meaning: 'Scopes that the gateway asks for, with spaces between. Many providers want one more for groups.',
  },
  SVC_OIDC_GROUPS_CLAIM: {
    kind: 'text',
    default: 'groups',
    meaning: 'Claim with the groups of a person, in the ID token or from the userinfo endpoint',
  },
  SVC_OIDC_NAME_CLAIM: {
    kind: 'text',
    default: 'email',
    meaning: 'Claim with the name that the audit shows. Choose one that people cannot change by themselves.',
  },
  SVC_OIDC_ROLES: {
    kind: 'list',
    meaning:
      'Which group has which role: `admin=GROUP`, `operator=GROUP`, `viewer=GROUP`. A person gets the highest role of all her groups; without one she is refused.',
  },
  SVC_OIDC_LABEL: {
    kind: 'text',
    default: 'OpenID Connect',
    meaning: 'Name of the provider on the button of the console: `Sign in with …`',
  },
} as const satisfies Record<string, Setting>

interface Given {
  readonly SVC_OIDC_ISSUER: string | null
  readonly SVC_OIDC_CLIENT_ID: string | null
  readonly SVC_OIDC_SCOPES: string
  readonly SVC_OIDC_ROLES: readonly string[]
}

const roleForm = /^(?:admin|operator|viewer)=./

/** Over plain HTTP anybody between could name any person, so that is for this computer alone. */
function isIssuer(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, search, hash, username, password } = new URL(text)
  const isBare = search + hash + username + password === ''
  return isBare && (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname)))
}

export function signInFaults(given: Given): string[] {
  const { SVC_OIDC_ISSUER: issuer, SVC_OIDC_CLIENT_ID: client, SVC_OIDC_SCOPES: scopes, SVC_OIDC_ROLES: roles } = given
  const faults: string[] = []
  if (roles.some((each) => !roleForm.test(each))) {
    faults.push('SVC_OIDC_ROLES must be a list like admin=GROUP,operator=GROUP,viewer=GROUP')
  }
  if (issuer === null) {
    if (client !== null || roles.length > 0) faults.push('SVC_OIDC_CLIENT_ID and SVC_OIDC_ROLES need SVC_OIDC_ISSUER')
    return faults
  }
  if (!isIssuer(issuer)) faults.push('SVC_OIDC_ISSUER must be an https URL, or an http URL of this computer')
  if (client === null) faults.push('SVC_OIDC_ISSUER needs SVC_OIDC_CLIENT_ID')
  if (roles.length === 0) faults.push('SVC_OIDC_ISSUER needs SVC_OIDC_ROLES, or nobody could sign in')
  if (!scopes.split(' ').includes('openid')) faults.push('SVC_OIDC_SCOPES must contain openid')
  return faults
}
