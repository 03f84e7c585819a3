import { join } from 'node:path'
import { MalformedResponse } from '../../../src/transport/http1/response-head.ts'
import { type AfterAnswer, ResponseParser, type ResponseSink } from '../../../src/transport/http1/response-parser.ts'

/** What a client made of the bytes of a server: a whole answer, or none. */
export type Made =
  | {
      readonly outcome: 'answer'
      readonly status: number
      /** Base64. */
      readonly body: string
      /** More came than the answer; the connection is then of no further use. */
      readonly excess?: boolean
    }
  | { readonly outcome: 'refused'; readonly code: string }

class Kept implements ResponseSink {
  status = 0
  bytes: Buffer[] = []
  next: AfterAnswer | null = null

  head(status: number): void {
    this.status = status
  }

  part(input: Buffer, from: number, to: number): void {
    this.bytes.push(Buffer.from(input.subarray(from, to)))
  }

  end(next: AfterAnswer): void {
    this.next = next
  }
}

/** By the gateway's own parser; the connection then ends. */
export function ours(pieces: readonly Buffer[]): Made {
  const kept = new Kept()
  const parser = new ResponseParser(kept)
  const given = pieces.filter(({ length }) => length > 0)
  let read = 0
  try {
    for (; read < given.length && kept.next === null; read++) parser.push(given[read] ?? Buffer.alloc(0))
    if (kept.next === null) parser.close()
  } catch (error) {
    if (!(error instanceof MalformedResponse)) throw error
    return { outcome: 'refused', code: error.message }
  }
  if (kept.next === null) return { outcome: 'refused', code: 'cut' }
  const body = Buffer.concat(kept.bytes).toString('base64')
  return { outcome: 'answer', status: kept.status, body, excess: kept.next === 'excess' || read < given.length }
}

const program = join(import.meta.dir, '../../support/clients/node-http-client.mjs')

/** By the `node:http` of Node, in a process of its own. */
export async function nodes(cases: readonly (readonly Buffer[])[]): Promise<readonly Made[]> {
  const child = Bun.spawn(['node', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const reading = new Response(child.stdout).text()
  for (const pieces of cases) child.stdin.write(`${JSON.stringify(pieces.map((piece) => piece.toString('base64')))}\n`)
  await child.stdin.end()
  const lines = (await reading).trimEnd().split('\n')
  if ((await child.exited) !== 0 || lines.length !== cases.length) throw new Error('the client of Node has failed')
  return lines.map((line) => JSON.parse(line) as Made)
}
