import type { BodySink, TransportError } from '../../transport/transport.ts'
import type { Attempt } from './attempt.ts'

/** The reader of the current try's body. */
interface TryReader extends Omit<BodySink, 'bytes'> {
  expects(attempt: Attempt): boolean
  part(input: Buffer, from: number, to: number): void
}

/** The body of one try. Bytes that an earlier try's node still sends are dropped. */
export class TryBody implements BodySink {
  constructor(
    private readonly reader: TryReader,
    private readonly attempt: Attempt,
  ) {}

  bytes(chunk: Buffer): void {
    this.part(chunk, 0, chunk.length)
  }

  part(input: Buffer, from: number, to: number): void {
    if (this.reader.expects(this.attempt)) this.reader.part(input, from, to)
  }

  ended(): void {
    if (this.reader.expects(this.attempt)) this.reader.ended()
  }

  failed(error: TransportError): void {
    if (this.reader.expects(this.attempt)) this.reader.failed(error)
  }
}
