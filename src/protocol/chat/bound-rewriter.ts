import type { Accepted } from './chunk-reader.ts'
import { ChunkRewriter } from './chunk-rewriter.ts'
import type { PublicChoice } from './completion.ts'
import { GatheredAnswer } from './gathered-answer.ts'

const encoder = new TextEncoder()

/** A rewriter that remembers the answer as its reader puts it together: a receipt will commit to it (§31). */
export class BoundRewriter extends ChunkRewriter {
  private readonly gathered = new GatheredAnswer()

  override get keptBytes(): number {
    return this.gathered.keptBytes
  }

  /** Takes no event as bytes: each is parsed, because the answer is kept. */
  override splice(_input: Buffer, at: number): number {
    return at
  }

  override accept(data: string): Accepted {
    this.parsed = null
    const accepted = super.accept(data)
    if (accepted.kind !== 'chunk') return accepted
    if (this.parsed === null) this.gathered.push(encoder.encode(accepted.text))
    else this.gathered.hear(this.parsed)
    return accepted
  }

  /** Of an answer that has finished; null: it is more than is kept. Ask once. */
  choices(): readonly PublicChoice[] | null {
    const state = this.gathered.push(encoder.encode(`data: ${JSON.stringify({ choices: this.finish })}\n\n`))
    return state === 'finishing' ? this.gathered.completion().choices : null
  }
}
