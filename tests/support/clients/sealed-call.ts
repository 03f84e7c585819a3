import { headers } from '../../../src/brand.ts'
import { newId } from '../../../src/ids.ts'
import { encapsulatedKeyHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { framed } from '../../../src/protocol/sealed/frames.ts'
import { type SharedSecret, sealBody } from '../../../src/protocol/sealed/hpke.ts'
import { publicKeyOf } from '../../../src/protocol/sealed/sealed-key.ts'
import type { NodeStatus } from '../../../src/protocol/wire/nodes/agent.ts'
import type { SealedKey } from '../../../src/protocol/wire/nodes/sealed-key.ts'
import type { LoneAgent } from '../nodes/lone-agent.ts'
import { statusHeaders } from '../nodes/status-headers.ts'

/** The agent's published keys, newest first. */
export async function sealedKeysOf(agent: LoneAgent): Promise<readonly SealedKey[]> {
  const init = { headers: statusHeaders() }
  const status = (await (await agent.call('GET', '/svc/v1/status', null, init)).json()) as NodeStatus
  return status.sealed_keys ?? []
}

export interface SealedMessage extends SharedSecret {
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** A body sealed for this key, as one message. `pieces`: its frames. */
export async function sealed(key: SealedKey, body: unknown, pieces = 1): Promise<SealedMessage> {
  const text = new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body))
  const size = Math.ceil(text.length / pieces)
  const cut = Array.from({ length: pieces }, (_, at) => text.subarray(at * size, (at + 1) * size))
  const { enc, secret, frames } = await sealBody(publicKeyOf(key) ?? new Uint8Array(), cut)
  return { enc, secret, bytes: new Uint8Array(Buffer.concat(frames.map(framed))) }
}

export interface SealedAsk {
  readonly path?: string
  readonly model?: string
  readonly requestId?: string
  readonly enc?: string
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
}

/** Relays a message to the agent as its gateway would. */
export function relayed(agent: LoneAgent, message: SealedMessage, ask: SealedAsk = {}): Promise<Response> {
  const path = `/svc/v1/sealed${ask.path ?? '/chat/completions'}`
  const model = ask.model ?? 'm-1'
  return fetch(agent.node.url + path, {
    method: 'POST',
    headers: {
      [headers.routerSignature]: agent.signature('POST', path, message.bytes),
      [headers.nodeRequestId]: ask.requestId ?? newId('req'),
      [headers.modelId]: model,
      [headers.sealedModel]: model,
      [headers.upstreamModel]: model,
      [encapsulatedKeyHeader]: ask.enc ?? Buffer.from(message.enc).toString('hex'),
      ...ask.headers,
    },
    body: message.bytes,
    ...(ask.signal === undefined ? {} : { signal: ask.signal }),
  })
}
