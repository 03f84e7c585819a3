import * as oidc from 'openid-client'
import { failureName, type Log } from '../../log.ts'
import { equalBytes, sha256Hex } from '../../secrets.ts'
import { minuteMs } from '../../time.ts'
import type { Role } from '../accounts/access.ts'
import type { Sealing } from '../accounts/sealing.ts'
import { boundedFetch, type ProviderState } from './bounded-fetch.ts'
import { HandOver } from './hand-over.ts'
import { type Claims, nameOf, roleOf, sourceOf } from './oidc-person.ts'

export interface OidcOptions {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | null
  readonly scopes: string
  readonly groupsClaim: string
  readonly nameClaim: string
  /** SVC_OIDC_ROLES. */
  readonly roles: readonly string[]
  readonly sealing: Sealing
  readonly log: Log
  readonly now: () => number
}

/** Why a sign-in failed. The page has a sentence for each. */
export type OidcFailure = 'no_role' | 'denied' | 'expired' | 'refused' | 'provider_away' | 'busy'

/** Somebody whom the provider vouches for. */
export interface OidcPerson {
  /** Of issuer and subject: the same person is the same actor. */
  readonly actor: string
  readonly name: string
  readonly role: Role
  /** See `sourceOf`. */
  readonly sourceHash: Buffer
  /** Of the sign-in, which makes one session at most. */
  readonly signInHash: Buffer
  /** See `Flow.tab`. */
  readonly tab: string
}

/** A sign-in that has begun: where the browser goes, and what it brings back. */
export interface BegunSignIn {
  readonly url: string
  readonly flow: string
}

/** What the browser keeps of a sign-in, sealed: only this gateway reads it. */
interface Flow {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  /** The SHA-256 of a secret of the tab that began, in base64url: no other gets the session. */
  readonly tab: string
  readonly untilMs: number
}

/** How long a person may take at the provider. */
export const signInMs = 10 * minuteMs
/** Of each call of the provider, s. */
const answerSeconds = 5
/** By how much the clocks of gateway and provider may differ, s. */
const clockToleranceSeconds = 60
/** How long what the provider says of itself is believed. Its keys are read for each sign-in, so that a rotation is seen. */
const discoveryMs = 5 * minuteMs
/** How many sign-ins may ask the provider at once. */
const signInsAtOnceMax = 32

class SignInFailure extends Error {
  override readonly name = 'SignInFailure'
  constructor(readonly failure: OidcFailure) {
    super(failure)
  }
}

/** Signs people in at an OpenID Connect provider: code flow with PKCE, state and nonce. */
export class Oidc {
  readonly handOver: HandOver
  private known: { readonly metadata: oidc.ServerMetadata; readonly untilMs: number } | null = null
  private underWay = 0

  constructor(private readonly options: OidcOptions) {
    this.handOver = new HandOver(options.sealing, options.now)
  }

  /** Where the browser goes. `tab`: see `Flow.tab`. */
  begin(redirectUri: string, tab: string): Promise<BegunSignIn | OidcFailure> {
    return this.attempt(async (provider) => {
      const { scopes, sealing, now } = this.options
      const config = await this.configuration(provider)
      const flow: Flow = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
        tab,
        untilMs: now() + signInMs,
      }
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: scopes,
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(flow.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, flow: sealing.seal('oidc_sign_in', JSON.stringify(flow)).toString('base64url') }
    })
  }

  /** Who has come back. `address`: the redirect URI with what the provider added. `sealed`: what the browser kept. */
  finish(address: URL, sealed: string | null): Promise<OidcPerson | OidcFailure> {
    return this.attempt(async (provider) => {
      const flow = this.opened(sealed)
      // Before anybody is asked: only the browser that began may go on.
      const state = address.searchParams.get('state') ?? ''
      if (!equalBytes(Buffer.from(sha256Hex(state)), Buffer.from(sha256Hex(flow.state))))
        throw new SignInFailure('refused')
      if (address.searchParams.get('error') === 'access_denied') throw new SignInFailure('denied')
      const config = await this.configuration(provider)
      const tokens = await oidc.authorizationCodeGrant(config, address, {
        pkceCodeVerifier: flow.verifier,
        expectedState: flow.state,
        expectedNonce: flow.nonce,
        idTokenExpected: true,
      })
      const claims = tokens.claims()
      if (claims === undefined) throw new SignInFailure('refused')
      return this.person(await this.allClaims(config, tokens.access_token, claims), claims.sub, flow)
    })
  }

  /** Groups that are not in the ID token may stand in what the provider says when it is asked. */
  private async allClaims(config: oidc.Configuration, accessToken: string, claims: oidc.IDToken): Promise<Claims> {
    const { groupsClaim, nameClaim } = this.options
    const isWhole = claims[groupsClaim] !== undefined && claims[nameClaim] !== undefined
    if (isWhole || config.serverMetadata().userinfo_endpoint === undefined) return claims
    return { ...(await oidc.fetchUserInfo(config, accessToken, claims.sub)), ...claims }
  }

  private person(claims: Claims, subject: string, flow: Flow): OidcPerson {
    const { issuer, groupsClaim, nameClaim, roles } = this.options
    const granted = roleOf(claims, groupsClaim, roles)
    if (granted === null) throw new SignInFailure('no_role')
    return {
      actor: `oidc\0${issuer}\0${subject}`,
      name: nameOf(claims, nameClaim, subject),
      role: granted.role,
      sourceHash: sourceOf(this.options, granted.entry),
      signInHash: Buffer.from(sha256Hex(flow.state), 'hex'),
      tab: flow.tab,
    }
  }

  private opened(sealed: string | null): Flow {
    const text = sealed === null ? null : this.options.sealing.open('oidc_sign_in', Buffer.from(sealed, 'base64url'))
    if (text === null) throw new SignInFailure('expired')
    const flow = JSON.parse(text) as Flow
    if (flow.untilMs <= this.options.now()) throw new SignInFailure('expired')
    return flow
  }

  /** A new one for each use, so that the keys are read anew and the state of the provider is that of this use. */
  private async configuration(provider: ProviderState): Promise<oidc.Configuration> {
    const { issuer, clientId, clientSecret, now } = this.options
    // What is too old is for the gateway's own clock to say.
    const clockSkew = Math.round((now() - Date.now()) / 1_000)
    const client = { [oidc.clockTolerance]: clockToleranceSeconds, [oidc.clockSkew]: clockSkew }
    const auth = clientSecret === null ? oidc.None() : oidc.ClientSecretBasic(clientSecret)
    const isPlain = issuer.startsWith('http:')
    const customFetch = boundedFetch(provider) as oidc.CustomFetch
    if (this.known === null || this.known.untilMs <= now()) {
      const found = await oidc.discovery(new URL(issuer), clientId, client, auth, {
        timeout: answerSeconds,
        [oidc.customFetch]: customFetch,
        ...(isPlain ? { execute: [oidc.allowInsecureRequests] } : {}),
      })
      this.known = { metadata: found.serverMetadata(), untilMs: now() + discoveryMs }
    }
    const config = new oidc.Configuration(this.known.metadata, clientId, client, auth)
    config.timeout = answerSeconds
    config[oidc.customFetch] = customFetch
    if (isPlain) oidc.allowInsecureRequests(config)
    // The signature of an ID token is checked although it comes straight from the provider.
    oidc.enableNonRepudiationChecks(config)
    return config
  }

  private async attempt<T>(work: (provider: ProviderState) => Promise<T>): Promise<T | OidcFailure> {
    if (this.underWay >= signInsAtOnceMax) return 'busy'
    const provider: ProviderState = { away: false }
    this.underWay++
    try {
      return await work(provider)
    } catch (error) {
      const failure = error instanceof SignInFailure ? error.failure : provider.away ? 'provider_away' : 'refused'
      // The texts of the provider may hold what a person has typed.
      this.options.log.warn('oidc_sign_in_failed', { failure, cause: causeOf(error) })
      return failure
    } finally {
      this.underWay--
    }
  }
}

/** A code of the library, else the name of the error. */
function causeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z_]{1,64}$/.test(code) ? code : failureName(error)
}
