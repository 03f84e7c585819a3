import type { ChunkIdentity, SettledEnd } from '../chat/chunk-reader.ts'
import type { ReportsAsked } from '../dialects/members/server-reports.ts'
import { type TextChoice, TextStream } from './text-completion.ts'

/** One of several texts in one stream: its end and its failure are told to who writes the stream. */
export class CallStream extends TextStream {
  end: SettledEnd | null = null
  error: object | null = null

  /** `index`: of the text among all of the stream. */
  constructor(
    identity: ChunkIdentity,
    private readonly index: number,
    asked: ReportsAsked | null = null,
  ) {
    super(identity, asked)
  }

  /** The node was asked for one choice: what else it sends is not passed on. */
  protected override placed([first]: readonly TextChoice[]): readonly TextChoice[] {
    return first === undefined ? [] : [{ ...first, index: this.index }]
  }

  override last(end: SettledEnd): string {
    this.end = end
    return ''
  }

  override failure(error: object): string {
    this.error = error
    return ''
  }

  lastOfAll(end: SettledEnd, usageApart: boolean): string {
    return (usageApart ? this.finishChunk() : '') + super.last(end, usageApart)
  }

  failureOfAll(error: object): string {
    return super.failure(error)
  }
}
