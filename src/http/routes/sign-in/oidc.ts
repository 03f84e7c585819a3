import { Elysia } from 'elysia'
import { handOverMs } from '../../../actors/operators/hand-over.ts'
import type { OidcFailure, OidcPerson } from '../../../actors/operators/oidc.ts'
import { signInMs } from '../../../actors/operators/oidc.ts'
import { brand, headers as headerNames } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { secondMs } from '../../../time.ts'
import type { HttpContext, HttpExchange } from '../../frame/context.ts'
import { auditCall } from '../../plugins/access-audit.ts'
import { publicReads } from '../../plugins/rate-limit.ts'
import { sessionView } from '../../views/operators.ts'
import { consolePath } from '../console.ts'
import { cookieOf, setCookie } from './cookies.ts'

const place = '/v1/console'
const beginPath = `${place}/oidc/begin`
const callbackPath = `${place}/oidc/callback`
const sessionPath = `${place}/oidc/session`
const tabForm = /^[\w-]{43}$/
const flowCookie = `${brand}_sign_in`
const sessionCookie = `${brand}_signed_in`
/** No page of ours is longer. A provider's `code` has at most some hundred characters. */
const queryCharactersMax = 4_096

/** Where the browser reaches this gateway: what the operator has set, and no header. */
function ownAddress({ gateway }: HttpContext) {
  const base = gateway.baseUrl()
  const { protocol, pathname } = new URL(base)
  return { base, secure: protocol === 'https:', prefix: pathname.replace(/\/$/, '') }
}

const flowCookieOf = (context: HttpContext, value: string, maxAgeSeconds: number): string => {
  const { prefix, secure } = ownAddress(context)
  const path = prefix + place
  return setCookie({ name: flowCookie, value, path, maxAgeSeconds, sameSite: 'Lax', secure })
}

const sessionCookieOf = (context: HttpContext, value: string, maxAgeSeconds: number): string => {
  const { prefix, secure } = ownAddress(context)
  const path = prefix + sessionPath
  return setCookie({ name: sessionCookie, value, path, maxAgeSeconds, sameSite: 'Strict', secure })
}

/** The way on is one of our own pages or the provider's, and never what a caller has sent. */
function leadOn(context: HttpContext, to: string, cookies: readonly string[]): Response {
  const headers = new Headers({
    ...context.base,
    location: to,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  })
  for (const cookie of cookies) headers.append('set-cookie', cookie)
  return new Response(null, { status: 303, headers })
}

const toConsole = (context: HttpContext, place: string, cookies: readonly string[]): Response =>
  leadOn(context, `${ownAddress(context).base}${consolePath}#${place}`, cookies)

/**
 * `tab` is a hash of a secret of the page. A page of another origin has another, so a browser that came by another name
 * begins at our own page anew; `here` says that it has, because a proxy may call us by a name of its own.
 */
async function beginAt(context: HttpContext, request: Request): Promise<Response> {
  const { oidc } = context.gateway
  if (oidc === null) throw new Problem('route_not_found')
  const { base } = ownAddress(context)
  const { searchParams } = new URL(request.url)
  const isElsewhere = request.headers.get('host') !== new URL(base).host && !searchParams.has('here')
  if (isElsewhere) return toConsole(context, 'sign-in/begin', [])
  const tab = searchParams.get('tab') ?? ''
  if (!tabForm.test(tab)) return toConsole(context, 'sign-in/expired', [])
  const begun = await oidc.begin(`${base}${callbackPath}`, tab)
  if (typeof begun === 'string') return toConsole(context, `sign-in/${begun}`, [])
  return leadOn(context, begun.url, [flowCookieOf(context, begun.flow, signInMs / secondMs)])
}

/** Signing in counts as a call of the administration, whether it ends well or not. */
function recorded(
  context: HttpContext,
  exchange: HttpExchange,
  request: Request,
  found: OidcPerson | OidcFailure,
): void {
  const refused = typeof found === 'string'
  if (refused)
    exchange.code = found === 'provider_away' || found === 'busy' ? 'service_unavailable' : 'invalid_credentials'
  else {
    exchange.role = found.role
    exchange.actorHash = context.gateway.audit.actorPrefix(found.actor)
  }
  const status = refused ? (exchange.code === 'service_unavailable' ? 503 : 401) : 303
  auditCall(context, exchange, request, { template: callbackPath, status })
}

async function signIn(context: HttpContext, exchange: HttpExchange, request: Request): Promise<Response> {
  const { oidc, sessions, audit } = context.gateway
  if (oidc === null) throw new Problem('route_not_found')
  const { search } = new URL(request.url)
  if (search.length > queryCharactersMax) throw new Problem('invalid_request', { detail: 'The query is too long' })
  const address = new URL(`${ownAddress(context).base}${callbackPath}${search}`)
  const found = await oidc.finish(address, cookieOf(request, flowCookie))
  // The sign-in is over, whatever came of it.
  const over = flowCookieOf(context, '', 0)
  recorded(context, exchange, request, found)
  if (typeof found === 'string') return toConsole(context, `sign-in/${found}`, [over])
  const { name, role, signInHash, sourceHash, actor, tab } = found
  const how = { name, role, signInHash, sourceHash, method: 'oidc', adminId: null } as const
  const begun = await sessions.begin({ ...how, actorHash: audit.actorPrefix(actor) }).catch((error: unknown) => {
    if (error instanceof Problem) return error.code === 'invalid_state' ? 'refused' : 'full'
    throw error
  })
  if (typeof begun === 'string') return toConsole(context, `sign-in/${begun}`, [over])
  const handed = sessionCookieOf(context, oidc.handOver.seal(begun.token, tab), handOverMs / secondMs)
  return toConsole(context, 'sign-in/done', [over, handed])
}

/** Hands the tab that began the session that the callback has left in a cookie. Another tab changes nothing. */
async function handOver(context: HttpContext, request: Request): Promise<Response> {
  const { callers, oidc, sessions } = context.gateway
  if (oidc === null) throw new Problem('route_not_found')
  const sealed = cookieOf(request, sessionCookie)
  const secret = request.headers.get(headerNames.signInSecret)
  const token = sealed === null || secret === null ? null : oidc.handOver.open(sealed, secret)
  const caller = token === null ? null : await callers.find(token)
  const session = caller?.sessionId == null ? null : await sessions.find(caller.sessionId)
  if (token === null || session === null) {
    throw new Problem('invalid_credentials', { detail: 'No sign-in has just ended in this tab. Sign in again.' })
  }
  const headers = { ...context.base, 'cache-control': 'no-store', 'set-cookie': sessionCookieOf(context, '', 0) }
  return Response.json({ ...sessionView(session), session_token: token }, { headers })
}

/** How people sign in to the console, and the way through an OpenID Connect provider. */
export const oidcRoutes = (context: HttpContext) =>
  new Elysia()
    .use(publicReads(context, 'own'))
    .get(
      `${place}/sign-in`,
      () => Response.json({ oidc: context.gateway.oidc === null ? null : context.gateway.config.SVC_OIDC_LABEL }),
      { detail: { hide: true } },
    )
    .get(beginPath, ({ request }) => beginAt(context, request), { detail: { hide: true } })
    .get(callbackPath, ({ exchange, request }) => signIn(context, exchange, request), { detail: { hide: true } })
    .post(sessionPath, ({ request }) => handOver(context, request), { detail: { hide: true } })
