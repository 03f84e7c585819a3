import { isMarked, markedMessages } from '../../protocol/chat/cache-hints.ts'

/** Seeded hash of a text; the seed chains the blocks of a prompt. */
export type BlockHash = (text: string, seed: bigint) => bigint

/** UTF-16 units of a block: prompts are compared in such steps, also inside one message (§29). */
export const blockUnits = 1_024
/** What comes later does not change which node holds the beginning. */
export const blocksMax = 512
/** Of a medium only its length and both ends are hashed, units: a picture must not cost its size on the request path. */
const mediumHashedMax = 4_096
/** A hash as a number that a Map finds fast. */
const exactBits = 0x1f_ffff_ffff_ffffn

/** What placement knows of a prompt: its length and the chained hashes of its full blocks, never a word of it. */
export interface Prompt {
  /** UTF-16 units. */
  readonly units: number
  readonly blocks: readonly number[]
  /** Names the prompt's beginning: gateways that see the same one choose the same node among equals. */
  readonly first: number
  /** The client's session (§28); absent if it names none. */
  readonly session?: number
}

/** The parts of a chat request that a model reads. Unchecked: a client may send anything. */
export interface PromptSource {
  readonly messages: readonly unknown[]
  readonly tools?: unknown
  readonly response_format?: unknown
  readonly [markedMessages]?: number
}

/** Cuts added text into blocks, each hashed together with the previous hash. */
class BlockCutter {
  readonly blocks: number[] = []
  units = 0
  private rest = ''
  private seed: bigint

  constructor(
    private readonly hash: BlockHash,
    seed: string,
  ) {
    this.seed = hash(seed, 0n)
  }

  add(text: string): void {
    this.units += text.length
    if (this.blocks.length >= blocksMax) return
    let at = blockUnits - this.rest.length
    if (text.length < at) {
      this.rest += text
      return
    }
    this.cut(this.rest + text.slice(0, at))
    while (at + blockUnits <= text.length && this.blocks.length < blocksMax) {
      this.cut(text.slice(at, at + blockUnits))
      at += blockUnits
    }
    this.rest = text.slice(at, at + blockUnits)
  }

  /** Of the first block; of a prompt that fills none, of all of it. */
  get first(): number {
    return this.blocks[0] ?? this.here
  }

  /** Names all that was added so far. */
  get here(): number {
    return Number(this.hash(this.rest, this.seed) & exactBits)
  }

  private cut(block: string): void {
    this.seed = this.hash(block, this.seed)
    this.blocks.push(Number(this.seed & exactBits))
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

function medium(text: string, hash: BlockHash): string {
  if (text.length <= blockUnits) return text
  const half = mediumHashedMax / 2
  const seen = text.length <= mediumHashedMax ? text : text.slice(0, half) + text.slice(-half)
  return `${text.length}:${hash(seen, 0n)}`
}

function partText(part: unknown, hash: BlockHash): string {
  if (!isRecord(part)) return ''
  if (typeof part.text === 'string') return part.text
  for (const value of Object.values(part)) {
    if (!isRecord(value)) continue
    for (const inner of Object.values(value))
      if (typeof inner === 'string' && inner.length > 0) return medium(inner, hash)
  }
  return String(part.type)
}

function addMessage(cutter: BlockCutter, message: unknown, hash: BlockHash): void {
  if (!isRecord(message)) return cutter.add('\0')
  const { role, content, tool_calls: calls, tool_call_id: answers } = message
  cutter.add(`${String(role)}\0`)
  if (typeof content === 'string') cutter.add(content)
  else if (Array.isArray(content)) for (const part of content) cutter.add(partText(part, hash))
  if (calls !== undefined) cutter.add(JSON.stringify(calls))
  if (typeof answers === 'string') cutter.add(answers)
  cutter.add('\0')
}

/**
 * The blocks of a prompt. The customer is part of the first hash and thereby of every hash, so that no customer can
 * learn from a placement how another's prompts begin. Tools come first, as chat templates have them.
 */
export function promptOf(customerId: string, modelId: string, source: PromptSource, hash: BlockHash): Prompt {
  const cutter = new BlockCutter(hash, `${customerId}\0${modelId}`)
  const { messages, tools, [markedMessages]: given } = source
  if (tools !== undefined) cutter.add(JSON.stringify(tools))
  if (source.response_format !== undefined) cutter.add(JSON.stringify(source.response_format))
  const marked = given ?? markedBefore(source)
  let session = marked === 0 ? cutter.here : null
  for (let at = 0; at < messages.length; at++) {
    addMessage(cutter, messages[at], hash)
    if (at + 1 === marked) session = cutter.here
  }
  const { units, blocks, first } = cutter
  return session === null ? { units, blocks, first } : named({ units, blocks, first }, session)
}

/** Messages up to the client's first cache mark, in Anthropic's format; null without a mark. */
function markedBefore({ messages, tools }: PromptSource): number | null {
  if (Array.isArray(tools) && tools.some(isMarked)) return 0
  const at = messages.findIndex(
    (message) =>
      isRecord(message) && (isMarked(message) || (Array.isArray(message.content) && message.content.some(isMarked))),
  )
  return at === -1 ? null : at + 1
}

/** Its session names it, before gateways that know of no other. */
const named = (prompt: Prompt, session: number): Prompt => ({ ...prompt, session, first: session })

/** A prompt of which the client says by a key what belongs together. The customer is in the hash, as in those of blocks. */
export function inSession(prompt: Prompt, customerId: string, key: string, hash: BlockHash): Prompt {
  return named(prompt, Number(hash(key, hash(customerId, 0n)) & exactBits))
}
