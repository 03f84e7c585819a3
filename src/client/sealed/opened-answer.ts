import { gcm } from '@noble/ciphers/aes.js'
import { readHex32, responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { FrameReader } from '../../protocol/sealed/frames.ts'
import type { SharedSecret } from '../../protocol/sealed/hpke.ts'
import { frameNonce, type ResponseKeys, responseKeys } from '../../protocol/sealed/response-keys.ts'
import { AnswerEnd } from './answer-end.ts'
import { SealedError } from './sealed-error.ts'

/** Headers of the relay that say nothing of the content; the others stay behind. */
const passedHeaders = ['content-type', 'retry-after', 'x-request-id', 'request-id', 'x-should-retry'] as const

/** Opens an answer frame by frame, as it comes. Throws and ends with `SealedError`. */
class AnswerOpening {
  private readonly frames = new FrameReader()
  private opened = 0

  constructor(
    private readonly keys: ResponseKeys,
    private readonly end: AnswerEnd,
  ) {}

  transform(chunk: Uint8Array, out: TransformStreamDefaultController<Uint8Array>): void {
    const frames = this.frames.push(chunk)
    if (frames === null) throw new SealedError('answer_changed')
    for (const frame of frames) {
      const text = this.open(frame)
      this.end.onBytes(text)
      if (text.length > 0) out.enqueue(text)
    }
  }

  private open(frame: Uint8Array): Uint8Array {
    try {
      return gcm(this.keys.key, frameNonce(this.keys.baseNonce, this.opened++)).decrypt(frame)
    } catch {
      throw new SealedError('answer_changed')
    }
  }

  flush(): void {
    if (!this.frames.end() || !this.end.isWhole) throw new SealedError('answer_truncated')
  }
}

/** The node's answer in the clear. Throws `answer_not_sealed` where a relay has answered in the node's place. */
export function openAnswer(response: Response, shared: SharedSecret): Response {
  const nonce = readHex32(response.headers.get(responseNonceHeader))
  if (nonce === null || response.body === null) throw new SealedError('answer_not_sealed')
  const keys = responseKeys(shared.secret, shared.enc, nonce)
  const end = new AnswerEnd(response.headers.get('content-type') ?? '')
  const opening = new AnswerOpening(keys, end)
  const headers = new Headers()
  for (const name of passedHeaders) {
    const value = response.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  const stream = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, out) => opening.transform(chunk, out),
    flush: () => opening.flush(),
  })
  return new Response(response.body.pipeThrough(stream as unknown as ReadableWritablePair<Uint8Array, Uint8Array>), {
    status: response.status,
    headers,
  })
}
