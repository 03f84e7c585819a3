import { NoAnswer } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import { CountedKeeper } from '../../host/counted-keeper.ts'
import type { LargeWork } from '../../host/large-work.ts'
import { askTokenizer } from '../../polling/ask-tokenizer.ts'
import { type TokenAsk, tokenAnswerBytesMax } from '../../runtimes/tokens/tokenizer.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { countedText } from '../../transport/counted-text.ts'
import type { NodeTransport } from '../../transport/transport.ts'

export interface TokenCallPort {
  readonly memory: MemoryBudget
  readonly largeWork: LargeWork
  /** Timeout for all questions to one node about one text, ms. */
  readonly nodeMs: number
}

/** The question to one node. Its answers count for the customer while they are read. */
export class TokenCall extends CountedKeeper {
  private readonly ending = new CallSignal()
  private refusal: Problem | null = null

  constructor(
    private readonly port: TokenCallPort,
    private readonly transport: NodeTransport,
    private readonly customerId: string,
    private readonly headers: Readonly<Record<string, string>>,
  ) {
    super(port.memory, customerId)
  }

  /** Rejects as `askTokenizer` does, and with a `Problem` where memory or time is over. */
  async run<T>(signal: AbortSignal, work: (ask: TokenAsk) => Promise<T>): Promise<T> {
    const { port, transport, ending, headers, customerId: isolationKey } = this
    const { largeWork, nodeMs: waitMs } = port
    const read = (response: Parameters<typeof countedText>[0]) =>
      countedText(response, this, largeWork, tokenAnswerBytesMax)
    try {
      return await askTokenizer({ transport, headers, isolationKey, waitMs, ending, read }, signal, work)
    } catch (error) {
      if (this.refusal !== null) throw this.refusal
      throw error instanceof NoAnswer ? new Problem('upstream_timeout') : error
    } finally {
      this.dropKept()
    }
  }

  protected override endForMemory(refusal: Problem): void {
    this.refusal = refusal
    this.ending.abort()
  }
}
