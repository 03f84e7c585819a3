import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { pathOf } from '../../listener/request-target.ts'
import { attestationPath, isAttestationNonce } from '../../protocol/attestation/evidence.ts'
import type { LocalCredentials } from '../access/local-credentials.ts'
import { baseHeaders } from '../rerank/answers.ts'
import type { Attester } from './attester.ts'

export const nodeAttestationRoute = `${attestationPath}/:nonce`

export interface AttestationParts {
  readonly credentials: LocalCredentials
  /** null: the owner has not asked for it. */
  readonly attester: Attester | null
  readonly connections: ConnectionClock
}

/** Evidence for a client's nonce. The gateway asks for it, because it alone reaches this agent; the client judges it. */
export async function answerAttestation(parts: AttestationParts, request: Request): Promise<Response> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  const { credentials, attester, connections } = parts
  credentials.begin(request).withBody(null)
  const nonce = pathOf(request.url).slice(attestationPath.length + 1)
  // As an agent of a version before says it.
  if (attester === null) throw new Problem('route_not_found')
  if (!isAttestationNonce(nonce)) throw new Problem('invalid_parameter', { param: 'path.nonce' })
  const attestation = await connections.lifted(request, () => attester.attest(nonce, request.signal))
  return Response.json(attestation, { headers: baseHeaders })
}
