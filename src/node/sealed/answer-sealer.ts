import { createCipheriv, createHash, randomBytes } from 'node:crypto'
import { keyBytes, lengthBytes, tagBytes } from '../../protocol/sealed/ehbp.ts'
import { emptyFrame } from '../../protocol/sealed/frames.ts'
import type { SharedSecret } from '../../protocol/sealed/hpke.ts'
import { frameNonce, type ResponseKeys, responseKeys } from '../../protocol/sealed/response-keys.ts'

/** Seals one answer frame by frame, and commits to its bytes. The native cipher: a frame takes a few µs. */
export class AnswerSealer {
  readonly nonce: string
  private readonly keys: ResponseKeys
  private readonly hash = createHash('sha256')
  private frames = 0
  /** Of all that was written. */
  bytes = 0

  constructor({ secret, enc }: SharedSecret) {
    const nonce = randomBytes(keyBytes)
    this.nonce = nonce.toString('hex')
    this.keys = responseKeys(secret, enc, nonce)
  }

  frame(text: string): Uint8Array {
    const { key, baseNonce } = this.keys
    const cipher = createCipheriv('aes-256-gcm', key, frameNonce(baseNonce, this.frames++))
    const sealed = cipher.update(text, 'utf8')
    cipher.final()
    const length = sealed.length + tagBytes
    const frame = Buffer.allocUnsafe(lengthBytes + length)
    frame.writeUInt32BE(length)
    sealed.copy(frame, lengthBytes)
    cipher.getAuthTag().copy(frame, lengthBytes + sealed.length)
    return this.written(frame)
  }

  /** Says nothing, and keeps the line alive. */
  keepAlive(): Uint8Array {
    return this.written(emptyFrame)
  }

  private written(frame: Uint8Array): Uint8Array {
    this.hash.update(frame)
    this.bytes += frame.length
    return frame
  }

  /** `0x` and the hex SHA-256 of everything that was written; ends the answer. */
  commitment(): string {
    return `0x${this.hash.digest('hex')}`
  }
}
