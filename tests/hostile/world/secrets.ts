/**
 * What a node is told in confidence, and how it may say it again. Nothing here reads as the gateway's own filter does: a text is
 * decoded as far as it goes and looked through, so that a spelling which the filter misses is seen.
 */
const prefix = 'xmsx'
const hexDigits = 8
/** Characters that JSON, URLs and base64 each write in another way; those of the second may stand in the name of a model. */
const tails = ['/Ab+c.~=_-9Z', '/Ab.c:@_-9Zq'] as const
/** §5: what is cut off is struck where at least so much of it is left. */
const cutCharsMin = 12

const made: string[] = []

/** An API key; no two are alike, and each begins as every one does. */
export function newSecret(): string {
  const own = Math.floor(Math.random() * 16 ** hexDigits).toString(16)
  const secret = prefix + own.padStart(hexDigits, '0') + (tails[made.length % 2] ?? '')
  made.push(secret)
  return secret
}

export const leastOf = (secret: string) => secret.slice(0, Math.max(cutCharsMin, Math.ceil(secret.length / 2)))

/** Standard base64 of a text at any of three places of a group, without what depends on its neighbours. */
function base64Cores(text: string): readonly string[] {
  return [0, 1, 2].map((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
    return bytes.toString('base64').slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6))
  })
}

const character = (_: string, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))

/** Without escapes of JSON, also within JSON, and of URLs. */
function decoded(text: string): string {
  return /[\\%]/.test(text)
    ? text
        .replace(/\\*u00([0-9a-f]{2})/gi, character)
        .replace(/%([0-9a-f]{2})/gi, character)
        .replaceAll('\\', '')
    : text
}

/** Which of these a decoded text holds, in any spelling that §5 promises to strike. */
function heldBy(plain: string, secrets: readonly string[]): readonly string[] {
  const lower = plain.toLowerCase()
  const standard = plain.replaceAll('-', '+').replaceAll('_', '/')
  return secrets.filter(
    (secret) =>
      lower.includes(leastOf(secret).toLowerCase()) || base64Cores(secret).some((core) => standard.includes(core)),
  )
}

/** Any beginning, so that most texts are looked at once. */
const anyBeginning = new RegExp([prefix, ...base64Cores(prefix)].join('|'), 'i')

/** The secrets in a text: of all API keys that were ever made here, and these. */
export function secretsIn(text: string, more: readonly string[] = []): readonly string[] {
  const plain = decoded(text)
  const known = anyBeginning.test(plain) ? heldBy(plain, made) : []
  return more.length === 0 ? known : [...known, ...heldBy(plain, more)]
}
