import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { clientIdPattern, modelIdPattern } from '../../ids.ts'
import type { Place } from '../membership/membership.ts'
import { readsTimed } from '../receipts/receipt-signer.ts'

/** What the gateway says of a sealed call, in the clear. */
export interface SealedOrder {
  readonly requestId: string
  /** The model's public id, for the receipt. */
  readonly modelId: string
  /** As the client wrote it in the clear: the sealed body must name the same. */
  readonly clientModel: string
  /** The node's own name for it. */
  readonly upstreamModel: string
  readonly nodeId: string
  readonly nodeClass: string
  readonly runtimeId: string | null
  /** What the gateway has set aside; null: it counts no tokens. */
  readonly maxTokens: number | null
  /** The gateway reads receipts that say when they were signed. */
  readonly timed: boolean
}

const slug = /^[A-Za-z0-9._-]{1,64}$/
const tokens = /^[1-9][0-9]{0,6}$/

/** Throws `invalid_request`: only a gateway of another version, or a broken one, sends others. */
export function readOrder(request: Request, { membership }: Place): SealedOrder {
  const sent = (name: string) => request.headers.get(name) ?? ''
  const order = {
    requestId: sent(headers.nodeRequestId),
    modelId: sent(headers.modelId),
    clientModel: sent(headers.sealedModel),
    upstreamModel: sent(headers.upstreamModel),
    nodeId: membership?.nodeId ?? '',
    nodeClass: request.headers.get(headers.nodeClass) ?? membership?.enrollment.node_class ?? '',
    runtimeId: request.headers.get(headers.runtimeId),
    maxTokens: request.headers.get(headers.maxTokens),
    timed: readsTimed(request.headers),
  }
  const fits =
    clientIdPattern.test(order.requestId) &&
    [order.modelId, order.clientModel, order.upstreamModel].every((model) => modelIdPattern.test(model)) &&
    slug.test(order.nodeClass) &&
    (order.maxTokens === null || tokens.test(order.maxTokens))
  if (!fits) throw new Problem('invalid_request', { detail: 'A header of the call is not valid' })
  return { ...order, maxTokens: order.maxTokens === null ? null : Number(order.maxTokens) }
}
