import {
  type Accepted,
  type ChunkIdentity,
  ChunkReader,
  keepAlive,
  type SettledEnd,
  saysNothing,
} from '../../chat/chunk-reader.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import {
  callItem,
  type ItemStatus,
  incompleteReason,
  itemId,
  messageItem,
  type OutputItem,
  reasoningItem,
  responseObject,
  textPart,
  thoughtPart,
} from './answer.ts'
import type { Echo } from './echo.ts'
import { type CalledFunction, calledFunction, type Namespaced, namespaced } from './tools.ts'

const nothing: Accepted = { kind: 'nothing' }
const failed: Accepted = { kind: 'failed' }
const noFunction: CalledFunction = { name: '' }
/** Of text that is kept for the events that repeat it, UTF-16 units: as much as a whole answer may have. */
const keptUnitsMax = 16 * 1024 * 1024
/** What an item costs beside its text: a node could else begin items without an end. */
const itemUnits = 256

/** An item that is being written. */
interface OpenItem {
  readonly kind: 'text' | 'thought' | 'call'
  readonly id: string
  readonly index: number
  readonly callId: string
  readonly called: CalledFunction
  written: string
}

/** A node's chat chunks as the typed events of a response, in their order and numbered. */
export class ResponsesStream extends ChunkReader {
  readonly keepAlive = keepAlive
  private sequence = 0
  private begun = false
  private keptUnits = 0
  private items = 0
  /** Text or thoughts: one follows the other. */
  private spoken: OpenItem | null = null
  /** By the node's index. Calls may grow side by side, and end with the answer. */
  private readonly calls = new Map<number, OpenItem>()
  private readonly done: OutputItem[] = []
  private readonly functions: Namespaced

  constructor(
    private readonly identity: ChunkIdentity,
    private readonly echo: Echo,
  ) {
    super()
    this.functions = namespaced(echo.tools)
  }

  accept(data: string): Accepted {
    const choices = this.read(data)
    if (typeof choices === 'string') return { kind: choices }
    const [choice] = choices
    // Some nodes put their last words into the chunk that ends them.
    if (choice === undefined || (choice.finish_reason !== null && saysNothing(choice))) return nothing
    const text = this.said(choice.delta as Json)
    return this.keptUnits > keptUnitsMax ? failed : { kind: 'chunk', text }
  }

  private event(type: string, members: object): string {
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.sequence++, ...members })}\n\n`
  }

  private start(): string {
    if (this.begun) return ''
    this.begun = true
    const response = responseObject(this.identity, this.echo, [], null)
    return this.event('response.created', { response }) + this.event('response.in_progress', { response })
  }

  private said(delta: Json): string {
    let out = this.start()
    const thought = thoughtOf(delta)
    if (thought !== '') out += this.speak('thought', thought)
    const text = delta.content ?? delta.refusal
    if (typeof text === 'string' && text !== '') out += this.speak('text', text)
    const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls : []
    for (const [at, call] of calls.entries()) {
      // One chunk may have as many calls as a node can write.
      if (this.keptUnits > keptUnitsMax) break
      if (isObject(call)) out += this.call(call, at)
    }
    return out
  }

  private open(kind: OpenItem['kind'], callId = '', called = noFunction): OpenItem {
    const index = this.items++
    this.keptUnits += itemUnits + callId.length + called.name.length
    const id = itemId(kind === 'text' ? 'msg' : kind === 'thought' ? 'rs' : 'fc', this.identity, index)
    return { kind, id, index, callId: callId === '' ? id : callId, called, written: '' }
  }

  private speak(kind: 'text' | 'thought', delta: string): string {
    let out = ''
    if (this.spoken?.kind !== kind) {
      out += this.endSpoken('completed')
      this.spoken = this.open(kind)
      out += this.added(this.spoken) + this.event('response.content_part.added', this.part(this.spoken, ''))
    }
    this.write(this.spoken, delta)
    const type = kind === 'text' ? 'response.output_text.delta' : 'response.reasoning_text.delta'
    return out + this.event(type, { ...this.place(this.spoken), delta, ...(kind === 'text' ? { logprobs: [] } : {}) })
  }

  private call(call: Json, at: number): string {
    const index = typeof call.index === 'number' ? call.index : at
    const { name, arguments: delta } = isObject(call.function) ? call.function : ({} as Json)
    let item = this.calls.get(index)
    let out = ''
    if (item === undefined) {
      if (typeof name !== 'string') return ''
      out += this.endSpoken('completed')
      const called = calledFunction(this.functions, name)
      item = this.open('call', typeof call.id === 'string' ? call.id : '', called)
      this.calls.set(index, item)
      out += this.added(item)
    }
    if (typeof delta !== 'string' || delta === '') return out
    this.write(item, delta)
    const members = { item_id: item.id, output_index: item.index, delta }
    return out + this.event('response.function_call_arguments.delta', members)
  }

  private write(item: OpenItem, delta: string): void {
    item.written += delta
    this.keptUnits += delta.length
  }

  private place({ id, index }: OpenItem) {
    return { item_id: id, output_index: index, content_index: 0 }
  }

  private part(item: OpenItem, text: string) {
    return { ...this.place(item), part: item.kind === 'text' ? textPart(text) : thoughtPart(text) }
  }

  private itemOf({ kind, id, callId, called, written }: OpenItem, status: ItemStatus): OutputItem {
    if (kind === 'call') return callItem(id, status, { call_id: callId, ...called, arguments: written })
    const empty = status === 'in_progress'
    if (kind === 'text') return messageItem(id, status, empty ? [] : [textPart(written)])
    return reasoningItem(id, status, empty ? [] : [thoughtPart(written)])
  }

  private added(item: OpenItem): string {
    const members = { output_index: item.index, item: this.itemOf(item, 'in_progress') }
    return this.event('response.output_item.added', members)
  }

  private ended(item: OpenItem, status: ItemStatus): string {
    const whole = this.itemOf(item, status)
    this.done[item.index] = whole
    return this.event('response.output_item.done', { output_index: item.index, item: whole })
  }

  private endSpoken(status: ItemStatus): string {
    const item = this.spoken
    if (item === null) return ''
    this.spoken = null
    const isText = item.kind === 'text'
    const type = isText ? 'response.output_text.done' : 'response.reasoning_text.done'
    const text = { ...this.place(item), text: item.written, ...(isText ? { logprobs: [] } : {}) }
    const part = this.part(item, item.written)
    // In this order: each event takes the next number.
    return this.event(type, text) + this.event('response.content_part.done', part) + this.ended(item, status)
  }

  private endCalls(status: ItemStatus): string {
    let out = ''
    for (const item of this.calls.values()) {
      const { id: item_id, index: output_index, written } = item
      const members = { item_id, output_index, arguments: written }
      out += this.event('response.function_call_arguments.done', members) + this.ended(item, status)
    }
    this.calls.clear()
    return out
  }

  /** The usage stands in the last event; there is none apart. */
  finishChunk(): string {
    return ''
  }

  last(settled: SettledEnd): string {
    const [choice] = this.finish ?? []
    const begun = this.start()
    const finish = choice?.finish_reason
    const whole = incompleteReason(finish) === null
    const status = whole ? 'completed' : 'incomplete'
    const ends = this.endSpoken(status) + this.endCalls(status)
    const response = responseObject(this.identity, this.echo, this.done, { settled, finish })
    return begun + ends + this.event(whole ? 'response.completed' : 'response.incomplete', { response })
  }

  failure(error: object): string {
    const { message } = error as { readonly message: string }
    const begun = this.start()
    const running = responseObject(this.identity, this.echo, this.done.filter(Boolean), null)
    const response = { ...running, status: 'failed', error: { code: 'server_error', message } }
    return begun + this.event('response.failed', { response })
  }
}
