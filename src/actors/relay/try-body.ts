import type { BodySink, TransportError } from '../../transport/transport.ts'
import type { Attempt } from './attempt.ts'

/** Who reads the body of the try that is expected. */
interface TryReader extends BodySink {
  expects(attempt: Attempt): boolean
}

/** The body of one try. What an earlier try's node still sends is nobody's. */
export class TryBody implements BodySink {
  constructor(
    private readonly reader: TryReader,
    private readonly attempt: Attempt,
  ) {}

  bytes(chunk: Buffer): void {
    if (this.reader.expects(this.attempt)) this.reader.bytes(chunk)
  }

  ended(): void {
    if (this.reader.expects(this.attempt)) this.reader.ended()
  }

  failed(error: TransportError): void {
    if (this.reader.expects(this.attempt)) this.reader.failed(error)
  }
}
