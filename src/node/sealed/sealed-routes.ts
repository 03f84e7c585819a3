import { createHash } from 'node:crypto'
import { chat } from '../../actors/operations/chat.ts'
import { completions } from '../../actors/operations/completions.ts'
import { embeddings } from '../../actors/operations/embeddings.ts'
import { messages } from '../../actors/operations/messages.ts'
import type { Operation } from '../../actors/operations/operation.ts'
import { responses } from '../../actors/operations/responses.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { clientIdPattern } from '../../ids.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { pathOf } from '../../listener/request-target.ts'
import { encapsulatedKeyHeader, keyMismatchType, readHex32 } from '../../protocol/sealed/ehbp.ts'
import { splitFrames } from '../../protocol/sealed/frames.ts'
import { readBytes } from '../../protocol/sealed/read-bytes.ts'
import { sealedPath, sealedUsagePath } from '../../protocol/wire/nodes/sealed-usage.ts'
import type { LocalCredentials } from '../access/local-credentials.ts'
import type { Place } from '../membership/membership.ts'
import { baseHeaders } from '../rerank/answers.ts'
import type { Replays } from './replays.ts'
import type { SealedInference } from './sealed-inference.ts'
import type { OpenedRequest, SealedKeys } from './sealed-keys.ts'
import { readOrder } from './sealed-order.ts'

export const nodeSealedRoute = `${sealedPath}/*`
export const nodeSealedUsageRoute = `${sealedUsagePath}/:request_id`

/** The largest value of the gateway's own setting, and the seal around it. */
const bodyBytesMax = 65 * 1024 * 1024

const byPath: ReadonlyMap<string, Operation> = new Map(
  [chat, completions, embeddings, messages, responses].map((operation) => [
    sealedPath + operation.path,
    operation as Operation,
  ]),
)

export interface SealedRouteParts {
  readonly credentials: LocalCredentials
  readonly sealed: SealedInference
  readonly sealedKeys: SealedKeys
  readonly replays: Replays
  readonly place: Place
  readonly connections: ConnectionClock
}

/** One answer for whatever keeps a request from being opened: a gateway that tries learns nothing of how near it was. */
function notOpened(): Response {
  const title = 'No key of this node opens the request. Fetch its keys again and seal anew.'
  const problem = { type: keyMismatchType, title, status: 422 }
  return Response.json(problem, {
    status: 422,
    headers: { ...baseHeaders, 'content-type': 'application/problem+json' },
  })
}

/** Only the gateway relays. What is refused before the seal is open is refused in the clear, and says nothing of the request. */
export async function answerSealed(parts: SealedRouteParts, request: Request): Promise<Response> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  const caller = parts.credentials.begin(request)
  const { connections, replays, sealed } = parts
  const message = await connections.body(request, readBytes(request, bodyBytesMax))
  caller.withBody(message)
  const operation = byPath.get(pathOf(request.url))
  if (operation === undefined) throw new Problem('route_not_found')
  const order = readOrder(request, parts.place)
  const { enc, opened } = await openedRequest(parts, request, message)
  if (opened === null) return notOpened()
  const verdict = replays.use(opened.keyId, opened.enc)
  if (verdict === 'used') throw new Problem('envelope_replayed')
  if (verdict === 'full') throw new Problem('capacity_exhausted')
  const requestCommitment = `0x${createHash('sha256').update(message).digest('hex')}`
  // A model may be silent for minutes, also in the middle of a stream.
  connections.lift(request)
  const ended = () => connections.rest(request)
  return sealed.answer({ operation, order, opened, enc, requestCommitment, signal: request.signal, ended })
}

/** Throws for what is no EHBP at all, which anybody can see. */
async function openedRequest(
  { sealedKeys }: SealedRouteParts,
  request: Request,
  message: Uint8Array,
): Promise<{ readonly enc: string; readonly opened: OpenedRequest | null }> {
  const text = request.headers.get(encapsulatedKeyHeader)
  const enc = readHex32(text)
  if (text === null || enc === null) {
    const detail = 'Ehbp-Encapsulated-Key must be 64 lower-case hex digits'
    throw new Problem('invalid_parameter', { param: `header.${encapsulatedKeyHeader}`, detail })
  }
  const frames = splitFrames(message)
  if (frames === null || frames.length === 0) {
    throw new Problem('invalid_request', { detail: 'The body is not a sequence of whole EHBP frames' })
  }
  return { enc: text, opened: await sealedKeys.open(enc, frames) }
}

/** What a call used that this gateway has relayed; 404 until it has ended, and after it was told. */
export function answerSealedUsage({ credentials, sealed }: SealedRouteParts, request: Request): Response {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  credentials.begin(request).withBody(null)
  const requestId = pathOf(request.url).slice(sealedUsagePath.length + 1)
  const usage = clientIdPattern.test(requestId) ? sealed.usage.take(requestId) : null
  if (usage === null) throw new Problem('request_not_found')
  return Response.json(usage, { headers: baseHeaders })
}
