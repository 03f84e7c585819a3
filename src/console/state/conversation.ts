import { effect, signal } from '@preact/signals'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import type { DescribedModelList, Model } from '../../protocol/wire/inference/models.ts'
import { brand, callAsCustomer, Refusal, refusalOf } from './api.ts'
import { eventsOf } from './event-stream.ts'
import { callSealed } from './sealed-chat.ts'
import { token } from './session.ts'

/** The strategies that the gateway wrote into the page. */
export const strategies: readonly string[] = (document.documentElement.dataset.strategies ?? '').split(' ')
/** True for a strategy that needs an aggregator. Without one the gateway refuses the request. */
export const aggregates = (strategy: string): boolean => strategy === 'synthesize'

export interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: string
}

/** Kept in memory while somebody is signed in, and never stored. */
export const gatewayKey = signal('')
/** The fingerprint of the node for which this browser seals; empty: it does not. */
export const sealedFor = signal('')
export const conversation = signal<readonly Message[]>([])
effect(() => {
  if (token.value !== null) return
  gatewayKey.value = ''
  sealedFor.value = ''
  conversation.value = []
})

export interface Ask {
  readonly key: string
  readonly model: string
  readonly messages: readonly Message[]
  readonly mixture: object | null
  /** A fingerprint; empty: in the clear. */
  readonly seal: string
  readonly signal: AbortSignal
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
  readonly error?: { readonly code?: string; readonly message?: string }
}

export interface Answered {
  readonly requestId: string | null
  readonly metadata: ChatMetadata | null
}

/** Streams one answer; `more` gets each piece of text. Throws a `Refusal`, also for one that comes inside the stream. */
export async function askChat(
  { key, model, messages, mixture, seal, signal }: Ask,
  more: (text: string) => void,
): Promise<Answered> {
  const body = { model, messages, stream: true, ...(mixture === null ? {} : { [brand]: { mixture } }) }
  const response = await (seal === ''
    ? callAsCustomer('/v1/api/chat/completions', key, { method: 'POST', signal, body })
    : callSealed(seal, key, { signal, body }))
  if (!response.ok || response.body === null) throw await refusalOf(response)
  const requestId = response.headers.get('x-request-id')
  let metadata: ChatMetadata | null = null
  for await (const { data } of eventsOf(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) {
      throw new Refusal(200, chunk.error.code ?? 'unknown', chunk.error.message ?? 'The stream failed', requestId)
    }
    const text = chunk.choices?.[0]?.delta?.content
    if (typeof text === 'string' && text !== '') more(text)
    // What a node tells inside the seal is less, and the gateway's part of it is in the trace.
    if (seal === '')
      metadata = ((chunk as Readonly<Record<string, unknown>>)[brand] as ChatMetadata | undefined) ?? metadata
  }
  return { requestId, metadata }
}

/** The models that chat, of those that the key may call. */
export async function modelsFor(key: string, signal: AbortSignal): Promise<readonly Model[]> {
  const response = await callAsCustomer('/v1/models', key, { signal })
  if (!response.ok) throw await refusalOf(response)
  const { data } = (await response.json()) as DescribedModelList
  return data.filter(({ svc }) => svc.modality === 'chat')
}
