/** The whole body; null: it is larger, or was cut. */
export async function boundedBytes(body: ReadableStream<Uint8Array>, bytesMax: number): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    for await (const piece of body) {
      size += piece.byteLength
      if (size > bytesMax) return null
      pieces.push(piece)
    }
  } catch {
    return null
  }
  const whole = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole
}
