import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Configuration } from 'oidc-provider'

export const clientId = 'penstock'
export const clientSecret = 'a-secret-between-gateway-and-provider-0123456789'

/** How long an ID token is valid, s. */
export const idTokenSeconds = 600

/** People by their login: what the provider says of them. */
export type People = Readonly<Record<string, { readonly email?: string; readonly groups?: readonly string[] }>>

export interface ProviderOptions {
  readonly people: People
  readonly redirectUri: string
  /** The same again after a restart. Absent: any free one. */
  readonly port?: number
  /** Answers instead of the provider; false: it does not. */
  readonly instead?: (request: IncomingMessage, response: ServerResponse) => boolean
}

export interface TestProvider {
  readonly issuer: string
  readonly port: number
  /** Paths that were asked for, without their queries. */
  readonly asked: readonly string[]
  stop(): Promise<void>
}

const signingKey = (key: KeyObject) => ({ ...key.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' })

/** A certified OpenID provider with its own sign-in page, which takes any password. Each start makes new keys. */
export async function startProvider(options: ProviderOptions): Promise<TestProvider> {
  const asked: string[] = []
  let answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.destroy()
  const server: Server = createServer((request, response) => {
    asked.push((request.url ?? '').split('?')[0] ?? '')
    if (options.instead?.(request, response) !== true) answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  answer = providerOf(issuer, options).callback()
  return {
    issuer,
    port,
    asked,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function providerOf(issuer: string, { people, redirectUri }: ProviderOptions): Provider {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const configuration: Configuration = {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    jwks: { keys: [signingKey(privateKey) as never] },
    cookies: { keys: ['of the tests'] },
    scopes: ['openid', 'email', 'groups'],
    claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
    ttl: {
      IdToken: idTokenSeconds,
      AccessToken: 600,
      AuthorizationCode: 60,
      Session: 600,
      Interaction: 600,
      Grant: 600,
    },
    findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id, ...people[id] }) }),
    // The gateway is the operator's own: nobody is asked whether it may know who signs in.
    loadExistingGrant: async (context) => {
      const { oidc } = context
      const grant = new oidc.provider.Grant({
        ...(oidc.client === undefined ? {} : { clientId: oidc.client.clientId }),
        ...(oidc.session?.accountId === undefined ? {} : { accountId: oidc.session.accountId }),
      })
      grant.addOIDCScope('openid email groups')
      await grant.save()
      return grant
    },
  }
  return new Provider(issuer, configuration)
}
