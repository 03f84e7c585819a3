import { textBytes } from '../../../host/budget.ts'
import {
  type Accepted,
  type ChunkIdentity,
  ChunkReader,
  keepAlive,
  type SettledEnd,
  saysNothing,
} from '../../chat/chunk-reader.ts'
import { GrowingText } from '../../chat/growing-text.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { jsonString } from '../../json/json-text.ts'
import { type ReportsAsked, reportMembers } from '../members/server-reports.ts'
import {
  callItem,
  type ItemStatus,
  incompleteReason,
  itemId,
  messageItem,
  partText,
  reasoningItem,
  responseObject,
} from './answer.ts'
import type { Echo } from './echo.ts'
import { ComingProbabilities } from './probabilities.ts'
import { type CalledFunction, calledFunction, type Namespaced, namespaced } from './tools.ts'

const nothing: Accepted = { kind: 'nothing' }
const failed: Accepted = { kind: 'failed' }
const noFunction: CalledFunction = { name: '' }
/**
 * Of text that is kept for the events that repeat it, UTF-16 units: more than any model's answer has. The end repeats it up
 * to four times, in one go.
 */
const keptUnitsMax = 4 * 1024 * 1024

/** An item that is being written. */
interface OpenItem {
  readonly kind: 'text' | 'thought' | 'call'
  readonly id: string
  readonly index: number
  readonly callId: string
  readonly called: CalledFunction
  readonly written: GrowingText
  /** Of its tokens, as JSON with a comma before each; empty where the node gives none. */
  readonly probabilities: GrowingText
}

/** Without the comma before the first. */
const joined = (probabilities: GrowingText): string => probabilities.text.slice(1)

/** A node's chat chunks as the typed events of a response, in their order and numbered. */
export class ResponsesStream extends ChunkReader {
  readonly keepAlive = keepAlive
  private sequence = 0
  private begun = false
  /** The first two events and the last one repeat the request. */
  repeatedBytes = 0
  private keptUnits = 0
  private readonly probabilities = new ComingProbabilities()
  private items = 0
  /** Text or thoughts: one follows the other. */
  private spoken: OpenItem | null = null
  /** By the node's index. Calls may grow side by side, and end with the answer. */
  private readonly calls = new Map<number, OpenItem>()
  /** As JSON: it goes into several events, and a long text must not be encoded again for each. */
  private readonly done: string[] = []
  private readonly functions: Namespaced
  /** What of the server's reports reaches the client. */
  private asked: ReportsAsked | null
  /** Of the last chunk, each with a comma before it. */
  private timed = ''
  private progress = ''

  /** `wanted`: reports of the server's work that the client wants in its events, where llama.cpp puts them. */
  constructor(
    private readonly identity: ChunkIdentity,
    private readonly echo: Echo,
    private readonly wanted: ReportsAsked | null = null,
  ) {
    super()
    this.asked = wanted
    this.functions = namespaced(echo.tools)
  }

  /** Another account's node reports to nobody but its owner (§35). */
  from(own: boolean): void {
    this.asked = own ? this.wanted : null
  }

  protected override reported({ timings, prompt_progress }: Json): void {
    if (this.asked === null) return
    this.timed = reportMembers({ timings }, this.asked)
    this.progress = reportMembers({ prompt_progress }, this.asked)
  }

  override get keptBytes(): number {
    return textBytes(this.keptUnits + this.probabilities.units)
  }

  accept(data: string): Accepted {
    const choices = this.read(data)
    if (typeof choices === 'string') return { kind: choices }
    const [choice] = choices
    if (choice === undefined) return nothing
    this.probabilities.hold(choice)
    // Some nodes put their last words into the chunk that ends them.
    const isEnd = choice.finish_reason !== null && saysNothing(choice)
    const text = isEnd ? '' : this.said(choice.delta as Json)
    if (this.keptUnits > keptUnitsMax || this.probabilities.tooMany) return failed
    return isEnd ? nothing : { kind: 'chunk', text }
  }

  private event(type: string, members: object): string {
    return this.eventOf(type, JSON.stringify(members).slice(1, -1))
  }

  /** `members`: as in an object's JSON. */
  private eventOf(type: string, members: string): string {
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.sequence++},${members}}\n\n`
  }

  private start(): string {
    if (this.begun) return ''
    this.begun = true
    const response = responseObject(this.identity, this.echo, [], null)
    const text = `"response":${JSON.stringify(response)}`
    this.repeatedBytes = 3 * Buffer.byteLength(text)
    return this.eventOf('response.created', text) + this.eventOf('response.in_progress', text)
  }

  /** The request is not repeated: a long prompt is read in many steps. */
  private progressed(): string {
    if (this.progress === '') return ''
    const response = { id: this.identity.id, object: 'response', status: 'in_progress' }
    return this.eventOf('response.in_progress', `"response":${JSON.stringify(response)}${this.timed}${this.progress}`)
  }

  private said(delta: Json): string {
    let out = this.start() + this.progressed()
    const thought = thoughtOf(delta)
    if (thought !== '') out += this.speak('thought', thought)
    const text = delta.content ?? delta.refusal
    if (typeof text === 'string' && text !== '') out += this.speak('text', text)
    const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls : []
    for (const call of calls) if (isObject(call)) out += this.call(call)
    return out
  }

  private open(kind: OpenItem['kind'], callId = '', called = noFunction): OpenItem {
    const index = this.items++
    this.keptUnits += callId.length + called.name.length
    const id = itemId(kind === 'text' ? 'msg' : kind === 'thought' ? 'rs' : 'fc', this.identity, index)
    return {
      kind,
      id,
      index,
      callId: callId === '' ? id : callId,
      called,
      written: new GrowingText(),
      probabilities: new GrowingText(),
    }
  }

  private speak(kind: 'text' | 'thought', delta: string): string {
    let out = ''
    if (this.spoken?.kind !== kind) {
      out += this.endSpoken('completed')
      this.spoken = this.open(kind)
      out += this.added(this.spoken) + this.partEvent('response.content_part.added', this.spoken, '""')
    }
    this.write(this.spoken, delta)
    const members = JSON.stringify({ ...this.place(this.spoken), delta }).slice(1, -1)
    if (kind === 'thought') return out + this.eventOf('response.reasoning_text.delta', members)
    const probabilities = this.probabilities.take(this.spoken.probabilities)
    return out + this.eventOf('response.output_text.delta', `${members},"logprobs":[${probabilities}]${this.timed}`)
  }

  private call(call: Json): string {
    const index = call.index as number
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
    item.written.add(delta)
    this.keptUnits += delta.length
  }

  private place({ id, index }: OpenItem) {
    return { item_id: id, output_index: index, content_index: 0 }
  }

  private partEvent(type: string, item: OpenItem, quoted: string): string {
    const place = JSON.stringify(this.place(item)).slice(1, -1)
    return this.eventOf(type, `${place},"part":${partText(item.kind, quoted, joined(item.probabilities))}`)
  }

  /** Its JSON. `quoted`: the written text, as JSON; null if it has only begun. */
  private itemText(
    { kind, id, callId, called, probabilities }: OpenItem,
    status: ItemStatus,
    quoted: string | null,
  ): string {
    if (kind === 'call') {
      const begun = JSON.stringify(callItem(id, status, { call_id: callId, ...called, arguments: '' }))
      return quoted === null ? begun : `${begun.slice(0, -3)}${quoted}}`
    }
    const begun = JSON.stringify(kind === 'text' ? messageItem(id, status, []) : reasoningItem(id, status, []))
    return quoted === null ? begun : `${begun.slice(0, -2)}${partText(kind, quoted, joined(probabilities))}]}`
  }

  private added(item: OpenItem): string {
    const text = this.itemText(item, 'in_progress', null)
    return this.eventOf('response.output_item.added', `"output_index":${item.index},"item":${text}`)
  }

  private ended(item: OpenItem, status: ItemStatus, quoted: string): string {
    const text = this.itemText(item, status, quoted)
    this.done[item.index] = text
    return this.eventOf('response.output_item.done', `"output_index":${item.index},"item":${text}`)
  }

  private endSpoken(status: ItemStatus): string {
    const item = this.spoken
    if (item === null) return ''
    this.spoken = null
    const isText = item.kind === 'text'
    if (isText) this.probabilities.take(item.probabilities)
    const type = isText ? 'response.output_text.done' : 'response.reasoning_text.done'
    const quoted = jsonString(item.written.text)
    const place = JSON.stringify(this.place(item)).slice(1, -1)
    // In this order: each event takes the next number.
    const said = this.eventOf(
      type,
      `${place},"text":${quoted}${isText ? `,"logprobs":[${joined(item.probabilities)}]` : ''}`,
    )
    return said + this.partEvent('response.content_part.done', item, quoted) + this.ended(item, status, quoted)
  }

  private endCalls(status: ItemStatus): string {
    let out = ''
    for (const item of this.calls.values()) {
      const quoted = jsonString(item.written.text)
      const place = JSON.stringify({ item_id: item.id, output_index: item.index }).slice(1, -1)
      out += this.eventOf('response.function_call_arguments.done', `${place},"arguments":${quoted}`)
      out += this.ended(item, status, quoted)
    }
    this.calls.clear()
    return out
  }

  /** A response with the items that are done. No member before its output has a list. */
  private responseEvent(type: string, response: object, bytesLeft = Number.POSITIVE_INFINITY): string {
    const done = this.done.filter((item) => item !== undefined).join(',')
    const items = Buffer.byteLength(done) <= bytesLeft ? done : ''
    const text = JSON.stringify(response).replace('"output":[]', () => `"output":[${items}]`)
    const times = reportMembers({ timings: this.timings }, this.asked)
    return this.eventOf(type, `"response":${text}${times}`)
  }

  /** The last event carries the usage; there is no separate chunk. */
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
    const response = responseObject(this.identity, this.echo, [], { settled, finish })
    return begun + ends + this.responseEvent(whole ? 'response.completed' : 'response.incomplete', response)
  }

  /** Lists the finished items again, unless they are too long. */
  failure(error: object, bytesLeft?: number): string {
    const { message } = error as { readonly message: string }
    const begun = this.start()
    const running = responseObject(this.identity, this.echo, [], null)
    const response = { ...running, status: 'failed', error: { code: 'server_error', message } }
    return begun + this.responseEvent('response.failed', response, bytesLeft)
  }
}
