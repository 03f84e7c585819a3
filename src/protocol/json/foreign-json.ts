import { jsonDepthMax, scanChunk, scanJson } from './json-scan.ts'

/** A text this short cannot exceed a bound, because each level takes two characters. */
const harmlessLength = 2 * jsonDepthMax

/**
 * The value of a JSON text from outside; undefined if it is not JSON, or exceeds the bounds of `json-scan.ts`. All
 * foreign JSON is parsed here, except bodies of clients: `parseJson` parses these and says what is wrong.
 */
export function foreignJson(text: string): unknown {
  if (text.length > harmlessLength && typeof scanJson(text) === 'string') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const tooMuch: unique symbol = Symbol('too much')

/** The same of one chunk of a stream, which has narrower bounds for all it has; `tooMuch` where it exceeds one of these. */
export function chunkJson(text: string): unknown {
  const scanned = text.length > harmlessLength ? scanChunk(text) : 'fits'
  if (scanned !== 'fits') return scanned === 'too much' ? tooMuch : undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Reads a body of unknown length. Stops and returns null if it exceeds the limit. */
export async function boundedText(
  body: ReadableStream<Uint8Array>,
  bytesMax: number,
  decoder = new TextDecoder(),
): Promise<string | null> {
  const reader = body.getReader()
  let text = ''
  for (let size = 0; ; ) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    size += value.byteLength
    if (size > bytesMax) {
      void reader.cancel()
      return null
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** The bytes of an answer to `fetch`, or null if there are more. Rejects if the connection fails. */
export async function boundedBytes({ body }: Response, bytesMax: number): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body ?? []) {
    size += part.byteLength
    // Leaving the loop ends the body.
    if (size > bytesMax) return null
    parts.push(part)
  }
  return new Uint8Array(Buffer.concat(parts))
}

/** The value of an answer to `fetch`, or undefined if it is not JSON or too long. Rejects if the connection fails. */
export async function foreignAnswer(response: Response, bytesMax: number): Promise<unknown> {
  if (response.body === null) return undefined
  const text = await boundedText(response.body, bytesMax)
  return text === null ? undefined : foreignJson(text)
}
