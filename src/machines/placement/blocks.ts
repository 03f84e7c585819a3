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
}

/** What of a chat request a model reads. Everything is checked here: a client may send anything. */
export interface PromptSource {
  readonly messages: readonly unknown[]
  readonly tools?: unknown
  readonly response_format?: unknown
}

/** Cuts what is added into blocks, each hashed with the hash of the one before. */
export class BlockCutter {
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
    return this.blocks[0] ?? Number(this.hash(this.rest, this.seed) & exactBits)
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
 * The blocks of a prompt. The customer is part of the first hash and so of every one, so that nobody can learn from a
 * placement what another customer's prompts begin with. Tools come first, as chat templates have them.
 */
export function promptOf(customerId: string, modelId: string, source: PromptSource, hash: BlockHash): Prompt {
  const cutter = new BlockCutter(hash, `${customerId}\0${modelId}`)
  if (source.tools !== undefined) cutter.add(JSON.stringify(source.tools))
  if (source.response_format !== undefined) cutter.add(JSON.stringify(source.response_format))
  for (const message of source.messages) addMessage(cutter, message, hash)
  const { units, blocks, first } = cutter
  return { units, blocks, first }
}
