import {
  type Accepted,
  type ChunkIdentity,
  ChunkReader,
  type SettledEnd,
  saysNothing,
} from '../../chat/chunk-reader.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { anthropicErrorType } from '../../json/error-envelopes.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { messageHead, startUsage, stopOf, textBlock, thinkingBlock, toolBlock, usageOf } from './answer.ts'

const event = (type: string, members: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`
const ping = event('ping', {})
const nothing: Accepted = { kind: 'nothing' }
const failed: Accepted = { kind: 'failed' }
const noUsage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

/** A node's chat chunks as the events of a Messages stream: one block after the other, each begun and ended. */
export class MessagesStream extends ChunkReader {
  /** Clients pass over it wherever it stands. */
  readonly keepAlive = ping
  private begun = false
  /** Of the block that is open; -1: none was. */
  private index = -1
  private open: 'text' | 'thinking' | number | null = null
  /** Indexes of the node's tool calls that have a block. */
  private readonly tools = new Set<number>()

  /** `stops`: of the request. */
  constructor(
    private readonly identity: ChunkIdentity,
    private readonly stops: unknown = null,
  ) {
    super()
  }

  accept(data: string): Accepted {
    const choices = this.read(data)
    if (typeof choices === 'string') return { kind: choices }
    const [choice] = choices
    // Some nodes put their last words into the chunk that ends them.
    if (choice === undefined || (choice.finish_reason !== null && saysNothing(choice))) return nothing
    const text = this.said(choice.delta as Json)
    return text === null ? failed : { kind: 'chunk', text }
  }

  /** null: the node goes back to a call that has ended, which no stream of blocks can follow. */
  private said(delta: Json): string | null {
    let out = this.start()
    const thought = thoughtOf(delta)
    if (thought !== '') {
      out += this.block('thinking', thinkingBlock(''))
      out += this.delta({ type: 'thinking_delta', thinking: thought })
    }
    const text = delta.content ?? delta.refusal
    if (typeof text === 'string' && text !== '') {
      out += this.block('text', textBlock(''))
      out += this.delta({ type: 'text_delta', text })
    }
    const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls : []
    for (const call of calls) {
      const part = isObject(call) ? this.call(call) : ''
      if (part === null) return null
      out += part
    }
    return out
  }

  private call(call: Json): string | null {
    const index = call.index as number
    const { name, arguments: input } = isObject(call.function) ? call.function : ({} as Json)
    let out = ''
    if (!this.tools.has(index)) {
      if (typeof name !== 'string') return ''
      this.tools.add(index)
      const id = typeof call.id === 'string' && call.id !== '' ? call.id : `toolu_${this.identity.id}_${index}`
      out = this.block(index, toolBlock(id, name, {}))
    } else if (this.open !== index) return null
    return typeof input === 'string' && input !== ''
      ? out + this.delta({ type: 'input_json_delta', partial_json: input })
      : out
  }

  private start(): string {
    if (this.begun) return ''
    this.begun = true
    const message = {
      ...messageHead(this.identity),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      // Not known yet: the last events carry the usage.
      usage: { ...usageOf(noUsage), ...startUsage },
    }
    return event('message_start', { message }) + ping
  }

  private block(kind: 'text' | 'thinking' | number, content_block: object): string {
    if (this.open === kind) return ''
    const ended = this.stop()
    this.open = kind
    this.index++
    return ended + event('content_block_start', { index: this.index, content_block })
  }

  private delta(delta: object): string {
    return event('content_block_delta', { index: this.index, delta })
  }

  private stop(): string {
    if (this.open === null) return ''
    this.open = null
    return event('content_block_stop', { index: this.index })
  }

  /** The last events carry the usage; there is no separate chunk. */
  finishChunk(): string {
    return ''
  }

  last({ usage, metadata }: SettledEnd): string {
    const [choice] = this.finish ?? []
    const delta = {
      container: null,
      ...stopOf(choice, this.tools.size > 0, this.stops),
      stop_details: null,
    }
    return `${this.start()}${this.stop()}${event('message_delta', { delta, usage: usageOf(usage), svc: metadata })}${event('message_stop', {})}`
  }

  /** No `message_stop` follows, so that no client takes it for an end. */
  failure(error: object): string {
    const { message, svc } = error as {
      readonly message: string
      readonly svc: { readonly status: number; readonly request_id: string }
    }
    const shown = { type: anthropicErrorType(svc.status), message, svc }
    return event('error', { error: shown, request_id: svc.request_id })
  }
}
