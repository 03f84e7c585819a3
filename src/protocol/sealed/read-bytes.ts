import { Problem } from '../../errors.ts'

const tooLarge = (bytesMax: number) =>
  new Problem('payload_too_large', { detail: `The body may have at most ${bytesMax} bytes` })

/** The bytes of a body, whatever they are. Throws `payload_too_large`, as early as it shows. */
export async function readBytes(request: Request, bytesMax: number): Promise<Uint8Array> {
  const length = request.headers.get('content-length')
  if (length !== null && Number(length) > bytesMax) throw tooLarge(bytesMax)
  if (request.body === null) return new Uint8Array()
  if (length !== null) return new Uint8Array(await request.arrayBuffer())
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of request.body as unknown as AsyncIterable<Uint8Array>) {
    size += piece.length
    if (size > bytesMax) throw tooLarge(bytesMax)
    pieces.push(piece)
  }
  return new Uint8Array(Buffer.concat(pieces, size))
}
