import { textBytes } from '../../host/budget.ts'
import { matchedStop, type Stopped } from '../dialects/members/matched-stop.ts'
import { isObject, type Json } from '../json/json-object.ts'
import { longBytesMin } from './answer-bounds.ts'
import { ChunkReader, knownFinishReason } from './chunk-reader.ts'
import { completionOf, type PublicChoice, type PublicCompletion } from './completion.ts'
import { flatText, looseShare, looseUnitsMin } from './flat-text.ts'
import { SseSplitter } from './sse.ts'

/** `finishing`: all has been said but, perhaps, the usage. `broken`: no answer will come of it. */
export type GatherState = 'open' | 'finishing' | 'complete' | 'broken'

/** Of text that is kept, UTF-16 units: as much as a whole answer may have. */
const keptUnitsMax = 16 * 1024 * 1024
/** Assumed size of an object besides its texts. */
const objectUnits = 64
/** Of anything but text, as much as a whole answer's JSON may have: it is written in one go. */
const keptValuesMax = 500_000
/** What one costs at least where it is written. */
const valueBytes = 4
/** Names that a message gets chunk by chunk, as many as an object of a whole answer may have. */
const namesMax = 10_000

/** Each says the same in every chunk that has it: they are not parts of a longer text. */
const saidOnce: ReadonlySet<string> = new Set(['role', 'id', 'type'])

/** Without a prototype: a node may call a member `__proto__`. */
type Growing = Record<string, unknown>
const emptyObject = (): Growing => Object.create(null) as Growing

interface GatheredChoice {
  readonly message: Json
  /** By `index`. */
  readonly toolCalls: Map<number, Json>
  readonly logprobs: Json
  finishReason: string | null
  stopped: Stopped
}

/**
 * A whole answer, put together from the chunks of a stream: for model servers that notice late that the client of a
 * whole answer has left (§27). Chunks are read as in any stream. Texts are joined, tool calls are distinguished by
 * the `index` that the reader gives them, and of any other field the last value counts.
 */
export class GatheredAnswer extends ChunkReader {
  /** UTF-16 units of a text that is kept: ropes of short pieces since they were last made one. */
  private looseUnits = 0
  /** The error that came in place of a chunk; empty where none did. */
  errorSaid = ''
  private state: GatherState = 'open'
  private keptUnits = 0
  private keptValues = 0
  private names = 0
  private readonly choices = new Map<number, GatheredChoice>()
  private readonly splitter = new SseSplitter({
    data: (payload) => this.event(payload),
    errorLine: (payload) => this.break(payload),
  })

  /** `keeps`: called after each chunk with the bytes held; if it returns false, the answer is broken. */
  constructor(private readonly keeps: (bytes: number) => boolean = () => true) {
    super()
  }

  push(chunk: Uint8Array): GatherState {
    if (!this.splitter.push(chunk) || !this.keeps(this.keptBytes)) this.break()
    return this.state
  }

  override get keptBytes(): number {
    return textBytes(this.keptUnits) + this.splitter.keptBytes
  }

  /** The body has ended. */
  end(): GatherState {
    this.splitter.end()
    if (this.state === 'finishing') this.state = 'complete'
    else if (this.state === 'open') this.state = 'broken'
    return this.state
  }

  /** As `publicCompletion` makes it of a whole answer. Ask only once it is finished. */
  completion(): PublicCompletion {
    const choices = [...this.choices].sort(([a], [b]) => a - b).map(([index, choice]) => publicChoice(index, choice))
    return completionOf(choices, this.usage, this.svc, this.cachedTokens, this.timings)
  }

  private break(said = ''): void {
    if (this.state === 'complete' || this.state === 'broken') return
    this.state = 'broken'
    this.errorSaid = said
  }

  private event(payload: string): void {
    if (this.state === 'complete' || this.state === 'broken') return
    if (payload === '[DONE]') {
      if (this.finish !== null) this.state = 'complete'
      return
    }
    const choices = this.read(payload)
    // A line that is not JSON would leave an invisible hole in the answer.
    if (typeof choices === 'string') return this.break(choices === 'failed' ? payload : '')
    this.hear(choices)
    if (this.finish !== null && this.state === 'open') this.state = 'finishing'
  }

  /** Choices of a chunk that another reader has read. */
  hear(choices: readonly Json[]): void {
    if (this.state === 'complete' || this.state === 'broken') return
    for (const choice of choices) this.add(choice)
    if (this.looseUnits > Math.max(looseUnitsMin, this.keptUnits / looseShare)) this.flatten()
    if (this.exceeds()) this.break()
  }

  /** Too much to be read and written in one turn of the event loop. */
  get long(): boolean {
    return this.keptUnits + valueBytes * this.keptValues > longBytesMin
  }

  private exceeds(): boolean {
    const { keptUnits, keptValues, names } = this
    return keptUnits > keptUnitsMax || keptValues > keptValuesMax || names > namesMax
  }

  private add({ index, delta, finish_reason: finishReason, logprobs, [matchedStop]: stop }: Json & Stopped): void {
    const at = index as number
    let choice = this.choices.get(at)
    if (choice === undefined) {
      choice = {
        message: emptyObject(),
        toolCalls: new Map(),
        logprobs: emptyObject(),
        finishReason: null,
        stopped: {},
      }
      this.choices.set(at, choice)
      this.keptUnits += objectUnits
    }
    const { tool_calls: calls, ...said } = delta as Json
    this.merge(choice.message, said)
    if (Array.isArray(calls)) this.addToolCalls(choice, calls)
    if (isObject(logprobs)) this.merge(choice.logprobs, logprobs)
    if (typeof finishReason === 'string') choice.finishReason = finishReason
    if (stop !== undefined) choice.stopped = { [matchedStop]: stop }
  }

  private addToolCalls({ toolCalls }: GatheredChoice, calls: readonly unknown[]): void {
    for (const call of calls) {
      if (!isObject(call)) continue
      const { index, ...said } = call
      const at = index as number
      const known = toolCalls.get(at)
      if (known === undefined) toolCalls.set(at, this.copy(said))
      else this.merge(known, said)
    }
  }

  private merge(into: Growing, more: Json): void {
    for (const key of Object.keys(more)) {
      if (into[key] === undefined) this.names++
      into[key] = this.merged(key, into[key], more[key])
    }
  }

  /** A text that was put together from pieces of four characters takes twelve times its length until it is read. */
  private flatten(): void {
    this.looseUnits = 0
    for (const { message, toolCalls } of this.choices.values()) {
      flattened(message as Growing)
      for (const call of toolCalls.values()) flattened(call as Growing)
    }
  }

  private merged(key: string, known: unknown, value: unknown): unknown {
    if (known === undefined || known === null) return this.kept(value)
    if (value === null) return known
    if (typeof known === 'string' && typeof value === 'string') {
      if (saidOnce.has(key)) return known
      this.keptUnits += value.length
      this.looseUnits += value.length
      return known + value
    }
    if (Array.isArray(known) && Array.isArray(value)) {
      for (const item of value) known.push(this.kept(item))
      return known
    }
    if (!isObject(known) || !isObject(value)) return this.kept(value)
    this.merge(known, value)
    return known
  }

  /** A copy that later chunks may add to. */
  private kept(value: unknown): unknown {
    this.keptUnits += typeof value === 'string' ? value.length : 1
    this.keptValues++
    if (Array.isArray(value)) return value.map((item) => this.kept(item))
    return isObject(value) ? this.copy(value) : value
  }

  private copy(value: Json): Json {
    this.keptUnits += objectUnits
    const copy = emptyObject()
    for (const key of Object.keys(value)) {
      this.keptUnits += key.length
      copy[key] = this.kept(value[key])
    }
    return copy
  }
}

function flattened(value: Growing): void {
  for (const key of Object.keys(value)) {
    const member = value[key]
    if (typeof member === 'string') value[key] = flatText(member)
    else if (isObject(member)) flattened(member as Growing)
  }
}

function publicChoice(
  index: number,
  { message, toolCalls, logprobs, finishReason, stopped }: GatheredChoice,
): PublicChoice {
  const { role, content, ...others } = message
  const calls = [...toolCalls].sort(([a], [b]) => a - b).map(([, call]) => call)
  // An answer with tool calls or a refusal has null content; any other answer without text has empty content.
  const silent = calls.length > 0 || typeof others.refusal === 'string' ? null : ''
  const whole = { role: role ?? 'assistant', content: content ?? silent, ...others }
  return {
    index,
    message: calls.length === 0 ? whole : { ...whole, tool_calls: calls },
    finish_reason: knownFinishReason(finishReason),
    ...stopped,
    ...(Object.keys(logprobs).length === 0 ? {} : { logprobs }),
  }
}
