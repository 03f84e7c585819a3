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

/** What a person sends beside a text: read into memory, and never stored. */
export interface Picture {
  readonly name: string
  readonly dataUrl: string
}

export interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: string
  readonly picture?: Picture
}

const onWire = ({ role, content, picture }: Message) => ({
  role,
  content:
    picture === undefined
      ? content
      : [
          { type: 'text', text: content },
          { type: 'image_url', image_url: { url: picture.dataUrl } },
        ],
})

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
  /** Further fields of the request, such as `tools` and `response_format`. */
  readonly fields: object
  /** A fingerprint; empty: in the clear. */
  readonly seal: string
  readonly signal: AbortSignal
}

interface ToolCallPart {
  readonly index?: number
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly tool_calls?: readonly ToolCallPart[] }
  }[]
  readonly error?: { readonly code?: string; readonly message?: string }
}

export interface Answered {
  readonly requestId: string | null
  readonly metadata: ChatMetadata | null
}

/** The calls of tools in an answer, whose parts arrive one by one. The number of calls is bounded. */
class ToolCalls {
  private readonly calls = new Map<number, string>()

  add(parts: readonly ToolCallPart[]): void {
    for (const { index = 0, function: called } of parts) {
      if (this.calls.size >= toolCallsMax && !this.calls.has(index)) continue
      const known = this.calls.get(index)
      this.calls.set(index, `${known ?? `${called?.name ?? ''}(`}${called?.arguments ?? ''}`)
    }
  }

  text(): string {
    return [...this.calls.values()].map((call) => `${call})`).join('\n')
  }
}
const toolCallsMax = 128

/** Streams one answer; `more` gets each piece of text. Throws a `Refusal`, also for one that comes inside the stream. */
export async function askChat(
  { key, model, messages, mixture, fields, seal, signal }: Ask,
  more: (text: string) => void,
): Promise<Answered> {
  const own = { model, messages: messages.map(onWire), stream: true }
  const body = { ...fields, ...own, ...(mixture === null ? {} : { [brand]: { mixture } }) }
  const response = await (seal === ''
    ? callAsCustomer('/v1/api/chat/completions', key, { method: 'POST', signal, body })
    : callSealed(seal, key, { signal, body }))
  if (!response.ok || response.body === null) throw await refusalOf(response)
  const requestId = response.headers.get('x-request-id')
  let metadata: ChatMetadata | null = null
  const tools = new ToolCalls()
  for await (const { data } of eventsOf(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) {
      throw new Refusal(200, chunk.error.code ?? 'unknown', chunk.error.message ?? 'The stream failed', requestId)
    }
    const delta = chunk.choices?.[0]?.delta
    tools.add(delta?.tool_calls ?? [])
    const text = delta?.content
    if (typeof text === 'string' && text !== '') more(text)
    // What a node tells inside the seal is less, and the gateway's part of it is in the trace.
    if (seal === '')
      metadata = ((chunk as Readonly<Record<string, unknown>>)[brand] as ChatMetadata | undefined) ?? metadata
  }
  const called = tools.text()
  if (called !== '') more(called)
  return { requestId, metadata }
}

/** The models that chat, of those that the key may call. */
export async function modelsFor(key: string, signal: AbortSignal): Promise<readonly Model[]> {
  const response = await callAsCustomer('/v1/models', key, { signal })
  if (!response.ok) throw await refusalOf(response)
  const { data } = (await response.json()) as DescribedModelList
  return data.filter(({ svc }) => svc.modality === 'chat')
}
