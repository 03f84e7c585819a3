import { hashToken, newToken } from '../../secrets.ts'

/** Makes a new credential: its token and its hash. */
export function mintToken(
  kind: Parameters<typeof newToken>[0],
  peppers: readonly string[],
): { readonly token: string; readonly hash: Buffer } {
  const [pepper] = peppers
  if (pepper === undefined) throw new Error('The gateway has no token pepper')
  const token = newToken(kind)
  return { token, hash: hashToken(pepper, token) }
}

export function mintWebhookSecret(): string {
  return `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')}`
}
