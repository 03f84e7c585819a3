import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { equalBytes, isWellFormedToken, sha256Hex } from '../../secrets.ts'
import { isoTime } from '../../time.ts'
import type { GatewayKeys } from './gateway-keys.ts'
import type { LocalKeys } from './local-keys.ts'
import type { RouterAuth } from './router-auth.ts'

/**
 * Who may use the agent's own HTTP interface (§12): any one of four credentials is enough, each one that is
 * sent must be valid, and there is no anonymous access, from loopback neither.
 *
 * 1. `X-SVC-Router-Signature`: the gateway's own request.
 * 2. `Authorization: Bearer svc_local_…`: the local runtime token.
 * 3. `X-SVC-API-Key`: a key made on this machine.
 * 4. `Authorization: Bearer svc_gateway_…`: a key of the gateway, where the agent is enrolled.
 *
 * The two bearers may come together, as two headers or as one with a comma, which is the same to HTTP (RFC 9110 §5.3);
 * two of one kind, and any other scheme, are refused.
 */
export interface LocalCredentials {
  /** Checks the headers. Throws `missing_credentials` and `invalid_credentials`. */
  begin(request: Request): PendingCredentials
  /** A program of this computer, by a token or a key of it. The others prove themselves with the body, or at the gateway. */
  knows(request: Request): boolean
}

export interface PendingCredentials {
  /** Checks the router's signature, which covers the body. Throws `invalid_credentials`. */
  withBody(body: string | Uint8Array | null): void
  /** Checks whether the gateway key may use the model. Rejects with `invalid_credentials` or `service_unavailable`. */
  forModel(model: string, signal: AbortSignal): Promise<void>
}

export interface LocalCredentialParts {
  readonly localToken: string
  readonly keys: LocalKeys
  /** null if the agent is not enrolled, so that it knows no router key. */
  readonly router: () => RouterAuth | null
  /** null if the agent is not enrolled and has no gateway to ask. */
  readonly gatewayKeys: () => GatewayKeys | null
}

interface Sent {
  readonly signature: string | null
  readonly apiKey: string | null
  readonly localToken: string | null
  readonly gatewayKey: string | null
}

export function createLocalCredentials(parts: LocalCredentialParts): LocalCredentials {
  const hash = (token: string) => Buffer.from(sha256Hex(token), 'hex')
  const localHash = hash(parts.localToken)
  const checkedHeaders = (request: Request): Sent => {
    const sent = readSent(request)
    if (sent.localToken !== null && !equalBytes(hash(sent.localToken), localHash)) throw refused()
    if (sent.apiKey !== null && !parts.keys.accepts(sent.apiKey)) throw refused()
    if (sent.signature !== null && parts.router() === null) throw refused()
    if (sent.gatewayKey !== null && parts.gatewayKeys() === null) throw refused()
    return sent
  }
  return {
    begin(request) {
      const sent = checkedHeaders(request)
      return {
        withBody: (body) => checkSignature(parts.router(), request, sent.signature, body),
        async forModel(model, signal) {
          const { gatewayKey } = sent
          if (gatewayKey === null) return
          if ((await parts.gatewayKeys()?.allows(gatewayKey, model, signal)) !== true) throw refused()
        },
      }
    },
    knows(request) {
      try {
        const { localToken, apiKey } = checkedHeaders(request)
        return localToken !== null || apiKey !== null
      } catch {
        return false
      }
    },
  }
}

/** Every wrong credential gets the same answer, so that a stranger does not learn which part was right. */
const refused = () => new Problem('invalid_credentials')

function readSent(request: Request): Sent {
  const signature = request.headers.get(headers.routerSignature)
  const apiKey = request.headers.get(headers.apiKey)
  const authorization = request.headers.get('authorization')
  if (signature === null && apiKey === null && authorization === null) throw new Problem('missing_credentials')
  return { signature, apiKey, ...readBearers(authorization) }
}

function readBearers(authorization: string | null): Pick<Sent, 'localToken' | 'gatewayKey'> {
  let localToken: string | null = null
  let gatewayKey: string | null = null
  for (const part of authorization?.split(',') ?? []) {
    const token = /^\s*bearer +(\S+)\s*$/i.exec(part)?.[1] ?? ''
    if (localToken === null && isWellFormedToken(token, 'local')) localToken = token
    else if (gatewayKey === null && isWellFormedToken(token, 'gateway')) gatewayKey = token
    else throw refused()
  }
  return { localToken, gatewayKey }
}

function checkSignature(
  router: RouterAuth | null,
  request: Request,
  signature: string | null,
  body: string | Uint8Array | null,
): void {
  if (signature === null) return
  const { method, url } = request
  const verdict = router?.verify(signature, { method, path: pathAndQuery(url), body }) ?? 'signature_invalid'
  if (verdict === 'valid') return
  // The agent's time is part of the answer, because it helps a gateway whose clock is wrong.
  throw new Problem('invalid_credentials', {
    detail: `The agent does not accept the router's signature. The agent's time is ${isoTime(Date.now())}.`,
  })
}

function pathAndQuery(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  return start === -1 ? '/' : url.slice(start)
}
