import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { boundedText } from '../../protocol/json/foreign-json.ts'
import type { LocalCredentials } from './local-credentials.ts'

export interface SignedBodyParts {
  readonly credentials: LocalCredentials
  readonly connections: ConnectionClock
}

/**
 * The body of a request that only the gateway may send, after its signature was checked; empty where there is none. Throws
 * `missing_credentials`, what the check of the signature throws, and `payload_too_large`.
 */
export async function signedBody(
  { credentials, connections }: SignedBodyParts,
  request: Request,
  bytesMax: number,
): Promise<string> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  const caller = credentials.begin(request)
  const reading = request.body === null ? '' : boundedText(request.body, bytesMax)
  const text = await connections.body(request, Promise.resolve(reading))
  if (text === null) throw new Problem('payload_too_large')
  caller.withBody(text === '' ? null : text)
  return text
}
