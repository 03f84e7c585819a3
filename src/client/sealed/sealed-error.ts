const sentences = {
  no_node: 'No node of yours can answer this model sealed now.',
  node_not_pinned: 'No node with a fingerprint that you trust can answer this model. Nothing was sent.',
  key_not_signed: 'A node has not signed the key that the gateway gave for it. Nothing was sent to it.',
  not_attested: 'No node whose computer your policy allows can answer this model. Nothing was sent.',
  no_key_in_use: 'A node has no key for sealed requests that is valid now.',
  gateway_failed: 'The gateway did not say which nodes can answer.',
  not_sealable: 'This request cannot be sealed, so it was not sent.',
  answer_not_sealed: 'The answer was not sealed by the node. It was thrown away.',
  answer_changed: 'The answer was changed on its way. What came after that was thrown away.',
  answer_truncated: 'The end of the answer is missing.',
} as const

/** Why a sealed request failed. Each is something that a gateway or a network could cause. */
export type SealedFault = keyof typeof sentences

export interface GatewayRefusal {
  readonly code: string
  readonly message: string
}

const codePattern = /^[a-z][a-z0-9_]{0,63}$/
const messageCharactersMax = 500

/** Of an answer in RFC 9457; null: it says nothing usable. */
export function gatewayRefusal(answer: unknown): GatewayRefusal | null {
  const { code, title, detail } = (answer ?? {}) as Readonly<Record<string, unknown>>
  const message = typeof detail === 'string' ? detail : title
  if (typeof code !== 'string' || !codePattern.test(code) || typeof message !== 'string') return null
  return { code, message: message.slice(0, messageCharactersMax) }
}

export class SealedError extends Error {
  override readonly name = 'SealedError'
  constructor(
    readonly fault: SealedFault,
    /** HTTP status of the gateway, where it has one. */
    readonly status: number | null = null,
    /** Why the gateway has refused, in its own words. */
    readonly refusal: GatewayRefusal | null = null,
  ) {
    super(refusal === null ? sentences[fault] : `The gateway refused: ${refusal.message}`)
  }
}
