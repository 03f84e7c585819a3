import { Body, collectText } from './body.ts'
import type { BodyFlow, NodeResponse } from './transport.ts'

/** The connection of an answer. */
interface AnswerCarrier extends BodyFlow {
  /** It has given so far. */
  readonly answers: number
  /** The reader has closed the body. */
  giveUp(answers: number): void
}

/** An answer and its body in one: what thousands of open streams hold each, methods and no closures. */
export class Answer extends Body implements NodeResponse {
  private readonly ordinal: number

  constructor(
    private readonly carrier: AnswerCarrier,
    readonly status: number,
    readonly headers: NodeResponse['headers'],
  ) {
    super(carrier)
    this.ordinal = carrier.answers
  }

  text(bytesMax: number): Promise<string> {
    const whole = this.takeWhole(bytesMax)
    if (whole !== null) return Promise.resolve(whole)
    return collectText(
      (sink) => this.read(sink),
      bytesMax,
      () => this.discard(),
    )
  }

  override discard(): void {
    super.discard()
    this.carrier.giveUp(this.ordinal)
  }
}
