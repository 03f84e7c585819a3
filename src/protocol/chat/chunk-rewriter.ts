import { type ReportsAsked, reportMembers } from '../dialects/members/server-reports.ts'
import { foreignJson } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'
import { jsonString } from '../json/json-text.ts'
import type { Block } from './answer-bounds.ts'
import { answerEnd } from './answer-end.ts'
import { type Accepted, type ChunkIdentity, ChunkReader, finishes, keepAlive, type SettledEnd } from './chunk-reader.ts'
import { LearntEvent } from './sse.ts'
import { asciiWeight, textWeight } from './token-estimate.ts'

const nothing: Accepted = { kind: 'nothing' }
const malformed: Accepted = { kind: 'malformed' }
const failed: Accepted = { kind: 'failed' }

/** Takes the events that were rewritten as bytes, those of one read at once. */
export interface SplicedReader {
  /** `bytes`: of the text in UTF-8. */
  spliced(text: string, bytes: number): void
}

interface Template {
  /** null if it does not change the current block. */
  readonly block: Block | null
  readonly prefix: string
  readonly suffix: string
  readonly outPrefix: string
  readonly outSuffix: string
  readonly event: LearntEvent
  /** Of what is written around the text. */
  readonly outBytes: number
}

/** A JSON string's inside as RFC 8259 allows it: what lies between a learnt prefix and suffix must be just that. */
const jsonStringInside = /^(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*$/
const marker = '@penstock-content@'
/** Printable, and nothing that JSON escapes. */
const plainAscii = /^[ !#-[\]-~]*$/
/** Nodes that vary their chunks (a clock in `created`) would make every chunk a lesson: then learn only now and then. */
const lessonsMax = 8
/** A lesson costs as much as three chunks: a stream that short is not worth one. */
const lessonFrom = 4
const lessonEvery = 32

/** Members of a delta whose texts are what clients show. */
const blocks: Readonly<Record<string, Block>> = {
  content: 'text',
  refusal: 'text',
  reasoning_content: 'thought',
  reasoning: 'thought',
}

/**
 * Rewrites a node's chunks: `delta` verbatim, our own id, time and model (§6). Chunks that differ from the last
 * only in one text are spliced without parsing; measured in bench/notebook.
 */
export class ChunkRewriter extends ChunkReader {
  readonly keepAlive = keepAlive
  roleSent = false
  /** Of the last chunk; null: it was passed on without being parsed. */
  protected parsed: readonly Json[] | null = null
  private template: Template | null = null
  /** Of the last chunk. */
  private reports = ''
  private lessons = 0
  private chunks = 0
  private readonly head: string

  /** What of the server's reports reaches the client. */
  private asked: ReportsAsked | null

  /** `wanted`: reports of the server's work that the client wants in its chunks. */
  constructor(
    identity: ChunkIdentity,
    private readonly wanted: ReportsAsked | null = null,
  ) {
    super()
    this.asked = wanted
    this.head = `{"id":${jsonString(identity.id)},"object":"chat.completion.chunk","created":${identity.created},"model":${jsonString(identity.model)},"choices":`
  }

  /** Another account's node reports to nobody but its owner (§35). */
  from(own: boolean): void {
    this.asked = own ? this.wanted : null
  }

  /**
   * Rewrites the events from `at` on that are of the learnt shape and have some plain ASCII as their text: to what `accept` makes of
   * them, but without making a text of the rest. Returns where the first other one begins.
   */
  splice(input: Buffer, at: number, to: number, reader: SplicedReader): number {
    const { template } = this
    if (template === null || !(template.block === null || this.count.isIn(template.block))) return at
    const { event, outPrefix, outSuffix, outBytes } = template
    let text = ''
    let bytes = 0
    let next = at
    for (;;) {
      const from = event.textAt(next)
      const end = event.textEnd(input, next, to)
      if (end <= from) break
      this.chunks++
      this.outputWeight += asciiWeight * (end - from)
      text += outPrefix + input.latin1Slice(from, end) + outSuffix
      bytes += outBytes + end - from
      next = event.endAt(end)
    }
    if (next === at) return at
    this.contentSeen = true
    reader.spliced(text, bytes)
    return next
  }

  accept(data: string): Accepted {
    this.chunks++
    const template = this.template
    if (template !== null && data.startsWith(template.prefix) && data.endsWith(template.suffix)) {
      const inside = data.slice(template.prefix.length, data.length - template.suffix.length)
      if (data.length >= template.prefix.length + template.suffix.length && this.weighInside(inside)) {
        if (inside !== '') this.contentSeen = true
        if (inside !== '' && template.block !== null && !this.count.enters(template.block)) return failed
        return { kind: 'chunk', text: template.outPrefix + inside + template.outSuffix }
      }
    }
    return this.parse(data)
  }

  /**
   * False if the text is not the inside of one JSON string. Most chunks are plain ASCII: one look then serves both
   * ends.
   */
  private weighInside(inside: string): boolean {
    if (plainAscii.test(inside)) this.outputWeight += asciiWeight * inside.length
    else if (jsonStringInside.test(inside)) {
      this.outputWeight += textWeight(inside.includes('\\') ? (foreignJson(`"${inside}"`) as string) : inside)
    } else return false
    return true
  }

  private parse(data: string): Accepted {
    const choices = this.read(data)
    if (choices === 'malformed') return malformed
    if (choices === 'failed') return failed
    if (choices.length === 0 || choices.some(finishes)) return nothing
    const text = this.chunk(choices, this.reports)
    this.parsed = choices
    // A spliced chunk would have the reports of the one that it was learnt from.
    if (this.asked === null) this.learn(data, choices)
    return { kind: 'chunk', text }
  }

  protected override reported(chunk: Json): void {
    if (this.asked !== null) this.reports = reportMembers(chunk, this.asked)
  }

  /** One event; the first also carries the role, synthesised where the node left it out. */
  chunk(choices: readonly Json[], extra = ''): string {
    const body = `${this.head}${JSON.stringify(choices)}${extra}}`
    if (this.roleSent) return `data: ${body}\n\n`
    this.roleSent = true
    const first = choices[0]
    if (isObject(first?.delta) && 'role' in first.delta) return `data: ${body}\n\n`
    return `${this.role()}data: ${body}\n\n`
  }

  private role(): string {
    return `data: ${this.head}[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n`
  }

  private learn(data: string, choices: readonly Json[]): void {
    const [choice] = choices
    if (choices.length !== 1 || choice === undefined || !isObject(choice.delta)) return
    if (this.chunks < lessonFrom || (this.lessons >= lessonsMax && this.chunks % lessonEvery !== 0)) return
    // Ollama and LM Studio repeat the role in every chunk, before the text.
    const keys = Object.keys(choice.delta)
    const key = keys.at(-1)
    if (key === undefined || key === 'role' || typeof choice.delta[key] !== 'string') return
    if (keys.length > 2 || (keys.length === 2 && keys[0] !== 'role')) return
    // Of data on several lines each line has a name of its own, which is not in the data.
    if (data.includes('\n')) return
    this.lessons++
    this.template = this.templateOf(data, key, choice.delta, choice)
  }

  private templateOf(data: string, key: string, delta: Json, choice: Json): Template | null {
    const opening = `"delta":${JSON.stringify({ ...delta, [key]: '' }).slice(0, -2)}`
    const at = data.indexOf(opening)
    if (at === -1) return null
    const start = at + opening.length
    let end = start
    while (end < data.length && data.charCodeAt(end) !== 34) end += data.charCodeAt(end) === 92 ? 2 : 1
    const prefix = data.slice(0, start)
    const suffix = data.slice(end)
    // The place found must be the very text of choices[0].delta, not the like of it elsewhere in the chunk.
    const probe = foreignJson(prefix + marker + suffix) as { choices: { delta: Json }[] } | undefined
    if (probe?.choices[0]?.delta[key] !== marker) return null
    const out = `data: ${this.head}${JSON.stringify([{ ...choice, delta: { ...delta, [key]: marker } }])}}\n\n`
    // A node may send the marker itself, in logprobs or as a key: then the place of the text is not certain.
    const [outPrefix, outSuffix, ...more] = out.split(marker)
    return outPrefix === undefined || outSuffix === undefined || more.length > 0
      ? null
      : {
          block: blocks[key] ?? null,
          prefix,
          suffix,
          outPrefix,
          outSuffix,
          event: new LearntEvent(prefix, suffix),
          outBytes: Buffer.byteLength(outPrefix) + Buffer.byteLength(outSuffix),
        }
  }

  /** The finish chunk as the node had it, for a client that asked for a usage chunk of its own. */
  finishChunk(): string {
    return this.chunk(this.finish ?? [])
  }

  /**
   * The terminal chunk: the held finish chunk with usage and metadata, or, with `separate`, a chunk without choices
   * (OpenAI's `include_usage`). `members`: what `answerEnd` made. `[DONE]` follows.
   */
  terminal(members: string, separate: boolean): string {
    const end = reportMembers({ timings: this.timings }, this.asked) + members
    if (!separate) return `${this.chunk(this.finish ?? [], end)}data: [DONE]\n\n`
    return `data: ${this.head}[]${end}}\n\ndata: [DONE]\n\n`
  }

  /** The same, of an answer that is settled. */
  last({ usage, metadata }: SettledEnd, separate: boolean): string {
    return this.terminal(answerEnd(usage, metadata), separate)
  }

  /** A failure inside the stream; no `[DONE]` follows, so that no client takes it for an end. */
  failure(error: object): string {
    // Clients that match an event against the type of a chunk first would drop `error` and end in silence; a usage of
    // the wrong type makes it no chunk for them (docs/decisions/0005).
    const extra = `,"usage":false,"error":${JSON.stringify(error)}`
    return `data: ${this.head}[{"index":0,"delta":{},"finish_reason":"error"}]${extra}}\n\n`
  }
}
