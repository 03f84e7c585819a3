import { textBytes } from '../../../host/budget.ts'
import { type Accepted, type ChunkIdentity, ChunkReader, type SettledEnd } from '../../chat/chunk-reader.ts'
import { GrowingText } from '../../chat/growing-text.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { callOf, endOf, headOf, logprobsOf, type OllamaCall, type Saying, textOf } from './answer.ts'

const nothing: Accepted = { kind: 'nothing' }
const failed: Accepted = { kind: 'failed' }
/** Bound for the arguments of all calls of one answer, which are sent whole, UTF-16 units. */
const argumentsUnitsMax = 4 * 1024 * 1024

interface GatheredCall {
  readonly id: unknown
  readonly name: string
  readonly input: GrowingText
}

/** A node's chat chunks as Ollama's stream: a line of JSON each, calls whole before the end. */
export class OllamaStream extends ChunkReader {
  /** There are no comments in such a stream, and clients read every line: one that says nothing. */
  readonly keepAlive: string
  private readonly head: object
  private readonly calls = new Map<number, GatheredCall>()
  private argumentsUnits = 0

  constructor(
    identity: ChunkIdentity,
    private readonly saying: Saying,
  ) {
    super()
    this.head = headOf(identity)
    this.keepAlive = this.line({ ...saying({ text: '', thought: '' }), done: false })
  }

  override get keptBytes(): number {
    return textBytes(this.argumentsUnits)
  }

  accept(data: string): Accepted {
    const choices = this.read(data)
    if (typeof choices === 'string') return { kind: choices }
    const [choice] = choices
    if (choice === undefined || choice.finish_reason !== null) return nothing
    const text = this.said(choice)
    return text === null ? failed : { kind: 'chunk', text }
  }

  /** null: the arguments exceed the bound. */
  private said({ delta, logprobs }: Json): string | null {
    const words = isObject(delta) ? delta : {}
    if (!this.gather(words.tool_calls)) return null
    const said = { text: textOf(words), thought: thoughtOf(words) }
    if (said.text === '' && said.thought === '') return ''
    return this.line({ ...this.saying(said), ...logprobsOf(logprobs), done: false })
  }

  private gather(calls: unknown): boolean {
    for (const call of Array.isArray(calls) ? calls : []) {
      if (!isObject(call)) continue
      const index = call.index as number
      const { name, arguments: input } = isObject(call.function) ? call.function : ({} as Json)
      if (typeof name === 'string' && !this.calls.has(index)) {
        this.calls.set(index, { id: call.id, name, input: new GrowingText() })
      }
      const known = this.calls.get(index)
      if (known === undefined || typeof input !== 'string') continue
      known.input.add(input)
      this.argumentsUnits += input.length
    }
    return this.argumentsUnits <= argumentsUnitsMax
  }

  private gathered(): readonly OllamaCall[] {
    const calls = [...this.calls].sort(([a], [b]) => a - b).map(([, call]) => call)
    return calls.map(({ id, name, input }, index) => callOf(id, name, input.text, index))
  }

  private line(members: object): string {
    return `${JSON.stringify({ ...this.head, ...members })}\n`
  }

  /** The last line carries the usage; there is no separate chunk. */
  finishChunk(): string {
    return ''
  }

  last(end: SettledEnd): string {
    const [choice] = this.finish ?? []
    // Some nodes put their last words into the chunk that ends them.
    const rest = choice === undefined ? '' : (this.said(choice) ?? '')
    const calls = this.gathered()
    const called =
      calls.length === 0 ? '' : this.line({ ...this.saying({ text: '', thought: '', calls }), done: false })
    const said = this.saying({ text: '', thought: '' })
    return `${rest}${called}${this.line({ ...said, ...endOf(choice?.finish_reason, end, true) })}`
  }

  /** Clients throw the message of a line with an error. */
  failure(error: object): string {
    const { message, svc } = error as { readonly message: string; readonly svc: object }
    return `${JSON.stringify({ error: message, svc })}\n`
  }
}
