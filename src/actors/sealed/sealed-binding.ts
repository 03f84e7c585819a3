import type { BoundFacts, ReceiptBinding } from '../../protocol/receipts/binding.ts'

/**
 * Binds the receipt of a sealed request to the sealed bytes of both directions, which client, gateway and node all saw. The
 * encapsulated key names the request; nothing needs a salt, because cipher text cannot be guessed.
 */
export class SealedBinding implements ReceiptBinding {
  readonly saltText = ''
  readonly requestCommitment: string
  private readonly hash = new Bun.CryptoHasher('sha256')
  /** null: the answer did not come whole. */
  private responseCommitment: string | null = null

  constructor(
    readonly clientNonce: string,
    request: Uint8Array,
  ) {
    this.requestCommitment = `0x${new Bun.CryptoHasher('sha256').update(request).digest('hex')}`
  }

  answered(bytes: Uint8Array): void {
    this.hash.update(bytes)
  }

  whole(): void {
    this.responseCommitment = `0x${this.hash.digest('hex')}`
  }

  facts(): BoundFacts {
    const { clientNonce, requestCommitment, responseCommitment } = this
    return { clientNonce, requestCommitment, responseCommitment, upstreamModelCommitment: null }
  }
}
