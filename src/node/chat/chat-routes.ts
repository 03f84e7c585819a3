import { brand, headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { clientIdPattern, modelIdPattern } from '../../ids.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { fitMessages } from '../../protocol/chat/fit-messages.ts'
import { checkBody, readJsonText } from '../../protocol/json/json-body.ts'
import { Binding, isClientNonce, isCommitment, readSalt } from '../../protocol/receipts/binding.ts'
import { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { ModelList } from '../../protocol/wire/inference/models.ts'
import type { LocalCredentials } from '../access/local-credentials.ts'
import type { Place } from '../membership/membership.ts'
import { readsTimed, type SignReceipt } from '../receipts/receipt-signer.ts'
import { meantHere } from '../runtimes/choose-runtime.ts'
import type { RuntimeSet } from '../runtimes/runtime-set.ts'
import type { Order } from './chat-call.ts'
import type { NodeChat } from './node-chat.ts'

export const nodeChatRoute = '/v1/chat/completions'
export const nodeModelsRoute = '/v1/models'

const MiB = 1024 * 1024
/**
 * The gateway may send bodies up to the largest value of its own setting. Other callers have the setting's default
 * (§17).
 */
const routerBodyBytesMax = 64 * MiB
const bodyBytesMax = 8 * MiB
/** `svc.job_id` of a chat, and the class of a node. */
const slug = /^[A-Za-z0-9._-]{1,64}$/

export interface ChatRouteParts {
  readonly credentials: LocalCredentials
  readonly chat: NodeChat
  readonly runtimes: RuntimeSet
  readonly place: Place
  readonly sign: SignReceipt
  readonly connections: ConnectionClock
}

/** The caller is checked before the request, as far as that is possible without the body. */
export async function answerChat(parts: ChatRouteParts, request: Request, ownRequestId: string): Promise<Response> {
  const caller = parts.credentials.begin(request)
  const signed = request.headers.has(headers.routerSignature)
  const { connections } = parts
  const text = await connections.body(request, readJsonText(request, signed ? routerBodyBytesMax : bodyBytesMax))
  caller.withBody(text)
  const body = chatBody(text)
  body.model = meantHere(parts.runtimes.list(), body.model)
  await caller.forModel(body.model, request.signal)
  const order = signed ? orderOf(request, body.model, parts) : null
  const requestId = order?.requestId ?? ownRequestId
  const runtimeId = signed ? request.headers.get(headers.runtimeId) : null
  // A model may be silent for minutes, also in the middle of a stream.
  connections.lift(request)
  const ended = () => connections.rest(request)
  try {
    return await parts.chat.answer({ requestId, body, text, runtimeId, order, signal: request.signal, ended })
  } catch (error) {
    ended()
    throw error
  }
}

function chatBody(text: string): ChatRequest {
  const body = checkBody(text, ChatRequest)
  fitMessages(body)
  if (body.svc?.mixture !== undefined) throw new Problem('mixture_unsupported_path', { param: `${brand}.mixture` })
  if (body.n != null && body.n > 1) throw new Problem('n_not_supported', { param: 'n' })
  return body
}

/** The order of a request that the gateway has signed. null if the gateway wants no receipt. */
function orderOf(request: Request, model: string, { place: { membership }, sign }: ChatRouteParts): Order | null {
  const requestId = request.headers.get(headers.nodeRequestId)
  if (requestId === null || membership === null) return null
  const { nodeId, enrollment } = membership
  const jobId = request.headers.get(headers.jobId)
  const modelId = request.headers.get(headers.modelId) ?? model
  const nodeClass = request.headers.get(headers.nodeClass) ?? enrollment.node_class
  const fits =
    clientIdPattern.test(requestId) &&
    modelIdPattern.test(modelId) &&
    (jobId === null || slug.test(jobId)) &&
    slug.test(nodeClass)
  if (!fits) throw new Problem('invalid_request', { detail: 'A header of the call is not valid' })
  return {
    requestId,
    jobId,
    modelId,
    nodeClass,
    nodeId,
    sign,
    binding: bindingOf(request),
    timed: readsTimed(request.headers),
  }
}

/** The gateway's commitments; a missing or malformed one is left out of the receipt. */
function bindingOf({ headers: sent }: Request): Binding | null {
  const nonce = sent.get(headers.clientNonce)
  const commitment = sent.get(headers.requestCommitment)
  const salt = readSalt(sent.get(headers.receiptSalt) ?? '')
  if (nonce === null || commitment === null || salt === null) return null
  return isClientNonce(nonce) && isCommitment(commitment) ? new Binding(nonce, salt, commitment) : null
}

/** The models that any authenticated caller can use now. */
export function listModels(parts: ChatRouteParts, request: Request): ModelList {
  parts.credentials.begin(request).withBody(null)
  const ready = parts.runtimes.list().filter(({ state }) => state === 'ready')
  const ids = ready.flatMap(({ models }) => models.filter((model) => model.ready).map(({ id }) => id))
  const data = [...new Set(ids)].sort().map((id) => ({ id, object: 'model', created: 0, owned_by: brand }) as const)
  return { object: 'list', data }
}
