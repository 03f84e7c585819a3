/**
 * Padmé (Nikitin et al., PETS 2019): of the length as a floating-point number only as many bits are kept as its exponent has. An
 * observer learns O(log log n) bits of the length, and it grows by 12 % at most.
 */
export function padme(length: number): number {
  if (length < 2) return length
  const exponent = Math.floor(Math.log2(length))
  const kept = Math.floor(Math.log2(exponent)) + 1
  const step = 2 ** Math.max(0, exponent - kept)
  return Math.ceil(length / step) * step
}

const encoder = new TextEncoder()
const bytesOf = (text: string) => encoder.encode(text).length

/** Below this all texts have one length, bytes. */
const bytesLeast = 256
const target = (bytes: number) => Math.max(padme(bytes), bytesLeast)

/** JSON may end with white space, which says nothing. */
export function paddedJson(text: string): string {
  const bytes = bytesOf(text)
  return text + ' '.repeat(target(bytes) - bytes)
}

/** A comment of an event stream: a colon at its beginning, a blank line at its end. */
const commentFrame = 3

/** Event streams may have comments, which no client reads. `text`: whole events. */
export function paddedEvents(text: string): string {
  const bytes = bytesOf(text) + commentFrame
  return `${text}:${' '.repeat(target(bytes) - bytes)}\n\n`
}
