import { NoAnswer, within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import { CountedKeeper } from '../../host/counted-keeper.ts'
import type { LargeWork } from '../../host/large-work.ts'
import { NoSuchTokenizer, type TokenAsk, tokenAnswerBytesMax } from '../../runtimes/tokens/tokenizer.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { countedText } from '../../transport/counted-text.ts'
import { type NodeTransport, TransportError } from '../../transport/transport.ts'

/** Far longer than a tokenizer takes for the longest body: a server that is silent for so long is busy or broken, ms. */
export const tokenNodeMs = 5_000

export interface TokenCallPort {
  readonly memory: MemoryBudget
  readonly largeWork: LargeWork
  /** One node has so long for all that it is asked about one text, ms. */
  readonly nodeMs: number
}

/** Statuses of a server that does not have such a path. */
const missing: ReadonlySet<number> = new Set([404, 405, 501])
/** Of one that has it, and takes other texts or tokens. */
const refusing: ReadonlySet<number> = new Set([400, 413, 422])

/** The node has no answer to this very request: another one probably has none either. */
export class RefusedByNode extends Error {
  override readonly name = 'RefusedByNode'
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

  /** Runs `work` until it is done, late or no longer wanted. Rejects with a `Problem` where memory or time is over. */
  async run<T>(signal: AbortSignal, work: (ask: TokenAsk) => Promise<T>): Promise<T> {
    const end = () => this.ending.abort()
    signal.addEventListener('abort', end, { once: true })
    try {
      signal.throwIfAborted()
      return await within(
        this.port.nodeMs,
        work((path, body) => this.ask(path, body)),
      )
    } catch (error) {
      signal.throwIfAborted()
      if (this.refusal !== null) throw this.refusal
      throw error instanceof NoAnswer ? new Problem('upstream_timeout') : error
    } finally {
      signal.removeEventListener('abort', end)
      end()
      this.dropKept()
    }
  }

  private async ask(path: string, body: object): Promise<string> {
    const response = await this.transport.fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...this.headers },
      body: JSON.stringify(body),
      signal: this.ending,
      isolationKey: this.customerId,
    })
    const { status } = response
    if (status === 200) return countedText(response, this, this.port.largeWork, tokenAnswerBytesMax)
    response.discard()
    if (missing.has(status)) throw new NoSuchTokenizer()
    throw refusing.has(status) ? new RefusedByNode() : new TransportError('malformed')
  }

  protected override endForMemory(refusal: Problem): void {
    this.refusal = refusal
    this.ending.abort()
  }
}
